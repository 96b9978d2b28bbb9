import {describe, expect, test} from 'vitest';
import {parseNftJson} from '../../../src/parse/nftables/nft-json.ts';
import {seededRandom} from '../../bench/random.ts';
import {captureNames, snapshotOf} from '../../fixtures.ts';

/** As nft prints objects. */
function dumpOf(objects: readonly string[]): string {
  return `{"nftables": [${objects.join(', ')}]}`;
}

/** The same without white space. */
function compactDumpOf(objects: readonly string[]): string {
  return `{"nftables":[${objects.map(text => JSON.stringify(JSON.parse(text))).join(',')}]}`;
}

function contentOf(dump: string): unknown {
  const {tables, ruleCount, chainCount, strays, truncation} = parseNftJson(dump);
  const content = [...tables.values()].map(({id, chains, sets, others, baseChains}) => ({
    ...{id, sets: [...sets], others: others.map(text => JSON.parse(text) as unknown), hooks: baseChains.map(({name}) => name)},
    chains: [...chains.values()].map(chain => {
      expect(chain.rules().length, chain.name).toBe(chain.ruleCount);
      return [chain.name, chain.ruleCount, chain.base, chain.text()];
    }),
    places: [...chains.keys()].map(name => chains.placeOf(name)),
  }));
  return {content, ruleCount, chainCount, strays: strays.length, isTruncated: truncation !== null};
}

const rule = (chain: string, target: string, family = 'ip'): string =>
  `{"rule": {"family": "${family}", "table": "t", "chain": "${chain}", "handle": 12, "expr": [{"goto": {"target": "${target}"}}]}}`;
const chain = (name: string, family = 'ip'): string => `{"chain": {"family": "${family}", "table": "t", "name": "${name}", "handle": 7}}`;

describe('consecutive rules are read as if each were sought byte by byte', () => {
  test.each([
    ['a set', '{"set": {"family": "ip", "name": "s", "table": "t", "type": "ipv4_addr", "handle": 2, "elem": ["10.0.0.1"]}}'],
    [
      'a map whose end looks like that of a rule',
      '{"map": {"family": "ip", "name": "m", "table": "t", "type": "mark", "map": "verdict", "elem": []}}',
    ],
    ['a chain', chain('e')],
    [
      'a base chain',
      '{"chain": {"family": "ip", "table": "t", "name": "b", "handle": 1, "type": "nat", "hook": "output", "prio": 0, "policy": "drop"}}',
    ],
    ['a table', '{"table": {"family": "ip6", "name": "t", "handle": 3}}'],
    ['a counter', '{"counter": {"family": "ip", "name": "n", "table": "t", "handle": 4, "packets": 0, "bytes": 0}}'],
    ['the version of nft', '{"metainfo": {"version": "1.0.6", "json_schema_version": 1}}'],
    ['a rule of another family', rule('c', 'd', 'ip6')],
    ['a rule of another table', rule('c', 'd').replace('"t"', '"u"')],
    ['a rule of a chain with a longer name', rule('cc', 'd')],
    ['a rule of a chain with a name that JSON escapes', rule('c\\"', 'd')],
    ['a rule of a chain whose name is not ASCII', rule('é', 'd')],
    ['a rule that names a family', rule('c', 'd').replace('{"goto"', '{"dnat": {"family": "ip", "addr": "10.0.0.1"}}, {"goto"')],
    ['a rule with a list', rule('c', 'd').replace('{"goto"', '{"log": {"flags": ["all"]}}, {"goto"')],
    ['a rule without statements', rule('c', 'd').replace(/\[.*\]/, '[]')],
    [
      'a rule with a comment that looks like another rule',
      rule('c', 'd').replace('"expr"', '"comment": "]}}, {\\"rule\\": {\\"family", "expr"'),
    ],
    ['a rule with its comment at the end', rule('c', 'd').replace(']}}', '], "comment": "x"}}')],
  ])('with %s among them', (_, object) => {
    for (const objects of [
      [rule('c', 'd'), object, rule('c', 'e')],
      [chain('c'), chain('d'), rule('c', 'd'), rule('c', 'x'), object, rule('c', 'e'), rule('c', 'f'), rule('d', 'e')],
      [chain('d'), rule('c', 'd'), object, object, rule('d', 'e'), object, rule('c', 'e'), object],
      [chain('c'), object, chain('d'), rule('d', 'e'), rule('c', 'e'), chain('d'), rule('c', 'f')],
    ])
      expect(contentOf(dumpOf(objects)), objects.join('\n')).toEqual(contentOf(compactDumpOf(objects)));
  });

  test.each(captureNames('nftables'))('of capture %s, with objects left out, doubled and moved', async capture => {
    const [node] = (await snapshotOf(capture)).nodes;
    const {nftables} = JSON.parse(node?.read('nft.json')?.toString() ?? '{"nftables": []}') as {nftables: readonly unknown[]};
    const [first = '', ...rest] = nftables.map(spaced);
    const objects = [first, ...rest] as const;
    const random = seededRandom(1);
    for (let round = 0; round < 6; round++) {
      const changed: string[] = [...objects];
      for (let change = 0; change < 12 * round; change++) {
        const [taken = ''] = changed.splice(random.below(changed.length), random.chance(0.7) ? 1 : 0);
        const again = taken === '' ? random.pick(objects) : taken;
        if (random.chance(0.7)) changed.splice(random.below(changed.length), 0, again);
      }
      expect(contentOf(dumpOf(changed))).toEqual(contentOf(compactDumpOf(changed)));
    }
  });
});

test('a dump that is truncated anywhere has all complete rules before the end, and says so', () => {
  const objects = [chain('c'), chain('d'), rule('c', 'd'), rule('c', 'e'), rule('d', 'e'), rule('d', 'f', 'ip6')];
  const dump = dumpOf(objects);
  for (let length = dump.indexOf('{"chain"') + 1; length < dump.length - 2; length++) {
    const text = dump.slice(0, length);
    const {ruleCount, truncation} = parseNftJson(text);
    const complete = objects.filter(object => text.includes(object) && object.startsWith('{"rule"'));
    expect(ruleCount, text).toBe(complete.length);
    expect(truncation, text).not.toBe(null);
  }
});

test('a dump that lost bytes inside of a rule is read up to that rule, and says so', () => {
  const rules = [rule('c', 'd'), rule('c', 'e'), rule('d', 'e'), rule('d', 'f')];
  const whole = dumpOf([chain('c'), chain('d'), ...rules]);
  const damaged = rule('d', 'e').replace('"e"}}', '');
  const {ruleCount, truncation} = parseNftJson(whole.replace(rule('d', 'e'), damaged));
  expect({ruleCount, truncation}).toEqual({ruleCount: 2, truncation: {table: 'ip t', line: 1}});
});

/** As nft prints it: a space after each colon and comma. */
function spaced(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spaced).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).map(([name, field]) => `${JSON.stringify(name)}: ${spaced(field)}`);
  return `{${fields.join(', ')}}`;
}
