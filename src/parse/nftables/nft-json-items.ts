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
  const cutAt = forEachItem(bytes, start => {
    const end = objectEnd(bytes, start, 0);
    if (end >= 0) items.push({start, end});
    return end;
  });
  return {items, cutAt};
}

/**
 * The same without keeping them: `take` is called with the position of each, in order, and returns where it ends (`objectEnd`), or -1 if it
 * is truncated. Returns `cutAt`.
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
    at = listStart(bytes, end);
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
