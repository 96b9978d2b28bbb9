import {UnreadableText} from '../../../src/model/text.ts';
import {attempt} from '../../../src/parse/attempt.ts';
import {describe, expect, test} from 'vitest';
import type {NftChain, NftTable} from '../../../src/model/nft-ruleset.ts';
import {parseNftJson} from '../../../src/parse/nftables/nft-json.ts';
import {parseNftDump} from '../../../src/parse/nftables/nft-dump.ts';
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
    expect(holdsJson(tableOf(`${head}${goto}`), [goto])).toBe(true);
    expect(holdsJson(tableOf(`${head}${goto}, ${head}34567${jump}`), [goto, jump])).toBe(true);
    expect(holdsJson(tableOf('{"chain": {"family": "ip", "table": "t", "name": "c", "handle": 5}}'), [])).toBe(true);
  });

  test('not with a rule more, a rule less, another rule or another order', () => {
    const table = tableOf(`${head}${goto}, ${head}${jump}`);
    expect(holdsJson(table, [goto, jump])).toBe(true);
    for (const others of [[], [goto], [jump], [jump, goto], [goto, goto], [goto, jump, jump]]) expect(holdsJson(table, others)).toBe(false);
  });

  test('not with any byte of a rule changed', () => {
    const rule = `${head}${goto}`;
    for (let at = 0; at < rule.length; at++)
      for (const byte of ['1', '"', ' ', '}', '\\'])
        if (rule[at] !== byte) {
          const changed = rule.slice(0, at) + byte + rule.slice(at + 1);
          // Only the digits of the handle may be any.
          const isHandle = /"handle": \d\d$/.test(rule.slice(0, at + 1)) || /"handle": \d$/.test(rule.slice(0, at + 1));
          const held = attempt(() => holdsJson(tableOf(changed), [goto]) ?? false);
          // What is no JSON was damaged, and holds nothing that could be compared.
          if (held instanceof Error) expect(held, changed).toBeInstanceOf(UnreadableText);
          else expect(held, changed).toBe(isHandle && byte === '1');
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
    expect(holdsJson(tableOf(rule), [goto]) ?? false).toBe(false);
  });

  test('not in a text dump', () => {
    const text = 'table ip t {\n\tchain c {\n\t\tgoto d\n\t}\n}\n';
    const chains = parseNftDump(text).tables.get('ip t')?.chains;
    expect(chains?.get('c')?.holds(['goto d'])).toBe(true);
    expect(chains?.checkJson()).toBe(null);
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

describe('rules of one chain that do not follow one another', () => {
  const rule = (chain: string, target: string): string =>
    `{"rule": {"family": "ip", "table": "t", "chain": "${chain}", "handle": 1, "expr": [{"goto": {"target": "${target}"}}]}}`;
  const set = '{"set": {"family": "ip", "name": "s", "table": "t", "type": "ipv4_addr", "handle": 1}}';

  test.each([
    ['with rules of another chain between them', `${rule('c', 'd')}, ${rule('b', 'x')}, ${rule('c', 'e')}`],
    ['with a set between them', `${rule('c', 'd')}, ${set}, ${rule('c', 'e')}`],
    ['with an object of an unknown kind between them', `${rule('c', 'd')}, {"foo": 1}, ${rule('c', 'e')}`],
    ['in two documents', `${rule('c', 'd')}]}\n{"nftables": [${rule('c', 'e')}`],
    ['in two documents, of which the second begins with a comma', `${rule('c', 'd')}]}, {"nftables": [, ${rule('c', 'e')}`],
    ['on lines of their own', `${rule('c', 'd')},\n    ${rule('c', 'e')}`],
    ['in other white space', `${rule('c', 'd')}, ${rule('c', 'e').replaceAll(': ', ':  ')}`],
  ])('%s are all read, and compared as text', (_, objects) => {
    const table = tableOf(objects);
    expect(
      table?.chains
        .get('c')
        ?.rules()
        .map(({text, line}) => [text, line]),
    ).toEqual([
      ['goto d', 1],
      ['goto e', 2],
    ]);
    expect(table?.chains.get('c')?.ruleCount).toBe(2);
    expect(table?.chains.ruleCount).toBe(objects.includes('"b"') ? 3 : 2);
    expect(holdsJson(table, [goto, goto.replace('"d"', '"e"')])).toBe(false);
    expect(holdsJson(table, [goto])).toBe(false);
  });

  test('three of two chains by turns are counted and read in their order', () => {
    const table = tableOf(['c', 'b', 'c', 'c', 'b', 'c'].map((chain, index) => rule(chain, `x${index}`)).join(', '));
    expect(table?.chains.get('c')?.text()).toBe('goto x0\ngoto x2\ngoto x3\ngoto x5');
    expect(table?.chains.get('b')?.text()).toBe('goto x1\ngoto x4');
    expect([0, 1].map(place => table?.chains.ruleCountAt(place))).toEqual([4, 2]);
  });
});

describe('a chain is found by its name', () => {
  test('among thousands, and none by another name', () => {
    const names = Array.from({length: 3000}, (_, index) => `endpoint-${index}`);
    const objects = names.map(name => `{"chain": {"family": "ip", "table": "t", "name": "${name}", "handle": 7}}`);
    const chains = tableOf(objects.join(', '))?.chains;
    expect([...(chains?.keys() ?? [])]).toEqual(names);
    expect(names.map(name => chains?.placeOf(name))).toEqual(names.map((_, index) => index));
    expect(names.toReversed().map(name => chains?.get(name)?.name)).toEqual(names.toReversed());
    for (const other of ['', 'endpoint', 'endpoint-', 'endpoint-3000', 'endpoint-1 ', 'endpoint-é', 'x'.repeat(500)]) {
      expect(chains?.placeOf(other), other).toBe(-1);
      expect(chains?.has(other), other).toBe(false);
    }
  });

  test('that JSON escapes where it is declared, or is not ASCII', () => {
    const chain = (name: string): string => `{"chain": {"family": "ip", "table": "t", "name": "${name}", "handle": 7}}`;
    const rule = `{"rule": {"family": "ip", "table": "t", "chain": "c", "handle": 1, "expr": [{"goto": {"target": "d"}}]}}`;
    const chains = tableOf([chain('\\u0063'), chain('é'), chain('\\u00e9'), chain('a\\\\b'), rule].join(', '))?.chains;
    expect([...(chains?.keys() ?? [])]).toEqual(['c', 'é', 'a\\b']);
    expect(chains?.get('c')?.text()).toBe('goto d');
    expect(chains?.placeOf('é')).toBe(1);
    // The bytes of é, each read as a character.
    expect(chains?.placeOf('Ã©')).toBe(-1);
  });
});

test('a byte that is not UTF-8 is not the character of its number', () => {
  const rule = `${head}${goto.replace('"d"', '"é"')}`;
  const table = parseNftJson(Buffer.from(`{"nftables": [${rule}]}`, 'latin1')).tables.get('ip t');
  expect(table?.chains.get('c')?.ruleCount).toBe(1);
  expect(holdsJson(table, [goto.replace('"d"', '"é"')])).toBe(false);
});

function tableOf(rules: string): NftTable | undefined {
  return parseNftJson(`{"nftables": [${rules}]}`).tables.get('ip t');
}

function chainOf(rules: string): NftChain | undefined {
  return tableOf(rules)?.chains.get('c');
}

/** Whether chain `c` certainly holds these rules. Each is given whole and in pieces. */
function holdsJson(table: NftTable | undefined, rules: readonly string[]): boolean {
  const [found, ...others] = [1000, 1, 7].map(length => {
    const check = table?.chains.checkJson();
    check?.chain('c');
    for (const rule of rules) {
      const pieces = rule.match(new RegExp(`.{1,${length}}`, 'gs')) ?? [];
      check?.rule([...pieces, 'left over from the rule before'], pieces.length);
    }
    const isHeld = check?.takeOthers().length === 0;
    expect(check?.isHeld(table?.chains.placeOf('c') ?? -1) ?? false).toBe(isHeld);
    return isHeld;
  });
  expect(others).toEqual([found, found]);
  return found === true;
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
