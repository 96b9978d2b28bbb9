import {parseAddress} from '../model/address.ts';
import type {Family} from '../model/family.ts';

/** The first bits of a network, one character each. */
export type Bits = string;

/**
 * Addresses that do not identify a cluster and whose meaning a diagnosis needs: private, shared, loopback, link-local, multicast, reserved
 * and benchmark ranges. Documentation ranges are not included: on a real node they would be real addresses.
 */
const ranges: Readonly<Record<Family, readonly string[]>> = {
  IPv4: `0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16 198.18.0.0/15
    224.0.0.0/3`.split(/\s+/),
  IPv6: '::/8 64:ff9b::/96 100::/64 fc00::/7 fe80::/10 fec0::/10 ff00::/8'.split(' '),
};

const keptBits: Readonly<Record<Family, readonly Bits[]>> = {IPv4: ranges.IPv4.map(bitsOfRange), IPv6: ranges.IPv6.map(bitsOfRange)};

/** Whether the address, as bits, stays as it is. */
export function isKept(family: Family, address: Bits): boolean {
  return keptBits[family].some(range => address.startsWith(range));
}

/**
 * Whether the network contains a kept range, or is part of one: then the bit after its prefix must stay, so that no other address is mapped
 * into the range.
 */
export function touchesKept(family: Family, prefix: Bits): boolean {
  return keptBits[family].some(range => range.startsWith(prefix) || prefix.startsWith(range));
}

function bitsOfRange(range: string): Bits {
  const [base = '', length = ''] = range.split('/');
  const address = parseAddress(base);
  if (address === null) throw new Error(`${range} is no network`);
  return toBits(address.family, address.value).slice(0, Number(length));
}

export function toBits(family: Family, value: bigint): Bits {
  return value.toString(2).padStart(family === 'IPv4' ? 32 : 128, '0');
}
