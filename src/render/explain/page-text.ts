import {type Style, padded, styleOf, visibleLength, wrap} from '../renderer.ts';

interface PageOptions {
  readonly color: boolean;
  /** Columns of the terminal. */
  readonly width: number;
}

/**
 * A page of docs/checks laid out for a terminal: headings, lists, tables and code; text breaks at words. Code and what is wider than
 * the terminal by itself stays whole.
 */
export function pageText(markdown: string, {color, width}: PageOptions): string {
  const layout: Layout = {style: styleOf(color), color, width: Math.min(width, widest)};
  const blocks = blocksOf(markdown.split('\n')).map(block => blockLines(block, layout).join('\n'));
  return `${blocks.join('\n\n')}\n`;
}

/** Longer lines are hard to read. */
const widest = 100;

interface Layout extends PageOptions {
  readonly style: Style;
}

type Block =
  | {readonly kind: 'heading'; readonly text: string}
  | {readonly kind: 'code' | 'table'; readonly lines: readonly string[]}
  | {readonly kind: 'list'; readonly items: readonly string[]}
  | {readonly kind: 'text'; readonly text: string};

/** The part of Markdown that the pages use: each of these blocks ends at an empty line, code at its fence. */
function blocksOf(lines: readonly string[]): readonly Block[] {
  const blocks: Block[] = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] ?? '';
    const isEmpty = line.trim() === '';
    const end = isEmpty ? at + 1 : line.startsWith('```') ? endOfCode(lines, at) : endOfBlock(lines, at);
    if (!isEmpty) blocks.push(blockOf(lines.slice(at, end)));
    at = end;
  }
  return blocks;
}

function endOfCode(lines: readonly string[], start: number): number {
  const end = lines.findIndex((line, index) => index > start && line.startsWith('```'));
  return end < 0 ? lines.length : end + 1;
}

function endOfBlock(lines: readonly string[], start: number): number {
  const isHeading = (lines[start] ?? '').startsWith('#');
  const end = lines.findIndex((line, index) => index > start && (isHeading || line.trim() === '' || /^(?:#|```)/.test(line)));
  return end < 0 ? lines.length : end;
}

function blockOf(lines: readonly string[]): Block {
  const [first = ''] = lines;
  const heading = /^#+ (.*)$/.exec(first);
  if (heading !== null) return {kind: 'heading', text: heading[1] ?? ''};
  if (first.startsWith('```')) return {kind: 'code', lines: lines.slice(1, -1)};
  if (first.startsWith('|')) return {kind: 'table', lines};
  if (!isItem(first)) return {kind: 'text', text: lines.map(line => line.trim()).join(' ')};
  const items: string[] = [];
  for (const line of lines)
    if (isItem(line)) items.push(line.trim());
    else items.push(`${items.pop() ?? ''} ${line.trim()}`);
  return {kind: 'list', items};
}

function isItem(line: string): boolean {
  return /^\s*(?:[-*]|\d+\.) /.test(line);
}

function blockLines(block: Block, layout: Layout): readonly string[] {
  const {style, width} = layout;
  switch (block.kind) {
    case 'heading':
      return wrap(block.text, width, '').map(style.bold);
    case 'code':
      return block.lines.map(line => `    ${/^\s*#/.test(line) ? style.dim(line) : style.cyan(line)}`);
    case 'table':
      return tableLines(block.lines, layout);
    case 'list':
      return block.items.flatMap(item => {
        const [, mark = '-', text = ''] = /^([-*]|\d+\.) (.*)$/.exec(item) ?? [];
        return wrap(inline(text, layout), width, `  ${mark === '*' ? '-' : mark} `);
      });
    case 'text':
      return wrap(inline(block.text, layout), width, '');
  }
}

/** Words in bold and code. Each word is styled by itself, for a line may break between any two. */
function inline(text: string, {style, color}: Layout): string {
  const each = (words: string, change: (word: string) => string): string => words.split(' ').map(change).join(' ');
  return text
    .replace(/\[([^\]]+)\]\((https?:[^)]+)\)/g, '$1 ($2)')
    .replace(/\[([^\]]+)\]\([^)]+\)/g, '$1')
    .replace(/\*\*([^*]+)\*\*|`([^`]+)`/g, (whole, bold: string | undefined, code: string | undefined) => {
      if (bold !== undefined) return each(bold.replaceAll('`', ''), style.bold);
      return color ? each(code ?? '', style.cyan) : whole;
    });
}

/** Columns side by side where all fit; the last one breaks. */
function tableLines(lines: readonly string[], layout: Layout): readonly string[] {
  const rows = lines.map(cellsOf);
  const [head = [], , ...body] = rows;
  const shown = [
    ...(head.every(cell => cell === '') ? [] : [head.map(layout.style.bold)]),
    ...body.map(row => row.map(cell => inline(cell, layout))),
  ];
  const count = Math.max(...shown.map(row => row.length));
  const room = Math.floor(layout.width * 0.45);
  const widths = Array.from({length: count - 1}, (_, column) =>
    Math.min(room, Math.max(...shown.map(row => visibleLength(row[column] ?? '')))),
  );
  return shown.flatMap(row => rowLines(row, widths, layout.width));
}

/** `\|` is no end of a cell. */
function cellsOf(line: string): readonly string[] {
  return line
    .trim()
    .replace(/^\||\|$/g, '')
    .split(/(?<!\\)\|/)
    .map(cell => cell.trim().replaceAll('\\|', '|'));
}

function rowLines(row: readonly string[], widths: readonly number[], width: number): readonly string[] {
  const used = widths.reduce((sum, column) => sum + column + 2, 2);
  const columns = [...widths, Math.max(width - used, 20)].map((column, index) => wrap(row[index] ?? '', column, ''));
  const height = Math.max(...columns.map(column => column.length));
  return Array.from({length: height}, (_, at) =>
    `  ${columns.map((column, index) => padded(column[at] ?? '', widths[index] ?? 0)).join('  ')}`.trimEnd(),
  );
}
