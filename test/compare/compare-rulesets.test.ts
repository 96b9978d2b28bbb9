import {describe, expect, test} from 'vitest';
import {chainFound, compareRulesets, type RulesetExpectation} from '../../src/compare/compare-rulesets.ts';
import type {Ruleset} from '../../src/model/ruleset.ts';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';

type Shared = readonly (readonly [place: string, rule: string])[];

/** An owner called by its name, with chains of its own and rules in shared chains. */
interface Owner {
  readonly name: string;
  readonly own?: Readonly<Record<string, readonly string[]>>;
  readonly shared?: Shared;
}

interface Wanted {
  readonly owners?: readonly Owner[];
  readonly baseRules?: Readonly<Record<string, readonly string[]>>;
}

function expectation({owners = [], baseRules = {}}: Wanted): RulesetExpectation<Owner> {
  return {
    owners,
    rulesOf: ({own = {}, shared = []}) => ({
      own: new Map(Object.entries(own).map(([name, rules]) => [name, rules.map(rule => `-A ${name} ${rule}`).join('\n')])),
      shared: shared.map(([place, text]) => ({table: place.split('/')[0] ?? '', chain: place.split('/')[1] ?? '', text})),
    }),
    baseRules: () => new Map(Object.entries(baseRules)),
    open: new Set(['nat/PREROUTING']),
    unordered: new Set(['nat/KUBE-SERVICES', 'filter/KUBE-SERVICES']),
  };
}

/** A dump with these rules, each `table/chain rule`. */
function dump(...rules: readonly string[]): Ruleset {
  const tables = Map.groupBy(rules, rule => rule.split('/')[0] ?? '');
  const text = [...tables].map(([table, list]) => {
    const chains = [...new Set(list.map(rule => rule.split(/[/ ]/)[1] ?? ''))];
    const declared = chains.map(chain => `:${chain} ${chain === 'PREROUTING' ? 'ACCEPT' : '-'} [0:0]`);
    return [`*${table}`, ...declared, ...list.map(rule => `-A ${rule.slice(table.length + 1)}`), 'COMMIT', ''].join('\n');
  });
  return parseDumps(text.join('') || '*nat\nCOMMIT\n')[0] as Ruleset;
}

/** The differences in short: kind, place, rule and owner. */
const differences = (wanted: Wanted, actual: Ruleset) =>
  compareRulesets(expectation(wanted), actual).differences.map(({kind, rule: {table, chain, text}, owner}) =>
    [kind, `${table}/${chain}`, text.slice(`-A ${chain} `.length), owner?.name ?? '-'].join(' | '),
  );

describe('a chain of one owner', () => {
  const web: Owner = {name: 'web', own: {SVC: ['-s 10.0.0.1/32 -j A', '-j B', '-j C']}};
  const at = (...rules: readonly string[]) => differences({owners: [web]}, dump(...rules.map(rule => `nat/SVC ${rule}`)));

  test('with the expected text has no difference', () => {
    expect(at('-s 10.0.0.1/32 -j A', '-j B', '-j C')).toEqual([]);
  });

  test('with the same rules in another spelling has none', () => {
    expect(at('-s 10.0.0.1 -m comment --comment "something else" -j A', '-j B', '-j C')).toEqual([]);
  });

  test('without a rule has a missing one', () => {
    expect(at('-s 10.0.0.1/32 -j A', '-j C')).toEqual(['missing | nat/SVC | -j B | web']);
  });

  test('with another rule has an extra one', () => {
    expect(at('-s 10.0.0.1/32 -j A', '-j X', '-j B', '-j C')).toEqual(['extra | nat/SVC | -j X | web']);
  });

  test('with a changed rule has an extra and a missing one', () => {
    expect(at('-s 10.0.0.2/32 -j A', '-j B', '-j C')).toEqual([
      'extra | nat/SVC | -s 10.0.0.2/32 -j A | web',
      'missing | nat/SVC | -s 10.0.0.1/32 -j A | web',
    ]);
  });

  test('with a rule twice has a duplicate', () => {
    expect(at('-s 10.0.0.1/32 -j A', '-j B', '-j B', '-j C')).toEqual(['duplicate | nat/SVC | -j B | web']);
  });

  test('in another order is reported once, at the first rule that comes too late', () => {
    expect(at('-j C', '-j B', '-s 10.0.0.1/32 -j A')).toEqual(['reordered | nat/SVC | -j B | web']);
  });

  test('that is missing lacks all its rules', () => {
    expect(differences({owners: [web]}, dump())).toEqual([
      'missing | nat/SVC | -s 10.0.0.1/32 -j A | web',
      'missing | nat/SVC | -j B | web',
      'missing | nat/SVC | -j C | web',
    ]);
  });

  test('names the line of an actual rule, and none of a missing one', () => {
    const actual = dump('nat/SVC -s 10.0.0.1/32 -j A', 'nat/SVC -j X');
    expect(compareRulesets(expectation({owners: [web]}), actual).differences.map(({kind, rule}) => [kind, rule.line])).toEqual([
      ['extra', 4],
      ['missing', 0],
      ['missing', 0],
    ]);
  });

  test('may be expected to contain the same rule twice', () => {
    const twice: Owner = {name: 'web', own: {FW: ['-j A', '-j A']}};
    const of = (...rules: readonly string[]) => differences({owners: [twice]}, dump(...rules.map(rule => `nat/FW ${rule}`)));
    expect(of('-j A', '-j A')).toEqual([]);
    expect(of('-m comment --comment x -j A', '-j A')).toEqual([]);
    expect(of('-j A')).toEqual(['missing | nat/FW | -j A | web']);
    expect(of('-j A', '-j A', '-j A')).toEqual(['duplicate | nat/FW | -j A | web']);
  });
});

