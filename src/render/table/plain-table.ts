import {visibleLength, wrap} from '../wrap.ts';

/**
 * Columns like kubectl's: no lines, two spaces between. Cells may contain color codes; they are already escaped. The last column is broken
 * at blanks where the table is wider than `width`.
 */
export function plainTable(head: readonly string[], rows: readonly (readonly string[])[], width = Infinity): string {
  const lines = [head, ...rows];
  const widths = head.map((_, column) => lines.reduce((width, cells) => Math.max(width, visibleLength(cells[column] ?? '')), 0));
  const last = head.length - 1;
  const before = widths.slice(0, last).reduce((sum, one) => sum + one + 2, 0);
  return lines
    .flatMap(cells => {
      const own = cells.slice(0, last).map((cell, column) => `${padded(cell, widths[column] ?? 0)}  `);
      const [first = '', ...others] = fitted(cells[last] ?? '', Math.max(width - before, minLastWidth));
      return [own.join('') + first, ...others.map(text => ' '.repeat(before) + text)].map(line => line.trimEnd());
    })
    .join('\n');
}

const minLastWidth = 20;

function fitted(cell: string, width: number): readonly string[] {
  return visibleLength(cell) <= width ? [cell] : wrap(cell, width, '');
}

function padded(text: string, width: number): string {
  return text + ' '.repeat(width - visibleLength(text));
}
