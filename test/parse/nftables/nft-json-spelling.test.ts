import {describe, expect, test} from 'vitest';
import type {NftChain} from '../../../src/model/nft-ruleset.ts';
import {parseNftJson} from '../../../src/parse/nftables/nft-json.ts';
import {jsonRuleText} from '../../../src/parse/nftables/nft-json-rule.ts';
import {jsonSpelling} from '../../../src/parse/nftables/nft-json-spelling.ts';
import type {JsonObject} from '../../../src/parse/nftables/nft-json-value.ts';
import {captureNames, readFixture, snapshotOf} from '../../fixtures.ts';
import {expectedTable} from '../../nft-expectation.ts';

const {tables} = parseNftJson(readFixture('nft/many-statements.json'));
const texts = [...tables.values()].flatMap(({chains}) => [...chains.values()]).flatMap(chain => chain.rules().map(({text}) => text));

/** Rules whose parts are the same as those of spelled rules, and that mean something else or nothing. */
const invalid = [
  ...[
    '',
    ' ',
    'goto',
    'goto ',
    'goto a b',
    'jump  a',
    'ip saddr',
    'ip saddr !=',
    'ip saddr @',
    'ip saddr 10.0.0.0/08',
    'ip saddr 10.0.0.0/8/9',
  ],
  ...['ip saddr 10.0.0.1 ', 'ip ttl 4', 'ip saddr { 10.0.0.1 }', 'tcp dport { 80 }', 'tcp dport 080', 'tcp sport 80', 'meta l4proto icmp'],
  ...[
    'dnat to 10.0.0.1',
    'dnat to fd00::1:80',
    'dnat to [10.0.0.1]:80',
    'dnat to [fd00::1]:80x',
    'dnat ip to 10.0.0.1:80',
    'dnat ip6 to numgen',
  ],
  ...[
    'numgen random mod 2 vmap { 0 : goto a, 2 : goto b }',
    'numgen random mod 2 vmap { 0 : goto a 1 : goto b }',
    'numgen random mod 1 vmap { }',
  ],
  ...[
    'numgen inc mod 1 vmap { 0 : goto a }',
    'numgen random mod 1 vmap { 0 : jump a }',
    'numgen random mod 1 offset 4 vmap { 0 : goto a }',
  ],
  ...['goto a"', 'goto é', 'goto a\\', 'goto a\nb', 'update a { ip saddr }', 'update @a { ip daddr }', 'update @a { ip saddr timeout 5s }'],
];

describe('the JSON spelling of a rule', () => {
  test.each(captureNames('nftables'))('renders back to the rule: %s', async capture => {
    for (const node of (await snapshotOf(capture)).nodes) {
      const rules = [...parseNftJson(node.read('nft.json') ?? '').tables.values()].flatMap(({chains}) =>
        [...chains.values()].flatMap(chain => chain.rules()),
      );
      const spelled = rules.filter(({text}) => jsonSpelling(text) !== null);
      expect(spelled.length).toBeGreaterThan(rules.length / 3);
      for (const {text} of spelled) expect(renderedBack(text)).toBe(text);
    }
  });

  test.each([29, 30, 31, 33, 34, 35, 36, 37])('is printed as kube-proxy 1.%i writes it', async minor => {
    const {api, nodes} = await snapshotOf('nftables/1.36');
    const [node] = nodes;
    if (node === undefined) throw new Error('the capture has no nodes');
    const overrides = {version: `v1.${minor}.0`};
    const all = (['IPv4', 'IPv6'] as const).flatMap(family => {
      const table = expectedTable({api, node, family, overrides});
      return table.ports.flatMap(item => [...table.objectsOf(item).chains.values()].flat());
    });
    const spelled = all.filter(text => jsonSpelling(text) !== null);
    expect(spelled.length).toBeGreaterThan(all.length / 2);
    for (const text of spelled) expect(renderedBack(text)).toBe(text);
  });

  test.each([...texts, ...invalid])('is printed unchanged or is invalid: %s', text => {
    if (jsonSpelling(text) !== null) expect(renderedBack(text)).toBe(text);
  });
});

function renderedBack(text: string): string {
  const {rule} = JSON.parse(`{"rule": {"handle": 1${jsonSpelling(text)}`) as {rule: JsonObject};
  return jsonRuleText(rule['expr'], rule['comment']);
}

describe('a chain in JSON has', () => {
  test('its own rules, and no others', async () => {
    const [node] = (await snapshotOf('nftables/1.33')).nodes;
    const chains = [...parseNftJson(node?.read('nft.json') ?? '').tables.values()].flatMap(table => [...table.chains.values()]);
    // One in five: each is compared with hundreds of changes.
    for (const chain of chains.filter((_, index) => index % 5 === 0)) {
      expect(chain.holds(textsOf(chain)), chain.name).toBe(true);
      for (const others of changesOf(textsOf(chain))) expect(chain.holds(others), others.join('\n')).toBe(false);
    }
  });

  test('rules whose JSON has other white space or another order of keys', () => {
    const chainOf = (rule: string): NftChain | undefined => parseNftJson(`{"nftables": [${rule}]}`).tables.get('ip t')?.chain('c');
    const goto = '"expr": [{"goto": {"target": "d"}}]';
    for (const rule of [
      `{"rule": {"family": "ip", "table": "t", "chain": "c", "handle": 12, ${goto}}}`,
      `{"rule":{"family":"ip","table":"t","chain":"c","handle":12,"expr":[{"goto":{"target":"d"}}]}}`,
      `{"rule":{"family":"ip","table":"t","chain":"c", "index": 5, "handle": 12, ${goto}}}`,
      `{"rule": {"family": "ip", "table": "t", "chain": "c", ${goto}, "handle": 12}}`,
    ]) {
      expect(chainOf(rule)?.holds(['goto d']), rule).toBe(true);
      expect(chainOf(rule)?.holds(['goto e']), rule).toBe(false);
      expect(chainOf(rule)?.holds(['goto d', 'goto d']), rule).toBe(false);
      expect(chainOf(rule)?.holds([]), rule).toBe(false);
    }
    const commented = chainOf(`{"rule": {"family": "ip", "table": "t", "chain": "c", "handle": 12, "comment": "x", ${goto}}}`);
    expect(commented?.holds(['goto d'])).toBe(false);
    expect(commented?.holds(['goto d comment "x"'])).toBe(true);
  });
});

function textsOf(chain: NftChain): readonly string[] {
  return chain.rules().map(({text}) => text);
}

/** A rule less, a rule more, two in the other order, and each rule with one character changed at a time. */
function changesOf(rules: readonly string[]): readonly (readonly string[])[] {
  const [first, second, ...rest] = rules;
  const swapped = first === undefined || second === undefined || first === second ? [] : [[second, first, ...rest]];
  const changed = rules.flatMap((text, index) =>
    Array.from(text, (character, at) => rules.with(index, text.slice(0, at) + (character === '1' ? '2' : '1') + text.slice(at + 1))),
  );
  return [...(rules.length === 0 ? [] : [rules.slice(1)]), [...rules, 'drop'], ...swapped, ...changed];
}
