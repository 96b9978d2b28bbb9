const token = /"[^"]*"?|[{},]|[^\s"{},]+(?:,[^\s"{},]+)*/g;

/**
 * The words of a rule or an element. Quoted text is one word with its quotes (nft has no escapes), and braces and commas are words, but a
 * list of flags such as `new,established` is one word.
 */
export function nftTokens(text: string): readonly string[] {
  return text.match(token) ?? [];
}

/** The words with nft's spacing. */
export function joinNftTokens(tokens: readonly string[]): string {
  return tokens.join(' ').replaceAll(' ,', ',');
}

/** The position of the brace that closes the one at `open`, or the end if it is not closed. */
export function closingBrace(tokens: readonly string[], open: number): number {
  let depth = 0;
  for (let at = open; at < tokens.length; at++) {
    if (tokens[at] === '{') depth++;
    else if (tokens[at] === '}' && --depth === 0) return at;
  }
  return tokens.length;
}

export function unquoted(text: string): string {
  return text.startsWith('"') ? text.slice(1, text.endsWith('"') && text.length > 1 ? -1 : undefined) : text;
}

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
