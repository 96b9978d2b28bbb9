import type {RulesetExpectation} from '../../compare/compare-rulesets.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';

/** An ExpectedRuleset in the form in which rulesets are compared: grouped by Service port. */
export function asExpectation(expected: ExpectedRuleset): RulesetExpectation<PortOnNode> {
  return {
    owners: expected.ports,
    rulesOf: item => expected.rulesOf(item),
    baseRules: () => expected.baseRules(),
    open: baseChains,
    unordered: serviceChains,
  };
}

const baseChains = new Set(['filter/INPUT', 'filter/FORWARD', 'filter/OUTPUT', 'nat/PREROUTING', 'nat/OUTPUT', 'nat/POSTROUTING']);

const serviceChains = new Set([
  'nat/KUBE-SERVICES',
  'nat/KUBE-NODEPORTS',
  'filter/KUBE-SERVICES',
  'filter/KUBE-EXTERNAL-SERVICES',
  'filter/KUBE-PROXY-FIREWALL',
  'filter/KUBE-NODEPORTS',
]);
