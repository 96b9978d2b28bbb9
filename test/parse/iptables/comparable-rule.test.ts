import {describe, expect, test} from 'vitest';
import {comparableRule, splitHostPort} from '../../../src/parse/iptables/comparable-rule.ts';
import {parseRule} from '../../../src/parse/iptables/rule.ts';

const comparable = (rule: string): string => comparableRule(parseRule(`-A C ${rule}`, {table: 'nat', chain: 'C', line: 1}));

describe('rules that do the same have equal texts', () => {
  test.each([
    ['a comment', '-m comment --comment "spn -> 10.0.0.1:80" -j KUBE-SEP-A', '-j KUBE-SEP-A'],
    ['--or-mark', '-j MARK --or-mark 0x4000', '-j MARK --set-xmark 0x4000/0x4000'],
    ['--xor-mark', '-j MARK --xor-mark 0x4000', '-j MARK --set-xmark 0x4000/0x0'],
    ['--and-mark', '-j MARK --and-mark 0x4000', '-j MARK --set-xmark 0x0/0xffffbfff'],
    ['--set-mark without a mask', '-j MARK --set-mark 0x4000', '-j MARK --set-xmark 0x4000/0xffffffff'],
    ['--set-mark with a mask', '-j MARK --set-mark 0x4000/0xff', '-j MARK --set-xmark 0x4000/0x40ff'],
    ['a mark with leading zeros', '-m mark --mark 0x00004000/0x00004000 -j ACCEPT', '-m mark --mark 0x4000/0x4000 -j ACCEPT'],
    ['a mark with its whole mask', '-m mark --mark 0x1 -j ACCEPT', '-m mark --mark 0x1/0xffffffff -j ACCEPT'],
    ['a decimal mark', '-m mark ! --mark 16384/16384 -j RETURN', '-m mark ! --mark 0x4000/0x4000 -j RETURN'],
    ['any source', '-s 0.0.0.0/0 -j X', '-j X'],
    ['any source in IPv6', '-s ::/0 -d ::/0 -j X', '-j X'],
    ['a host', '-d 10.0.0.1 -j X', '-d 10.0.0.1/32 -j X'],
    ['a network with host bits', '-s 10.1.2.3/24 -j X', '-s 10.1.2.0/24 -j X'],
    ['a netmask', '-s 10.1.2.0/255.255.255.0 -j X', '-s 10.1.2.0/24 -j X'],
    ['the spelling of an IPv6 address', '-d FD00:0096:0::0003/128 -j X', '-d fd00:96::3/128 -j X'],
    ['the spelling of an IPv6 destination', '-j DNAT --to-destination [FD00:10:0::01]:8080', '-j DNAT --to-destination [fd00:10::1]:8080'],
    [
      'nfacct',
      '-m conntrack --ctstate INVALID -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts -j DROP',
      '-m conntrack --ctstate INVALID -j DROP',
    ],
    ['--random-fully', '-j MASQUERADE --random-fully', '-j MASQUERADE'],
    [
      'the mask and side of recent',
      '-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-A --mask 255.255.255.255 --rsource -j KUBE-SEP-A',
      '-m recent --name KUBE-SEP-A --rcheck --seconds 10800 --reap -j KUBE-SEP-A',
    ],
    [
      'the order of kube-proxy and of iptables-save',
      '-m comment --comment "c" -m tcp -p tcp -d 10.96.0.1 --dport 80 -j X',
      '-d 10.96.0.1/32 -p tcp -m comment --comment "c" -m tcp --dport 80 -j X',
    ],
    ['the short and the long name of an option', '--source 10.0.0.1/32 --jump X', '-s 10.0.0.1/32 -j X'],
  ])('%s', (_, one, other) => {
    expect(comparable(one)).toBe(comparable(other));
  });

  // Section 3.1 of the reference: what kube-proxy 1.16 and later ones wrote, read back from the kernel.
  test.each([
    [2, '0.50000000000', '0.50000000000'],
    [3, '0.33332999982', '0.33333333349'],
    [4, '0.25000000000', '0.25000000000'],
    [6, '0.16667000018', '0.16666666651'],
    [7, '0.14286000002', '0.14285714272'],
    [9, '0.11110999994', '0.11111111101'],
    [12, '0.08332999982', '0.08333333349'],
  ])('the probability of 1/%i, with five decimals (until 1.16) and with ten', (_, five, ten) => {
    const rule = (probability: string) => comparable(`-m statistic --mode random --probability ${probability} -j X`);
    expect(rule(five)).toBe(rule(ten));
  });

  test('a probability that old versions of iptables truncate instead of rounding', () => {
    const rule = (probability: string) => comparable(`-m statistic --mode random --probability ${probability} -j X`);
    expect(rule('0.19999999972')).toBe(rule('0.20000000019'));
    expect(rule('0.33333333302')).toBe(rule('0.33333333349'));
  });
});

