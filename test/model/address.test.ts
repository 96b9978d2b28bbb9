import {describe, expect, test} from 'vitest';
import {addressInside, canonicalAddress, contains, familyOf, hostCidr, parseAddress, parseCidr} from '../../src/model/address.ts';

describe('an address', () => {
  test.each([
    ['10.0.0.1', 'IPv4', '10.0.0.1'],
    // Go's ParseIPSloppy reads leading zeros as decimal.
    ['010.000.000.001', 'IPv4', '10.0.0.1'],
    ['fd00::1', 'IPv6', 'fd00::1'],
    ['FD00:0:0:0:0:0:0:1', 'IPv6', 'fd00::1'],
    ['2001:db8:0:1:1:1:1:1', 'IPv6', '2001:db8:0:1:1:1:1:1'],
    ['2001:db8:0:0:1:0:0:1', 'IPv6', '2001:db8::1:0:0:1'],
    ['2001:db8:1:2::a', 'IPv6', '2001:db8:1:2::a'],
    ['2001:db8:1:2:3::', 'IPv6', '2001:db8:1:2:3::'],
    ['2001:db8:1:2:3:4:5:6', 'IPv6', '2001:db8:1:2:3:4:5:6'],
    // One group of zeros is printed as 0, and of two gaps of zeros the longer one is left out, or the first.
    ['2001:db8:1:2:3:4::6', 'IPv6', '2001:db8:1:2:3:4:0:6'],
    ['2001:db8:1:2:3:4:5::', 'IPv6', '2001:db8:1:2:3:4:5:0'],
    ['2001:0:0:0:1::1', 'IPv6', '2001::1:0:0:1'],
    ['2001:db8:01::1', 'IPv6', '2001:db8:1::1'],
    ['2001:db8:A::1', 'IPv6', '2001:db8:a::1'],
    ['::', 'IPv6', '::'],
    ['::ffff:10.0.0.1', 'IPv4', '10.0.0.1'],
  ])('%s is of family %s and prints as %s', (text, family, printed) => {
    expect(familyOf(text)).toBe(family);
    expect(canonicalAddress(text)).toBe(printed);
    expect(parseAddress(text)).toMatchObject({family, text: printed});
  });

  test.each([
    '',
    '10.0.0',
    '10.0.0.256',
    '10.0.0.1.2',
    '0x0a000001',
    '1',
    'fe80::1%eth0',
    'fd00::1::2',
    'fd00:1:2:3:4:5:6::7:8',
    'fd00:12345::1',
    'fd00:1:2:3:4:5:6:7:8',
    'fd00::g',
    'db.example.org',
    '10.0.0.1/32',
  ])('%j is invalid', text => {
    expect(familyOf(text)).toBeNull();
    expect(canonicalAddress(text)).toBeNull();
    expect(parseAddress(text)).toBeNull();
  });
});

describe('a network', () => {
  test.each([
    ['10.1.2.3/24', '10.1.2.0/24'],
    ['10.1.2.3', '10.1.2.3/32'],
    ['10.1.2.0/255.255.255.0', '10.1.2.0/24'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['10.1.2.3/0.0.0.0', '0.0.0.0/0'],
    ['fd00:96::3/48', 'fd00:96::/48'],
    ['fd00::1', 'fd00::1/128'],
    ['::1/0', '::/0'],
    ['::ffff:10.0.0.0/104', '::ffff:a00:0/104'],
  ])('%s prints as %s, without host bits', (text, printed) => {
    expect(parseCidr(text)?.text).toBe(printed);
  });

  test.each(['10.0.0.0/33', '10.0.0.0/', '10.0.0.0/x', 'fd00::/129', '10.0.0.0/255.0.255.0', '10.0.0.0/ffff::', '/8', ''])(
    '%j is invalid',
    text => {
      expect(parseCidr(text)).toBeNull();
    },
  );

  test.each([
    ['10.244.0.0/16', '10.244.255.255', true],
    ['10.244.0.0/16', '10.245.0.0', false],
    ['0.0.0.0/0', '203.0.113.9', true],
    ['0.0.0.0/0', 'fd00::1', false],
    ['::/0', '10.0.0.1', false],
    ['fd00:10::/48', 'fd00:10:0:1::1', true],
    ['fd00:10::/48', 'fd00:11::1', false],
    ['10.0.0.1/32', '10.0.0.1', true],
    ['10.0.0.1/32', '10.0.0.2', false],
  ])('%s contains %s: %s', (network, address, inside) => {
    const [cidr, parsed] = [parseCidr(network), parseAddress(address)];
    if (cidr === null || parsed === null) throw new Error('bad example');
    expect(contains(cidr, parsed)).toBe(inside);
  });

  test.each(['10.244.0.0/16', '10.0.0.0/30', '10.0.0.7/32', 'fd00::/64', 'fd00::7/128', '0.0.0.0/0'])('%s has an address inside', text => {
    const cidr = parseCidr(text);
    if (cidr === null) throw new Error('bad example');
    const first = parseAddress(addressInside(cidr, new Set()) ?? '');
    expect(first !== null && contains(cidr, first)).toBe(true);
  });

  test('a used address is not returned, and a full network has none', () => {
    const cidr = parseCidr('10.0.0.4/30');
    if (cidr === null) throw new Error('bad example');
    const taken = new Set<string>();
    for (let given = addressInside(cidr, taken); given !== null; given = addressInside(cidr, taken)) taken.add(given);
    expect([...taken].sort()).toEqual(['10.0.0.4', '10.0.0.5', '10.0.0.6', '10.0.0.7']);
  });
});

test('a host is written as netfilter writes it', () => {
  expect(hostCidr('10.0.0.1', 'IPv4')).toBe('10.0.0.1/32');
  expect(hostCidr('fd00::1', 'IPv6')).toBe('fd00::1/128');
});
