import {readdirSync, readFileSync} from 'node:fs';

/** Of every process of this machine, with a NUL after each word. */
export function commandLines(): readonly string[] {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(id => {
      try {
        return readFileSync(`/proc/${id}/cmdline`, 'utf8');
      } catch {
        // It has ended.
        return '';
      }
    });
}

export function isRunning(argv: readonly string[]): boolean {
  return commandLines().includes(`${argv.join('\0')}\0`);
}
