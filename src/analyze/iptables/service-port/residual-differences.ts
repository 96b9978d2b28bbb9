import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {Difference, Rule} from '../../../model/ruleset.ts';
import {entriesOf} from '../../outcomes/probes.ts';
import {residualRefusal, sayResidual, staleEntry} from '../../symptoms/port-symptoms.ts';
import type {SymptomList} from '../../symptoms/symptom-list.ts';
import type {Symptom, SymptomKind} from '../../symptoms/symptom.ts';
import {entryOfRule, isEntryRule} from '../rules-of-ports.ts';
import type {PortCase, PortDifference} from './port-differences.ts';

interface LeftCase extends PortCase {
  readonly symptoms: SymptomList<Rule>;
  /** Some probe diverges. */
  readonly changesOutcome: boolean;
  /** What differences do that change no probe, in words. */
  readonly effect: () => string;
}

/** Differences that no symptom so far explains. If no probe diverges, they are harmless. */
export function explainResidualDifferences(leftCase: LeftCase): void {
  const {item, differences, symptoms, changesOutcome, effect} = leftCase;
  const explanations = explanationsOf(item, symptoms.all);
  const left = differences.filter(difference => !isExplained(difference, explanations));
  const rejects = left.filter(isReject);
  for (const {rule} of rejects) explainResidualReject(leftCase, rule);
  const loud = changesOutcome && symptoms.all.every(({kind}) => kind === 'unexpected-reject' || kind === 'health-check-port-blocked');
  const rest = left.filter(difference => !rejects.includes(difference));
  sayResidual<Rule, PortDifference>(symptoms, rest, {
    placeOf: ({table, chain}) => `${table}/${chain}`,
    count: group => (group.length === 1 ? 'a rule' : `${group.length} rules`),
    harmless: loud ? null : changesOutcome ? () => 'the other findings of this port show the effect on traffic' : effect,
  });
}

function isReject({kind, rule}: PortDifference): boolean {
  return kind === 'extra' && rule.table === 'filter' && (rule.target?.name === 'REJECT' || rule.target?.name === 'DROP');
}

function explainResidualReject({item: {port, endpoints}, expected, symptoms, changesOutcome}: LeftCase, rule: Rule): void {
  if (!entriesOf(port, expected.context).some(entry => isEntryRule(rule, entry))) {
    const where = entryOfRule(rule);
    return symptoms.say(staleEntry(where, {answers: false, rule}), `stale entry ${where}`);
  }
  symptoms.say(residualRefusal(rule, {hasAny: endpoints.hasAny, changesOutcome}), `left ${rule.line}`);
}

/** What the symptoms of a Service port show. */
interface Explanations {
  readonly item: PortOnNode;
  readonly symptoms: readonly Symptom<Rule>[];
  readonly kinds: ReadonlySet<SymptomKind>;
  readonly endpoints: ReadonlySet<string>;
  readonly rules: ReadonlySet<Rule>;
  /** Chains that are reported as empty. */
  readonly emptyChains: ReadonlySet<string>;
}

function explanationsOf(item: PortOnNode, symptoms: readonly Symptom<Rule>[]): Explanations {
  const broken = symptoms.filter(({kind}) => kind === 'broken-jump');
  return {
    ...{item, symptoms},
    kinds: new Set(symptoms.map(({kind}) => kind)),
    endpoints: new Set(symptoms.flatMap(({endpoint}) => endpoint ?? [])),
    rules: new Set(symptoms.flatMap(({expected, actual}) => [...expected, ...actual])),
    emptyChains: new Set(broken.flatMap(({actual}) => actual.map(({target}) => target?.name ?? ''))),
  };
}

