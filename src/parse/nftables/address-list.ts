import {type Address, bitsOf, type Cidr, type Family, formatAddress, parseAddress, parseCidr} from '../../model/address.ts';
import {type Intervals, intervalsOf} from '../../model/intervals.ts';

/** Addresses from `low` to `high`, both included. */
export interface AddressInterval {
  readonly family: Family;
  readonly low: bigint;
  readonly high: bigint;
}

/** Reads `10.0.0.1`, `10.0.0.0/8` or `10.0.0.1-10.0.0.9`; null for anything else. */
export function parseInterval(text: string): AddressInterval | null {
  const dash = text.indexOf('-');
  if (dash >= 0) return between(parseAddress(text.slice(0, dash)), parseAddress(text.slice(dash + 1)));
  const cidr = parseCidr(text);
  if (cidr === null) return null;
  const size = 1n << BigInt(bitsOf(cidr.family) - cidr.prefix);
  return {family: cidr.family, low: cidr.base, high: cidr.base + size - 1n};
}

/** The fewest networks that hold exactly these addresses; none where `low` is above `high`. */
export function networksIn({family, low, high}: AddressInterval): readonly Cidr[] {
  const bits = bitsOf(family);
  const networks: Cidr[] = [];
  for (let base = low; base <= high; ) {
    let host = 0;
    while (host < bits && base % (2n << BigInt(host)) === 0n && base + (2n << BigInt(host)) - 1n <= high) host++;
    const prefix = bits - host;
    networks.push({family, base, prefix, text: `${formatAddress(family, base)}/${prefix}`});
    base += 1n << BigInt(host);
  }
  return networks;
}

/** The prefixes of addresses with some bits, where the mask is none: `10.244.0.4/255.255.0.255`. The text itself where they are too many. */
export function prefixesOf(text: string): readonly string[] {
  const [base, mask] = /\/.*[.:]/.test(text) ? text.split('/').map(parseAddress) : [];
  if (base == null || mask == null || base.family !== mask.family) return [text];
  const {family} = base;
  const bits = Array.from({length: bitsOf(family)}, (_, place) => 1n << BigInt(place));
  const free = bits.filter(bit => (mask.value & bit) === 0n);
  const above = free.filter((bit, index) => bit !== bits[index]);
  if (above.length > 10) return [text];
  const bases = above.reduce((found, bit) => found.flatMap(one => [one, one | bit]), [base.value & mask.value]);
  return bases.map(one => `${formatAddress(family, one)}/${bits.length - free.length + above.length}`);
}

/** The addresses of one family that texts such as `10.0.0.0/8` name; texts that are none are left out. */
export function addressesIn(texts: Iterable<string>, family: Family): Intervals {
  const ranges: (readonly [low: bigint, high: bigint])[] = [];
  for (const text of texts) {
    const range = parseInterval(text);
    if (range?.family === family) ranges.push([range.low, range.high]);
  }
  return intervalsOf(ranges);
}

function between(low: Address | null, high: Address | null): AddressInterval | null {
  if (low === null || high === null || low.family !== high.family) return null;
  return {family: low.family, low: low.value, high: high.value};
}

/**
 * The elements of an anonymous set of addresses as nft lists them: sorted, with overlapping and adjacent ones merged. Null if one of them
 * is not an address, prefix or range.
 */
export function mergeAddresses(texts: readonly string[]): readonly string[] | null {
  const intervals: AddressInterval[] = [];
  for (const text of texts) {
    const interval = parseInterval(text);
    if (interval === null) return null;
    intervals.push(interval);
  }
  return merged(intervals).map(formatInterval);
}

function merged(intervals: readonly AddressInterval[]): readonly AddressInterval[] {
  const sorted = [...intervals].sort((a, b) => (a.low < b.low ? -1 : a.low > b.low ? 1 : 0));
  const result: AddressInterval[] = [];
  for (const interval of sorted) {
    const last = result.at(-1);
    if (last === undefined || interval.low > last.high + 1n) result.push(interval);
    else if (interval.high > last.high) result[result.length - 1] = {...last, high: interval.high};
  }
  return result;
}

/** A prefix if possible, otherwise a range. */
function formatInterval({family, low, high}: AddressInterval): string {
  const text = formatAddress(family, low);
  if (low === high) return text;
  const size = high - low + 1n;
  const bits = size.toString(2).length - 1;
  const isPrefix = size === 1n << BigInt(bits) && low % size === 0n;
  return isPrefix ? `${text}/${bitsOf(family) - bits}` : `${text}-${formatAddress(family, high)}`;
}
