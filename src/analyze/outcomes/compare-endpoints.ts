import {podOf, type ServedPort} from '../../model/endpoint.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {entryText, throughEntry, type Entry} from '../../model/service-port.ts';
import type {PortSymptom, SymptomList} from '../symptoms/symptom-list.ts';
import type {Symptom, SymptomKind} from '../symptoms/symptom.ts';
import {describePathOutcome, near, type ProbeComparison, describeLoss, type PathOutcome} from './environment.ts';
import {type Probe, whose} from './probes.ts';
import {sourceName} from './sources.ts';
import type {Outcome} from '../../trace/walked-packet.ts';

/** What a proxy mode knows about its own rules that the outcomes of packets do not show. */
export interface ModeSemantics {
  /** The packet ended as if this entry of the Service were not programmed. */
  isUnentered(outcome: Outcome): boolean;
  /** No entry of the Service port is programmed on the node. */
  hasNoEntry(): boolean;
  /** Why a packet is dropped or rejected: its source is in no range, the policy is Local and the node has no endpoint, or another reason. */
  refusedFor(outcome: Outcome): 'ranges' | 'policy' | 'other';
  /** The traffic policy by which the endpoints were picked; null if the rules do not show it. */
  policyOf(pathOutcome: PathOutcome): 'Cluster' | 'Local' | null;
  /** Endpoints, by `ip:port`, whose own rules send packets elsewhere. */
  misdirected(pathOutcome: PathOutcome): ReadonlyMap<string, Misdirected>;
  /** Symptoms that replace all others of a comparison: a broken jump, a third-party rule. Empty if there are none. */
  special(comparison: ProbeComparison): readonly KeyedSymptom[];
  /** The missing rules, and the unexpected ones, that show something of the Service port. */
  readonly evidence: {
    service(): Evidence;
    shares(): Evidence;
    affinity(): Evidence;
    entry(entry: Entry): Evidence;
    endpoint(endpoint: string, comparison: ProbeComparison): Evidence;
    policy(comparison: ProbeComparison): Evidence;
    masquerade(comparison: ProbeComparison): Evidence;
  };
}

export interface Misdirected {
  readonly destination: string;
  readonly rule: RuleText;
}

export interface KeyedSymptom {
  readonly symptom: PortSymptom;
  readonly key: string;
  /** The key of a symptom that explains this one. */
  readonly unless?: string;
}

export interface Evidence {
  readonly expected: readonly RuleText[];
  readonly actual: readonly RuleText[];
}

/** Endpoints that get no traffic, or should get none; if these are right, their shares and masquerading. */
export function compareEndpoints(outcomeCase: OutcomeCase, comparison: ProbeComparison): void {
  const {expected, actual, probe} = comparison;
  const missing = [...expected.destinations.keys()].filter(destination => !actual.destinations.has(destination));
  const extra = [...actual.destinations.keys()].filter(destination => !expected.destinations.has(destination));
  const wrong = outcomeCase.semantics.misdirected(actual);
  for (const [endpoint, {rule, destination}] of wrong) sayWrongAddress(outcomeCase, comparison, endpoint, {rule, destination});
  const elsewhere = new Set([...wrong.values()].map(({destination}) => destination));
  // Most probes of a Service port show the same endpoints; the evidence is collected for the first.
  const isNew = (key: string): boolean => !outcomeCase.symptoms.hasSaid(key);
  const without = missing.filter(endpoint => !wrong.has(endpoint));
  for (const endpoint of without)
    if (isNew(`missing ${endpoint}`)) {
      const evidence = outcomeCase.semantics.evidence.endpoint(endpoint, comparison);
      sayKeyed(outcomeCase.symptoms, missingEndpoint(outcomeCase.item, endpoint, comparison, evidence, without.length));
    }
  for (const endpoint of extra)
    if (!elsewhere.has(endpoint) && isNew(`stale ${endpoint}`)) sayStaleEndpoint(outcomeCase, endpoint, comparison);
  if (missing.length > 0 || extra.length > 0 || wrong.size > 0) return;
  if (actual.rejected > 0 || actual.dropped > 0 || actual.passed > 0) return sayRefused(outcomeCase, comparison);
  if (probe.endpoint === undefined) compareShares(outcomeCase, comparison);
  compareMasquerade(outcomeCase, comparison);
}

