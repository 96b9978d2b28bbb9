import {type NftPort, parseNftName} from '../../../expect/nftables/nft-names.ts';
import type {PortObjects} from '../../../expect/nftables/port-objects.ts';
import type {Endpoint} from '../../../model/endpoint.ts';
import type {NftTable} from '../../../model/nft-ruleset.ts';
import {effectOnOthers, probesBeside} from '../../outcomes/outcome-changes.ts';
import {comparePathOutcomes} from '../../outcomes/compare-outcomes.ts';
import {endpointsByName, probesToWalk, probeWalks} from '../../outcomes/probes-to-walk.ts';
import type {Probe} from '../../outcomes/probes.ts';
import {otherAffinity, evidenceOf, residualRefusal, sayResidual, staleEntry, unexplained} from '../../symptoms/port-symptoms.ts';
import {type PortSymptom, SymptomList} from '../../symptoms/symptom-list.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import {type NftPortCase, type NftPortDifference, targetsOf} from '../nft-case.ts';
import {tableWalkOf} from '../../outcomes/environment.ts';
import {endpointsIn, isEntryMap, isRefusal, NftSemantics} from './nft-semantics.ts';
import {joinHostPort} from '../../../model/address.ts';

/**
 * What the differences of one Service port do to packets. Packets of every kind are walked through the expected and the actual
 * rules; a difference that changes no outcome is reported as harmless.
 */
export function analyzeNftPort(portCase: NftPortCase): readonly Symptom[] {
  const {item, expected, view} = portCase;
  const symptoms = new SymptomList(item.port);
  const {context} = expected;
  const sides = {expected: tableWalkOf(expected), actual: tableWalkOf(view)};
  const extra = portCase.differences.filter(({kind}) => kind === 'extra');
  const textsOf = (ofRanges: boolean): readonly string[] =>
    extra.flatMap(({rule}) => ((rule.chain === item.names.firewall) === ofRanges ? [rule.text] : []));
  const texts = {ranges: textsOf(true), others: textsOf(false)};
  const probes = probesBeside({item, context, senders: portCase.senders, hairpins: changedEndpoints(portCase)}, texts);
  const changesOutcome = comparePathOutcomes({
    item,
    symptoms,
    ...probesToWalk({probes, walk: probeWalks(context, sides)}, () => hasOtherNftEndpointsOnly(portCase), clientsOf(item)),
    semantics: new NftSemantics(portCase),
    affinity: () => nftAffinityRules(portCase, symptoms),
  });
  findStaleNftEntries(portCase, symptoms);
  const effect = () => effectOnOthers(texts.others, () => [item], context, sides);
  explainNftResidualDifferences(portCase, symptoms, changesOutcome ? null : effect);
  return symptoms.all;
}

/** Packets to one kind of entry from one kind of sender get the same endpoints, where a policy is Local too. */
function clientsOf({port}: NftPort): (probe: Probe) => string {
  const isLocal = port.internalPolicyLocal || port.externalPolicyLocal;
  return ({entry, source}) => (isLocal ? `${entry.kind} ${source.kind}` : 'all');
}

/** Endpoints that the differences name: only their own connections can have changed in a way that others' have not. */
function changedEndpoints({item, differences}: NftPortCase): readonly Endpoint[] {
  const names = new Set(differences.map(({rule}) => rule.chain));
  const keys = new Set(differences.flatMap(({rule, key}) => (rule.chain === 'hairpin-connections' ? [key ?? ''] : [])));
  const protocol = item.port.protocol.toLowerCase();
  return item.endpoints.reachable
    .filter(endpoint => {
      const {address, port} = endpoint;
      return names.has(item.names.endpoint(endpoint)) || keys.has(`${address} . ${address} . ${protocol} . ${port}`);
    })
    .slice(0, 64);
}

/**
 * Session affinity that is unexpected, missing, or has another timeout, which a walk does not show.
 * @internal
 */
