/** The position of one object in the bytes of a dump. */
interface JsonItem {
  readonly start: number;
  readonly end: number;
}

/**
 * Finds the objects in the lists of `{"nftables": [ … ]}` documents without parsing them: a dump can have a million. `truncatedAt`: the text
 * after the last complete object of a truncated dump; null if there is none.
 */
export function jsonItems(bytes: Buffer) {
  const items: JsonItem[] = [];
  const truncatedAt = forEachItem(bytes, start => {
    const end = objectEnd(bytes, start, 0);
    if (end >= 0) items.push({start, end});
    return end;
  });
  return {items, truncatedAt};
}

/**
 * The same without keeping them: `take` is called with the position of each, in order, and returns where it ends (`objectEnd`), or -1 if it
 * is truncated. Returns `truncatedAt`.
 */
export function forEachItem(bytes: Buffer, take: (start: number) => number): string | null {
  let last = -1;
  const takeNext = (start: number): number => {
    const end = take(start);
    if (end >= 0) last = end;
    return end;
  };
  for (let at = listStart(bytes, 0); at >= 0; ) {
    const end = readList(bytes, at, takeNext);
    if (end < 0) return bytes.toString('utf8', last < 0 ? at : last).slice(0, maxTruncatedLength);
    const next = listStart(bytes, end);
    // What follows the list is the brace of its document: without it, or with half of another document behind it, the end is lost.
    const rest = next >= 0 ? '' : bytes.toString('utf8', end, end + maxTruncatedLength).trim();
    if (next < 0 && !/^\}(?:\s*[^{\s]|\s*$)/.test(rest)) return rest.replace(/^\}\s*/, '');
    at = next;
  }
  return null;
}

/** The objects from the start of one to the end of another. */
export function itemsBetween(bytes: Buffer, from: number, to: number): readonly JsonItem[] {
  const items: JsonItem[] = [];
  for (let start = from; start >= 0 && start < to; ) {
    const end = objectEnd(bytes, start, 0);
    items.push({start, end});
    start = bytes.indexOf(OPEN, end);
  }
  return items;
}

const maxTruncatedLength = 4096;
const key = '"nftables"';
const [SPACE, QUOTE, COMMA, OPEN_LIST, BACKSLASH, CLOSE_LIST, OPEN, CLOSE] = [0x20, 0x22, 0x2c, 0x5b, 0x5c, 0x5d, 0x7b, 0x7d];

/** The position after the bracket of the next document's list; -1 if there is none. */
function listStart(bytes: Buffer, from: number): number {
  const found = bytes.indexOf(key, from);
  const bracket = found < 0 ? -1 : bytes.indexOf(OPEN_LIST, found);
  return bracket < 0 ? -1 : bracket + 1;
}

/** Reads the objects of one list. Returns the offset past its end, or -1 if it has none. */
function readList(bytes: Buffer, from: number, take: (start: number) => number): number {
  for (let at = from; at < bytes.length; ) {
    const byte = bytes[at] ?? 0;
    if (byte === CLOSE_LIST) return at + 1;
    if (byte === OPEN) {
      const end = take(at);
      if (end < 0) return -1;
      at = end;
    } else if (byte <= SPACE || byte === COMMA) at++;
    else return -1;
  }
  return -1;
}

/** The offset past the end of an object, from a position inside of so many braces; -1 if it is truncated. */
export function objectEnd(bytes: Buffer, from: number, braces: number): number {
  const {length} = bytes;
  let depth = braces;
  for (let at = from; at < length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      at++;
      while (at < length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
    } else if (byte === OPEN) depth++;
    else if (byte === CLOSE && --depth === 0) return at + 1;
  }
  return -1;
}

/** The position after the text if the bytes from `start` are it; otherwise -1. */
export function endOf(text: string, bytes: Buffer, start: number): number {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    // A character that is not ASCII has several bytes.
    if (bytes[start + at] !== code || code > 0x7f) return -1;
  }
  return start + text.length;
}

/** From the quote after a name, the position after the handle that follows; -1 if none does. */
export function endOfHandle(bytes: Buffer, quote: number): number {
  const digits = endOf('", "handle": ', bytes, quote);
  let end = digits;
  while (end >= 0 && isDigit(bytes[end])) end++;
  return end > digits ? end : -1;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

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

/** Those of the object and of the rule in it. */
const bracesBeforeName = 2;
