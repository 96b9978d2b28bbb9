import {expect, test} from 'vitest';
import {dumpLine} from '../../src/render/trace-words.ts';

test('a rule of iptables is shown with its line in the dump', () => {
  for (const table of ['raw', 'mangle', 'nat', 'filter', 'security']) expect(dumpLine({table, line: 86})).toBe(86);
});

test('a rule of nftables is shown with its line in a text, and without a line for JSON', () => {
  for (const table of ['ip kube-proxy', 'ip6 kube-proxy', 'inet fw']) {
    expect(dumpLine({table, line: 86})).toBe(86);
    expect(dumpLine({table, line: 86, isOrdinal: true})).toBe(0);
  }
});

test('a rule with its own key is shown without a line: an IPVS server, an element of an ipset, an address', () => {
  for (const table of ['ipvs', 'ipset', 'kube-ipvs0']) expect(dumpLine({table, line: 86})).toBe(0);
});
