import {createHmac} from 'node:crypto';
import {bitsOf, type Address, type Family, formatAddress, parseAddress, parseCidr, unidentifiedRanges} from '../model/address.ts';
import type {EndpointAddress, EndpointsObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {compareText} from '../model/text.ts';

/**
 * Replaces public addresses and preserves prefixes: two replaced addresses share as many leading bits as the originals, so an address stays
 * inside its network and outside all others. The key and the preceding bits decide whether a bit is flipped, as in Crypto-PAn. Private and
 * similar addresses stay, and no other address is mapped to one of them.
 */
export class AddressMap {
  readonly #hash: KeyedHash;
  readonly #texts = new Map<string, string>();
  readonly #flips = new Map<string, readonly boolean[]>();
  readonly #public = new Set<string>();

  constructor(hash: KeyedHash) {
    this.#hash = hash;
  }

  /** How many different addresses and networks were replaced. */
  get count(): number {
    return this.#public.size;
  }

  /**
   * The replacement of an address or a network (`address/prefix`); null if the text is neither. An address that stays keeps its spelling.
   */
  replace(text: string): string | null {
    const known = this.#texts.get(text);
    if (known !== undefined) return known;
    const replaced = text.includes('/') ? this.#network(text) : this.#address(text);
    if (replaced !== null) this.#texts.set(text, replaced);
    return replaced;
  }

  /** The base address of a network whose length is given elsewhere. */
  base(text: string, length: number): string | null {
    return this.replace(`${text}/${length}`)?.split('/')[0] ?? null;
  }

  #address(text: string): string | null {
    const address = parseAddress(text);
    if (address === null) return null;
    const mapped = this.#map(address);
    if (mapped === address.value) return text;
    this.#public.add(address.text);
    return formatAddress(address.family, mapped);
  }

  /** Host bits that are zero stay zero: they are not part of the network. */
  #network(text: string): string | null {
    const slash = text.indexOf('/');
    const [address, cidr] = [parseAddress(text.slice(0, slash)), parseCidr(text)];
    if (address === null || cidr === null) return null;
    const mapped = this.#map(address);
    if (mapped === address.value) return text;
    const hostBits = BigInt(bitsOf(address.family) - cidr.prefix);
    const value = address.value === cidr.base ? (mapped >> hostBits) << hostBits : mapped;
    if (value === address.value) return text;
    this.#public.add(cidr.text);
    return formatAddress(address.family, value) + text.slice(slash);
  }

  #map({family, value}: Address): bigint {
    const bits = toBits(family, value);
    if (bits.startsWith(nat64)) return this.#embedded(value);
    if (value === ingressPlaceholder) return value;
    // Whether the address, as bits, stays as it is.
    if (keptBits[family].some(range => bits.startsWith(range))) return family === 'IPv6' ? this.#withoutMac(value) : value;
    let mapped = '';
    for (let at = 0; at < bits.length; at += 8) mapped += this.#flipByte(family, bits.slice(0, at), bits.slice(at, at + 8));
    return BigInt(`0b${mapped}`);
  }

  /** An IPv4 address in the last 32 bits. */
  #embedded(value: bigint): bigint {
    const low = value & 0xffffffffn;
    return value - low + this.#map({family: 'IPv4', value: low, text: ''});
  }

  /** Link-local and unique local addresses may contain the interface's hardware address: `ff:fe` in the middle shows it. */
  #withoutMac(value: bigint): bigint {
    if ((value >> 118n !== 0x3fan && value >> 121n !== 0x7en) || ((value >> 24n) & 0xffffn) !== 0xfffen) return value;
    const drawn = BigInt(`0x${this.#hash.bytes('interface', value.toString(16)).toString('hex', 0, 6)}`);
    const fresh = ((drawn >> 24n) << 40n) | (0xfffen << 24n) | (drawn & 0xffffffn);
    return ((value >> 64n) << 64n) | fresh;
  }

  #flipByte(family: Family, before: Bits, byte: Bits): Bits {
    const flips = this.#flipsAfter(family, before);
    let mapped = '';
    for (let at = 0; at < 8; at++) mapped += (byte[at] === '1') !== flips[Number.parseInt(`1${byte.slice(0, at)}`, 2)] ? '1' : '0';
    return mapped;
  }

  /** Whether to flip each bit of the byte that follows these bits, indexed by `1` and the preceding bits of that byte, read as a number. */
  #flipsAfter(family: Family, before: Bits): readonly boolean[] {
    const key = `${family} ${before}`;
    const known = this.#flips.get(key);
    if (known !== undefined) return known;
    const bytes = this.#hash.bytes('address', key);
    const flips = Array.from({length: 256}, (_, place) => {
      const prefix = before + place.toString(2).slice(1);
      return ((bytes[place >> 3] ?? 0) & (1 << (place & 7))) !== 0 && !touchesKept(family, prefix);
    });
    this.#flips.set(key, flips);
    return flips;
  }
}

/** 192.192.192.192, the endpoint that Cilium gives the Services of its Ingress and Gateway: no address of anybody, and known by its value. */
const ingressPlaceholder = 0xc0_c0_c0_c0n;

/** 64:ff9b::/96. */
const nat64: Bits = toBits('IPv6', 0x0064ff9bn << 96n).slice(0, 96);

/** The first bits of a network, one character each. */
type Bits = string;

const keptBits: Readonly<Record<Family, readonly Bits[]>> = {
  IPv4: unidentifiedRanges.IPv4.map(bitsOfRange),
  IPv6: unidentifiedRanges.IPv6.map(bitsOfRange),
};

/**
 * Whether the network contains a kept range, or is part of one: then the bit after its prefix must stay, so that no other address is mapped
 * into the range.
 */
