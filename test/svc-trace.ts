import {type ChildProcess, fork} from 'node:child_process';
import {once} from 'node:events';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {executable, svcTraceCommand} from './executable.ts';

interface RunOptions {
  /** Beside the environment of the tests, without what colors or wraps. */
  readonly env?: Readonly<Record<string, string>>;
  /** Standard input; nothing without it. */
  readonly input?: string | Buffer;
  readonly cwd?: string;
}

interface Run {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode?: number | undefined;
}

/**
 * What the built program prints, away from a terminal, and its exit code. A process for each run starts in the long tests, in those of an
 * installed program, and where there is something to read from standard input; the usual tests have one for all runs of a file, since
 * nearly all of a short run is loading and compiling (test/warm/program.mjs).
 */
export async function svcTrace(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  const {env = {}, input, cwd = process.cwd()} = options;
  const {NO_COLOR: _, FORCE_COLOR: __, COLUMNS: ___, ...usual} = process.env;
  if (input === undefined && isWarm) return warmRun({args, env: {...usual, ...env}, cwd});
  const stdin = input === undefined ? ({stdin: 'ignore'} as const) : {input};
  return execa(...svcTraceCommand(args), {reject: false, extendEnv: false, env: {...usual, ...env}, cwd, ...stdin});
}

const isWarm = process.env['SVC_TRACE_LONG'] !== '1' && process.env['SVC_TRACE_EXECUTABLE'] === undefined;

interface Request {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

interface Program {
  readonly process: ChildProcess;
  /** Rejects when it ends, which it should not before the tests do. */
  readonly ended: Promise<never>;
}

let program: Program | undefined;
let last: Promise<unknown> = Promise.resolve();

/** One after another: each has the whole process. */
function warmRun(request: Request): Promise<Run> {
  const run = last.then(async (): Promise<Run> => {
    program ??= startProgram();
    const answer = once(program.process, 'message') as Promise<[Run]>;
    program.process.send(request);
    const [{stdout, stderr, exitCode}] = await Promise.race([answer, program.ended]);
    return {stdout: stdout.replace(/\n$/, ''), stderr: stderr.replace(/\n$/, ''), exitCode};
  });
  last = run.catch(() => undefined);
  return run;
}

function startProgram(): Program {
  const child = fork(join(import.meta.dirname, 'warm/program.mjs'), [executable], {
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`the program ended with ${code}`);
  });
  ended.catch(() => undefined);
  return {process: child, ended};
}
