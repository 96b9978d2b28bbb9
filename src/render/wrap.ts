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

/** Text of several lines, each broken at blanks where it is wider than `width`; what is broken off keeps the indentation of its line. */
export function wrapLines(text: string, width: number): string {
  return text
    .split('\n')
    .flatMap(line => {
      const [indentation = ''] = /^ */.exec(line) ?? [];
      return wrap(line.slice(indentation.length), width, indentation);
    })
    .join('\n');
}

/** Sentences keep to a readable width on wide terminals, unlike rules. Without a terminal nothing is wrapped. */
export function proseWidth(width: number): number {
  return width === Infinity ? Infinity : Math.min(width, 120);
}

/** Length without color codes and the targets of links. */
export function visibleLength(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: color codes and links begin with one
  return text.replace(/\u001b(?:\[\d+m|\]8;;[^\u001b]*\u001b\\)/g, '').length;
}
