/** The number of a last line that no newline ends: it may be half a line. Null when there is none; all tools end their last line. */
export function truncatedLine(text: string): number | null {
  return text === '' || text.endsWith('\n') ? null : text.split('\n').length;
}
