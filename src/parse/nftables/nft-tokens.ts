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