function touchesKept(family: Family, prefix: Bits): boolean {
  return keptBits[family].some(range => range.startsWith(prefix) || prefix.startsWith(range));
}

function bitsOfRange(range: string): Bits {
  const [base = '', length = ''] = range.split('/');
  const address = parseAddress(base);
  if (address === null) throw new Error(`${range} is no network`);
  return toBits(address.family, address.value).slice(0, Number(length));
}

function toBits(family: Family, value: bigint): Bits {
  return value.toString(2).padStart(bitsOf(family), '0');
}

const hardware = /(?<![\w:])[0-9a-f]{2}(?::[0-9a-f]{2}){5}(?![\w:])/gi;
const ipv4 = /(?<![\d.])(?<!\d\.)\d{1,3}(?:\.\d{1,3}){3}(?!\d|\.\d)(?:\/\d{1,3}(?:\.\d{1,3}){0,3})?/g;
const ipv6 = /(?<![\w:.])(?=[\da-f]*:[\da-f]*:)[\da-f:]+(?:\.\d{1,3}){0,3}(?:\/\d{1,3})?/gi;

/** Whether a text can only be addresses, networks or ports, valid or not: no name has this form. */
export function looksLikeAddress(text: string): boolean {
  return /^(?=.*\.)[\s\d.,:/[\]-]+$|^(?=.*:.*:)[\s\d.:,/[\]a-f]+$/i.test(text);
}

/** Replaces all addresses in a text: alone, with a prefix or a port, in lists, ranges and `key=value`. */
export class AddressText {
  readonly #addresses: AddressMap;
  readonly #hash: KeyedHash;
  readonly #hardware = new Map<string, string>();

  constructor(addresses: AddressMap, hash: KeyedHash) {
    this.#addresses = addresses;
    this.#hash = hash;
  }

  /** How many different hardware addresses were replaced. */
  get hardwareCount(): number {
    return this.#hardware.size;
  }

  replace(text: string): string {
    if (!/[.:]/.test(text)) return text;
    const plain = text.replace(ipv4, found => this.#addresses.replace(found) ?? found);
    if (!/:.*:/.test(plain)) return plain;
    return plain.replace(hardware, found => this.hardware(found)).replace(ipv6, found => this.#ipv6(found));
  }

  /** A locally administered hardware address in place of another one; all zeros and all ones stay. */
  hardware(text: string): string {
    const key = text.toLowerCase();
    if (/^(?:00:){5}00$|^(?:ff:){5}ff$/.test(key)) return text;
    const known = this.#hardware.get(key);
    if (known !== undefined) return known;
    const [first = 0, ...others] = this.#hash.bytes('hardware', key).subarray(0, 6);
    const fresh = [(first & 0xfc) | 2, ...others].map(byte => byte.toString(16).padStart(2, '0')).join(':');
    this.#hardware.set(key, fresh);
    return fresh;
  }

  #ipv6(text: string): string {
    const whole = this.#addresses.replace(text);
    if (whole !== null) return whole;
    // A colon that ends a sentence, or that separates address and port.
    const shorter = /^(.+?):+$/.exec(text)?.[1];
    return shorter === undefined ? text : `${this.#addresses.replace(shorter) ?? shorter}${text.slice(shorter.length)}`;
  }
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';

/** Pseudorandom bytes that depend only on a key, a purpose and a text: without the key, the text cannot be found by trying. */
export class KeyedHash {
  readonly #key: string | Uint8Array;

  constructor(key: string | Uint8Array) {
    this.#key = key;
  }

  /** 32 bytes. */
  bytes(purpose: string, text: string): Buffer {
    return createHmac('sha256', this.#key).update(`${purpose}\0${text}`).digest();
  }

  /** Up to 32 lower-case letters and digits, five bits each. */
  letters(purpose: string, text: string, count: number): string {
    return [...this.bytes(purpose, text).subarray(0, count)].map(byte => alphabet[byte & 31]).join('');
  }
}

/**
 * kube-proxy sorts endpoints by their text, and replaced addresses sort differently. If the old ones were sorted, gives for each position
 * the index of the new one that belongs there. Null if no order has to change.
 */
export function sortedOrder(before: readonly string[], after: readonly string[]): readonly number[] | null {
  if (!isSorted(before) || isSorted(after)) return null;
  return after
    .map((text, index) => ({text, index}))
    .sort((a, b) => compareText(a.text, b.text))
    .map(({index}) => index);
}

function isSorted(texts: readonly string[]): boolean {
  return texts.every((text, index) => index === 0 || compareText(texts[index - 1] ?? '', text) <= 0);
}

/** kube-proxy uses the addresses of Endpoints objects in their order: a list that was sorted is sorted again. */
export function sortSubsets(before: ApiObjects, after: ApiObjects): ApiObjects {
  const endpoints = after.endpoints?.map((object, index) => sortObject(before.endpoints?.[index], object)) ?? null;
  return {...after, endpoints};
}

function sortObject(before: EndpointsObject | undefined, after: EndpointsObject): EndpointsObject {
  if (!Array.isArray(after.subsets)) return after;
  const subsets = after.subsets.map((subset, index) => ({
    ...subset,
    addresses: sortAddresses(before?.subsets?.[index]?.addresses ?? [], subset.addresses ?? []),
  }));
  return {...after, subsets};
}

function sortAddresses(before: readonly EndpointAddress[], after: readonly EndpointAddress[]): readonly EndpointAddress[] {
  const order = sortedOrder(before.map(hostPrefix), after.map(hostPrefix));
  return order === null ? after : order.flatMap(index => after[index] ?? []);
}

/** As kube-proxy writes it, followed by the port. */
function hostPrefix({ip = ''}: EndpointAddress): string {
  return ip.includes(':') ? `[${ip}]:` : `${ip}:`;
}