function sayWrongAddress(outcomeCase: OutcomeCase, comparison: ProbeComparison, endpoint: string, {rule, destination}: Misdirected): void {
  const {expected} = outcomeCase.semantics.evidence.endpoint(endpoint, comparison);
  const detail = `the rule of endpoint ${endpoint} sends traffic to ${destination}`;
  const share = shareOfPods(comparison, comparison.actual.destinations.get(destination)?.probability ?? 0);
  outcomeCase.symptoms.say(
    {kind: 'wrong-endpoint-address', endpoint, detail, expected, actual: [rule], ...share, ...otherEntry(comparison.probe)},
    `wrong ${endpoint}`,
  );
}

/** Told for connections from pods of the node to the cluster IP alone. */
export function shareOfPods({probe: {entry, source, endpoint}}: ProbeComparison, share: number): Pick<Symptom, 'share'> {
  return entry.kind === 'clusterIP' && source.kind === 'pod' && endpoint === undefined ? {share} : {};
}

/** Says a symptom unless another one explains it. */
export function sayKeyed(symptoms: SymptomList, {symptom, key, unless}: KeyedSymptom): void {
  if (unless === undefined || !symptoms.hasSaid(unless)) symptoms.say(symptom, key);
}

/**
 * Where only what the endpoint sends to itself does not reach it, which is tried last, that is what is wrong. What so many missing endpoints
 * do not get is lost if no other endpoint gets it.
 */
export function missingEndpoint(
  item: ServedPort,
  endpoint: string,
  comparison: ProbeComparison,
  evidence: Evidence,
  missing: number,
): KeyedSymptom {
  const {actual, probe} = comparison;
  const lost = (actual.passed + actual.rejected + actual.dropped) / missing;
  const share = lost > 0.001 ? shareOfPods(comparison, lost) : {};
  if (!isToItself(item, endpoint, probe)) {
    const detail = missingEndpointText(item, endpoint, probe);
    return {symptom: {kind: 'missing-endpoint', endpoint, detail, ...evidence, ...share, ...otherEntry(probe)}, key: `missing ${endpoint}`};
  }
  const detail = `packets from endpoint ${endpoint} to itself through its ${entryText(probe.entry)} are lost: a pod that reaches itself through the Service never gets a reply`;
  return {
    symptom: {kind: 'masquerade-mismatch', variant: 'to-itself', severity: 'error', endpoint, entry: probe.entry, detail, ...evidence},
    key: `masquerade true ${endpoint}`,
    unless: `missing ${endpoint}`,
  };
}

/** A pod in the network of its node sends with the address of the node, as every process there does. */
function isToItself({all}: ServedPort, endpoint: string, {source, endpoint: sender}: Probe): boolean {
  if (source.kind === 'node') return sender?.hostPort === endpoint;
  return all.find(({hostPort}) => hostPort === endpoint)?.address === source.address;
}

function sayStaleEndpoint(outcomeCase: OutcomeCase, endpoint: string, comparison: ProbeComparison): void {
  const share = comparison.actual.destinations.get(endpoint)?.probability ?? 0;
  const detail = staleEndpointText(outcomeCase.item, endpoint, comparison.probe, share);
  const {actual} = outcomeCase.semantics.evidence.endpoint(endpoint, comparison);
  outcomeCase.symptoms.say(
    {kind: 'stale-endpoint', endpoint, detail, expected: [], actual, ...shareOfPods(comparison, share), ...otherEntry(comparison.probe)},
    `stale ${endpoint}`,
  );
}

/** In words: an address that gets a share of the packets of a probe and should get none. */
export function staleEndpointText(item: ServedPort, endpoint: string, probe: Pick<Probe, 'entry'>, share: number): string {
  return `${percentText(share)} of the traffic${throughEntry(probe.entry)} goes to ${endpoint}, which ${stateOf(item, endpoint)}`;
}

function stateOf({all}: ServedPort, endpoint: string): string {
  const known = all.find(({hostPort}) => hostPort === endpoint);
  if (known === undefined) return 'is no endpoint of the Service (any more)';
  if (known.ready) return 'should get none on this node';
  return `is an endpoint that must not be used (${known.terminating ? 'terminating' : 'not ready'})`;
}

function compareShares(outcomeCase: OutcomeCase, comparison: ProbeComparison): void {
  const {expected, actual} = comparison;
  const fair = [...expected.destinations.values()][0]?.probability ?? 0;
  const shareOf = (destination: string): number => actual.destinations.get(destination)?.probability ?? 0;
  if ([...expected.destinations].every(([destination, {probability}]) => near(probability, shareOf(destination)))) return;
  const shares = [...actual.destinations].map(([destination, {probability}]) => `${destination} ${percentText(probability)}`);
  const detail = `traffic${throughEntry(comparison.probe.entry)} is not shared equally: ${shares.slice(0, 6).join(', ')}${shares.length > 6 ? ', …' : ''}; each should get ${percentText(fair)}`;
  const [[least, {probability}] = ['', {probability: 0}]] = [...actual.destinations].sort(([, a], [, b]) => a.probability - b.probability);
  const gist = `endpoints get unequal shares of the traffic, ${least} ${percentText(probability)} in place of ${percentText(fair)}`;
  outcomeCase.symptoms.say({kind: 'uneven-balance', detail, gist, ...outcomeCase.semantics.evidence.shares()}, 'uneven');
}

