import {readJson} from './json-text.ts';

/** One interface of `ip -j addr`. */
interface InterfaceAddresses {
  readonly name: string;
  readonly addresses: readonly string[];
  /** The same with the length of their prefixes, where it is there. */
  readonly networks: readonly string[];
}

/** Reads `ip -j addr` (`addresses.json` in a bundle); null if it is not a list of interfaces. */
export function parseNodeAddresses(text: string): readonly InterfaceAddresses[] | null {
  const parsed = readJson(text);
  if (!Array.isArray(parsed)) return null;
  return parsed.map((link: {ifname?: unknown; addr_info?: unknown}) => {
    const infos = (Array.isArray(link?.addr_info) ? link.addr_info : []) as readonly ({local?: unknown; prefixlen?: unknown} | null)[];
    const own = infos.flatMap(info => (typeof info?.local === 'string' ? [{address: info.local, prefix: info.prefixlen}] : []));
    return {
      name: typeof link?.ifname === 'string' ? link.ifname : '',
      addresses: own.map(({address}) => address),
      networks: own.flatMap(({address, prefix}) => (typeof prefix === 'number' ? [`${address}/${prefix}`] : [])),
    };
  });
}
