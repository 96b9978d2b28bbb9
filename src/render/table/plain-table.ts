import {visibleLength} from '../wrap.ts';

/** Columns like kubectl's: no lines, two spaces between. Cells may contain color codes; they are already escaped. */
export function plainTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, ...rows];
  const widths = head.map((_, column) => lines.reduce((width, cells) => Math.max(width, visibleLength(cells[column] ?? '')), 0));
  return lines
    .map(cells =>
      cells
        .map((cell, column) => padded(cell, widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function padded(text: string, width: number): string {
  return text + ' '.repeat(width - visibleLength(text));
}
