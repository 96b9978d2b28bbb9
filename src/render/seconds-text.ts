/** `3.2 s`, `60 s`. */
export function secondsText(seconds: number): string {
  return `${Number(seconds.toFixed(1))} s`;
}
