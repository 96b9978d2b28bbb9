import ipaddr from 'ipaddr.js';

/** One IP address as a number, for comparisons; `text` is the form in which kube-proxy and iptables print it. */
export interface Address {
  readonly family: Family;
  readonly value: bigint;
  readonly text: string;
}

/** A network. `base` has its host bits cleared; `text` is `base/prefix` as iptables-save prints it. */
export interface Cidr {
  readonly family: Family;
  readonly base: bigint;
  readonly prefix: number;
  readonly text: string;
}

const plainIPv4 = /^(?:0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])(?:\.(?:0|[1-9]\d?|1\d\d|2[0-4]\d|25[0-5])){3}$/;
/**
 * Many IPv6 addresses in the form that is printed: no group is zero but those that `::` replaces, at least two, behind the first group.
 * Others may be in this form too, but reading them takes a hundred times as long.
 */
const plainIPv6 = new RegExp('^(?:(?:G:){1,4}:(?:G(?::G)?)?|(?:G:){5}:G?|(?:G:){7}G)$'.replaceAll('G', '[1-9a-f][0-9a-f]{0,3}'));
const dottedQuad = /^\d{1,3}(?:\.\d{1,3}){3}$/;

/** The family of an address in text, or null if it is not an address. Leading zeros are read as decimal, like in Go's ParseIPSloppy. */
export function familyOf(text: string): Family | null {
  if (plainIPv4.test(text)) return 'IPv4';
  if (plainIPv6.test(text)) return 'IPv6';
  return parseAddress(text)?.family ?? null;
}

/** The address as Go's `net.IP.String()` prints it, or null if `text` is not an address. */
export function canonicalAddress(text: string): string | null {
  if (plainIPv4.test(text) || plainIPv6.test(text)) return text;
  const parsed = parse(text);
  return parsed === null ? null : addressText(parsed);
}

/** Reads one address; null if it is not one. Follows netutils.ParseIPSloppy. */
export function parseAddress(text: string): Address | null {
  if (plainIPv4.test(text)) return {family: 'IPv4', value: BigInt(numberOf(text)), text};
  const known = parsedBefore.get(text);
  if (known !== undefined) return known;
  const address: Address | null = plainIPv6.test(text) ? {family: 'IPv6', value: numberOfIPv6(text), text} : addressOf(parse(text));
  if (parsedBefore.size >= maxParsed) parsedBefore.clear();
  parsedBefore.set(text, address);
  return address;
}

/** Reading an IPv6 address takes long, and most are read again and again: those of the node, and the networks of pods. */
const parsedBefore = new Map<string, Address | null>();
const maxParsed = 1000;

function addressOf(parsed: ipaddr.IPv4 | ipaddr.IPv6 | null): Address | null {
  if (parsed === null) return null;
  const family: Family = parsed.kind() === 'ipv4' ? 'IPv4' : 'IPv6';
  return {family, value: toNumber(parsed.toByteArray()), text: addressText(parsed)};
}

function parse(text: string): ipaddr.IPv4 | ipaddr.IPv6 | null {
  const plain = dottedQuad.test(text) ? text.replace(/\b0+(?=\d)/g, '') : text;
  if (!plain.includes(':') && !plainIPv4.test(plain)) return null;
  if (plain.includes('%') || !ipaddr.isValid(plain)) return null;
  const parsed = ipaddr.parse(plain);
  // `ipaddr.process` compares each address with all special networks for that.
  return parsed instanceof ipaddr.IPv6 && parsed.parts.slice(0, 6).join() === mapped ? parsed.toIPv4Address() : parsed;
}

/** The first groups of an IPv6 address that stands for one of IPv4. */
const mapped = '0,0,0,0,0,65535';

/** Reads `address` or `address/prefix` (or `address/netmask`, as old versions of iptables print); null if it is neither. */
export function parseCidr(text: string): Cidr | null {
  const slash = text.indexOf('/');
  const address = parseAddress(slash < 0 ? text : text.slice(0, slash));
  if (address === null) return null;
  const embedded =
    address.family === 'IPv4' && slash >= 0 && text.includes(':') ? mappedCidr(address, Number(text.slice(slash + 1))) : null;
  if (embedded !== null) return embedded;
  const bits = bitsOf(address.family);
  const prefix = slash < 0 ? bits : prefixLength(text.slice(slash + 1), address.family);
  if (prefix === null) return null;
  const base = address.value & maskOf(prefix, bits);
  const network = base === address.value ? address.text : formatAddress(address.family, base);
  return {family: address.family, base, prefix, text: `${network}/${prefix}`};
}