/** In words: an endpoint that the packets of a probe should reach and do not. */
export function missingEndpointText({all}: ServedPort, endpoint: string, probe: Pick<Probe, 'entry'> & Partial<Probe>): string {
  const known = all.find(({hostPort}) => hostPort === endpoint);
  const name = known === undefined ? null : podOf(known);
  const place = known === undefined || known.nodeName === null ? '' : ` on ${known.nodeName}`;
  const pod = name === null ? '' : ` (pod ${name}${place})`;
  // Sources in a network that a rule names are tried last: if they show it, no others do.
  const sender = probe.endpoint === undefined ? (probe.senders?.text ?? probe.source?.network) : `endpoint ${probe.endpoint.hostPort}`;
  const from = sender === undefined ? '' : ` from ${sender}`;
  return `endpoint ${endpoint}${pod} gets no traffic${from}${throughEntry(probe.entry)}`;
}

/** What packets to the cluster IP show holds for all entries; what they do not show is about the entry that does. */
function otherEntry({entry}: Probe): Pick<Symptom, 'entry'> {
  return entry.kind === 'clusterIP' ? {} : {entry};
}

function percentText(probability: number): string {
  return `${Math.round(probability * 1000) / 10}%`;
}

/** Packets reach the right endpoints, with another source address than they should have. */
export function compareMasquerade(outcomeCase: OutcomeCase, comparison: ProbeComparison): void {
  const {expected, actual} = comparison;
  const diverging = [...expected.destinations].find(
    ([destination, {masquerade}]) => (actual.destinations.get(destination)?.masquerade ?? masquerade) !== masquerade,
  );
  if (diverging !== undefined) sayOtherMasquerade(outcomeCase, comparison, {destination: diverging[0], should: diverging[1].masquerade});
}

function sayOtherMasquerade(
  outcomeCase: OutcomeCase,
  comparison: ProbeComparison,
  {destination, should}: {readonly destination: string; readonly should: boolean},
): void {
  const {probe} = comparison;
  const isHairpin = isToItself(outcomeCase.item, destination, probe);
  const own = isHairpin ? destination : probe.endpoint?.hostPort;
  const who = own === undefined ? (probe.senders?.text ?? sourceName(probe.source)) : `endpoint ${own}`;
  const entry = entryText(probe.entry);
  const mustReturn = should && (isHairpin || (probe.entry.kind !== 'clusterIP' && !outcomeCase.item.port.externalPolicyLocal));
  const effect = isHairpin
    ? 'a pod that reaches itself through the Service never gets a reply'
    : "endpoints see the client's address, and where their answers do not pass this node, connections time out";
  const detail = should
    ? `packets from ${isHairpin ? `${who} to itself` : who} through its ${entry} should be masqueraded and are not: ${effect}`
    : `packets from ${who} through its ${entry} are masqueraded and should not be: endpoints, logs and network policies see the node's address instead of the client's`;
  const evidence = outcomeCase.semantics.evidence.masquerade(comparison);
  const cause = evidence.expected[0]?.text ?? evidence.actual[0]?.text ?? entry;
  outcomeCase.symptoms.say(
    {
      kind: 'masquerade-mismatch',
      variant: should ? (isHairpin ? 'to-itself' : 'not-masqueraded') : 'masqueraded',
      severity: mustReturn ? 'error' : 'warning',
      ...(isHairpin ? {endpoint: destination} : {}),
      entry: probe.entry,
      detail,
      ...evidence,
    },
    `masquerade ${should} ${isHairpin ? destination : cause}`,
  );
}

