import type {ServedPort} from '../../expect/cluster/served-port.ts';
import {type Entry, entryText} from '../../model/entry.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {Outcome} from '../../trace/outcome.ts';
import {describePathOutcome, type PathOutcome, near, hasSameEnds, isSameOutcome, type ProbeComparison} from './path-outcome.ts';
import {type Probe, whose} from './probes.ts';
import {sourceNames} from './sources.ts';
import type {SymptomKind} from '../symptoms/symptom.ts';
import type {PortSymptom, SymptomList} from '../symptoms/symptom-list.ts';

/** What a proxy mode knows about its own rules that the outcomes of packets do not show. */
export interface ModeSemantics<R extends RuleText> {
  /** The packet ended as if this entry of the Service were not programmed. */
  isUnentered(outcome: Outcome<R>): boolean;
  /** No entry of the Service port is programmed on the node. */
  hasNoEntry(): boolean;
  /** Why a packet is dropped or rejected: its source is in no range, the policy is Local and the node has no endpoint, or another reason. */
  refusedFor(outcome: Outcome<R>): 'ranges' | 'policy' | 'other';
  /** The traffic policy by which the endpoints were picked; null if the rules do not show it. */
  policyOf(pathOutcome: PathOutcome<R>): 'Cluster' | 'Local' | null;
  /** Endpoints, by `ip:port`, whose own rules send packets elsewhere. */
  misdirected(pathOutcome: PathOutcome<R>): ReadonlyMap<string, Misdirected<R>>;
  /** Symptoms that replace all others of a comparison: a broken jump, a third-party rule. Empty if there are none. */
  special(comparison: ProbeComparison<R>): readonly KeyedSymptom<R>[];
  /** The missing rules, and the unexpected ones. */
  evidence(subject: Subject<R>): Evidence<R>;
}

export interface Misdirected<R extends RuleText> {
  readonly destination: string;
  readonly rule: R;
}

export interface KeyedSymptom<R extends RuleText> {
  readonly symptom: PortSymptom<R>;
  readonly key: string;
}

/** The subject for which rules are wanted as evidence. */
export type Subject<R extends RuleText> =
  | {readonly kind: 'service' | 'shares' | 'affinity'}
  | {readonly kind: 'entry'; readonly entry: Entry}
  | {readonly kind: 'endpoint'; readonly endpoint: string; readonly comparison: ProbeComparison<R>}
  | {readonly kind: 'policy' | 'masquerade'; readonly comparison: ProbeComparison<R>};

export interface Evidence<R extends RuleText> {
  readonly expected: readonly R[];
  readonly actual: readonly R[];
}

interface OutcomeCase<R extends RuleText> {
  readonly item: ServedPort;
  readonly comparisons: readonly ProbeComparison<R>[];
  readonly semantics: ModeSemantics<R>;
  readonly symptoms: SymptomList<R>;
  /** What the rules of session affinity show by themselves, computed after the endpoints were compared. Null if they show nothing. */
  readonly affinity?: (changesOutcome: boolean) => PortSymptom<R> | null;
}

/**
 * Reports what the probe comparisons of one Service port show, in any proxy mode: each diverging probe gets one symptom that names
 * the cause. Returns whether any probe diverges.
 */
export function comparePathOutcomes<R extends RuleText>(given: OutcomeCase<R>): boolean {
  return new OutcomeComparison(given).analyze();
}

class OutcomeComparison<R extends RuleText> {
  readonly #item: ServedPort;
  readonly #comparisons: readonly ProbeComparison<R>[];
  readonly #semantics: ModeSemantics<R>;
  readonly #symptoms: SymptomList<R>;
  readonly #affinity: NonNullable<OutcomeCase<R>['affinity']>;

  constructor({item, comparisons, semantics, symptoms, affinity = () => null}: OutcomeCase<R>) {
    this.#affinity = affinity;
    this.#item = item;
    this.#comparisons = comparisons;
    this.#semantics = semantics;
    this.#symptoms = symptoms;
  }

