/** Breaks text at blanks so that no line is wider than `width`; a word that is wider stands alone. */
export function wrap(text: string, width: number, indent: string, first: string = indent): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  lines.push(line);
  const hanging = ' '.repeat(visibleLength(first));
  return lines.map((text, index) => (index === 0 ? first : hanging) + text);
}

/** Length without colour codes. */
function visibleLength(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colour codes begin with one
  return text.replace(/\u001b\[\d+m/g, '').length;
}
