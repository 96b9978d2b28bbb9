import process from 'node:process';

/** What is going on. Results go to standard output and nothing else does. */
export function say(text: string): void {
  process.stderr.write(`${text}\n`);
}
