import type {AddressMap} from './address-map.ts';
import type {KeyedHash} from './keyed-hash.ts';

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

  #ipv6(found: string): string {
    const whole = this.#addresses.replace(found);
    if (whole !== null) return whole;
    // A colon that ends a sentence, or that separates address and port.
    const shorter = /^(.+?):+$/.exec(found)?.[1];
    return shorter === undefined ? found : `${this.#addresses.replace(shorter) ?? shorter}${found.slice(shorter.length)}`;
  }
}
