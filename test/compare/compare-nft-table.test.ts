import {describe, expect, test} from 'vitest';
import {asNftExpectation} from '../../src/analyze/nftables/resolve-nft-version.ts';
import {compareNftTable} from '../../src/compare/compare-nft-table.ts';
import {families} from '../../src/model/address.ts';
import type {NftRuleset} from '../../src/model/nft-ruleset.ts';
import type {NodeDump} from '../../src/model/snapshot.ts';
import {formatNftRuleset} from '../rendered-nft-ruleset.ts';
import {parseNftJson} from '../../src/parse/nftables/nft-json.ts';
import {parseNftDump} from '../../src/parse/nftables/nft-dump.ts';
import {type Random, seededRandom} from '../bench/random.ts';
import {someOf} from '../cases.ts';
import {captureNames, snapshotOf} from '../fixtures.ts';
import {expectedTable} from '../nft-expectation.ts';

type Json = Record<string, unknown>;

interface Rule {
  chain: string;
  handle: number;
  comment?: string;
  expr: Json[];
}

/** One change of the objects of a dump. Returns false if there is nothing that it can change. */
type Change = (objects: Json[], random: Random) => boolean;

const changes: Readonly<Record<string, Change>> = {
  'a rule is missing': (objects, random) => withRule(objects, random, (_, at) => objects.splice(at, 1)),
  'a rule is there twice': (objects, random) => withRule(objects, random, (rule, at) => objects.splice(at, 0, {rule})),
  'two rules are in the other order': (objects, random) =>
    withRule(objects, random, (rule, at) => {
      const next = objects.findIndex((object, index) => index > at && ruleOf(object)?.chain === rule.chain);
      const [before, after] = [objects[at], objects[next]];
      if (before !== undefined && after !== undefined) [objects[at], objects[next]] = [after, before];
    }),
  'a rule has another statement': (objects, random) =>
    withRule(objects, random, ({expr}) => expr.splice(random.below(expr.length + 1), 0, {drop: null})),
  'a rule has a statement that nobody knows': (objects, random) =>
    withRule(objects, random, ({expr}) => expr.unshift({teleport: {to: 'x'}})),
  'a rule lacks a statement': (objects, random) =>
    withRule(objects, random, ({expr}) => expr.length > 1 && expr.splice(random.below(expr.length), 1)),
  'a rule has a counter': (objects, random) => withRule(objects, random, ({expr}) => expr.unshift({counter: {packets: 1, bytes: 60}})),
  'a rule has another handle': (objects, random) => withRule(objects, random, rule => (rule.handle = 1_000_000)),
  'a rule has another comment': (objects, random) => withRule(objects, random, rule => (rule.comment = 'x')),
  'one digit of a rule is another': (objects, random) =>
    withRule(objects, random, (rule, at) => {
      const digits = [...JSON.stringify(rule.expr).matchAll(/\d/g)];
      const {index = 0} = digits[random.below(digits.length)] ?? {};
      const text = JSON.stringify(rule.expr);
      if (digits.length > 0)
        objects[at] = {
          rule: {...rule, expr: JSON.parse(text.slice(0, index) + (text[index] === '1' ? '2' : '1') + text.slice(index + 1)) as Json[]},
        };
    }),
  'a rule is in another chain': (objects, random) => withRule(objects, random, rule => (rule.chain = `${rule.chain}0`)),
  'an element is missing': (objects, random) =>
    withElements(objects, random, elements => elements.splice(random.below(elements.length), 1)),
  'an element leads elsewhere': (objects, random) =>
    withElements(objects, random, elements => {
      const at = random.below(elements.length);
      const element = elements[at];
      elements[at] = Array.isArray(element) ? [element[0], {goto: {target: 'service-elsewhere'}}] : '192.0.2.99';
    }),
  'a set has another flag': (objects, random) =>
    withSet(objects, random, set => {
      set['flags'] = ['constant'];
    }),
  'a set has another type': (objects, random) =>
    withSet(objects, random, set => {
      set['type'] = 'ether_addr';
    }),
};

