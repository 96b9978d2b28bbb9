/**
 * Text from the cluster as it may be shown on a terminal: control characters, escape sequences and marks that turn the
 * direction of writing are spelled out. Names and comments can hold anything.
 */
export function escapeText(text: string): string {
  return text.replace(unsafe, character => {
    const code = character.codePointAt(0) ?? 0;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not reach the terminal
const unsafe = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
