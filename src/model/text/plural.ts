/** A number with what it counts: `1 rule`, `2 rules`. `many` is for a noun that takes more than an s. */
export function plural(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