/** Whether the symptoms explain a difference. */
function isExplained(difference: Difference<PortOnNode>, by: Explanations): boolean {
  const {rule} = difference;
  const {item, kinds} = by;
  const {endpoints, endpointChain} = item;
  if (kinds.has('service-not-programmed') || by.rules.has(rule)) return true;
  if (isOfEndpoint(rule, by) || by.emptyChains.has(rule.chain)) return true;
  // A Service that is refused although it has endpoints has none of its other rules.
  if (difference.kind === 'missing' && rule.table === 'nat' && kinds.has('unexpected-reject')) return true;
  // All remaining rules of a Service that lost its last endpoint have one cause.
  if (!endpoints.hasAny && kinds.has('stale-endpoint') && rule.table === 'nat') return true;
  const role = parseChainName(rule.chain)?.role;
  const target = parseChainName(rule.target?.name ?? '')?.role;
  const recent = rule.matches.some(match => match.name === 'recent');
  if (
    target === 'SEP' &&
    kinds.has('stale-endpoint') &&
    !endpoints.reachable.some(endpoint => endpointChain(endpoint) === rule.target?.name)
  )
    return true;
  if (target === 'SEP' && !recent) return [...balancingKinds].some(kind => kinds.has(kind));
  if (recent || rule.target?.name === 'DNAT') return kinds.has('session-affinity-mismatch');
  if (rule.target?.name === 'KUBE-MARK-MASQ')
    return kinds.has('masquerade-mismatch') || kinds.has('traffic-policy-mismatch') || atMissingEntry(rule, by);
  if (role === 'EXT' || role === 'XLB') return kinds.has('traffic-policy-mismatch') || kinds.has('broken-jump');
  if (role === 'FW') return ['source-ranges-mismatch', 'broken-jump', 'unexpected-reject'].some(kind => kinds.has(kind as SymptomKind));
  if (rule.chain === 'KUBE-SERVICES' && atEntryOf('traffic-policy-mismatch', rule, by)) return true;
  // With ranges, the load-balancer address leads to KUBE-FW, and without them past it.
  if (rule.chain === 'KUBE-SERVICES' && kinds.has('source-ranges-mismatch') && isOfBalancer(rule, by)) return true;
  if (rule.chain === 'KUBE-PROXY-FIREWALL') return kinds.has('source-ranges-mismatch') || atMissingEntry(rule, by);
  if (rule.table === 'filter' && rule.chain !== 'KUBE-NODEPORTS') return coversFilter(rule, by);
  if (rule.table === 'filter') return kinds.has('health-check-port-blocked');
  return atMissingEntry(rule, by) || (role !== undefined && kinds.has('broken-jump'));
}

/** The endpoint's own chain, and rules that lead there. */
function isOfEndpoint(rule: Rule, by: Explanations): boolean {
  const known = by.item.endpoints.reachable.find(endpoint => {
    const chain = by.item.endpointChain(endpoint);
    return rule.chain === chain || rule.target?.name === chain;
  });
  return known !== undefined && by.endpoints.has(known.hostPort) && !onlyMasquerade(known.hostPort, by);
}

/** A hairpin finding explains the mark in the endpoint's chain, and nothing else of the endpoint. */
function onlyMasquerade(endpoint: string, by: Explanations): boolean {
  return by.symptoms.every(symptom => symptom.endpoint !== endpoint || symptom.kind === 'masquerade-mismatch');
}

function coversFilter(rule: Rule, by: Explanations): boolean {
  const {kinds} = by;
  if (['missing-reject', 'traffic-policy-mismatch', 'unexpected-reject'].some(kind => kinds.has(kind as SymptomKind))) return true;
  // All endpoints of the Service appeared or disappeared in the API: the refusal has the same cause.
  const refusal = rule.target?.name === 'REJECT' || rule.target?.name === 'DROP';
  return atMissingEntry(rule, by) || (refusal && kinds.has('stale-endpoint'));
}

function isOfBalancer(rule: Rule, by: Explanations): boolean {
  const {loadBalancerVIPs, port} = by.item.port;
  return loadBalancerVIPs.some(address => isEntryRule(rule, {kind: 'loadBalancerIP', address, port}));
}

function atMissingEntry(rule: Rule, by: Explanations): boolean {
  return atEntryOf('missing-entry', rule, by);
}

function atEntryOf(wanted: SymptomKind, rule: Rule, by: Explanations): boolean {
  return by.symptoms.some(
    ({kind, entry, entries = entry === undefined ? [] : [entry]}) => kind === wanted && entries.some(one => isEntryRule(rule, one)),
  );
}

const balancingKinds: ReadonlySet<SymptomKind> = new Set([
  'missing-endpoint',
  'stale-endpoint',
  'wrong-endpoint-address',
  'uneven-balance',
  'traffic-policy-mismatch',
  'broken-jump',
]);
