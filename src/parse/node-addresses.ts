/** One interface of `ip -j addr`. */
export interface InterfaceAddresses {
  readonly name: string;
  readonly addresses: readonly string[];
}

/** Reads `ip -j addr` (`addresses.json` in a bundle). Throws a SyntaxError on what is no JSON; other shapes give nothing. */
export function parseNodeAddresses(text: string): readonly InterfaceAddresses[] {
  const parsed: unknown = JSON.parse(text);
  if (!Array.isArray(parsed)) return [];
  return parsed.map((link: {ifname?: unknown; addr_info?: unknown}) => ({
    name: typeof link?.ifname === 'string' ? link.ifname : '',
    addresses: Array.isArray(link?.addr_info)
      ? link.addr_info.flatMap((info: {local?: unknown}) => (typeof info?.local === 'string' ? [info.local] : []))
      : [],
  }));
}
