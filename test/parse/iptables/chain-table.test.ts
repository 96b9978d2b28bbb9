import {describe, expect, test} from 'vitest';
import type {ChainsByName, Ruleset} from '../../../src/model/ruleset.ts';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';

const names = Array.from({length: 5000}, (_, number) => `KUBE-SEP-${number.toString(36).toUpperCase().padStart(16, '0')}`);

function dumpOf(rules: readonly string[], declared: readonly string[] = names): Ruleset {
  const text = ['*nat', ...declared.map(name => `:${name} - [0:0]`), ...rules, 'COMMIT', ''].join('\n');
  const [ruleset] = parseDumps(text);
  if (ruleset === undefined) throw new Error('no ruleset');
  return ruleset;
}

function natOf(ruleset: Ruleset): ChainsByName {
  const nat = ruleset.tables.get('nat');
  if (nat === undefined) throw new Error('no table nat');
  return nat.chains;
}

describe('the chains of a table', () => {
  const many = dumpOf(names.map(name => `-A ${name} -j RETURN`));

  test('are all found by name, however many there are', () => {
    const chains = natOf(many);
    expect(chains.size).toBe(names.length);
    expect(names.filter(name => chains.get(name)?.text() !== `-A ${name} -j RETURN`)).toEqual([]);
    expect([...chains.keys()]).toEqual(names);
  });

  test('have the order of the dump', () => {
    const chains = natOf(many);
    expect(names.map(name => chains.placeOf(name))).toEqual(names.map((_, place) => place));
    expect(chains.textAt(7)).toBe(`-A ${names[7]} -j RETURN`);
    expect(chains.at(names.length)).toBeUndefined();
  });

  test.each(['', 'KUBE-SEP', `${names[0]}A`, 'KUBE-SEP-日本語', 'x'.repeat(500)])('of the name %j there is none', name => {
    expect(natOf(many).get(name)).toBeUndefined();
    expect(natOf(many).placeOf(name)).toBe(-1);
    expect(natOf(many).has(name)).toBe(false);
  });

  test('are the same object in every request', () => {
    const [first = ''] = names;
    expect(natOf(many).get(first)).toBe(many.chain('nat', first));
  });

  test('are found by prefix', () => {
    const chains = natOf(dumpOf([], ['KUBE-SVC-A', 'PREROUTING', 'KUBE-SVC', 'KUBE-SVC-B', 'XKUBE-SVC-C']));
    expect([...chains.startingWith('KUBE-SVC-')].map(({name}) => name)).toEqual(['KUBE-SVC-A', 'KUBE-SVC-B']);
    expect([...chains.startingWith('NONE'), ...chains.startingWith('KUBE-XLB-')]).toEqual([]);
    expect([...chains.startingWith('KUBE-SVC-B', 'PRE')].map(({name}) => name)).toEqual(['PREROUTING', 'KUBE-SVC-B']);
    const inARow = natOf(dumpOf([], ['KUBE-SVC-A', 'KUBE-SVC-B', 'KUBE-SVC-C', 'OTHER', 'MORE']));
    expect([...inARow.startingWith('KUBE-SVC-')].map(({name}) => name)).toEqual(['KUBE-SVC-A', 'KUBE-SVC-B', 'KUBE-SVC-C']);
    expect([...inARow.notStartingWith('KUBE-SVC-')].map(({name}) => name)).toEqual(['OTHER', 'MORE']);
    expect([...chains.notStartingWith('KUBE-SVC-', 'PRE')].map(({name}) => name)).toEqual(['KUBE-SVC', 'XKUBE-SVC-C']);
  });

  test('have their rules in order, even with those of other chains in between', () => {
    const ruleset = dumpOf(['-A B -j X', '-A A -j Y', '-A A -j Z', '-A B -j V', '-A B -j W'], ['A', 'B']);
    expect(ruleset.chain('nat', 'B')?.text()).toBe('-A B -j X\n-A B -j V\n-A B -j W');
    expect(
      ruleset
        .chain('nat', 'B')
        ?.rules()
        .map(({line}) => line),
    ).toEqual([4, 7, 8]);
    expect(ruleset.chain('nat', 'B')?.ruleCount).toBe(3);
    expect(ruleset.ruleCount).toBe(5);
  });

  test('include a chain that no line declares', () => {
    const ruleset = dumpOf(['-A A -j X', '-A NEW -j Y', '-A A -j Z'], ['A']);
    expect([...natOf(ruleset).keys()]).toEqual(['A', 'NEW']);
    expect(ruleset.chain('nat', 'NEW')?.text()).toBe('-A NEW -j Y');
  });
});

describe('forgetting', () => {
  test('drops the rules that were parsed since then, and no others', () => {
    const ruleset = dumpOf(['-A A -j X', '-A B -j Y', '-A SHARED -j Z'], ['A', 'B', 'SHARED']);
    const rulesOf = (name: string): unknown => ruleset.chain('nat', name)?.rules();
    const before = rulesOf('A');
    const during = ruleset.forgetting(
      name => name !== 'SHARED',
      () => ({a: rulesOf('A'), b: rulesOf('B'), shared: rulesOf('SHARED')}),
    );
    expect(during.a).toBe(before);
    expect(rulesOf('A')).toBe(before);
    expect(rulesOf('SHARED')).toBe(during.shared);
    expect(rulesOf('B')).not.toBe(during.b);
    expect(rulesOf('B')).toEqual(during.b);
  });
});
