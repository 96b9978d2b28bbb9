import {Errors} from '@oclif/core';
import {parseTimeout} from '../../collect/kube/parse-timeout.ts';
import type {FailOn} from '../exit-code.ts';

/** What `--wait` asks for. */
export interface WaitLimit {
  /** From the start of the run. */
  readonly milliseconds: number;
  /** The severity that must not occur any more. */
  readonly failOn: FailOn;
}

interface WaitFlags {
  readonly wait?: string | undefined;
  readonly 'fail-on': string;
  readonly from?: string | undefined;
}

/** Undefined without the flag. Throws a CLIError (exit 2) for what is no duration, and for a bundle, which stays as it is. */
export function waitLimit({wait, from, 'fail-on': failOn}: WaitFlags): WaitLimit | undefined {
  if (wait === undefined) return undefined;
  if (from !== undefined)
    throw new Errors.CLIError('--wait re-checks a cluster, but the bundle of --from does not change: leave out one of the two', {
      exit: 2,
    });
  const milliseconds = parseTimeout(wait);
  if (milliseconds === null) throw new Errors.CLIError(`--wait: "${wait}" is not a duration; write 60s or 2m`, {exit: 2});
  return {milliseconds, failOn: failOn as FailOn};
}
