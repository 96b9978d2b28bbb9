import {describe, expect, test} from 'vitest';
import {contains, parseAddress, parseCidr} from '../../src/model/address.ts';
import {AddressMap, AddressText, KeyedHash} from '../../src/redact/addresses.ts';
import {seededRandom} from '../bench/random.ts';

const hash = new KeyedHash('key');
const map = new AddressMap(hash);
const text = new AddressText(map, hash);

test.each([
  ...['10.1.2.3', '172.31.255.1', '192.168.0.7', '100.64.1.1', '127.0.0.1', '169.254.20.10', '0.0.0.0', '224.0.0.1', '255.255.255.255'],
  ...['0.0.0.0/0', '10.0.0.0/8', '8.0.0.0/5', '128.0.0.0/1', '192.168.1.1/24', '::/0', 'fd00::/8', '::1', 'fe80::1', 'ff02::1', '2000::/3'],
  ...['010.001.002.003', 'FD00:0:0::1'],
])('%s stays unchanged', address => {
  expect(map.replace(address)).toBe(address);
});

test.each(['', 'web', '1.2.3', '300.1.1.1', 'a::b::c', '1.2.3.4/99', 'x/24'])('%j is not an address', word => {
  expect(map.replace(word)).toBe(null);
});

/** How many leading bits two addresses share. */
function shared(a: string, b: string): number {
  const [x, y] = [parseAddress(a), parseAddress(b)];
  if (x === null || y === null) throw new Error(`${a} or ${b} is no address`);
  const bits = x.family === 'IPv4' ? 32 : 128;
  const difference = x.value ^ y.value;
  return difference === 0n ? bits : bits - difference.toString(2).length;
}

describe('public addresses', () => {
  const random = seededRandom(7);
  const ipv4 = Array.from({length: 300}, () => Array.from({length: 4}, () => random.below(256)).join('.'));
  const near = ipv4.map(address => address.replace(/\d+$/, last => String(Number(last) ^ 5)));
  const ipv6 = Array.from({length: 60}, (_, index) => `2a01:4f8:${(index % 7).toString(16)}::${(index * 37).toString(16)}`);

  test.each([
    ['IPv4', [...ipv4, ...near]],
    ['IPv6', ipv6],
  ])('share as many leading bits as before: %s', (_, addresses) => {
    const fresh = addresses.map(address => map.replace(address) ?? '');
    for (let at = 0; at < addresses.length; at++) {
      const other = (at * 31 + 1) % addresses.length;
      expect(shared(fresh[at] ?? '', fresh[other] ?? '')).toBe(shared(addresses[at] ?? '', addresses[other] ?? ''));
    }
  });

  test('never become private, and differ from the originals', () => {
    const reserved = [
      '0.0.0.0/8',
      '10.0.0.0/8',
      '100.64.0.0/10',
      '127.0.0.0/8',
      '169.254.0.0/16',
      '172.16.0.0/12',
      '192.168.0.0/16',
      '224.0.0.0/3',
    ];
    const isReserved = (address: string) => {
      const parsed = parseAddress(address);
      return reserved.some(range => parsed !== null && contains(parseCidr(range) as never, parsed));
    };
    const open = ipv4.filter(address => !isReserved(address));
    expect(open.length).toBeGreaterThan(200);
    const fresh = open.map(address => map.replace(address) ?? '');
    expect(fresh.filter(isReserved)).toEqual([]);
    expect(fresh.filter((address, at) => address === open[at]).length).toBeLessThan(2);
    expect(new Set(fresh).size).toBe(new Set(open).size);
  });

  test('stay inside a redacted network if they were inside the original one', () => {
    for (const address of ipv4) {
      for (const length of [8, 12, 22, 24, 31, 32]) {
        const network = parseCidr(`${address}/${length}`)?.text ?? '';
        const fresh = parseCidr(map.replace(network) ?? '');
        expect(fresh !== null && contains(fresh, parseAddress(map.replace(address) ?? '') as never)).toBe(true);
        expect(map.replace(network)).toBe(fresh?.text);
      }
    }
  });

  test('inside an IPv6 address are mapped like others', () => {
    const inner = parseAddress(map.replace('203.0.113.9') ?? '')?.value ?? 0n;
    expect(parseAddress(map.replace('64:ff9b::203.0.113.9') ?? '')?.value).toBe((0x0064ff9bn << 96n) + inner);
  });

  test('depend on the key', () => {
    expect(new AddressMap(new KeyedHash('other')).replace('8.8.8.8')).not.toBe(map.replace('8.8.8.8'));
    expect(new AddressMap(new KeyedHash('key')).replace('8.8.8.8')).toBe(map.replace('8.8.8.8'));
  });
});

test.each(['fe80::', 'fd12:3456:789a:1:'])('an address of %s that contains a hardware address does not reveal it', prefix => {
  const fresh = map.replace(`${prefix}9c9f:6cff:feb2:e347`) ?? '';
  expect(fresh.startsWith(prefix)).toBe(true);
  expect(fresh).not.toContain('6cff:feb2');
});

describe('in a text', () => {
  const [a, b] = [map.replace('203.0.113.9') ?? '', map.replace('2001:db8::9') ?? ''];

  test.each([
    ['src=203.0.113.9 dst=10.0.0.1 sport=80', `src=${a} dst=10.0.0.1 sport=80`],
    ['203.0.113.9:80', `${a}:80`],
    ['[2001:db8::9]:80', `[${b}]:80`],
    ['203.0.113.9,tcp:80,203.0.113.9', `${a},tcp:80,${a}`],
    ['2001:db8::9,tcp:80', `${b},tcp:80`],
    ['203.0.113.9-203.0.113.9', `${a}-${a}`],
    ['203.0.113.9.nip.io', `${a}.nip.io`],
    ['no route to 2001:db8::9: timeout', `no route to ${b}: timeout`],
    ['it was 203.0.113.9.', `it was ${a}.`],
    ['203.0.113.9/255.255.255.255', `${a}/255.255.255.255`],
    ['at 09:31:23 v1.2.3 iptables 1.8.9', 'at 09:31:23 v1.2.3 iptables 1.8.9'],
    ['00:00:00:00:00:00 ff:ff:ff:ff:ff:ff', '00:00:00:00:00:00 ff:ff:ff:ff:ff:ff'],
  ])('%s', (before, after) => {
    expect(text.replace(before)).toBe(after);
  });

  test('a hardware address becomes a locally administered one, always the same', () => {
    const fresh = text.replace('--mac-source 9E:9F:6C:B2:E3:47');
    expect(fresh).toMatch(/^--mac-source [0-9a-f][26ae](?::[0-9a-f]{2}){5}$/);
    expect(text.replace('--mac-source 9e:9f:6c:b2:e3:47')).toBe(fresh);
    expect(fresh.toLowerCase()).not.toContain('9e:9f');
  });
});
