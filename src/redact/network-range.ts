import {formatAddress, parseAddress} from '../model/address.ts';

/**
 * The smallest list of networks that contains exactly the addresses from the first to the last. Null if the two are not addresses of one
 * family.
 */
export function networksBetween(first: string, last: string): readonly {readonly address: string; readonly length: number}[] | null {
  const [from, to] = [parseAddress(first), parseAddress(last)];
  if (from === null || to === null || from.family !== to.family || from.value > to.value) return null;
  const bits = from.family === 'IPv4' ? 32 : 128;
  const networks: {address: string; length: number}[] = [];
  for (let value = from.value; value <= to.value; ) {
    let host = 0;
    while (host < bits && value % (2n << BigInt(host)) === 0n && value + (2n << BigInt(host)) - 1n <= to.value) host++;
    networks.push({address: formatAddress(from.family, value), length: bits - host});
    value += 1n << BigInt(host);
  }
  return networks;
}
