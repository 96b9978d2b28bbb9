import {Errors} from '@oclif/core';
import {parseTimeout} from '../../collect/kube/parse-timeout.ts';
import type {FailOn} from '../exit-code.ts';

/** What `--wait` asks for. */
export interface WaitLimit {
  /** From the start of the run. */
  readonly milliseconds: number;
  /** What is not to be found any more. */
  readonly failOn: FailOn;
}

export interface WaitFlags {
  readonly wait?: string | undefined;
  readonly 'fail-on': string;
  readonly from?: string | undefined;
}

/** Undefined without the flag. Throws a CLIError (exit 2) for what is no duration, and for a bundle, which stays as it is. */
export function waitLimit({wait, from, 'fail-on': failOn}: WaitFlags): WaitLimit | undefined {
  if (wait === undefined) return undefined;
  if (from !== undefined)
    throw new Errors.CLIError(
      '--wait looks at a cluster again and again; the bundle that --from names does not change: leave one of them out',
      {
        exit: 2,
      },
    );
  const milliseconds = parseTimeout(wait);
  if (milliseconds === null) throw new Errors.CLIError(`--wait ${wait} is no duration; write it like 60s or 2m`, {exit: 2});
  return {milliseconds, failOn: failOn as FailOn};
}
