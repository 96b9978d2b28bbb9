import {describe, expect, test} from 'vitest';
import {comment, probability, protocolText, recentMask, reject} from '../../../src/expect/iptables/rule-text.ts';

describe('the probability of one in n rules', () => {
  // Section 3.1 of the reference: what the kernel gave back.
  test.each([
    [2, '0.50000000000'],
    [3, '0.33333333349'],
    [4, '0.25000000000'],
    [5, '0.20000000019'],
    [6, '0.16666666651'],
    [7, '0.14285714272'],
    [8, '0.12500000000'],
    [9, '0.11111111101'],
    [10, '0.10000000009'],
    [12, '0.08333333349'],
    [19, '0.05263157887'],
    [1000, '0.00100000016'],
  ])('of %i', (n, printed) => {
    expect(probability(n)).toBe(printed);
  });

  test('decreases with every further endpoint', () => {
    for (let n = 2; n < 2000; n++) expect(Number(probability(n + 1))).toBeLessThan(Number(probability(n)));
  });
});

test('a comment is in double quotes', () => {
  expect(comment('shop/web:http -> 10.0.0.1:80')).toBe('-m comment --comment "shop/web:http -> 10.0.0.1:80"');
});

test('addresses, masks and refusals have the form of their family', () => {
  expect(protocolText('IPv4', 'TCP')).toEqual({host: '/32', protocol: 'tcp'});
  expect(protocolText('IPv6', 'SCTP')).toEqual({host: '/128', protocol: 'sctp'});
  expect(recentMask('IPv4')).toBe('255.255.255.255');
  expect(recentMask('IPv6')).toBe('ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff');
  expect(reject('IPv4')).toBe('-j REJECT --reject-with icmp-port-unreachable');
  expect(reject('IPv6')).toBe('-j REJECT --reject-with icmp6-port-unreachable');
});