describe('rules that do not do the same have different texts', () => {
  test.each([
    ['the chain of the jump', '-j KUBE-SEP-A', '-j KUBE-SEP-B'],
    ['jump and goto', '-j A', '-g A'],
    ['a negation', '-s 10.0.0.0/8 -j X', '! -s 10.0.0.0/8 -j X'],
    ['a negated network of everything', '! -s 0.0.0.0/0 -j X', '-j X'],
    ['the prefix', '-s 10.0.0.0/8 -j X', '-s 10.0.0.0/9 -j X'],
    ['the destination', '-j DNAT --to-destination 10.0.0.1:80', '-j DNAT --to-destination 10.0.0.1:81'],
    ['a destination without a port', '-j DNAT --to-destination 10.0.0.1', '-j DNAT --to-destination 10.0.0.1:80'],
    ['the mark', '-j MARK --set-xmark 0x4000/0x4000', '-j MARK --set-xmark 0x8000/0x8000'],
    ['the mask of a mark', '-j MARK --set-xmark 0x4000/0x4000', '-j MARK --set-xmark 0x4000/0x0'],
    ['the mark that is matched', '-m mark --mark 0x4000/0x4000 -j X', '-m mark --mark 0x8000/0x4000 -j X'],
    ['the mask that is matched', '-m mark --mark 0x4000/0x4000 -j X', '-m mark --mark 0x4000 -j X'],
    ['a negated mark', '-m mark --mark 0x4000/0x4000 -j X', '-m mark ! --mark 0x4000/0x4000 -j X'],
    [
      'the probability',
      '-m statistic --mode random --probability 0.50000000000 -j X',
      '-m statistic --mode random --probability 0.33333333349 -j X',
    ],
    ['every n-th packet', '-m statistic --mode nth --every 3 --packet 0 -j X', '-m statistic --mode nth --every 2 --packet 0 -j X'],
    ['the time of an affinity', '-m recent --rcheck --seconds 10800 --name A -j X', '-m recent --rcheck --seconds 60 --name A -j X'],
    ['the type of REJECT', '-j REJECT --reject-with icmp-port-unreachable', '-j REJECT --reject-with tcp-reset'],
    ['REJECT and DROP', '-j REJECT --reject-with icmp-port-unreachable', '-j DROP'],
    ['a target', '-j MASQUERADE', ''],
    ['an unknown match', '-m frobnicate -j X', '-j X'],
    ['the states', '-m conntrack --ctstate NEW -j X', '-m conntrack ! --ctstate NEW -j X'],
    ['the protocol', '-p tcp -m tcp --dport 53 -j X', '-p udp -m udp --dport 53 -j X'],
  ])('%s', (_, one, other) => {
    expect(comparable(one)).not.toBe(comparable(other));
  });
});

test.each([
  ['10.0.0.1:80', '10.0.0.1', '80'],
  ['10.0.0.1', '10.0.0.1', ''],
  [':8080', '', '8080'],
  ['[fd00::1]:80', 'fd00::1', '80'],
  ['[fd00::1]', 'fd00::1', ''],
  ['fd00::1', 'fd00::1', ''],
  ['', '', ''],
])('%j is an address and a port', (text, address, port) => {
  expect(splitHostPort(text)).toEqual({address, port});
});