export function nftAffinityRules(portCase: NftPortCase, symptoms: SymptomList): PortSymptom | null {
  const {item, differences} = portCase;
  if (symptoms.has('broken-jump', 'service-not-programmed')) return null;
  const rules = differences.filter(({what, rule}) => what === 'rule' && /^ip6? saddr @affinity-/.test(rule.text));
  const extra = rules.filter(({kind}) => kind === 'extra');
  const other = differences.filter(({what, kind}) => what === 'set' && kind === 'extra');
  const {affinitySeconds} = item.port;
  if (affinitySeconds === null ? extra.length > 0 : other.length > 0) {
    const detail = otherAffinity(item.port, {seconds: timeoutOf(portCase, [...extra, ...other])}, rules.length);
    return {kind: 'session-affinity-mismatch', detail, ...evidenceOf([...rules, ...differences.filter(({what}) => what === 'set')])};
  }
  if (affinitySeconds === null || !remembersNobody(portCase, rules)) return null;
  return {kind: 'session-affinity-mismatch', detail: otherAffinity(item.port, null, rules.length), ...evidenceOf(rules)};
}

function timeoutOf({actual}: NftPortCase, differences: readonly NftPortDifference[]): number | null {
  for (const {rule} of differences) {
    const set = /@(affinity-\S+)/.exec(rule.text)?.[1] ?? rule.chain;
    const timeout = actual.set(set)?.timeout ?? null;
    if (timeout !== null) return timeout;
  }
  return null;
}

/** The Service's chains exist, and none of them matches known clients. */
function remembersNobody({item, actual}: NftPortCase, rules: readonly NftPortDifference[]): boolean {
  const chains = [item.names.service, item.names.local].flatMap(name => actual.chain(name) ?? []).filter(({ruleCount}) => ruleCount > 0);
  return rules.length > 0 && chains.length > 0 && chains.every(chain => !chain.text().includes('@affinity-'));
}

/** Elements that lead into the Service port's chains, or refuse for it, at an address or port that is none of its entries (any more). */
function findStaleNftEntries({item, differences, expected, view}: NftPortCase, symptoms: SymptomList): void {
  const own = new Set(expected.objectsOf(item).elements.map(({key}) => key));
  for (const difference of differences) {
    const {kind, what, rule, key = ''} = difference;
    if (kind !== 'extra' || what !== 'element' || own.has(key) || !(isEntryMap(rule.chain) || isRefusal(difference))) continue;
    const answers =
      isEntryMap(rule.chain) &&
      targetsOf(difference.rule).some(chain => parseNftName(chain)?.base === item.names.base) &&
      targetsOf(rule).some(chain => (view.chain(chain)?.ruleCount ?? 0) > 0);
    const [address = '', port, entryPort] = key.split(' . ');
    const where = entryPort === undefined ? `node port ${port}` : joinHostPort(address, Number(entryPort));
    symptoms.say(staleEntry(where, {answers, rule}), `stale entry ${where}`);
  }
}

/**
 * Whether a Service port differs in its endpoints alone: its chains, sets and elements are exactly those that kube-proxy writes for the
 * endpoints that the node picks from, and nothing is left of the others. Then every client that reaches an endpoint at all shows the same
 * missing and stale endpoints as the others of its kind.
 * @internal
 */
