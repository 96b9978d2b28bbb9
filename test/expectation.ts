import type {RulesetExpectation} from '../src/compare/compare-rulesets.ts';
import type {ExpectedRuleset} from '../src/expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../src/expect/iptables/service-rules.ts';
import type {Ruleset} from '../src/model/ruleset.ts';

const open = ['filter/INPUT', 'filter/FORWARD', 'filter/OUTPUT', 'nat/PREROUTING', 'nat/OUTPUT', 'nat/POSTROUTING'];
const unordered = [
  'nat/KUBE-SERVICES',
  'nat/KUBE-NODEPORTS',
  'filter/KUBE-SERVICES',
  'filter/KUBE-EXTERNAL-SERVICES',
  'filter/KUBE-PROXY-FIREWALL',
  'filter/KUBE-NODEPORTS',
];

/** An expected ruleset as something to compare with. */
export function expectationOf(expected: ExpectedRuleset): RulesetExpectation<PortOnNode> {
  return {
    owners: expected.ports,
    rulesOf: item => expected.rulesOf(item),
    baseRules: () => expected.baseRules(),
    open: new Set(open),
    unordered: new Set(unordered),
  };
}

/** A ruleset that was read as something to compare with: all its rules are base rules. */
export function expectationFrom(ruleset: Ruleset): RulesetExpectation<never> {
  const baseRules = new Map<string, readonly string[]>();
  for (const table of ruleset.tables.values()) {
    for (const chain of table.chains.values()) {
      const lines = chain.text() === '' ? [] : chain.text().split('\n');
      baseRules.set(
        `${table.name}/${chain.name}`,
        lines.map(line => line.slice(`-A ${chain.name} `.length)),
      );
    }
  }
  return {
    owners: [],
    rulesOf: () => {
      throw new Error('it has no owners');
    },
    baseRules: () => baseRules,
    open: new Set(open),
    unordered: new Set(unordered),
  };
}
