import {spawnSync} from 'node:child_process';
import process from 'node:process';
import {test} from 'vitest';

/** A real kubectl: the one that `SVC_TRACE_KUBECTL` names (`tools/get-kubectl.ts` fetches one), or that of the machine; empty where there is none. */
export const kubectl = process.env['SVC_TRACE_KUBECTL'] ?? (spawnSync('kubectl', ['version', '--client']).status === 0 ? 'kubectl' : '');

/** A test that needs it. Without one it is left out, and stderr says so; with `SVC_TRACE_NO_SKIP=1`, as in CI, it fails. */
export const testWithKubectl: (title: string, run: () => Promise<void>) => void =
  kubectl !== ''
    ? test
    : title => {
        if (process.env['SVC_TRACE_NO_SKIP'] === '1')
          test(title, () => {
            throw new Error('needs kubectl, not found on this machine');
          });
        else process.stderr.write(`left out: ${title}: needs kubectl, not found on this machine\n`);
      };
