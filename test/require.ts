import {spawnSync} from 'node:child_process';
import {accessSync, constants} from 'node:fs';
import {delimiter, join} from 'node:path';
import process from 'node:process';
import {describe, test} from 'vitest';

/** Something a machine has or lacks: `root`, `netns` (may make network namespaces), or the name of an executable. */
export type Need = 'root' | 'netns' | (string & {});

/**
 * A `describe` whose tests need something of the machine. Where that is missing they are skipped and stderr says why;
 * with `SVC_TRACE_NO_SKIP=1`, as in CI, they fail.
 */
export function describeWith(needs: readonly Need[], title: string, tests: () => void): void {
  const missing = needs.filter(need => !isMet(need));
  if (missing.length === 0) {
    describe(title, tests);
    return;
  }
  const reason = `needs ${missing.join(', ')}, not found on this machine`;
  if (process.env['SVC_TRACE_NO_SKIP'] === '1') {
    test(title, () => {
      throw new Error(reason);
    });
    return;
  }
  process.stderr.write(`skipped: ${title}: ${reason}\n`);
  describe.skip(`${title} (${reason})`, tests);
}

function isMet(need: Need): boolean {
  if (need === 'root') return process.getuid?.() === 0;
  if (need === 'netns') return spawnSync('unshare', ['--net', 'true']).status === 0;
  return executableFolders().some(folder => isExecutable(join(folder, need)));
}

/** `PATH`, and where Debian keeps what only root runs: a plain user's `PATH` leaves that out. */
function executableFolders(): string[] {
  return [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/sbin'];
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
