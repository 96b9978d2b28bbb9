import {compareOwnChains, compareRulesets, type OwnerRules, type RulesetComparison} from '../../compare/compare-rulesets.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import {onceAsked} from '../once-asked.ts';
import {asExpectation} from './expectation.ts';
import {endpointChange} from './service-port/endpoint-change.ts';
import {type ChangedPort, changedPort, recallChange, rememberChange} from './service-port/known-change.ts';
import {plainPaths} from './service-port/plain-paths.ts';
import type {PortDifference} from './service-port/port-differences.ts';

interface FamilyComparison extends RulesetComparison<PortOnNode> {
  /** Service ports whose chains differ as by other endpoints alone: these differences are not in the list. */
  readonly changed: ReadonlyMap<PortOnNode, ChangedPort>;
  /** The differences in the own chains of such a Service port. */
  differencesOf(item: PortOnNode): readonly PortDifference[];
}

/**
 * Compares a node's rules with the expected ones. Where the chains of a Service port are exactly those that kube-proxy writes for other
 * endpoints, the symptoms are known without a walk, and no rule of it is parsed.
 */
export function compareFamily(expected: ExpectedRuleset, actual: Ruleset): FamilyComparison {
  const changed = new Map<PortOnNode, ChangedPort>();
  const isPlain = onceAsked(() => plainPaths(expected, actual));
  const expectation = asExpectation(expected);
  const explain = (item: PortOnNode, {own, isKept}: OwnerRules): readonly string[] | null => {
    // With an internal Local policy not all clients get the same endpoints.
    if (item.port.internalPolicyLocal) return null;
    const known = recallChange(item, own, actual);
    const change = known?.change ?? endpointChange(item, own, {expected, actual});
    if (change === null || !isPlain()(change)) return null;
    changed.set(item, known?.found() ?? (isKept ? rememberChange(change, expected, actual) : changedPort(change, actual)));
    return change.written.endpoints.reachable.map(item.endpointChain).filter(name => !own.has(name));
  };
  const isWhole = ['nat', 'filter'].every(table => actual.tables.get(table)?.complete === true);
  const compared = compareRulesets(isWhole ? {...expectation, explain} : expectation, actual);
  return {...compared, changed, differencesOf: item => compareOwnChains(expectation, actual, item)};
}
