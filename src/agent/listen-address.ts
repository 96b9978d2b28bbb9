/** Where to listen. */
export interface ListenAddress {
  /** Null for all addresses. */
  readonly host: string | null;
  readonly port: number;
}

/**
 * Reads `ADDRESS:PORT`, `:PORT` or `[ADDRESS]:PORT`; null for anything else. An IPv6 address may have no brackets, as from the downward
 * API: the port follows the last colon.
 */
export function parseListenAddress(text: string): ListenAddress | null {
  const found = /^(.*):(\d{1,5})$/.exec(text);
  if (found === null) return null;
  const [, address = '', digits = ''] = found;
  const port = Number(digits);
  const host = address.replace(/^\[(.*)\]$/, '$1');
  return port > 65_535 || /[[\]\s/]/.test(host) ? null : {host: host === '' ? null : host, port};
}
