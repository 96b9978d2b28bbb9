/** Breaks text at blanks, with color codes in words, so that no line is wider than `width`; a word that is wider stands alone. Later lines hang under the first. */
export function wrap(text: string, width: number, first: string): readonly string[] {
  const hanging = ' '.repeat(visibleLength(first));
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && hanging.length + visibleLength(line) + 1 + visibleLength(word) > width) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  lines.push(line);
  return lines.map((text, index) => (index === 0 ? first : hanging) + text);
}

/** Length without color codes. */
export function visibleLength(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: color codes begin with one
  return text.replace(/\u001b\[\d+m/g, '').length;
}
