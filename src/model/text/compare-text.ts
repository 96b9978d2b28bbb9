/** Order of two texts by their UTF-16 code units, the same in every locale; for `sort`. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
