import {heldIn} from '../model/once.ts';
import {differingKey, type ServiceDifferences} from '../analyze/proxy-mode.ts';
import {type AnsweredPlace, ClusterView, type PortEntry, serviceKey} from '../expect/cluster/cluster-view.ts';
import {
  changesByService,
  type FormerOwner,
  formerOwners,
  type ServiceState,
  serviceStates,
  type ServiceStates,
} from '../expect/cluster/service-states.ts';
import {parseChainName, servicePortHash} from '../expect/iptables/chain-names.ts';
import {families, type Family} from '../model/address.ts';
import type {EndpointSliceObject, ServiceObject} from '../model/api-objects.ts';
import type {Finding, ServiceName} from '../model/finding.ts';
import type {ServicePort} from '../model/service-port.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {gracePeriod, type NodeLag, type NodeReading} from '../model/state-history.ts';
import {namespacedName} from '../model/text.ts';
import type {NodeSurroundings, PreparedNode, StateToTest, TestedState} from './diagnose-node.ts';
import type {NodeResult} from '../model/node-result.ts';
import type {Endpoint} from '../model/endpoint.ts';
import type {ProxyVersion} from '../model/proxy-config.ts';

/**
 * Diagnoses a node against every state that the Services had within kube-proxy's grace period. A Service is in sync if the node matches one
 * of them; if it matches none, it is compared with the nearest one. Without a change this is one analysis; with changes, one more for each
 * further state of the Services that do not match yet, all Services at a time.
 */
export function diagnoseStates(
  {evaluate, narrowTo}: PreparedNode,
  {api, view}: Pick<NodeSurroundings, 'api' | 'view'>,
  reading: NodeReading,
): NodeResult {
  const changes = changesByService(reading.history);
  if (changes.size === 0 || api.endpointSlices === null || api.services === null) return evaluate({view}).result;
  const isLarge = keepsOldChains(api);
  const graceMs = reading.gracePeriodMs ?? gracePeriod * 1000;
  const searches = [...changes].flatMap(([service, own]) =>
    families.map(family => new StateSearch(serviceStates(service, family, {api, changes: own, reading}), {isLarge, graceMs})),
  );
  const recent = recentSlices(searches, graceMs);
  const known = {recent: (port: ServicePort) => recent.get(serviceKey(port)) ?? [], formerOwner: formerOwners(searches)};
  const chosen = (isNarrow: boolean): ChosenStates => new ChosenStates(api, view, {chosen: chosenBy(searches), ...known, isNarrow});
  const evaluateChosen: EvaluateChosen = lastReused(searches, how => evaluate({view: chosen(false), ...how}));
  const narrowed = narrowTo({services: new Set(changes.keys()), hashes: new Set(searches.flatMap(({hashes}) => [...hashes]))});
  const guess = (): boolean => {
    if (narrowed === null) return false;
    search(searches, () => narrowed({view: chosen(true), eachService: true}));
    return true;
  };
  // The rules of these Services alone tell the states; the whole node has to say the same.
  const isGuessed = guess();
  if (!isGuessed || !agree(searches, evaluateChosen())) search(searches, evaluateChosen);
  const conclude = (): NodeResult => {
    const {result} = evaluateChosen({lag: lagOf(searches, changes.size)});
    // A kube-proxy that applied one of the changes has not stopped before it.
    const findings = searches.some(one => one.holdsAChange) ? result.findings.map(({since: _, ...finding}) => finding) : result.findings;
    return {...result, findings, perhapsTorn: tornOf(searches)};
  };
  const result = conclude();
  if (!result.findings.some(isOfNode)) return result;
  // One Service that lags can look like a setting that differs on the whole node, or like a node without rules.
  const evaluateEach = (): TestedState => evaluateChosen({eachService: true});
  if (!guess() || !agree(searches, evaluateEach())) search(searches, evaluateEach);
  const other = conclude();
  return other.findings.some(isOfNode) ? result : other;
}

/** Evaluates the node with the states that the searches have chosen. */
type EvaluateChosen = (how?: Omit<StateToTest, 'view'>) => TestedState;

