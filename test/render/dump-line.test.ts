import {expect, test} from 'vitest';
import {findingTexts} from '../../src/render/table/finding-text.ts';
import {styleOf} from '../../src/render/renderer.ts';
import {dumpLine} from '../../src/render/trace-words.ts';
import {findingOf} from './report.ts';

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

test('evidence of nftables names the chain or map, and the place of a rule in its chain', () => {
  const chain = 'service-KHN6ECMT-shop/web/tcp/http';
  const rule = {table: 'ip kube-proxy', chain, line: 7, text: 'dnat to 10.0.0.9:80'};
  const element = {table: 'ip kube-proxy', chain: 'service-ips', line: 0, text: `10.96.1.1 . tcp . 80 : goto ${chain}`};
  const finding = findingOf('node-a', 'shop/web', {
    expected: [element],
    actual: [{...rule, line: 2, isOrdinal: true}, rule],
  });
  const [text = ''] = findingTexts([finding], {style: styleOf(false), width: Infinity, max: 9, spread: false});
  expect(text).toContain(`  expected  ip kube-proxy service-ips: ${element.text}`);
  expect(text).toContain(`  found     rule 2: ip kube-proxy ${chain}: dnat to 10.0.0.9:80`);
  expect(text).toContain(`  found     line 7: ip kube-proxy ${chain}: dnat to 10.0.0.9:80`);
});