/** Endpoints should be reached, and the packet is refused. */
export function sayRefused(outcomeCase: OutcomeCase, comparison: ProbeComparison): void {
  const {expected, actual, probe} = comparison;
  const outcome = actual.outcomes.find(({verdict}) => verdict === 'reject' || verdict === 'drop');
  const rule = outcome?.path.at(-1);
  const differing = outcomeCase.semantics.evidence.policy(comparison);
  // An element of a map that refuses is no rule of the path with a place of its own.
  const evidence = {expected: differing.expected, actual: rule === undefined || rule.line === 0 ? differing.actual : [rule]};
  if (outcome !== undefined && outcomeCase.semantics.refusedFor(outcome) === 'ranges') {
    const ranges = outcomeCase.item.port.sourceRanges.length > 0;
    const detail = `${whose(probe)} are dropped though ${ranges ? 'loadBalancerSourceRanges allow them' : 'there are no loadBalancerSourceRanges'}`;
    const variant = ranges ? 'allowed-client-dropped' : 'ranges-not-configured';
    return outcomeCase.symptoms.say(
      {kind: 'source-ranges-mismatch', variant, refuses: true, entry: probe.entry, detail, ...evidence},
      `ranges ${entryText(probe.entry)}`,
    );
  }
  const detail = `${whose(probe)} end in ${describePathOutcome(actual)}, and should reach ${describePathOutcome(expected)}`;
  outcomeCase.symptoms.say(
    {
      kind: 'unexpected-reject',
      severity: 'error',
      entry: probe.entry,
      detail,
      ...evidence,
      ...shareOfPods(comparison, actual.rejected + actual.dropped),
    },
    `refused ${entryText(probe.entry)}`,
  );
}

/** The probes of one Service port, and what else is known of it. */
export interface OutcomeCase {
  readonly item: ServedPort;
  readonly probes: readonly Probe[];
  /** Walks a probe through the expected and the actual rules. */
  readonly walk: (probe: Probe) => ProbeComparison;
  readonly semantics: ModeSemantics;
  readonly symptoms: SymptomList;
  /** What the rules of session affinity show by themselves, computed after the endpoints were compared. Null if they show nothing. */
  readonly affinity?: (changesOutcome: boolean) => PortSymptom | null;
}

/** Symptoms of single endpoints. */
export const endpointKinds: readonly SymptomKind[] = ['missing-endpoint', 'stale-endpoint', 'wrong-endpoint-address', 'broken-jump'];

/** Rules or elements that lead to a chain that is missing or empty, by the name of this chain. */
export function brokenJumps(
  broken: ReadonlyMap<string, RuleText>,
  comparison: ProbeComparison,
  {
    endpointOf,
    has,
    rulesOf,
  }: {
    endpointOf(chain: string): {readonly hostPort: string} | undefined;
    has(chain: string): boolean;
    rulesOf(chain: string): readonly RuleText[];
  },
): readonly KeyedSymptom[] {
  const {actual, probe} = comparison;
  const lost = actual.passed + actual.rejected + actual.dropped;
  return [...broken].map(([target, rule]) => {
    const endpoint = endpointOf(target);
    const place = endpoint === undefined ? {entry: probe.entry} : {endpoint: endpoint.hostPort};
    const detail = `a rule jumps to ${target}, which ${has(target) ? 'is empty' : 'does not exist'}; ${whose(probe)} end in ${describeLoss(actual)}`;
    const evidence = {expected: rulesOf(target).slice(0, 3), actual: [rule]};
    return {key: `jump ${target}`, symptom: {kind: 'broken-jump', ...place, detail, ...evidence, ...shareOfPods(comparison, lost)}};
  });
}

/** A third-party rule in a chain of the Service port intercepts all packets before they reach an endpoint. */
export function interceptedBy(rule: RuleText, place: string, {actual, probe}: ProbeComparison): KeyedSymptom {
  const detail = `a rule in ${place} that kube-proxy would not have written intercepts ${whose(probe)}: they end in ${describePathOutcome(actual)}`;
  const symptom = {kind: 'unexpected-rule', severity: 'error', entry: probe.entry, detail, expected: [], actual: [rule]} as const;
  return {key: `taken ${rule.chain} ${rule.line}`, symptom};
}

/** A chain after the entry returns packets: the rule that leads to the endpoints, which are picked by the policy, is missing. */
export function deadEnd(
  {port}: Pick<ServedPort, 'port'>,
  {probe}: ProbeComparison,
  {chain, policy, evidence}: {readonly chain: string; readonly policy: 'Cluster' | 'Local' | null; readonly evidence: Evidence},
): KeyedSymptom {
  const {entry} = probe;
  if (port.externalPolicyLocal && policy === 'Cluster') {
    const detail = `${whose(probe)} do not get the bypass to all endpoints: ${chain} returns them without an endpoint`;
    return {
      key: `policy ${entryText(entry)}`,
      symptom: {kind: 'traffic-policy-mismatch', variant: 'bypass-missing', entry, detail, ...evidence},
    };
  }
  const detail = `packets to its ${entryText(entry)} are sent to ${chain}, which returns them without an endpoint`;
  return {key: `entry ${entryText(entry)}`, symptom: {kind: 'missing-entry', entry, detail, ...evidence}};
}
