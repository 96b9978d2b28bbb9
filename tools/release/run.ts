import {execFileSync} from 'node:child_process';
import {join} from 'node:path';
import process from 'node:process';

/** The folder of the project. */
export const root = join(import.meta.dirname, '../..');

/** Runs a program to its end, and gives what it printed. Throws when it fails; what it says on stderr is shown. */
export function run(program: string, args: readonly string[], cwd: string = root): string {
  // npm is a script on Windows.
  const shell = process.platform === 'win32' && program === 'npm';
  return execFileSync(program, args, {cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 28, shell});
}
