import {describe, expect, test} from 'vitest';
import type {NftDumpedChain} from '../../../src/model/nft-ruleset.ts';
import {parseNftJson} from '../../../src/parse/nftables/nft-json.ts';
import {parseNftText} from '../../../src/parse/nftables/nft-text.ts';
import {snapshotOf} from '../../fixtures.ts';

describe('a chain holds', () => {
  test('its own rules, and no others', async () => {
    const [node] = (await snapshotOf('nftables/1.33')).nodes;
    const chains = [...parseNftJson(node?.read('nft.json') ?? '').tables.values()].flatMap(table => [...table.chains.values()]);
    // One in five: each is compared with hundreds of changes.
    for (const chain of chains.filter((_, index) => index % 5 === 0)) {
      const texts = chain.rules().map(({text}) => text);
      expect(chain.holds(texts), chain.name).toBe(true);
      for (const others of changesOf(texts)) expect(chain.holds(others), others.join('\n')).toBe(false);
    }
  });
});

const goto = ', "expr": [{"goto": {"target": "d"}}]}}';
const jump = ', "expr": [{"jump": {"target": "e"}}]}}';
const head = '{"rule": {"family": "ip", "table": "t", "chain": "c", "handle": 12';

describe('a chain in JSON holds the expected JSON', () => {
  test('whatever the handles', () => {
    expect(chainOf(`${head}${goto}`)?.holdsJson([goto])).toBe(true);
    expect(chainOf(`${head}${goto}, ${head}34567${jump}`)?.holdsJson([goto, jump])).toBe(true);
    expect(chainOf('{"chain": {"family": "ip", "table": "t", "name": "c", "handle": 5}}')?.holdsJson([])).toBe(true);
  });

  test('not with a rule more, a rule less, another rule or another order', () => {
    const chain = chainOf(`${head}${goto}, ${head}${jump}`);
    expect(chain?.holdsJson([goto, jump])).toBe(true);
    for (const others of [[], [goto], [jump], [jump, goto], [goto, goto], [goto, jump, jump]]) expect(chain?.holdsJson(others)).toBe(false);
  });

  test('not with any byte of a rule changed', () => {
    const rule = `${head}${goto}`;
    for (let at = 0; at < rule.length; at++)
      for (const byte of ['1', '"', ' ', '}', '\\'])
        if (rule[at] !== byte) {
          const changed = rule.slice(0, at) + byte + rule.slice(at + 1);
          // Only the digits of the handle may be any.
          const isHandle = /"handle": \d\d$/.test(rule.slice(0, at + 1)) || /"handle": \d$/.test(rule.slice(0, at + 1));
          expect(chainOf(changed)?.holdsJson([goto]) ?? false, changed).toBe(isHandle && byte === '1');
        }
  });

  test.each([
    ['a comment', `${head}, "comment": "x"${goto}`],
    ['an index', head.replace('"handle"', '"index": 5, "handle"') + goto],
    ['a handle that is text', head.replace('12', '"12"') + goto],
    ['no handle', head.replace('12', '') + goto],
    ['a counter', `${head}, "expr": [{"counter": {"packets": 1, "bytes": 60}}, {"goto": {"target": "d"}}]}}`],
    ['an unknown statement', `${head}, "expr": [{"teleport": {"to": "d"}}, {"goto": {"target": "d"}}]}}`],
    ['two lists of statements, of which the last counts', `${head}, "expr": [{"drop": null}]${goto}`],
    ['two handles', `${head}, "handle": 13${goto}`],
    ['two chains, of which the first is read', head.replace('"handle"', '"chain": "b", "handle"') + goto],
    ['other white space', `${head}${goto}`.replaceAll(': ', ':')],
    ['another family', `${head.replace('"ip"', '"ip6"')}${goto}`],
    ['another table', `${head.replace('"t"', '"u"')}${goto}`],
  ])('not with %s', (_, rule) => {
    expect(chainOf(rule)?.holdsJson([goto]) ?? false).toBe(false);
  });

  test('not in a text dump', () => {
    const text = 'table ip t {\n\tchain c {\n\t\tgoto d\n\t}\n}\n';
    const chain = parseNftText(text).tables.get('ip t')?.chains.get('c');
    expect(chain?.holds(['goto d'])).toBe(true);
    expect(chain?.holdsJson([goto])).toBe(false);
    expect(chain?.holdsJson([])).toBe(false);
  });
});

describe('rules are read as text', () => {
  test('whose JSON has other white space, another order of keys, or a comment', () => {
    const statements = '"expr": [{"goto": {"target": "d"}}]';
    for (const rule of [
      `${head}, ${statements}}}`,
      `{"rule":{"family":"ip","table":"t","chain":"c","handle":12,${statements}}}`,
      `{"rule":{"family":"ip","table":"t","chain":"c", "index": 5, "handle": 12, ${statements}}}`,
      `{"rule": {"family": "ip", "table": "t", "chain": "c", ${statements}, "handle": 12}}`,
    ]) {
      expect(chainOf(rule)?.holds(['goto d']), rule).toBe(true);
      expect(chainOf(rule)?.holds(['goto e']), rule).toBe(false);
      expect(chainOf(rule)?.holds(['goto d', 'goto d']), rule).toBe(false);
      expect(chainOf(rule)?.holds([]), rule).toBe(false);
    }
    const commented = chainOf(`${head}, "comment": "x", ${statements}}}`);
    expect(commented?.holds(['goto d'])).toBe(false);
    expect(commented?.holds(['goto d comment "x"'])).toBe(true);
  });

  test('of each chain, however the names follow one another', () => {
    const ruleOf = (chain: string, target: string): string =>
      `{"rule": {"family": "ip", "table": "t", "chain": "${chain}", "handle": 1, "expr": [{"goto": {"target": "${target}"}}]}}`;
    const chain = (name: string): string => `{"chain": {"family": "ip", "table": "t", "name": "${name}", "handle": 7}}`;
    const odd = 'a\\"b';
    const hook =
      '{"chain": {"family": "ip", "table": "t", "name": "x", "handle": 1, "type": "nat", "hook": "output", "prio": -100, "policy": "accept"}}';
    const names = ['c', 'cc', 'x', 'é', 'c c', ''];
    const objects = [
      ...names.map(chain),
      hook,
      chain(odd),
      ...names.map(name => ruleOf(name, `to ${name}`)),
      ruleOf('cc', 'again'),
      ruleOf('c', 'c'),
    ];
    const table = parseNftJson(`{"nftables": [${objects.join(', ')}]}`).tables.get('ip t');
    expect([...(table?.chains.keys() ?? [])]).toEqual([...names, 'a"b']);
    expect(table?.chains.get('x')?.base?.hook).toBe('output');
    expect(table?.baseChains.length).toBe(1);
    expect(table?.chains.get('cc')?.text()).toBe('goto to cc\ngoto again');
    expect(table?.chains.get('c')?.text()).toBe('goto to c\ngoto c');
    expect(table?.chains.get('é')?.text()).toBe('goto to é');
    expect(table?.chains.get('')?.text()).toBe('goto to ');
  });
});

function chainOf(rules: string): NftDumpedChain | undefined {
  return parseNftJson(`{"nftables": [${rules}]}`).tables.get('ip t')?.chains.get('c');
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
