import {expect, test} from 'vitest';
import {dumpLine} from '../../src/render/dump-line.ts';

test('a rule of iptables has the line of the dump', () => {
  for (const table of ['raw', 'mangle', 'nat', 'filter', 'security']) expect(dumpLine({table, line: 86})).toBe(86);
});

test('an ordinal of nft, IPVS or an ipset is not shown as a line', () => {
  for (const table of ['ip kube-proxy', 'ip6 kube-proxy', 'inet fw', 'ipvs', 'ipset', 'kube-ipvs0'])
    expect(dumpLine({table, line: 86})).toBe(0);
});
