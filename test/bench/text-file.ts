import {closeSync, openSync, writeSync} from 'node:fs';

const FLUSH_AT = 1 << 20;

/**
 * Writes a long text in pieces of about a megabyte: the files of a large
 * cluster are longer than is good to hold in memory, and much shorter to write
 * in large pieces than line by line.
 */
export function writeText(path: string, lines: Iterable<string>): void {
  const file = openSync(path, 'w');
  try {
    let pending: string[] = [];
    let length = 0;
    for (const line of lines) {
      pending.push(line);
      length += line.length + 1;
      if (length >= FLUSH_AT) {
        writeAll(file, pending);
        pending = [];
        length = 0;
      }
    }
    writeAll(file, pending);
  } finally {
    closeSync(file);
  }
}

function writeAll(file: number, lines: readonly string[]): void {
  if (lines.length === 0) {
    return;
  }
  const bytes = Buffer.from(`${lines.join('\n')}\n`);
  let written = 0;
  while (written < bytes.length) {
    written += writeSync(file, bytes, written);
  }
}
