import type {NftJsonCheck} from '../../model/nft-ruleset.ts';

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
