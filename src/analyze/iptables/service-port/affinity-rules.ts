import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {Rule} from '../../../model/ruleset.ts';
import {endpointKinds} from '../../outcomes/outcome-case.ts';
import {configuredAffinity} from '../../symptoms/configured-affinity.ts';
import type {PortSymptom, SymptomList} from '../../symptoms/symptom-list.ts';
import type {PortDifference, PortDifferences} from './port-differences.ts';
import {hasMatch, isOfAffinity} from './rule-roles.ts';

interface AffinityCase {
  readonly item: PortOnNode;
  readonly own: PortDifferences;
  readonly symptoms: SymptomList<Rule>;
  readonly changesOutcome: boolean;
}

/** Rules of affinity that are missing, extra or have another timeout, where no missing or stale endpoint explains them. */
export function affinityRules(given: AffinityCase): PortSymptom<Rule> | null {
  const {item, own, symptoms} = given;
  const unexplained = unexplainedRules(given);
  if (unexplained.length === 0 || symptoms.has('broken-jump', 'service-not-programmed')) return null;
  const found = unexplained.find(({kind}) => kind === 'extra');
  const seconds = found?.rule.matches.flatMap(match => match.options).find(({flag}) => flag === '--seconds')?.values[0];
  const configured = configuredAffinity(item.port);
  const detail =
    found === undefined
      ? `session affinity is missing in ${unexplained.length === 1 ? 'a rule' : 'rules'}: ${configured}`
      : `session affinity${seconds === undefined ? '' : ` of ${seconds} s`} is programmed, and ${configured}`;
  return {kind: 'session-affinity-mismatch', detail, ...own.evidence(({rule}) => isOfAffinity(rule))};
}

function unexplainedRules({item, own, symptoms, changesOutcome}: AffinityCase): readonly PortDifference[] {
  const {endpoints, endpointChain} = item;
  const known = new Set(
    symptoms.all.flatMap(({kind, endpoint}) => (endpointKinds.includes(kind) && endpoint !== undefined ? [endpoint] : [])),
  );
  const chains = new Set(endpoints.reachable.filter(({hostPort}) => known.has(hostPort)).map(endpointChain));
  const isThirdPartyRule = (chain: string): boolean =>
    parseChainName(chain)?.role === 'SEP' && !endpoints.reachable.some(endpoint => endpointChain(endpoint) === chain);
  const differing = own.all.filter(
    ({rule, kind}) =>
      hasMatch(rule, 'recent') &&
      (kind === 'missing' || kind === 'extra') &&
      !chains.has(rule.target?.name ?? '') &&
      !chains.has(rule.chain) &&
      !isThirdPartyRule(rule.target?.name ?? ''),
  );
  // A rule that matches the same clients differently is harmless if no probe diverges.
  return differing.filter(one => changesOutcome || !differing.some(other => other.kind !== one.kind && asksAlike(one.rule, other.rule)));
}

function asksAlike(a: Rule, b: Rule): boolean {
  const asked = ({matches}: Rule): string => JSON.stringify(matches.filter(({name}) => name === 'recent'));
  return a.chain === b.chain && asked(a) === asked(b);
}
