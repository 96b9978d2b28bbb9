import {Buffer} from 'node:buffer';
import type {WriteStream} from 'node:fs';

interface ProgramOptions {
  readonly signal: AbortSignal;
  /** On top of the environment of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** An open file that takes stderr in place of a pipe: for programs that leave a child behind which keeps it open. */
  readonly stderr?: WriteStream;
  /** Takes stdout as it comes; `stdout` of the result is empty then. */
  readonly take?: ((part: Buffer) => void) | undefined;
}

interface ProgramResult {
  readonly stdout: Buffer;
  /** Empty where stderr went to a file. */
  readonly stderr: string;
  /** Null when it did not end by itself or could not be started. */
  readonly exitCode: number | null;
  /** The program is not on this machine. */
  readonly notFound: boolean;
  readonly cause: unknown;
}

/** Runs a program of this machine by its argv, without a shell and without input. Never rejects. Nothing of it is left when the signal is aborted. */
export async function runProgram(program: string, args: readonly string[], options: ProgramOptions): Promise<ProgramResult> {
  const {execa} = await import('execa');
  const parts: Buffer[] = [];
  const running = execa(program, args, {
    stdin: 'ignore',
    stderr: options.stderr ?? 'pipe',
    buffer: {stdout: false, stderr: options.stderr === undefined},
    reject: false,
    cancelSignal: options.signal,
    forceKillAfterDelay: 1000,
    ...(options.env === undefined ? {} : {env: options.env}),
  });
  // Not left to execa: its result stands on a resizable ArrayBuffer, in which reading byte by byte is slow.
  running.stdout?.on('data', options.take ?? ((part: Buffer) => parts.push(part)));
  // ssh hands its output to the shared connection, which keeps the pipes open when ssh itself is gone.
  running.nodeChildProcess.once('exit', () => {
    if (!options.signal.aborted) return;
    running.stdout?.destroy();
    running.stderr?.destroy();
  });
  const result = await running;
  return {
    stdout: Buffer.concat(parts),
    stderr: typeof result.stderr === 'string' ? result.stderr : '',
    exitCode: result.exitCode ?? null,
    notFound: 'code' in result && result.code === 'ENOENT',
    cause: result.cause ?? (result.failed ? result : undefined),
  };
}