describe('a shared chain', () => {
  const place = 'nat/KUBE-SERVICES';
  const web: Owner = {
    name: 'web',
    shared: [
      [place, '-d 10.96.0.1/32 -j W1'],
      [place, '-d 10.96.0.2/32 -j W2'],
    ],
  };
  const api: Owner = {name: 'api', shared: [[place, '-d 10.96.0.3/32 -j A1']]};
  const wanted: Wanted = {owners: [web, api], baseRules: {[place]: ['-j LAST']}};
  const [w1, w2, a1] = ['-d 10.96.0.1/32 -j W1', '-d 10.96.0.2/32 -j W2', '-d 10.96.0.3/32 -j A1'];
  const at = (...rules: readonly string[]) => differences(wanted, dump(...rules.map(rule => `${place} ${rule}`)));

  test('may contain the rules of its owners in any order between them', () => {
    expect(at(w1, w2, a1, '-j LAST')).toEqual([]);
    expect(at(a1, w1, w2, '-j LAST')).toEqual([]);
    expect(at(w1, a1, w2, '-j LAST')).toEqual([]);
  });

  test('contains the rules of one owner in their order', () => {
    expect(at(w2, a1, w1, '-j LAST')).toEqual([`reordered | ${place} | ${w1} | web`]);
  });

  test('contains rules without an owner at its end', () => {
    expect(at(w1, w2, '-j LAST', a1)).toEqual([`reordered | ${place} | ${a1} | api`]);
  });

  test('has missing rules, each with its owner', () => {
    expect(at(w1, w2)).toEqual([`missing | ${place} | ${a1} | api`, `missing | ${place} | -j LAST | -`]);
  });

  test('has unexpected rules as extra ones', () => {
    expect(at(w1, w2, '-d 10.96.9.9/32 -j OLD', a1, '-j LAST')).toEqual([`extra | ${place} | -d 10.96.9.9/32 -j OLD | -`]);
  });

  test('with a rule twice has a duplicate, also in another spelling', () => {
    expect(at(w1, w2, a1, a1, '-j LAST')).toEqual([`duplicate | ${place} | ${a1} | -`]);
    expect(at(w1, '-d 10.96.0.1 -j W1', w2, a1, '-j LAST')).toHaveLength(1);
  });

  test('may be expected to contain the same rule more than once, as with an external IP that is listed twice', () => {
    const repeated: Wanted = {owners: [{name: 'web', shared: [w1, w2, w1, w2].map(rule => [place, rule] as const)}, api]};
    const found = (...rules: readonly string[]) => differences(repeated, dump(...rules.map(rule => `${place} ${rule}`)));
    expect(found(w1, w2, a1, w1, w2)).toEqual([]);
    expect(found(w1, w1, w2, w2, a1)).toEqual([`reordered | ${place} | ${w2} | web`]);
    expect(found(w1, w2, a1)).toEqual([`missing | ${place} | ${w1} | web`, `missing | ${place} | ${w2} | web`]);
    expect(found(w1, w2, w1, w2, w1, a1)).toEqual([`duplicate | ${place} | ${w1} | -`]);
    expect(found(w2, w2)).toEqual([
      `missing | ${place} | ${w1} | web`,
      `missing | ${place} | ${w1} | web`,
      `missing | ${place} | ${a1} | api`,
    ]);
  });

  test('with a rule in another spelling has no difference', () => {
    expect(at('-d 10.96.0.1 -m comment --comment "a b" -j W1', w2, a1, '-j LAST')).toEqual([]);
  });

  test('that should be empty has only extra rules', () => {
    const empty: Wanted = {baseRules: {'filter/KUBE-SERVICES': []}};
    expect(differences(empty, dump('filter/KUBE-SERVICES -d 10.96.0.1/32 -j REJECT'))).toEqual([
      'extra | filter/KUBE-SERVICES | -d 10.96.0.1/32 -j REJECT | -',
    ]);
    expect(differences(empty, dump())).toEqual([]);
  });
});

