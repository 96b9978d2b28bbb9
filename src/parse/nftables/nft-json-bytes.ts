import type {NftJsonCheck} from '../../model/nft-ruleset.ts';

/** The position of one object in the bytes of a dump. */
interface JsonItem {
  readonly start: number;
  readonly end: number;
}

/**
 * Finds the objects in the lists of `{"nftables": [ … ]}` documents without parsing them: a dump can have a million. `cutAt`: the text
 * after the last complete object of a truncated dump; null if there is none.
 */
export function jsonItems(bytes: Buffer) {
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

/** Where the chains of a JSON dump are; see `JsonChains`. */
interface ChainPlaces {
  readonly bytes: Buffer;
  readonly size: number;
  placeOf(name: string): number;
  isOneRun(place: number): boolean;
  startOf(place: number): number;
  endOf(place: number): number;
  headOf(place: number): number;
}

/** Compares the bytes of chains with rules while these are written: nothing is read into objects, and no text is built. */
export class JsonChainCheck implements NftJsonCheck {
  readonly #chains: ChainPlaces;
  readonly #bytes: Buffer;
  readonly #held: Uint8Array;
  #others: string[] = [];
  /** The chain that rules are written for; null between calls of `takeOthers`. */
  #name: string | null = null;
  #place = -1;
  /** Up to where the bytes are those that were written; -1 if one was not. */
  #at = -1;
  #isFirst = true;

  constructor(chains: ChainPlaces) {
    this.#chains = chains;
    this.#bytes = chains.bytes;
    this.#held = new Uint8Array(chains.size);
  }

  chain(name: string): void {
    this.#close();
    const chains = this.#chains;
    const place = chains.placeOf(name);
    this.#name = name;
    this.#place = place;
    this.#at = place >= 0 && chains.isOneRun(place) ? chains.startOf(place) : -1;
    this.#isFirst = true;
  }

  rule(pieces: readonly string[], count: number): void {
    const bytes = this.#bytes;
    let at = this.#at;
    if (at >= 0 && !this.#isFirst) at = endOf(', ', bytes, at);
    this.#isFirst = false;
    // All rules of the run begin with the same bytes, which name the chain.
    if (at >= 0) at = endOfHandle(bytes, at + this.#chains.headOf(this.#place));
    for (let index = 0; index < count && at >= 0; index++) at = endOf(pieces[index] ?? '', bytes, at);
    this.#at = at;
  }

  takeOthers(): readonly string[] {
    this.#close();
    const others = this.#others;
    if (others.length > 0) this.#others = [];
    return others;
  }

  isHeld(place: number): boolean {
    return this.#held[place] === 1;
  }

  nextOther(from: number): number {
    const at = this.#held.indexOf(0, from);
    return at < 0 ? this.#held.length : at;
  }

  /** The rules are all of the chain's if the bytes end where its last rule ends. */
  #close(): void {
    if (this.#name === null) return;
    if (this.#at >= 0 && this.#at === this.#chains.endOf(this.#place)) this.#held[this.#place] = 1;
    else this.#others.push(this.#name);
    this.#name = null;
  }
}

/** The position after the text if the bytes from `start` are it; otherwise -1. */
function endOf(text: string, bytes: Buffer, start: number): number {
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
