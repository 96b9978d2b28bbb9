/** A number with its noun: `1 rule`, `2 rules`. `many` is the plural of a noun that does not just take an s. */
export function plural(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