/** The latest result again if the states are the same: a lag within the grace period changes no finding. */
function lastReused(searches: readonly StateSearch[], evaluate: EvaluateChosen): EvaluateChosen {
  let last: {readonly states: readonly (ServiceState | undefined)[]; readonly eachService: boolean; readonly tested: TestedState} | null =
    null;
  return (how = {}) => {
    const {lag, eachService = false} = how;
    const states = searches.map(({chosen}) => chosen);
    const isSame = last !== null && last.eachService === eachService && last.states.every((state, index) => state === states[index]);
    if (last !== null && isSame && lag !== undefined && lag.seconds <= gracePeriod)
      return {...last.tested, result: {...last.tested.result, report: {...last.tested.result.report, lag}}};
    last = {states, eachService, tested: evaluate(how)};
    return last.tested;
  };
}

/** Tests the states of all Services that do not match yet, each one state older at a time. */
function search(searches: readonly StateSearch[], evaluate: EvaluateChosen): void {
  for (const one of searches) one.start();
  for (;;) {
    const tested = evaluate();
    for (const one of searches) one.note(distanceOf(one, tested));
    // Every search has to advance.
    if (searches.filter(one => one.advance()).length === 0) break;
  }
  for (const one of searches) one.conclude();
}

/** Whether each Service is as far from its chosen state as its search has found. */
function agree(searches: readonly StateSearch[], tested: TestedState): boolean {
  return searches.every(one => one.agrees(distanceOf(one, tested)));
}

function distanceOf(one: StateSearch, {result, unreached, differing, isReadPiecemeal}: TestedState): TestedDifferences {
  return {
    findings: result.findings.filter(finding => isOfService(finding, one)),
    left: unreached.filter(({family, chain}) => family === one.family && one.owns(chain)).length,
    differences: differing.get(differingKey(one.family, one.service)),
    isReadPiecemeal,
  };
}

/** What the node has for the Service, in the family of the search. */
function isOfService({code, service, family}: Finding, one: StateSearch): boolean {
  if (service === undefined || !code.startsWith('ST2')) return false;
  return `${service.namespace}/${service.name}` === one.service && (family === undefined || family === one.family);
}

/** A single finding in place of many about Services. */
function isOfNode({code, severity, service}: Finding): boolean {
  return service === undefined && (nodeWide.has(code) || (code.startsWith('ST2') && severity !== 'info'));
}

/** In a large cluster kube-proxy deletes chains later. Follows the use of `largeClusterEndpointsThreshold`, counted here by slices. */
function keepsOldChains({endpointSlices}: ApiObjects): boolean {
  let endpoints = 0;
  for (const slice of endpointSlices ?? []) endpoints += (slice.endpoints ?? []).length * Math.max(1, (slice.ports ?? []).length);
  return endpoints > 1000;
}

/** Findings in place of one for each Service: a node that lags can look like one of these. */
const nodeWide: ReadonlySet<string> = new Set(['ST304', 'ST305', 'ST504', 'ST507', 'ST509']);

function chosenBy(searches: readonly StateSearch[]): ChosenState {
  const chosen = new Map<Family, Map<string, ServiceState>>();
  for (const {family, service, chosen: state} of searches) {
    const states = heldIn(chosen, family, () => new Map<string, ServiceState>());
    if (state !== undefined) states.set(service, state);
  }
  return chosen;
}

/** The slices of each Service within the grace period. */
function recentSlices(searches: readonly StateSearch[], graceMs: number): ReadonlyMap<string, readonly ServiceState['slices'][number][]> {
  const recent = new Map<string, Set<ServiceState['slices'][number]>>();
  for (const {service, states} of searches) {
    const slices = heldIn(recent, service, () => new Set());
    for (const state of states) if (state.age <= graceMs) for (const slice of state.slices) slices.add(slice);
  }
  return new Map([...recent].map(([service, slices]) => [service, [...slices]]));
}

function tornOf(searches: readonly StateSearch[]): readonly string[] {
  const unfit = searches.filter(({lagSeconds}) => lagSeconds === null);
  const whole = new Set(unfit.filter(({isPerhapsTorn}) => !isPerhapsTorn).map(({service}) => service));
  return [...new Set(unfit.map(({service}) => service))].filter(service => !whole.has(service));
}

function lagOf(searches: readonly StateSearch[], changedServices: number): NodeLag {
  let behind: {readonly seconds: number; readonly service: string} | null = null;
  for (const {lagSeconds, service} of searches)
    if (lagSeconds !== null && lagSeconds > (behind?.seconds ?? 0)) behind = {seconds: Math.round(lagSeconds * 10) / 10, service};
  return {...(behind ?? {seconds: 0}), changedServices};
}

