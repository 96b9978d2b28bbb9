import {once} from '../../../model/once.ts';
import {usualSources} from '../../outcomes/sources.ts';
import {parseChainName} from '../../../expect/iptables/chain-names.ts';
import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import type {NodeContext} from '../../../expect/node-context.ts';
import {addressInside, parseCidr} from '../../../model/address.ts';
import {partition} from '../../../model/lists.ts';
import {type ChainSource, matchOptionOf, optionOf, type Rule} from '../../../model/ruleset.ts';
import type {Packet} from '../../../trace/walked-packet.ts';
import {effectOnOthers, probesBeside} from '../../outcomes/outcome-changes.ts';
import {endpointKinds} from '../../outcomes/compare-endpoints.ts';
import {comparePathOutcomes} from '../../outcomes/compare-outcomes.ts';
import {environmentOf, isSameOutcome, walkOf} from '../../outcomes/environment.ts';
import {probesToWalk, probeWalks} from '../../outcomes/probes-to-walk.ts';
import {entriesOf, packetOf, probedNodePortAddresses} from '../../outcomes/probes.ts';
import {otherAffinity, evidenceOf, residualRefusal, sayResidual, staleEntry, unexplained} from '../../symptoms/port-symptoms.ts';
import {type PortSymptom, SymptomList} from '../../symptoms/symptom-list.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import {entryOfRule, isEntryRule, PortIndex} from '../rules-of-ports.ts';
import {lacksEndpointRulesOnly} from './endpoint-change.ts';
import {IptablesSemantics} from './iptables-semantics.ts';
import {hasMatch, isOfAffinity, isOwnChain, type PortCase, type PortDifference, rulesOf} from './port-differences.ts';

/**
 * What the differences of one Service port do to packets. Packets of every kind are walked through the expected and the actual
 * rules; a difference that changes no outcome is reported as harmless.
 */
export function analyzePort(portCase: PortCase): readonly Symptom[] {
  const {item} = portCase;
  const symptoms = new SymptomList(item.port);
  const {context} = portCase.expected;
  const sides = {expected: walkOf(portCase.expected), actual: walkOf(portCase.view)};
  const extra = rulesOf(portCase, 'extra');
  // Connections of endpoints to themselves, whose rules mark for masquerading, are tried in any case.
  const texts = {
    ranges: extra.filter(isOfRanges).map(({text}) => text),
    others: extra.filter(rule => !isOfRanges(rule) && rule.target?.name !== 'KUBE-MARK-MASQ').map(({text}) => text),
  };
  const probes = probesBeside({item, context, senders: portCase.senders, hairpins: hairpins(portCase)}, texts);
  const changesOutcome = comparePathOutcomes({
    item,
    symptoms,
    ...probesToWalk({probes, walk: probeWalks(context, sides)}, () => lacksEndpointRulesOnly(portCase)),
    semantics: new IptablesSemantics(portCase),
    affinity: differ => affinityRules({item, differences: portCase.differences, symptoms, changesOutcome: differ}),
  });
  findStaleEntries(portCase, symptoms);
  analyzeHealthCheck(portCase, symptoms);
  const effect = () =>
    effectOnOthers(
      extra.map(({text}) => text),
      () => [item],
      context,
      sides,
    );
  explainResidualDifferences({...portCase, symptoms, changesOutcome, effect});
  return symptoms.all;
}

function isOfRanges({chain}: Rule): boolean {
  return parseChainName(chain)?.role === 'FW';
}

/** Endpoints whose chains are there and differ: only their own connections can have changed in a way that others' have not. */
function hairpins({item: {endpoints, endpointChain}, differences, actual}: PortCase): PortOnNode['endpoints']['reachable'] {
  const changed = new Set(differences.map(({rule}) => rule.chain).filter(chain => actual.chain('nat', chain) !== undefined));
  return endpoints.reachable.filter(endpoint => changed.has(endpointChain(endpoint))).slice(0, 64);
}

function analyzeHealthCheck(portCase: PortCase, symptoms: SymptomList): void {
  const missing = rulesOf(portCase, 'missing').filter(({table, chain}) => table === 'filter' && chain === 'KUBE-NODEPORTS');
  if (missing.length === 0 || symptoms.has('service-not-programmed')) return;
  const detail = `the rule that accepts health checks on port ${portCase.item.port.healthCheckNodePort} is missing: a load balancer may consider the node unhealthy`;
  symptoms.say({kind: 'health-check-port-blocked', detail, expected: missing, actual: []});
}

interface AffinityCase {
  readonly item: PortOnNode;
  readonly differences: readonly PortDifference[];
  readonly symptoms: SymptomList;
  readonly changesOutcome: boolean;
}

/** Rules of affinity that are missing, extra or have another timeout, where no missing or stale endpoint explains them. */
function affinityRules(affinityCase: AffinityCase): PortSymptom | null {
  const {item, differences, symptoms} = affinityCase;
  const unexplained = unexplainedRules(affinityCase);
  if (unexplained.length === 0 || symptoms.has('broken-jump', 'service-not-programmed')) return null;
  const found = unexplained.find(({kind}) => kind === 'extra');
  const other = found === undefined ? null : {seconds: matchOptionOf(found.rule, '--seconds') ?? null};
  const detail = otherAffinity(item.port, other, unexplained.length);
  return {kind: 'session-affinity-mismatch', detail, ...evidenceOf(differences.filter(({rule}) => isOfAffinity(rule)))};
}

