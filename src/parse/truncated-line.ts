/** The number of a last line without a newline, which may be incomplete. Null if there is none; all tools end their last line. */
export function truncatedLine(text: string): number | null {
  return text === '' || text.endsWith('\n') ? null : text.split('\n').length;
}