/** Searches for the state of one Service in one family that a node matches, from the newest on. */
class StateSearch {
  readonly family: Family;
  readonly service: string;
  readonly states: readonly ServiceState[];
  readonly #first: ServiceState | undefined;
  #index = 0;
  #best: TestedDistance | null = null;
  #isDone = false;

  /** For each state that was tested, the parts of the dumps that do not fit it. */
  #parts: ReadonlySet<string>[] = [];
  #isPiecemeal = false;
  /** How many rules differ from each state that was tested. */
  #tested: number[] = [];

  /** The 16 characters in the names of its chains in iptables mode, in all states. */
  readonly hashes: ReadonlySet<string>;
  readonly #keepsOldChains: boolean;
  readonly #graceMs: number;

  constructor({family, service, states, first}: ServiceStates, {isLarge, graceMs}: {readonly isLarge: boolean; readonly graceMs: number}) {
    this.family = family;
    this.service = service;
    this.#first = first;
    this.states = states.slice(0, maxStates);
    this.hashes = new Set(states.flatMap(({service: object}) => (object === null ? [] : chainHashes(object))));
    this.#keepsOldChains = isLarge;
    this.#graceMs = graceMs;
  }

  /** Whether a chain belongs to the Service, without those of its endpoints. */
  owns(chain: string): boolean {
    const parsed = parseChainName(chain);
    if (parsed !== null) return parsed.role !== 'SEP' && this.hashes.has(parsed.hash);
    return /^(?:service|local|external|firewall)-/.test(chain) && chain.includes(`-${this.service}/`);
  }

