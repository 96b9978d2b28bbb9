import {readFileSync} from 'node:fs';
import {plainText} from '../parse/lines.ts';

/** A file as text, whichever program wrote it. `-` is standard input. Throws as `readFileSync`. */
export function readTextFile(path: string): string {
  return plainText(readFileSync(path === '-' ? 0 : path)).toString('utf8');
}
