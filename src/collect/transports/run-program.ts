import {Buffer} from 'node:buffer';
import type {WriteStream} from 'node:fs';

interface ProgramOptions {
  readonly signal: AbortSignal;
  /** In addition to the environment of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** An open file for stderr in place of a pipe: for programs that leave a child behind, which would keep the pipe open. */
  readonly stderr?: WriteStream;
  /** Receives stdout while it arrives; `stdout` of the result is empty then. */
  readonly take?: ((part: Buffer) => void) | undefined;
}

interface ProgramResult {
  readonly stdout: Buffer;
  /** Empty if stderr went to a file. */
  readonly stderr: string;
  /** Null if it did not end by itself or could not be started. */
  readonly exitCode: number | null;
  /** The program is not on this machine. */
  readonly notFound: boolean;
  readonly cause: unknown;
}

/**
 * Runs a program of this machine by its argv, without a shell and without input. Never rejects. When the signal is aborted, the program is
 * killed.
 */
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
  // Not done by execa: its result is based on a resizable ArrayBuffer, in which reading byte by byte is slow.
  running.stdout?.on('data', options.take ?? ((part: Buffer) => parts.push(part)));
  // ssh passes its output to the shared connection, which keeps the pipes open after ssh itself has ended.
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
