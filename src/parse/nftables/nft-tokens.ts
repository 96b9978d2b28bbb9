const token = /"[^"]*"?|[{},]|[^\s"{},]+(?:,[^\s"{},]+)*/g;

/**
 * The words of a rule or an element. Quoted text is one word with its quotes (nft knows no escapes), braces and commas are words of
 * their own, but a list of flags such as `new,established` is one word.
 */
export function nftTokens(text: string): readonly string[] {
  return text.match(token) ?? [];
}

/** The words as nft spaces them. */
export function joinNftTokens(tokens: readonly string[]): string {
  return tokens.join(' ').replaceAll(' ,', ',');
}

/** Where the brace at `open` is closed, or the end when it is not. */
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
