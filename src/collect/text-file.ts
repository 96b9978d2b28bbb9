import {closeSync, constants, fstatSync, openSync, readFileSync, readSync} from 'node:fs';
import {plainText} from '../parse/lines.ts';

/** A file as text, whichever program wrote it. `-` is standard input. Throws as `readFileSync`, and for a device without an end. */
export function readTextFile(path: string): string {
  return plainText(path === '-' ? readFileSync(0) : contentOf(path)).toString('utf8');
}

function contentOf(path: string): Buffer {
  const file = openSync(path, constants.O_RDONLY);
  try {
    return fstatSync(file).isFile() ? readFileSync(file) : readToEnd(file);
  } finally {
    closeSync(file);
  }
}

function readToEnd(file: number): Buffer {
  const parts: Buffer[] = [];
  for (let length = 0; length <= maxLength; ) {
    const part = Buffer.alloc(pieceLength);
    const read = readSync(file, part);
    if (read === 0) return Buffer.concat(parts);
    parts.push(part.subarray(0, read));
    length += read;
  }
  throw new Error(`it has more than ${maxLength / 2 ** 20} MiB`);
}

const pieceLength = 64 * 1024;
const maxLength = 256 * 2 ** 20;
