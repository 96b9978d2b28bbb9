/**
 * A command line for a shell: names from the cluster are quoted, whatever they contain. Null if one of them is empty or begins with a dash:
 * a program could take it for an option.
 */
export function commandLine(parts: TemplateStringsArray, ...names: readonly string[]): string | null {
  if (names.some(name => name === '' || name.startsWith('-'))) return null;
  return parts.map((part, index) => part + (index < names.length ? shellWord(names[index] ?? '') : '')).join('');
}

/** One word for sh, as it is where it needs no quotes. `$'…'` of bash, zsh and ksh spells out what a terminal must not get. */
export function shellWord(text: string): string {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  if (/^[\x20-\x7e]*$/.test(text)) return `'${text.replaceAll("'", "'\\''")}'`;
  return `$'${text.replace(/[^\x20-\x7e]|['\\]/gu, escaped)}'`;
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const digits = code.toString(16);
  if (character === "'" || character === '\\') return `\\${character}`;
  return code < 0x80 ? `\\x${digits.padStart(2, '0')}` : code < 0x10000 ? `\\u${digits.padStart(4, '0')}` : `\\U${digits.padStart(8, '0')}`;
}
