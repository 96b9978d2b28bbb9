import process from 'node:process';
import {errorText} from '../model/text/error-text.ts';

/**
 * Ends the process when stdout cannot be written, like a file that cannot be written (2). A reader that closes the pipe (`| head`) is no
 * error.
 */
export function endOnWriteError(): void {
  process.stdout.on('error', error => {
    if ('code' in error && error.code === 'EPIPE') return;
    process.stderr.write(`Error: cannot write to stdout: ${errorText(error)}\n`);
    process.exit(2);
  });
}
