import {formerChains, isServiceCIDRRule} from '../../../expect/nftables/base-chains.ts';
import {parseNftName} from '../../../expect/nftables/nft-names.ts';
import type {Severity} from '../../../model/finding.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import {baseChainChecks, type BaseChainLoss, lossOfChain} from './base-chain-losses.ts';
import {baseChainProbes} from './base-chain-probes.ts';
import {analyzeClusterIPsCheck} from './analyze-cluster-ips-check.ts';
import {analyzeNodePortIPs} from './analyze-nodeport-ips.ts';
import type {NftBaseRulesCase, NftPortDifference} from '../nft-case.ts';
import {withChains} from '../nft-service-view.ts';
import {analyzeUnexpectedNftRules} from './unexpected-nft-rules.ts';
import {namedProbes} from './named-probes.ts';
import {changedProbes} from './table-effect.ts';
import {pushTo} from '../../../model/lists.ts';

/** What is wrong with the base rules: hooks, lookups, masquerading, node-port addresses, checks. */
export function analyzeNftBaseRules(given: NftBaseRulesCase): readonly Symptom[] {
  const byChain = new Map<string, NftPortDifference[]>();
  for (const difference of given.differences) {
    if (isLegitimate(difference) || given.isExplained(difference)) continue;
    pushTo(byChain, difference.name, difference);
  }
  return [
    ...[...byChain].flatMap(([name, differences]) => analyzeChain(given, name, differences)),
    ...analyzeNodePortIPs(given),
    ...analyzeClusterIPsCheck(given),
    ...analyzeUnexpectedChains(given),
  ];
}

/** Differences that are legitimate. The rule of service networks and the node-port addresses are evaluated separately. */
function isLegitimate({what, name, kind, rule}: NftPortDifference): boolean {
  if (name === 'nodeport-ips') return true;
  return (
    what === 'rule' && name === 'cluster-ips-check' && kind !== 'missing' && isServiceCIDRRule(rule.text.replace(/ comment ".*"$/, ''))
  );
}

/** All that is missing from a chain is one finding, whose severity is the effect on packets. All unexpected rules are another one. */
function analyzeChain(given: NftBaseRulesCase, name: string, differences: readonly NftPortDifference[]): readonly Symptom[] {
  const {expected, actual} = given;
  const missing = differences.filter(({kind}) => kind === 'missing');
  const others = differences.filter(({kind}) => kind !== 'missing');
  const explained = new Set(others.filter(({what}) => what !== 'rule' && missing.length > 0));
  const symptoms: Symptom[] = [];
  if (missing.length > 0) {
    const loss = lossOfChain(name, missing, actual.chain(name));
    // A rule in place of a missing one belongs to the same finding.
    const found = others.filter(({what, rule}) => what !== 'rule' || missing.some(one => resembles(one.rule, rule)));
    const severity = severityOf(given, name, loss);
    const isOtherJump = hookChains.has(name) && found.some(({what}) => what === 'rule');
    const words = isOtherJump ? otherJump(name) : loss;
    for (const one of found) explained.add(one);
    symptoms.push({
      kind: loss.kind,
      severity,
      family: expected.context.family,
      port: null,
      detail: `${words.what}: ${severity === 'info' ? 'no traffic is affected' : words.loss}`,
      expected: missing.map(({rule}) => rule).slice(0, 6),
      actual: found.map(({rule}) => rule).slice(0, 6),
    });
  }
  const extra = others.filter(one => !explained.has(one));
  return [...symptoms, ...(extra.length === 0 ? [] : analyzeUnexpectedNftRules(given, extra))];
}

/** All that kube-proxy writes into them is a jump to `services`. */
const hookChains = new Set(['nat-prerouting', 'nat-output']);

/** Some packets may still take the jump. */
function otherJump(name: string): Pick<BaseChainLoss, 'what' | 'loss'> {
  return {what: `the jump from ${name} to services has other conditions`, loss: 'packets that do not meet them reach no Service'};
}

/** With the expected rules of Services: the one that is tried for all of its shape may have a fault of its own. */
function severityOf(given: NftBaseRulesCase, name: string, {severity}: BaseChainLoss): Severity {
  const {expected, actual} = given;
  const found = actual.chain(name);
  if (!expected.baseRules.some(chain => chain.name === name)) return 'info';
  const table = withChains(expected, new Map([[name, found]]));
  const own = given.differences.flatMap(({kind, name: chain, rule}) => (kind === 'extra' && chain === name ? [rule] : []));
  const probes = [...baseChainProbes(expected), ...(own.length === 0 ? [] : namedProbes(given, own, maxNamed))];
  const changed = changedProbes({expected, table, other: expected}, probes).length > 0 || baseChainChecks({expected, table});
  return changed ? severity : 'info';
}

/** Service ports that a rule in place of a missing one names are tried as well. */
const maxNamed = 50;

/** Two rules that look the same map up, or jump to the same chain. */
function resembles(a: RuleText, b: RuleText): boolean {
  const subject = ({text}: RuleText): string =>
    /(?:vmap|jump|goto) (\S+)/.exec(text)?.[1] ?? /masquerade|reject|drop|mark set/.exec(text)?.[0] ?? text;
  return subject(a) === subject(b);
}

/** Chains that no version writes: every packet passes a base chain, and any other chain only if a rule jumps to it. */
function analyzeUnexpectedChains(given: NftBaseRulesCase): readonly Symptom[] {
  const former = new Map(
    formerChains(given.expected.context).map(({name, rules}) => [name, new Set(rules.map(text => text.replace(/ comment ".*"$/, '')))]),
  );
  return given.unexpectedChains.flatMap(chain => {
    if (parseNftName(chain.name) !== null) return [];
    const unexpected = chain.rules().filter(({body}) => !(former.get(chain.name)?.has(body) ?? false));
    const differences = unexpected.map(rule => ({kind: 'extra', what: 'rule', name: chain.name, rule, owner: null}) as const);
    return differences.length === 0 ? [] : analyzeUnexpectedNftRules(given, differences);
  });
}
