/** The position of one object in the bytes of a dump. */
export interface JsonItem {
  readonly start: number;
  readonly end: number;
}

interface JsonItems {
  readonly items: readonly JsonItem[];
  /** The text after the last complete object of a truncated dump; null if there is none. */
  readonly cutAt: string | null;
}

/** Finds the objects in the lists of `{"nftables": [ … ]}` documents without parsing them: a dump can have a million. */
export function jsonItems(bytes: Buffer): JsonItems {
  const items: JsonItem[] = [];
  const cutAt = forEachItem(bytes, (start, end) => {
    items.push({start, end});
  });
  return {items, cutAt};
}

/** The same without keeping them: `take` is called with the position of each, in order. Returns `cutAt`. */
export function forEachItem(bytes: Buffer, take: (start: number, end: number) => void): string | null {
  let last = -1;
  const takeNext = (start: number, end: number): void => {
    last = end;
    take(start, end);
  };
  for (let at = listStart(bytes, 0); at >= 0; ) {
    const end = readList(bytes, at, takeNext);
    if (end === null) return bytes.toString('utf8', last < 0 ? at : last).slice(0, maxTruncatedLength);
    at = listStart(bytes, end);
  }
  return null;
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

/** Reads the objects of one list. Returns the offset past its end, or null if it has none. */
function readList(bytes: Buffer, from: number, take: (start: number, end: number) => void): number | null {
  for (let at = from; at < bytes.length; ) {
    const byte = bytes[at] ?? 0;
    if (byte === CLOSE_LIST) return at + 1;
    if (byte === OPEN) {
      const end = objectEnd(bytes, at);
      if (end === null) return null;
      take(at, end);
      at = end;
    } else if (byte <= SPACE || byte === COMMA) at++;
    else return null;
  }
  return null;
}

function objectEnd(bytes: Buffer, from: number): number | null {
  let depth = 0;
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) at = stringEnd(bytes, at);
    else if (byte === OPEN) depth++;
    else if (byte === CLOSE && --depth === 0) return at + 1;
  }
  return null;
}

/** The closing quote of a string, or the end of the bytes. */
function stringEnd(bytes: Buffer, open: number): number {
  let at = open + 1;
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return at;
}
