import {canonicalAddress} from '../../model/address.ts';
import {readJson} from '../attempt.ts';

export const ipvsDevice = 'kube-ipvs0';

/**
 * The addresses of kube-ipvs0 in the output of `ip -j addr`, without link-local ones; null if it is not a list of interfaces or has no such
 * device.
 */
export function parseIpvsDevice(text: string): readonly string[] | null {
  const device = parseNodeAddresses(text)?.find(({name}) => name === ipvsDevice);
  if (device === undefined) return null;
  return device.addresses.map(address => canonicalAddress(address) ?? address).filter(address => !address.startsWith('fe80:'));
}

/** The addresses of all interfaces, one to a line (`local-addresses` in a bundle); none if they were not read. */
export function parseLocalAddresses(text: string): readonly string[] {
  return text.split('\n').filter(line => line !== '');
}

/**
 * Reads `ip -j addr` (`addresses.json` in a bundle); null if it is not a list of interfaces. `networks`: the same with the length of their
 * prefixes, where it is there.
 */
export function parseNodeAddresses(text: string) {
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
