import type {Rule} from '../../../model/ruleset.ts';
import type {PortDifference} from '../service-port/port-differences.ts';
import {hasMatch} from '../service-port/rule-roles.ts';
import {type BaseRuleSymptom, isKubeletsOwn, type LeftBaseRules} from './base-rules-case.ts';

/** Missing rules of KUBE-FORWARD and KUBE-FIREWALL: what their absence accepts or blocks. */
export function analyzeForward(given: LeftBaseRules): readonly BaseRuleSymptom[] {
  return given.differences.flatMap(difference => {
    const {kind, chain, rule} = difference;
    if (kind !== 'missing' || (chain !== 'KUBE-FORWARD' && chain !== 'KUBE-FIREWALL')) return [];
    const loss = lossOf(given, rule);
    return loss === null ? [] : [{symptom: {...loss, expected: [rule], actual: []}, explained: [difference]}];
  });
}

function lossOf(given: LeftBaseRules, rule: Rule): Pick<BaseRuleSymptom['symptom'], 'kind' | 'severity' | 'detail'> | null {
  const {expected, actual} = given;
  if (rule.target?.name === 'ACCEPT') {
    if (actual.chain('filter', 'FORWARD')?.policy !== 'DROP') return null;
    // The CNI may accept the same packets. Walks show this for new connections only: replies are accepted by the other rule.
    if (hasMatch(rule, 'mark') && !changesChain(given, 'KUBE-FORWARD')) return null;
    const detail = 'FORWARD drops what no rule accepts, and the rule of KUBE-FORWARD that accepts Service traffic is missing';
    return {kind: 'forward-blocked', detail};
  }
  if (rule.chain === 'KUBE-FIREWALL') {
    if (!changesChain(given, 'KUBE-FIREWALL')) return null;
    const detail =
      'packets to 127.0.0.0/8 from other hosts are not dropped: services on the loopback address can be reached by hosts on the same network';
    return {kind: 'missing-rule', severity: 'warning', detail};
  }
  if (!expected.context.invalidDrop || actual.chain('filter', 'KUBE-FORWARD') === undefined) return null;
  const detail = 'INVALID packets are not dropped: connections may be reset under load, unless nf_conntrack_tcp_be_liberal is set';
  return {kind: 'missing-rule', severity: 'info', detail};
}

/** Other differences of KUBE-FORWARD and KUBE-FIREWALL, if they change the outcome of packets. */
export function analyzeFilterChains(given: LeftBaseRules): readonly BaseRuleSymptom[] {
  const {actual, differences} = given;
  return ['KUBE-FORWARD', 'KUBE-FIREWALL'].flatMap(name => {
    const own = differences.filter(({table, chain}) => table === 'filter' && chain === name);
    if (own.length === 0 || actual.chain('filter', name) === undefined || !changesChain(given, name)) return [];
    const kind = name === 'KUBE-FORWARD' ? ('forward-blocked' as const) : ('unexpected-rule' as const);
    const detail = `the rules of ${name} are not those that kube-proxy writes, and traffic is affected`;
    return [{symptom: {kind, severity: 'error', detail, expected: rulesOf(own, true), actual: rulesOf(own, false)}, explained: own}];
  });
}

function rulesOf(differences: readonly PortDifference[], missing: boolean): readonly Rule[] {
  return differences.filter(({kind}) => (kind === 'missing') === missing).map(({rule}) => rule);
}

/** Whether the differences of a chain of table filter change the outcome of packets. */
function changesChain({expected, actual, changesOutcomes}: LeftBaseRules, name: string): boolean {
  const chain = actual.chain('filter', name);
  const right = expected.chain('filter', name)?.rules() ?? [];
  return chain === undefined || changesOutcomes(chain, [...right, ...chain.rules().filter(isKubeletsOwn)]);
}
