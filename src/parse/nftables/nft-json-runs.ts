import {endOfHandle, objectEnd} from './nft-json-bytes.ts';

/** How the objects of one kind in a table begin, up to the name of the chain: where such bytes are, and how many. */
export interface HeadBytes {
  readonly start: number;
  readonly length: number;
}

/** The numbers of each run that `readRuns` finds: where it starts and ends, how many rules it has, and where the name ends in the first. */
export const RUN_ROW = 4;

/**
 * Reads consecutive chains that begin like this, and have nothing but a name and a handle: nearly all of a large table. Adds where the name
 * of each starts and ends to `found`. Returns where the last one ends; -1 if there is none.
 */
export function readPlainChains(bytes: Buffer, from: number, {start: head, length}: HeadBytes, found: number[]): number {
  let last = -1;
  for (let start = from; isSame(bytes, start, head, length); start = last + ', '.length) {
    const nameEnd = plainNameEnd(bytes, start + length);
    const end = nameEnd < 0 ? -1 : endOfHandle(bytes, nameEnd);
    if (end < 0 || bytes[end] !== CLOSE || bytes[end + 1] !== CLOSE) return last;
    found.push(start + length, nameEnd);
    last = end + 2;
    if (bytes[last] !== COMMA || bytes[last + 1] !== SPACE) return last;
  }
  return last;
}

/**
 * Reads consecutive rules that begin like this. Rules of one chain in a row are a run. Returns where the last one ends; -1 if the first one
 * begins in another way, or is truncated.
 */
export function readRuns(bytes: Buffer, from: number, {start: head, length}: HeadBytes, found: number[]): number {
  let last = -1;
  let [run, runStart, runHead] = [-RUN_ROW, 0, 0];
  for (let start = from; ; start = last + ', '.length) {
    const isNew = runHead === 0 || !isSame(bytes, start, runStart, runHead);
    const nameEnd = isNew ? nameEndAfter(bytes, start, head, length) : start + runHead - 1;
    // Each brace is counted: a damaged rule must not be taken for a whole one.
    const end = nameEnd < 0 ? -1 : objectEnd(bytes, nameEnd + 1, bracesBeforeName);
    if (end < 0) return last;
    if (isNew) {
      run += RUN_ROW;
      runStart = start;
      // With the quote: another name may begin with this one.
      runHead = nameEnd + 1 - start;
      found.push(start, end, 1, nameEnd);
    } else {
      found[run + 1] = end;
      found[run + 2] = (found[run + 2] ?? 0) + 1;
    }
    last = end;
    if (bytes[end] !== COMMA || bytes[end + 1] !== SPACE) return last;
  }
}

/** The position of the quote after the name of the chain; -1 if the object begins in another way. */
function nameEndAfter(bytes: Buffer, start: number, head: number, length: number): number {
  return isSame(bytes, start, head, length) ? plainNameEnd(bytes, start + length) : -1;
}

/** Whether so many bytes from `start` and from `before` are the same. From the end, as the names of chains differ there. */
export function isSame(bytes: Buffer, start: number, before: number, length: number): boolean {
  for (let at = length - 1; at >= 0; at--) if (bytes[start + at] !== bytes[before + at]) return false;
  return true;
}

/** The position of the quote after a name; -1 if the name is not plain ASCII. */
export function plainNameEnd(bytes: Buffer, from: number): number {
  const {length} = bytes;
  for (let at = from; at < length; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH || byte >= 0x80) return -1;
  }
  return -1;
}

const [SPACE, QUOTE, COMMA, BACKSLASH, CLOSE] = [0x20, 0x22, 0x2c, 0x5c, 0x7d];

/** Those of the object and of the rule in it. */
const bracesBeforeName = 2;