  get chosen(): ServiceState | undefined {
    return this.states[this.#index];
  }

  /** Whether the node matches a state in which the Service was not from the beginning. */
  get holdsAChange(): boolean {
    return this.#best?.rules === 0 && this.states[this.#best.index] !== this.#first;
  }

  /** Null if the node matches none. */
  get lagSeconds(): number | null {
    return this.#best?.rules === 0 ? (this.states[this.#best.index]?.age ?? 0) / 1000 : null;
  }

  start(): void {
    this.#parts = [];
    this.#tested = [];
    this.#index = 0;
    this.#best = null;
    this.#isDone = false;
  }

  /**
   * The findings for the current state, and how many chains of the Service no rule reaches. In a state without the Service, an entry rule
   * that was removed would not be missed, but its chains would remain.
   */
  note(tested: TestedDifferences): void {
    if (this.#isDone) return;
    const {differences, isReadPiecemeal, findings} = tested;
    const rules = this.#rulesOf(tested);
    this.#tested[this.#index] = rules;
    this.#isPiecemeal ||= isReadPiecemeal;
    const isSomewhere = tested.left > 0 || differences === undefined;
    this.#parts.push(rules > 0 && isSomewhere ? anyPart : (differences?.parts ?? new Set()));
    const severity = findings.reduce((sum, finding) => sum + weights[finding.severity], 0);
    const best = this.#best;
    if (best === null || rules < best.rules || (rules === best.rules && severity > best.severity))
      this.#best = {index: this.#index, rules, severity};
  }

  /** Whether another analysis of the chosen state finds as many differences as the search did. */
  agrees(tested: TestedDifferences): boolean {
    return this.#tested[this.#index] === this.#rulesOf(tested);
  }

  #rulesOf({findings, left, differences}: TestedDifferences): number {
    const shown = findings.reduce((sum, {expected = [], actual = []}) => sum + Math.max(1, expected.length + actual.length), 0);
    const differing = differences?.count ?? 0;
    return (differing === 0 || shown === 0 ? shown : differing) + (this.#keepsOldChains ? 0 : left);
  }

  /** Whether each part of the dumps fits some state, although all together fit none: kube-proxy may have written between two of them. */
  get isPerhapsTorn(): boolean {
    if (this.lagSeconds !== null) return false;
    if (this.#isPiecemeal) return true;
    const parts = new Set(this.#parts.flatMap(one => [...one]));
    return [...parts].every(part => this.#parts.some(one => one !== anyPart && !one.has(part)));
  }

  /** Chooses the next state if none matches yet; false if there is nothing more to test. */
  advance(): boolean {
    if (this.#isDone) return false;
    this.#isDone = this.#best?.rules === 0 || this.#index + 1 >= this.states.length;
    this.#index = this.#isDone ? (this.#best?.index ?? 0) : this.#index + 1;
    return !this.#isDone;
  }

  /** Chooses the state to report against: the nearest one, or the latest if the nearest is too old. */
  conclude(): void {
    const best = this.#best?.index ?? 0;
    this.#index = (this.states[best]?.age ?? 0) > this.#graceMs ? 0 : best;
  }
}

/** What an analysis of a state tells of one Service in one family. */
interface TestedDifferences {
  readonly findings: readonly Finding[];
  /** How many chains of the Service nothing reaches. */
  readonly left: number;
  readonly differences: ServiceDifferences | undefined;
  readonly isReadPiecemeal: boolean;
}

/** Names as in current versions and as in those up to 1.19. */
function chainHashes({metadata, spec}: ServiceObject): readonly string[] {
  return (spec?.ports ?? []).flatMap(({name = '', protocol = 'TCP'}) => {
    const base = namespacedName(metadata);
    if (protocol !== 'TCP' && protocol !== 'UDP' && protocol !== 'SCTP') return [];
    return (name === '' ? [base, `${base}:`] : [`${base}:${name}`]).map(text => servicePortHash(text, protocol));
  });
}

/** The distance between the node and a state. */
interface TestedDistance {
  readonly index: number;
  /** Rules or other objects that differ. */
  readonly rules: number;
  /** Of two states at equal distance, the one with more findings: with the other, a removed rule would not be missed. */
  readonly severity: number;
}

const weights = {error: 1_000_000, warning: 1000, info: 1};

/** It is not known where the difference is. */
const anyPart: ReadonlySet<string> = new Set(['']);

/** The number of states of a Service that are tested. More within the grace period mean that something else is wrong. */
const maxStates = 400;

/** For a family, the chosen state of each Service, by `namespace/name`; every other Service is in its current state. */
type ChosenState = ReadonlyMap<Family, ReadonlyMap<string, ServiceState>>;

interface ChosenOptions {
  readonly chosen: ChosenState;
  /** The slices that the Service of a port had within the grace period. */
  readonly recent: (port: ServicePort) => readonly EndpointSliceObject[];
  readonly formerOwner: FormerOwner;
  /** There are no other Services: for dumps that are narrowed to these. */
  readonly isNarrow: boolean;
}

/** The API objects with some Services in an earlier state. The others are computed once, with `latest`. */
class ChosenStates extends ClusterView {
  readonly #latest: ClusterView;
  readonly #options: ChosenOptions;
  readonly #views: ReadonlyMap<Family, ClusterView>;

  constructor(api: ApiObjects, latest: ClusterView, options: ChosenOptions) {
    super(api);
    this.#latest = latest;
    this.#options = options;
    this.#views = new Map([...options.chosen].map(([family, states]) => [family, new ClusterView(objectsOf(api, states))]));
  }

  override entries(family: Family, proxy: ProxyVersion): readonly PortEntry[] {
    const states = this.#options.chosen.get(family);
    const others = this.#options.isNarrow ? [] : this.#latest.entries(family, proxy);
    if (states === undefined) return others;
    return [...others.filter(({port}) => !states.has(serviceKey(port))), ...(this.#views.get(family)?.entries(family, proxy) ?? [])];
  }

  override endpointCount(family: Family, proxy: ProxyVersion): number {
    return this.#options.isNarrow ? this.#latest.endpointCount(family, proxy) : super.endpointCount(family, proxy);
  }

  override slicesOf(service: string, proxy: ProxyVersion): readonly EndpointSliceObject[] {
    const views = [...this.#options.chosen].flatMap(([family, states]) => (states.has(service) ? (this.#views.get(family) ?? []) : []));
    if (views.length === 0) return this.#latest.slicesOf(service, proxy);
    return views.flatMap(view => view.slicesOf(service, proxy));
  }

  override formerEndpoints(port: ServicePort, proxy: ProxyVersion): readonly Pick<Endpoint, 'address' | 'port'>[] {
    return this.endpointsIn(port, this.#options.recent(port), proxy);
  }

  override formerOwner(place: AnsweredPlace): ServiceName | null {
    return this.#options.formerOwner(place);
  }
}

function objectsOf(api: ApiObjects, states: ReadonlyMap<string, ServiceState>): ApiObjects {
  const all = [...states.values()];
  return {...api, services: all.flatMap(({service}) => service ?? []), endpointSlices: all.flatMap(({slices}) => slices)};
}