/** A network of IPv4 addresses that IPv6 maps, such as `::ffff:0.0.0.0/96`, is one of IPv6. */
function mappedCidr({value}: Address, prefix: number): Cidr | null {
  if (!(prefix >= 96 && prefix <= 128)) return null;
  const base = ((0xffffn << 32n) | value) & maskOf(prefix, 128);
  return {family: 'IPv6', base, prefix, text: `${formatAddress('IPv6', base)}/${prefix}`};
}

export function contains(cidr: Cidr, address: Pick<Address, 'family' | 'value'>): boolean {
  if (cidr.family !== address.family) return false;
  return (address.value & maskOf(cidr.prefix, bitsOf(cidr.family))) === cidr.base;
}

/** Some address inside `cidr` that is not in `taken`; only the first few host numbers are tried. Null if none is free. */
export function addressInside(cidr: Cidr, taken: ReadonlySet<string>): string | null {
  const bits = bitsOf(cidr.family);
  const size = 1n << BigInt(bits - cidr.prefix);
  for (let host = size > 2n ? size / 2n + 57n : 0n, tries = 0; tries < 512 && tries < Number(size < 512n ? size : 512n); host++, tries++) {
    const text = formatAddress(cidr.family, cidr.base + (host % size));
    if (!taken.has(text)) return text;
  }
  return null;
}

/**
 * Addresses that do not identify a cluster and whose meaning a diagnosis needs: private, shared, loopback, link-local, multicast, reserved
 * and benchmark ranges. Documentation ranges are not included: on a real node they would be real addresses.
 */
export const unidentifiedRanges: Readonly<Record<Family, readonly string[]>> = {
  IPv4: `0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16 198.18.0.0/15
    224.0.0.0/3`.split(/\s+/),
  IPv6: '::/8 64:ff9b::/96 100::/64 fc00::/7 fe80::/10 fec0::/10 ff00::/8'.split(' '),
};

export function formatAddress(family: Family, value: bigint): string {
  const bytes = Array.from({length: bitsOf(family) / 8}, (_, index) => Number((value >> BigInt(bitsOf(family) - 8 * (index + 1))) & 255n));
  const address = ipaddr.fromByteArray(bytes);
  return addressText(address);
}

/** One host in netfilter's spelling: `10.0.0.1/32` or `fd00::1/128`. */
export function hostCidr(address: string, family: Family): string {
  return `${address}/${bitsOf(family)}`;
}

function addressText(address: ipaddr.IPv4 | ipaddr.IPv6): string {
  return address instanceof ipaddr.IPv6 ? address.toRFC5952String() : address.toString();
}

/** Digit by digit: many addresses are read for each packet that is walked. */
function numberOf(plain: string): number {
  let [sum, part] = [0, 0];
  for (let at = 0; at < plain.length; at++) {
    const digit = plain.charCodeAt(at) - 48;
    if (digit >= 0) part = 10 * part + digit;
    else [sum, part] = [256 * sum + part, 0];
  }
  return 256 * sum + part;
}

function numberOfIPv6(plain: string): bigint {
  const [front = [], back = []] = plain.split('::').map(part => (part === '' ? [] : part.split(':')));
  const zeros = Array.from({length: 8 - front.length - back.length}, () => '0');
  return BigInt(`0x${[...front, ...zeros, ...back].map(group => group.padStart(4, '0')).join('')}`);
}

function toNumber(bytes: readonly number[]): bigint {
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  return value;
}

/** The length of an address. */
export function bitsOf(family: Family): number {
  return family === 'IPv4' ? 32 : 128;
}

function maskOf(prefix: number, bits: number): bigint {
  return (bits === 32 ? masks32 : masks128)[prefix] ?? 0n;
}

const masks32 = masks(32);
const masks128 = masks(128);

function masks(bits: number): readonly bigint[] {
  return Array.from({length: bits + 1}, (_, prefix) => ((1n << BigInt(prefix)) - 1n) << BigInt(bits - prefix));
}

function prefixLength(text: string, family: Family): number | null {
  if (/^\d{1,3}$/.test(text)) return Number(text) <= bitsOf(family) ? Number(text) : null;
  const mask = parseAddress(text);
  if (mask === null || mask.family !== family) return null;
  const ones = mask.value.toString(2).padStart(bitsOf(family), '0');
  return /^1*0*$/.test(ones) ? ones.lastIndexOf('1') + 1 : null;
}

/** An IP family, spelled as in `spec.ipFamilies` and in the `addressType` of an EndpointSlice. */
export type Family = 'IPv4' | 'IPv6';

export const families: readonly Family[] = ['IPv4', 'IPv6'];

export type Protocol = 'TCP' | 'UDP' | 'SCTP';

/** `10.0.0.1:80`, `[fd00::1]:80`. */
export function joinHostPort(host: string, port: number | string): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
