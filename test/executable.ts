import {dirname, join} from 'node:path';
import process from 'node:process';

/**
 * What the end-to-end tests run: what was built in this checkout, or the installed `kubectl-svc_trace` that `SVC_TRACE_EXECUTABLE` names,
 * with `kubectl_complete-svc_trace` beside it (`npm run test:package`).
 */
const installed = process.env['SVC_TRACE_EXECUTABLE'];

/** A file that can be run, or linked to. */
export const executable = installed ?? join(import.meta.dirname, '../bin/run.js');
export const completer =
  installed === undefined ? join(import.meta.dirname, '../bin/complete.js') : join(dirname(installed), 'kubectl_complete-svc_trace');

/** The program to start, and what goes before its arguments: a file of the checkout is run by the Node.js that runs the tests. */
export const startSvcTrace: readonly [program: string, ...first: string[]] =
  installed === undefined ? [process.execPath, executable] : [executable];

/** The command line that runs it with these arguments. */
export function svcTraceCommand(args: readonly string[]): [program: string, args: string[]] {
  const [program, ...first] = startSvcTrace;
  return [program, [...first, ...args]];
}