  analyze(): boolean {
    const diverging = this.#comparisons.filter(({expected, actual}) => !isSameOutcome(expected, actual));
    const unreached = this.#unreachedEntries(diverging);
    const reached = diverging.filter(({probe}) => !unreached.has(entryText(probe.entry)));
    for (const comparison of reached) if (isNewConnection(comparison)) this.#explainComparison(comparison);
    // Affinity is only compared if the endpoints and the entry are right.
    if (!this.#symptoms.has(...endpointKinds)) {
      for (const comparison of reached)
        if (isLedBack(comparison) && !this.#symptoms.tellsOf(entryText(comparison.probe.entry))) this.#lostAffinity(comparison);
    }
    const affinity = this.#affinity(diverging.length > 0);
    if (affinity !== null) this.#symptoms.say(affinity, 'affinity');
    if (!this.#symptoms.has(...endpointKinds)) for (const comparison of reached) this.#compareMemory(comparison);
    // The policy decides who is masqueraded; with the wrong policy that is no finding of its own.
    if (this.#symptoms.has('traffic-policy-mismatch')) this.#symptoms.drop('masquerade-mismatch');
    return diverging.length > 0;
  }

  /** Unreached entries. If all entries are unreached, the Service port is not programmed. */
  #unreachedEntries(diverging: readonly ProbeComparison<R>[]): ReadonlySet<string> {
    const fresh = diverging.filter(isNewConnection);
    const entered = new Set(fresh.filter(comparison => !this.#isUnentered(comparison)).map(({probe}) => entryText(probe.entry)));
    const whole = new Map<string, ProbeComparison<R>>();
    for (const comparison of fresh) {
      const name = entryText(comparison.probe.entry);
      if (comparison.expected.destinations.size > 0 && !entered.has(name) && !whole.has(name)) whole.set(name, comparison);
    }
    if (whole.size === 0) return new Set();
    if (whole.size === this.#servedEntries().size && this.#semantics.hasNoEntry()) {
      const detail = 'not programmed on this node: no entry reaches an endpoint';
      this.#symptoms.say({kind: 'service-not-programmed', detail, ...this.#semantics.evidence({kind: 'service'})});
    } else {
      for (const comparison of whole.values()) if (!this.#saySpecial(comparison)) this.#missingEntry(comparison);
    }
    return new Set(whole.keys());
  }

  /** Names of the entries that lead to an endpoint in the expected rules. */
  #servedEntries(): ReadonlySet<string> {
    const served = this.#comparisons.filter(({expected, probe}) => expected.destinations.size > 0 && probe.endpoint === undefined);
    return new Set(served.map(({probe}) => entryText(probe.entry)));
  }

  #isUnentered({actual}: ProbeComparison<R>): boolean {
    return actual.destinations.size === 0 && actual.outcomes.every(outcome => this.#semantics.isUnentered(outcome));
  }

  #missingEntry({probe: {entry}, actual}: ProbeComparison<R>): void {
    const found = this.#semantics.evidence({kind: 'entry', entry});
    const detail =
      found.expected.length > 0
        ? `its ${entryText(entry)} is not programmed, while other entries are`
        : `no packet to its ${entryText(entry)} enters its chains, though the rule that should take it is there`;
    const last = found.expected.length > 0 ? found.actual : (actual.outcomes[0]?.path.slice(-1) ?? []);
    this.#symptoms.say({kind: 'missing-entry', entry, detail, expected: found.expected, actual: last}, `entry ${entryText(entry)}`);
  }

  #explainComparison(comparison: ProbeComparison<R>): void {
    const {expected, actual} = comparison;
    if (actual.undecided > 0 && expected.undecided === 0) return this.#undecided(comparison);
    if (this.#saySpecial(comparison)) return;
    if (expected.destinations.size === 0) return this.#shouldBeRefused(comparison);
    if (this.#isUnentered(comparison))
      return this.#symptoms.tellsOf(entryText(comparison.probe.entry)) ? undefined : this.#missingEntry(comparison);
    if (this.#otherPolicy(comparison)) return;
    if (actual.destinations.size === 0 && (actual.rejected > 0 || actual.dropped > 0)) return this.#refused(comparison);
    this.#compareEndpoints(comparison);
  }

  #saySpecial(comparison: ProbeComparison<R>): boolean {
    const special = this.#semantics.special(comparison);
    for (const {symptom, key} of special) this.#symptoms.say(symptom, key);
    return special.length > 0;
  }

  #undecided({actual, probe}: ProbeComparison<R>): void {
    const outcome = actual.outcomes.find(({verdict}) => verdict === 'undecided');
    // A truncated dump is reported for the node, as ST506.
    if (/the dump was (?:cut|truncated)/.test(outcome?.reason ?? '')) return;
    const detail = `the outcome for ${whose(probe)} is undetermined: ${outcome?.reason ?? 'unknown'}`;
    this.#symptoms.say(
      {kind: 'undecided-path', entry: probe.entry, detail, expected: [], actual: outcome?.path.slice(-1) ?? []},
      'undecided',
    );
  }

  /** No endpoint should be reached: the Service has none, the node has none, or the source is not allowed. */
  #shouldBeRefused(comparison: ProbeComparison<R>): void {
    const {expected, actual, probe} = comparison;
    const [outcome] = expected.outcomes;
    const reason = outcome === undefined ? 'other' : this.#semantics.refusedFor(outcome);
    const decisive = outcome?.path.at(-1);
    const evidence = {expected: decisive === undefined ? [] : [decisive], actual: actual.outcomes[0]?.path.slice(0, 3) ?? []};
    const entry = entryText(probe.entry);
    if (reason === 'ranges') {
      const detail = `${whose(probe)} must be dropped, and end in ${describePathOutcome(actual)}: loadBalancerSourceRanges are not enforced`;
      return this.#symptoms.say({kind: 'source-ranges-mismatch', entry: probe.entry, detail, ...evidence}, `ranges ${entry}`);
    }
    if (expected.dropped > 0) {
      const detail = `${whose(probe)} must be dropped, since the policy is Local and no endpoint is on this node; they end in ${describePathOutcome(actual)}`;
      return this.#symptoms.say({kind: 'traffic-policy-mismatch', entry: probe.entry, detail, ...evidence}, `policy ${entry}`);
    }
    if (actual.destinations.size > 0) return this.#compareEndpoints(comparison);
    if (expected.rejected === 0) return;
    const detail = `it has no endpoints, so ${whose(probe)} must be refused; they end in ${describePathOutcome(actual)}: connections hang or leave the node`;
    this.#symptoms.say({kind: 'missing-reject', entry: probe.entry, detail, ...evidence}, `reject ${entry}`);
  }

  /** The endpoints are picked by the other policy, or packets are dropped as under the other policy. */
  #otherPolicy(comparison: ProbeComparison<R>): boolean {
    const {expected, actual, probe} = comparison;
    const should = this.#semantics.policyOf(expected);
    const does = this.#semantics.policyOf(actual);
    const dropped = actual.outcomes.some(outcome => outcome.verdict === 'drop' && this.#semantics.refusedFor(outcome) === 'policy');
    if ((should === does || does === null || should === null) && !dropped) return false;
    const detail = dropped
      ? `${whose(probe)} are dropped because the node has no local endpoint, and should reach ${describePathOutcome(expected)}`
      : `${whose(probe)} are balanced by the ${does} policy, and should be by the ${should} policy`;
    const evidence = this.#semantics.evidence({kind: 'policy', comparison});
    this.#symptoms.say({kind: 'traffic-policy-mismatch', entry: probe.entry, detail, ...evidence}, `policy ${entryText(probe.entry)}`);
    return true;
  }

  /** Endpoints should be reached, and the packet is refused. */
  #refused({expected, actual, probe}: ProbeComparison<R>): void {
    const outcome = actual.outcomes.find(({verdict}) => verdict === 'reject' || verdict === 'drop');
    const rule = outcome?.path.at(-1);
    const evidence = {expected: [...expected.destinations.values()][0]?.path.slice(0, 3) ?? [], actual: rule === undefined ? [] : [rule]};
    if (outcome !== undefined && this.#semantics.refusedFor(outcome) === 'ranges') {
      const ranges = this.#item.port.sourceRanges.length > 0;
      const detail = `${whose(probe)} are dropped though ${ranges ? 'loadBalancerSourceRanges allow them' : 'there are no loadBalancerSourceRanges'}`;
      return this.#symptoms.say(
        {kind: 'source-ranges-mismatch', entry: probe.entry, detail, ...evidence},
        `ranges ${entryText(probe.entry)}`,
      );
    }
    const detail = `${whose(probe)} end in ${describePathOutcome(actual)}, and should reach ${describePathOutcome(expected)}`;
    this.#symptoms.say(
      {kind: 'unexpected-reject', severity: 'error', entry: probe.entry, detail, ...evidence},
      `refused ${entryText(probe.entry)}`,
    );
  }

  #compareEndpoints(comparison: ProbeComparison<R>): void {
    const {expected, actual, probe} = comparison;
    const missing = [...expected.destinations.keys()].filter(destination => !actual.destinations.has(destination));
    const extra = [...actual.destinations.keys()].filter(destination => !expected.destinations.has(destination));
    const wrong = this.#semantics.misdirected(actual);
    for (const [endpoint, {rule, destination}] of wrong) this.#wrongAddress(endpoint, {rule, destination}, comparison);
    const elsewhere = new Set([...wrong.values()].map(({destination}) => destination));
    for (const endpoint of missing) if (!wrong.has(endpoint)) this.#missingEndpoint(endpoint, comparison);
    for (const endpoint of extra) if (!elsewhere.has(endpoint)) this.#staleEndpoint(endpoint, comparison);
    if (missing.length > 0 || extra.length > 0 || wrong.size > 0) return;
    if (actual.rejected > 0 || actual.dropped > 0 || actual.passed > 0) return this.#refused(comparison);
    if (probe.endpoint === undefined) this.#compareShares(comparison);
    this.#compareMasquerade(comparison);
  }

  #wrongAddress(endpoint: string, {rule, destination}: Misdirected<R>, comparison: ProbeComparison<R>): void {
    const {expected} = this.#semantics.evidence({kind: 'endpoint', endpoint, comparison});
    const detail = `the rule of endpoint ${endpoint} sends traffic to ${destination}`;
    this.#symptoms.say({kind: 'wrong-endpoint-address', endpoint, detail, expected, actual: [rule]}, `wrong ${endpoint}`);
  }

  #missingEndpoint(endpoint: string, comparison: ProbeComparison<R>): void {
    const detail = missingEndpointText(this.#item, endpoint, comparison.probe);
    const evidence = this.#semantics.evidence({kind: 'endpoint', endpoint, comparison});
    this.#symptoms.say({kind: 'missing-endpoint', endpoint, detail, ...evidence}, `missing ${endpoint}`);
  }

  #staleEndpoint(endpoint: string, comparison: ProbeComparison<R>): void {
    const share = comparison.actual.destinations.get(endpoint);
    const percent = share === undefined ? '' : `${percentText(share.probability)} of `;
    const detail = `${percent}the traffic${through(comparison.probe)} goes to ${endpoint}, which ${this.#stateOf(endpoint)}`;
    const {actual} = this.#semantics.evidence({kind: 'endpoint', endpoint, comparison});
    this.#symptoms.say({kind: 'stale-endpoint', endpoint, detail, expected: [], actual}, `stale ${endpoint}`);
  }

  #stateOf(endpoint: string): string {
    const known = this.#item.all.find(({hostPort}) => hostPort === endpoint);
    if (known === undefined) return 'is no endpoint of the Service (any more)';
    if (known.ready) return 'should get none on this node';
    return `is an endpoint that must not be used (${known.terminating ? 'terminating' : 'not ready'})`;
  }

  #compareShares(comparison: ProbeComparison<R>): void {
    const {expected, actual} = comparison;
    const fair = [...expected.destinations.values()][0]?.probability ?? 0;
    const shareOf = (destination: string): number => actual.destinations.get(destination)?.probability ?? 0;
    if ([...expected.destinations].every(([destination, {probability}]) => near(probability, shareOf(destination)))) return;
    const shares = [...actual.destinations].map(([destination, {probability}]) => `${destination} ${percentText(probability)}`);
    const detail = `traffic${through(comparison.probe)} is not shared equally: ${shares.slice(0, 6).join(', ')}${shares.length > 6 ? ', …' : ''}; each should get ${percentText(fair)}`;
    this.#symptoms.say({kind: 'uneven-balance', detail, ...this.#semantics.evidence({kind: 'shares'})}, 'uneven');
  }

  #compareMasquerade(comparison: ProbeComparison<R>): void {
    const {expected, actual} = comparison;
    const diverging = [...expected.destinations].find(
      ([destination, {masquerade}]) => (actual.destinations.get(destination)?.masquerade ?? masquerade) !== masquerade,
    );
    if (diverging !== undefined) this.#otherMasquerade(comparison, {destination: diverging[0], should: diverging[1].masquerade});
  }

  #otherMasquerade(comparison: ProbeComparison<R>, {destination, should}: {readonly destination: string; readonly should: boolean}): void {
    const {probe} = comparison;
    const isHairpin = probe.endpoint?.hostPort === destination;
    const who = probe.endpoint === undefined ? sourceNames[probe.source.kind] : `endpoint ${probe.endpoint.hostPort}`;
    const entry = entryText(probe.entry);
    const detail = should
      ? `packets from ${isHairpin ? `${who} to itself` : who} through its ${entry} are not masqueraded${isHairpin ? ': a pod that reaches itself through the Service never gets a reply' : ', and should be'}`
      : `packets from ${who} through its ${entry} are masqueraded, and should keep their source address`;
    const mustReturn = should && (isHairpin || (probe.entry.kind !== 'clusterIP' && !this.#item.port.externalPolicyLocal));
    const evidence = this.#semantics.evidence({kind: 'masquerade', comparison});
    const cause = evidence.expected[0]?.text ?? evidence.actual[0]?.text ?? entry;
    this.#symptoms.say(
      {
        kind: 'masquerade-mismatch',
        severity: mustReturn ? 'error' : 'warning',
        ...(isHairpin ? {endpoint: destination} : {}),
        entry: probe.entry,
        detail,
        ...evidence,
      },
      `masquerade ${should} ${isHairpin ? destination : cause}`,
    );
  }

  #lostAffinity(comparison: ProbeComparison<R>): void {
    if (hasSameEnds(comparison.expected, comparison.actual)) return this.#compareMasquerade(comparison);
    const detail = `a returning client is not sent back to its endpoint through its ${entryText(comparison.probe.entry)}`;
    this.#symptoms.say({kind: 'session-affinity-mismatch', detail, ...this.#semantics.evidence({kind: 'affinity'})}, 'affinity');
  }

  /** Packets reach the right endpoint, but the rule does not record the client, or records it in another list. */
  #compareMemory({expected, actual, probe}: ProbeComparison<R>): void {
    for (const [destination, {remembered}] of expected.destinations) {
      const found = actual.destinations.get(destination);
      if (found === undefined || found.remembered === remembered) continue;
      const state = found.remembered === null ? 'is not remembered' : `is remembered in the list ${found.remembered}, which is not its own`;
      const detail = `a client that comes through its ${entryText(probe.entry)} and is sent to ${destination} ${state}`;
      this.#symptoms.say({kind: 'session-affinity-mismatch', detail, expected: [], actual: found.path.slice(-1)}, 'affinity');
    }
  }
}

/** Symptoms of single endpoints. */
export const endpointKinds: readonly SymptomKind[] = ['missing-endpoint', 'stale-endpoint', 'wrong-endpoint-address', 'broken-jump'];

/** The client is known to no endpoint. */
function isNewConnection({probe}: ProbeComparison<RuleText>): boolean {
  return probe.knownTo.size === 0;
}

/** The client is known to one endpoint, which it should reach. */
function isLedBack({probe, expected}: ProbeComparison<RuleText>): boolean {
  return probe.knownTo.size > 0 && expected.destinations.size === 1;
}

export function missingEndpointText({all}: ServedPort, endpoint: string, probe: Probe): string {
  const known = all.find(({hostPort}) => hostPort === endpoint);
  const place = known === undefined || known.nodeName === null ? '' : ` on ${known.nodeName}`;
  const pod = known === undefined || known.pod === null ? '' : ` (pod ${known.pod}${place})`;
  return `endpoint ${endpoint}${pod} gets no traffic${through(probe)}`;
}

function through({entry}: Probe): string {
  return entry.kind === 'clusterIP' ? '' : ` through its ${entryText(entry)}`;
}

function percentText(probability: number): string {
  return `${Math.round(probability * 1000) / 10}%`;
}