describe('a chain of the base rules', () => {
  const wanted: Wanted = {baseRules: {'nat/KUBE-POSTROUTING': ['-j ONE', '-j TWO', '-j THREE']}};
  const at = (...rules: readonly string[]) => differences(wanted, dump(...rules.map(rule => `nat/KUBE-POSTROUTING ${rule}`)));

  test('contains its rules in their order', () => {
    expect(at('-j ONE', '-j TWO', '-j THREE')).toEqual([]);
    expect(at('-j TWO', '-j ONE', '-j THREE')).toEqual(['reordered | nat/KUBE-POSTROUTING | -j ONE | -']);
    expect(at('-j ONE', '-j THREE')).toEqual(['missing | nat/KUBE-POSTROUTING | -j TWO | -']);
    expect(at('-j ONE', '-j X', '-j TWO', '-j THREE')).toEqual(['extra | nat/KUBE-POSTROUTING | -j X | -']);
  });
});

describe('a base chain', () => {
  const wanted: Wanted = {baseRules: {'nat/PREROUTING': ['-j KUBE-SERVICES']}};
  const at = (...rules: readonly string[]) => differences(wanted, dump(...rules.map(rule => `nat/PREROUTING ${rule}`)));

  test('may contain third-party rules, before and after', () => {
    expect(at('-j DOCKER', '-j KUBE-SERVICES', '-j cali-PREROUTING')).toEqual([]);
    expect(at(`-m comment --comment "NOTE: this must go before '-j KUBE-FORWARD'" -j WEAVE-NPC`, '-j KUBE-SERVICES')).toEqual([]);
  });

  test('reports a missing jump', () => {
    expect(at('-j DOCKER')).toEqual(['missing | nat/PREROUTING | -j KUBE-SERVICES | -']);
  });

  test('reports a duplicate jump, and another one to kube-proxy’s chains', () => {
    expect(at('-j KUBE-SERVICES', '-j KUBE-SERVICES')).toEqual(['duplicate | nat/PREROUTING | -j KUBE-SERVICES | -']);
    expect(at('-j KUBE-SERVICES', '-j KUBE-PORTALS-CONTAINER')).toEqual(['extra | nat/PREROUTING | -j KUBE-PORTALS-CONTAINER | -']);
  });

  test('with the jump in another spelling has no difference', () => {
    expect(at('-m comment --comment "kubernetes service portals" -j KUBE-SERVICES')).toEqual([]);
  });
});

describe('for each chain of table nat', () => {
  test('the result shows whether an owner’s chain exists and has the expected text', () => {
    const actual = dump('nat/SVC -j A', 'nat/OTHER -j B', 'nat/SEP -j C', 'nat/KUBE-SERVICES -j C');
    const own = {SVC: ['-j X'], SEP: ['-j C'], GONE: ['-j Y']};
    const {nat} = compareRulesets(expectation({owners: [{name: 'web', own}], baseRules: {'nat/KUBE-SERVICES': ['-j C']}}), actual);
    const found = [...(actual.tables.get('nat')?.chains.keys() ?? [])].map((name, place) => [name, nat[place]]);
    expect(Object.fromEntries(found)).toEqual({
      SVC: chainFound.changed,
      OTHER: chainFound.unexpected,
      SEP: chainFound.same,
      'KUBE-SERVICES': chainFound.unexpected,
    });
  });

  test('Windows line ends make no difference', () => {
    const text = '*nat\r\n:SVC - [0:0]\r\n:KUBE-SERVICES - [0:0]\r\n-A SVC -j A\r\n-A KUBE-SERVICES -j SVC\r\nCOMMIT\r\n';
    const wanted: Wanted = {owners: [{name: 'web', own: {SVC: ['-j A']}, shared: [['nat/KUBE-SERVICES', '-j SVC']]}]};
    expect(differences(wanted, parseDumps(text)[0] as Ruleset)).toEqual([]);
  });
});

test('more differences than fit on the stack are all reported', () => {
  const rules = Array.from({length: 150_000}, (_, number): [string, string] => [
    'nat/KUBE-SERVICES',
    `-d 10.${number >> 16}.${(number >> 8) & 255}.${number & 255}/32 -j A`,
  ]);
  expect(differences({owners: [{name: 'web', shared: rules}]}, dump('nat/KUBE-SERVICES -j C'))).toHaveLength(150_001);
});
