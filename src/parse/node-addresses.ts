import {readJson} from './json-text.ts';

/** One interface of `ip -j addr`. */
interface InterfaceAddresses {
  readonly name: string;
  readonly addresses: readonly string[];
}

/** Reads `ip -j addr` (`addresses.json` in a bundle); null when it is no list of interfaces. */
export function parseNodeAddresses(text: string): readonly InterfaceAddresses[] | null {
  const parsed = readJson(text);
  if (!Array.isArray(parsed)) return null;
  return parsed.map((link: {ifname?: unknown; addr_info?: unknown}) => ({
    name: typeof link?.ifname === 'string' ? link.ifname : '',
    addresses: Array.isArray(link?.addr_info)
      ? link.addr_info.flatMap((info: {local?: unknown}) => (typeof info?.local === 'string' ? [info.local] : []))
      : [],
  }));
}
