import {closingBrace, joinNftTokens, nftTokens} from './nft-tokens.ts';

/** Iterates over the words of a rule. After the end there are only empty words. */
export class TokenReader {
  at = 0;
  readonly #tokens: readonly string[];

  constructor(text: string) {
    this.#tokens = nftTokens(text);
  }

  get atEnd(): boolean {
    return this.at >= this.#tokens.length;
  }

  peek(ahead = 0): string {
    return this.#tokens[this.at + ahead] ?? '';
  }

  next(): string {
    return this.#tokens[this.at++] ?? '';
  }

  /** Skips the word if it is the next one. */
  take(word: string): boolean {
    if (this.peek() !== word) return false;
    this.at++;
    return true;
  }

  /** Returns the words between the braces that open here, and skips them. */
  braces(): string {
    const close = closingBrace(this.#tokens, this.at);
    const inside = joinNftTokens(this.#tokens.slice(this.at + 1, close));
    this.at = close + 1;
    return inside;
  }

  /** All words from `start` to here. */
  text(start: number): string {
    return joinNftTokens(this.#tokens.slice(start, this.at));
  }
}