function unexplainedRules({item, differences, symptoms, changesOutcome}: AffinityCase): readonly PortDifference[] {
  const {endpoints, endpointChain} = item;
  const known = new Set(
    symptoms.all.flatMap(({kind, endpoint}) => (endpointKinds.includes(kind) && endpoint !== undefined ? [endpoint] : [])),
  );
  const chains = new Set(endpoints.reachable.filter(({hostPort}) => known.has(hostPort)).map(endpointChain));
  const isThirdPartyRule = (chain: string): boolean =>
    parseChainName(chain)?.role === 'SEP' && !endpoints.reachable.some(endpoint => endpointChain(endpoint) === chain);
  const differing = differences.filter(
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

/** Whether the outcome of packets to the address and port that a rule matches is not the expected one. */
function changesOutcomes(rule: Rule, {expected, actual}: {readonly expected: ExpectedRuleset; readonly actual: ChainSource}): boolean {
  const environment = environmentOf(expected.context.facts);
  return packetsTo(rule, expected.context).some(
    packet => !isSameOutcome(walkOf(expected)(packet, environment), walkOf(actual)(packet, environment)),
  );
}

const indexOf = once((expected: ExpectedRuleset) => new PortIndex(expected));

/** Packets to what a rule of a shared chain names, one from each kind of source. */
function packetsTo(rule: Rule, context: NodeContext): readonly Packet[] {
  const protocol = optionOf(rule, '-p');
  const port = matchOptionOf(rule, '--dport');
  if (protocol === undefined || port === undefined) return [];
  const packet = (from: {readonly kind: string; readonly address: string; readonly interface: string | null}, destination: string) =>
    packetOf({protocol, family: context.family}, {source: from.address, destination, port: Number(port), from}) ?? [];
  const sources = usualSources(context);
  return destinationsOf(rule, context).flatMap(destination =>
    destination === loopback
      ? packet({kind: 'node', address: loopback, interface: null}, loopback)
      : sources.flatMap(source => packet(source, destination)),
  );
}

const loopback = '127.0.0.1';

function destinationsOf(rule: Rule, context: NodeContext): readonly string[] {
  const cidr = optionOf(rule, '-d');
  if (cidr === undefined) return [...probedNodePortAddresses(context), ...(context.localhostNodePorts ? [loopback] : [])];
  if (cidr === '127.0.0.0/8') return [loopback];
  const parsed = parseCidr(cidr);
  const address = parsed === null ? null : addressInside(parsed, new Set());
  return address === null ? [] : [address];
}

/** Rules that lead into the Service port's chains from an address or a port that is none of its entries (any more). */
function findStaleEntries(portCase: PortCase, symptoms: SymptomList): void {
  const entries = entriesOf(portCase.item.port, portCase.expected.context);
  for (const rule of rulesOf(portCase, 'extra')) {
    const shared = rule.chain === 'KUBE-SERVICES' || rule.chain === 'KUBE-NODEPORTS';
    const leadsHere = rule.table === 'nat' && shared && isOwnChain(portCase, rule.target?.name ?? '');
    if (leadsHere && !entries.some(entry => isEntryRule(rule, entry))) findStaleEntry(portCase, rule, symptoms);
  }
}

function findStaleEntry({item, expected, view}: PortCase, rule: Rule, symptoms: SymptomList): void {
  const where = entryOfRule(rule);
  // Another Service port that has the address and port of a rule, and so determines the outcome of their packets.
  const owner = indexOf(expected)
    .concerned(rule)
    .find(other => other !== item);
  const answers = owner === undefined && changesOutcomes(rule, {expected, actual: view});
  if (answers) return symptoms.say(staleEntry(where, {answers, rule}), `stale entry ${where}`);
  const whose =
    owner === undefined ? 'none of its entries in the API (any more): no traffic is affected' : `${owner.port.servicePortName}'s`;
  const detail = `a rule leads to it from ${where}, which is ${whose}`;
  symptoms.say({kind: 'stale-service', severity: 'info', detail, expected: [], actual: [rule]}, `stale entry ${where}`);
}

interface LeftCase extends PortCase {
  readonly symptoms: SymptomList;
  /** Some probe diverges. */
  readonly changesOutcome: boolean;
  /** What differences do that change no probe, in words. */
  readonly effect: () => string;
}

/** If no probe diverges, what is left is harmless. */
function explainResidualDifferences(leftCase: LeftCase): void {
  const {differences, symptoms, changesOutcome, effect} = leftCase;
  const [rejects, rest] = partition(unexplained(symptoms, differences), isReject);
  for (const {rule} of rejects) explainResidualReject(leftCase, rule);
  sayResidual<PortDifference>(symptoms, rest, {
    placeOf: ({table, chain}) => `${table}/${chain}`,
    count: group => (group.length === 1 ? 'a rule' : `${group.length} rules`),
    harmless: changesOutcome ? null : effect,
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
