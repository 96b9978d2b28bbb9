import process from 'node:process';
import {errorText} from '../model/text/error-text.ts';

/**
 * Ends the process when stdout cannot be written, like a file that cannot be written (2). A command that listens for signals ends as if by
 * SIGTERM, so that everything created on the cluster is removed. A reader that closes the pipe (`| head`) is no error.
 */
export function endOnWriteError(): void {
  let isEnding = false;
  process.stdout.on('error', error => {
    if (isEnding || isClosedPipe(error)) return;
    isEnding = true;
    process.stderr.write(`Error: cannot write to stdout: ${errorText(error)}\n`);
    if (process.listenerCount('SIGTERM') === 0) process.exit(2);
    process.exitCode = 2;
    process.kill(process.pid, 'SIGTERM');
  });
}

/** Whether the reader has closed the pipe. */
export function isClosedPipe(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EPIPE';
}