export function hasOtherNftEndpointsOnly({item, differences, expected, actual}: NftPortCase): boolean {
  const {port, endpoints} = item;
  const endpointAt = endpointsByName(endpoints);
  if (endpointAt === null || endpoints.reachable.length !== endpoints.cluster.length) return false;
  if (!actual.complete) return false;
  // Other elements may be at its addresses, and its own sets may have other attributes.
  if (!differences.every(({owner, what, rule}) => owner === item && (what !== 'set' || actual.set(rule.chain) === undefined))) return false;
  const cluster = endpointsOf(item.names.service, actual).map(endpointAt);
  const local = port.internalPolicyLocal || port.externalPolicyLocal ? endpointsOf(item.names.local, actual).map(endpointAt) : [];
  if (cluster.length === 0) return false;
  const written: NftPort = {...item, endpoints: {cluster, local, reachable: cluster, hasAny: true}};
  const does = expected.objectsOf(written);
  // Whether the node has everything of a Service port, chains with exactly these rules.
  return (
    [...does.chains].every(([name, rules]) => actual.chain(name)?.holds(rules) === true) &&
    does.sets.every(({name}) => actual.set(name) !== undefined) &&
    does.elements.every(({set, key, value}) => actual.set(set)?.elements.get(key)?.value === value) &&
    !holdsRest(expected.objectsOf(item), does, actual)
  );
}

/** Whether the node has a chain or set of an endpoint that it does not pick. */
function holdsRest(should: PortObjects, does: PortObjects, actual: NftTable): boolean {
  const writtenSets = new Set(does.sets.map(({name}) => name));
  return (
    [...should.chains.keys()].some(name => !does.chains.has(name) && actual.chain(name) !== undefined) ||
    should.sets.some(({name}) => !writtenSets.has(name) && actual.set(name) !== undefined)
  );
}

/** The endpoints that a chain picks from, by `ip:port`, in the order of the rule that picks; none if there is no such rule. */
function endpointsOf(chain: string, actual: NftTable): readonly string[] {
  const rule = chainText(chain, actual).split('\n').at(-1) ?? '';
  const direct = / dnat to (\S+)$/.exec(rule)?.[1];
  if (direct !== undefined) return [direct];
  const chained = [...rule.matchAll(/\d+ : goto ([^\s,]+)/g)].map(([, target = '']) => target);
  if (chained.length > 0) return chained.map(target => / dnat to (\S+)$/.exec(chainText(target, actual))?.[1] ?? '');
  return endpointsIn(rule);
}

function chainText(chain: string, actual: NftTable): string {
  return actual.chain(chain)?.text() ?? '';
}

/**
 * Differences that no symptom so far explains. If no probe diverges, they are harmless but for what `harmless` says.
 * @internal
 */
export function explainNftResidualDifferences(
  {item, differences}: NftPortCase,
  symptoms: SymptomList,
  harmless: (() => string) | null,
): void {
  const left = unexplained(symptoms, differences);
  const refusals = left.filter(difference => difference.kind === 'extra' && isRefusal(difference));
  for (const {rule} of refusals)
    symptoms.say(residualRefusal(rule, {hasAny: item.endpoints.hasAny, changesOutcome: false}), `left ${rule.text}`);
  const unlisted = left.filter(({kind, rule}) => kind === 'missing' && rule.chain === 'cluster-ips');
  if (unlisted.length > 0) leftUnlisted(unlisted, symptoms);
  const rest = left.filter(difference => !refusals.includes(difference) && !unlisted.includes(difference));
  sayResidual<NftPortDifference>(symptoms, rest, {placeOf: ({chain}) => chain, count: countText, harmless});
}

/** No packet of the Service port matches it. */
function leftUnlisted(unlisted: readonly NftPortDifference[], symptoms: SymptomList): void {
  const detail = 'its cluster IP is not in cluster-ips: connections to ports that it does not have are not refused';
  symptoms.say({kind: 'missing-rule', severity: 'info', detail, expected: unlisted.map(({rule}) => rule), actual: []}, 'unlisted');
}

function countText(group: readonly NftPortDifference[]): string {
  const kinds = new Set(group.map(({what}) => what));
  const noun = kinds.size > 1 || kinds.has('hook') ? 'rule' : ([...kinds][0] ?? 'rule');
  if (group.length > 1) return `${group.length} ${noun}s`;
  return noun === 'element' ? 'an element' : `a ${noun}`;
}
