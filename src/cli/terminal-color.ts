import process from 'node:process';

/** NO_COLOR and FORCE_COLOR, as in https://no-color.org and Node.js. They apply to terminals: a file never gets color. */
export function wantsColor(toTerminal: boolean): boolean {
  const {NO_COLOR, FORCE_COLOR} = process.env;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return toTerminal && (NO_COLOR === undefined || NO_COLOR === '') && process.env['TERM'] !== 'dumb';
}
