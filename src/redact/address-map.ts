import {type Address, formatAddress, parseAddress, parseCidr} from '../model/address.ts';
import type {Family} from '../model/family.ts';
import type {KeyedHash} from './keyed-hash.ts';
import {type Bits, isKept, toBits, touchesKept} from './kept-ranges.ts';

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
    const hostBits = BigInt((address.family === 'IPv4' ? 32 : 128) - cidr.prefix);
    const value = address.value === cidr.base ? (mapped >> hostBits) << hostBits : mapped;
    if (value === address.value) return text;
    this.#public.add(cidr.text);
    return formatAddress(address.family, value) + text.slice(slash);
  }

  #map({family, value}: Address): bigint {
    const bits = toBits(family, value);
    if (bits.startsWith(nat64)) return this.#embedded(value);
    if (isKept(family, bits)) return family === 'IPv6' ? this.#withoutMac(value) : value;
    let mapped = '';
    for (let at = 0; at < bits.length; at += 8) mapped += this.#flipByte(family, bits.slice(0, at), bits.slice(at, at + 8));
    return BigInt(`0b${mapped}`);
  }

  /** An IPv4 address in the last 32 bits. */
  #embedded(value: bigint): bigint {
    const low = value & 0xffffffffn;
    return value - low + this.#map({family: 'IPv4', value: low, text: ''});
  }

  /** Link-local addresses may contain the interface's hardware address: `ff:fe` in the middle shows it. */
  #withoutMac(value: bigint): bigint {
    if (value >> 118n !== 0x3fan || ((value >> 24n) & 0xffffn) !== 0xfffen) return value;
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

/** 64:ff9b::/96. */
const nat64: Bits = toBits('IPv6', 0x0064ff9bn << 96n).slice(0, 96);