describe.each(['nftables/1.33', 'nftables/1.36'])('comparing %s in JSON finds what comparing it as text finds', capture => {
  test.each(Object.entries(changes))('where %s', async (_, change) => {
    const snapshot = await snapshotOf(capture);
    for (let seed = 0; seed < 4; seed++) {
      const random = seededRandom(seed);
      const node = random.pick(snapshot.nodes as [NodeDump, ...NodeDump[]]);
      const objects = (JSON.parse(node.read('nft.json')?.toString('utf8') ?? '') as {nftables: Json[]}).nftables;
      if (!change(objects, random)) continue;
      const ruleset = parseNftJson(printed(objects));
      const asText = parseNftDump(formatNftRuleset(ruleset));
      for (const family of families) {
        const expected = asNftExpectation(expectedTable({api: snapshot.api, node, family}));
        const differences = differencesOf(expected, ruleset);
        expect(differences, `seed ${seed}`).toEqual(differencesOf(expected, asText));
      }
    }
  });
});

test('all of these changes are differences but those of handles and comments', async () => {
  const {api, nodes} = await snapshotOf('nftables/1.33');
  const [node] = nodes;
  if (node === undefined) throw new Error('the capture has no nodes');
  const expected = families.map(family => asNftExpectation(expectedTable({api, node, family})));
  const countIn = (ruleset: NftRuleset): number => expected.reduce((sum, one) => sum + differencesOf(one, ruleset).differences.length, 0);
  const before = countIn(parseNftJson(node.read('nft.json') ?? ''));
  const isSeen = (change: Change, seed: number): boolean => {
    const objects = (JSON.parse(node.read('nft.json')?.toString('utf8') ?? '') as {nftables: Json[]}).nftables;
    change(objects, seededRandom(seed));
    return countIn(parseNftJson(printed(objects))) !== before;
  };
  const unseen = Object.entries(changes).filter(([, change]) => ![1, 2, 3, 4, 5].some(seed => isSeen(change, seed)));
  expect(unseen.map(([what]) => what)).toEqual(['a rule has another handle', 'a rule has another comment']);
});

test.each(someOf(captureNames('nftables')))('the rules of %s are the same in JSON and as text', async capture => {
  const {api, nodes} = await snapshotOf(capture);
  for (const node of nodes)
    for (const family of families) {
      const expected = asNftExpectation(expectedTable({api, node, family}));
      const [json, text] = [parseNftJson(node.read('nft.json') ?? ''), parseNftDump(node.read('nft.txt') ?? '')];
      expect(differencesOf(expected, json)).toEqual(differencesOf(expected, text));
    }
});

function differencesOf(expected: ReturnType<typeof asNftExpectation>, {tables}: NftRuleset) {
  const table = tables.get(expected.table);
  if (table === undefined) return {differences: ['no table'], chains: []};
  const {differences, unexpectedChains} = compareNftTable(expected, table);
  return {
    differences: differences.map(({kind, what, rule, owner}) => [
      kind,
      what,
      rule.chain,
      isUnknown.test(rule.text) ? rule.text.replaceAll(' ', '') : rule.text,
      owner?.names.base,
    ]),
    chains: unexpectedChains.map(({name}) => name),
  };
}

/** A text dump does not show the JSON of a statement that is kept as it is without blanks. */
const isUnknown = /teleport/;

/** As nft prints it. */
function printed(objects: readonly Json[]): string {
  const write = (value: unknown): string => {
    if (Array.isArray(value)) return `[${value.map(write).join(', ')}]`;
    if (typeof value !== 'object' || value === null) return JSON.stringify(value);
    return `{${Object.entries(value)
      .map(([key, part]) => `${JSON.stringify(key)}: ${write(part)}`)
      .join(', ')}}`;
  };
  return `${write({nftables: objects})}\n`;
}

function ruleOf(object: Json | undefined): Rule | undefined {
  return object?.['rule'] as Rule | undefined;
}

function withRule(objects: Json[], random: Random, change: (rule: Rule, at: number) => unknown): boolean {
  const places = objects.flatMap((object, at) => (ruleOf(object) === undefined ? [] : [at]));
  const at = places[random.below(places.length)] ?? -1;
  const rule = ruleOf(objects[at]);
  if (rule !== undefined) change(rule, at);
  return rule !== undefined;
}

function withSet(objects: readonly Json[], random: Random, change: (set: Json) => unknown): boolean {
  const sets = objects.flatMap(({set, map}) => (set === undefined && map === undefined ? [] : [(set ?? map) as Json]));
  const set = sets[random.below(sets.length)];
  if (set !== undefined) change(set);
  return set !== undefined;
}

function withElements(objects: readonly Json[], random: Random, change: (elements: unknown[]) => unknown): boolean {
  const filled = objects.filter(({set, map}) => ((set ?? map) as Json | undefined)?.['elem'] !== undefined);
  return withSet(filled, random, set => change(set['elem'] as unknown[]));
}
