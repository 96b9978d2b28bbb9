import {joinHostPort} from '../../model/address.ts';
import {sourceNames} from '../outcomes/sources.ts';
import type {Evidence, KeyedSymptom, Misdirected, ModeSemantics} from '../outcomes/compare-endpoints.ts';
import {shareOfPods, missingEndpointText} from '../outcomes/compare-endpoints.ts';
import {outcomeOn, type PathOutcome, type ProbeComparison} from '../outcomes/environment.ts';
import type {Outcome} from '../../trace/walked-packet.ts';
import type {VirtualServer} from '../../model/virtual-server.ts';
import {type Entry, entryText} from '../../model/service-port.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {Rule} from '../../model/ruleset.ts';
import {blindToWeight, realServerRule, serverRule} from '../../trace/iptables/walk-packet.ts';
import {comparePathOutcomes} from '../outcomes/compare-outcomes.ts';
import {configuredAffinity} from '../symptoms/port-symptoms.ts';
import {SymptomList} from '../symptoms/symptom-list.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {ipvsProbes, memberEvidence, serverEvidence, addressEvidence} from './ipvs-evidence.ts';
import {type IpvsPortDifferences, type MemberDifference, serversOf} from './ipvs-state.ts';
import type {IpvsSides} from './base-rule-source.ts';

interface IpvsPortCase {
  readonly item: ServedPort;
  readonly differences: IpvsPortDifferences;
  readonly expected: ExpectedIpvs;
  readonly sides: IpvsSides;
}

/** What the differences of one Service port do to packets. A difference that changes no outcome is reported as harmless. */
export function analyzeIpvsPort(portCase: IpvsPortCase): readonly Symptom[] {
  const {item, differences, expected, sides} = portCase;
  const symptoms = new SymptomList(item.port);
  comparePathOutcomes({
    item,
    semantics: new IpvsSemantics(portCase),
    symptoms,
    probes: ipvsProbes(item, expected.context, differences),
    walk: probe => ({probe, expected: outcomeOn(sides.expected, probe.packet), actual: outcomeOn(sides.actual, probe.packet)}),
  });
  // Packets that are rejected because of a missing element are masqueraded by the same element.
  if (symptoms.has('unexpected-reject')) symptoms.drop('masquerade-mismatch');
  analyzeSettings(item, differences, symptoms);
  analyzeHealthCheck(item, differences, symptoms);
  analyzeOwnPorts(differences, symptoms);
  sayRest(differences, symptoms);
  const {minor} = expected.context.version;
  return symptoms.all.map(symptom => (isDrained(symptom) ? {...symptom, remedy: addAgain(symptom, minor)} : symptom));
}

/** The endpoint is there with the weight 0. */
function isDrained({kind, actual}: Symptom): boolean {
  return kind === 'missing-endpoint' && actual.some(({table, text}) => table === 'ipvs' && / -w 0$/.test(text));
}

/** kube-proxy corrects weights in its first sync alone, and before 1.26 never (kubernetes#108319). */
function addAgain({actual}: Symptom, minor: number): string {
  const server = actual.map(({text}) => text.replace(/^-a (.*) -r \S+ .*$/, '-d $1 -r ENDPOINT')).find(text => text.startsWith('-d '));
  const restart =
    minor < 26
      ? 'A restart of kube-proxy before 1.26 keeps the weight 0 (kubernetes#108319).'
      : 'Or restart kube-proxy: it corrects weights only in its first sync.';
  return `Delete the real server on this node (ipvsadm ${server ?? '-d'}): kube-proxy adds it again, with its weight, in its next sync. ${restart}`;
}

/** The settings of virtual servers: the affinity timeout and the scheduler. */
function analyzeSettings({port}: ServedPort, {servers}: IpvsPortDifferences, symptoms: SymptomList): void {
  for (const {expected, actual, persistence, scheduling} of servers) {
    // The line of a virtual server alone, for settings of the server and not of its real servers.
    const evidence = {expected: [serverRule(expected)], actual: [serverRule(actual)]};
    if (persistence) {
      const netmask = actual.flags.find(flag => flag.startsWith('netmask '));
      const found =
        actual.persistence === null
          ? 'session affinity is missing'
          : `session affinity of ${actual.persistence} s${netmask === undefined ? '' : ` by ${netmask}`} is programmed`;
      symptoms.say({kind: 'session-affinity-mismatch', detail: `${found}: ${configuredAffinity(port)}`, ...evidence}, 'affinity');
    }
    if (scheduling) {
      const spelled = ({scheduler, flags}: typeof actual): string => [scheduler, ...flags].join(' ');
      const detail = `connections are scheduled by ${spelled(actual)}, and kube-proxy is set to ${spelled(expected)}`;
      symptoms.say({kind: 'uneven-balance', cause: 'scheduler', detail, ...evidence}, 'scheduler');
    }
    analyzeWeights(actual.scheduler, servers, symptoms);
  }
}

function analyzeWeights(scheduler: string, servers: IpvsPortDifferences['servers'], symptoms: SymptomList): void {
  for (const {expected, actual, changed} of servers) {
    for (const pair of changed) {
      const evidence = {expected: [realServerRule(expected, pair.expected)], actual: [realServerRule(actual, pair.actual)]};
      if (pair.actual.upperThreshold > 0) {
        const detail = `${pair.actual.hostPort} gets no new connections above ${pair.actual.upperThreshold}: kube-proxy sets no such limit`;
        symptoms.say({kind: 'unexpected-rule', severity: 'warning', detail, ...evidence}, `limit ${pair.actual.hostPort}`);
      }
      const heeded = !blindToWeight.has(scheduler) || pair.actual.weight === 0;
      if (pair.actual.weight === pair.expected.weight || heeded) continue;
      const detail = `${pair.actual.hostPort} has weight ${pair.actual.weight}: the scheduler ${scheduler} ignores it, so no traffic is affected`;
      symptoms.say({kind: 'uneven-balance', severity: 'info', detail, ...evidence}, 'uneven');
    }
  }
}

function analyzeHealthCheck({port}: ServedPort, {members}: IpvsPortDifferences, symptoms: SymptomList): void {
  const missing = members.filter(({role, kind}) => role === 'KUBE-HEALTH-CHECK-NODE-PORT' && kind === 'missing');
  if (missing.length === 0 || symptoms.has('service-not-programmed')) return;
  const detail = `the set that lets health checks on port ${port.healthCheckNodePort} through lacks the port: a load balancer may consider the node unhealthy`;
  symptoms.say({kind: 'health-check-port-blocked', detail, expected: evidenceOf(missing), actual: []});
}

/** Ports of the node itself must not be reachable at the addresses of Services. */
function analyzeOwnPorts({members, missingServers}: IpvsPortDifferences, symptoms: SymptomList): void {
  const missing = members.filter(({role, kind}) => role === 'KUBE-IPVS-IPS' && kind === 'missing');
  if (missing.length === 0 || missingServers.length > 0 || symptoms.has('missing-entry')) return;
  const addresses = missing.map(({member}) => member).join(', ');
  const gist = `ports of the node itself can be reached at ${addresses}`;
  const detail = `${gist}: the set that blocks them lacks the address`;
  symptoms.say({kind: 'missing-rule', severity: 'warning', detail, gist, expected: evidenceOf(missing), actual: []}, 'own ports');
}

/** Differences that no symptom explains and that change no outcome. */
function sayRest({members, missingServers, servers}: IpvsPortDifferences, symptoms: SymptomList): void {
  if (symptoms.all.length > 0) return;
  const harmless = 'no traffic is affected';
  const missing = members.filter(({kind}) => kind === 'missing');
  const extra = members.filter(({kind}) => kind === 'extra');
  const gone = [...missingServers.flatMap(({server}) => serverEvidence(server).slice(0, 1)), ...evidenceOf(missing)];
  const more = [...servers.flatMap(({actual, extra: reals}) => reals.map(real => realServerRule(actual, real))), ...evidenceOf(extra)];
  if (gone.length > 0) {
    const detail = `${countOf(gone)} missing from ${placesOf(gone)}: ${harmless}`;
    symptoms.say({kind: 'missing-rule', severity: 'info', detail, expected: gone.slice(0, 6), actual: []});
  }
  if (more.length > 0)
    symptoms.say({
      kind: 'unexpected-rule',
      severity: 'info',
      detail: `${countOf(more)} that kube-proxy would not have written in ${placesOf(more)}: ${harmless}`,
      expected: [],
      actual: more.slice(0, 6),
    });
}

function evidenceOf(members: readonly MemberDifference[]): readonly Rule[] {
  return members.map(({set, member, line}) => memberEvidence(set, member, line));
}

function countOf(rules: readonly Rule[]): string {
  return rules.length === 1 ? 'a line' : `${rules.length} lines`;
}

function placesOf(rules: readonly Rule[]): string {
  return [...new Set(rules.map(({table, chain}) => (table === 'ipset' ? chain : table)))].slice(0, 3).join(', ');
}

/** What the IPVS state of one Service port shows beside the outcomes of packets. */
class IpvsSemantics implements ModeSemantics {
  readonly #given: IpvsPortCase;
  readonly #local: ReadonlySet<string>;
  readonly #cluster: ReadonlySet<string>;

  constructor(input: IpvsPortCase) {
    this.#given = input;
    const {
      item: {all, endpoints},
      expected,
    } = input;
    const names = (list: readonly {readonly hostPort: string}[]): ReadonlySet<string> => new Set(list.map(({hostPort}) => hostPort));
    this.#local = names(all.filter(({ready, nodeName}) => ready && nodeName === expected.nodeName));
    this.#cluster = names(endpoints.cluster);
  }

  /** The packet continued to the node itself or was forwarded, or was blocked from the node's own ports. */
  isUnentered({verdict, destination, path}: Outcome): boolean {
    if (verdict === 'accept') return destination === null;
    return verdict === 'reject' && path.at(-1)?.chain === 'KUBE-IPVS-FILTER' && this.hasNoEntry();
  }

  hasNoEntry(): boolean {
    return this.#given.differences.missingServers.length === serversOf(this.#given.expected, this.#given.item).length;
  }

  refusedFor({path}: Outcome): 'ranges' | 'policy' | 'other' {
    return rangeChains.has(path.at(-1)?.chain ?? '') ? 'ranges' : 'other';
  }

  /** Shown by the endpoints, if the two policies select different ones. */
  policyOf({destinations}: PathOutcome): 'Cluster' | 'Local' | null {
    if (this.#local.size === 0 || this.#cluster.size === 0 || sameNames(this.#local, this.#cluster)) return null;
    const reached = new Set(destinations.keys());
    if (sameNames(reached, this.#local)) return this.#mayBeLocal() ? 'Local' : null;
    return sameNames(reached, this.#cluster) ? 'Cluster' : null;
  }

  /** If no policy is Local and only one endpoint is missing, the cause is the missing endpoint. */
  #mayBeLocal(): boolean {
    const {port} = this.#given.item;
    const marked = this.#given.differences.members.some(({role, kind}) => kind === 'extra' && role.includes('-LOCAL'));
    return port.externalPolicyLocal || port.internalPolicyLocal || marked || this.#cluster.size - this.#local.size > 1;
  }

  misdirected(): ReadonlyMap<string, Misdirected> {
    return new Map();
  }

  special(comparison: ProbeComparison): readonly KeyedSymptom[] {
    if (comparison.expected.destinations.size === 0) return [];
    const wrong = this.#otherForwarding(comparison);
    if (wrong.length > 0) return wrong;
    if (comparison.actual.destinations.size > 0) return [];
    return [...this.#exhausted(comparison), ...this.#notTakenIn(comparison), ...this.#refusedByFilter(comparison)].slice(0, 64);
  }

  /** Forwarded with another method than masquerading: the packet that arrives at the pod has another destination address. */
  #otherForwarding(comparison: ProbeComparison): readonly KeyedSymptom[] {
    const reals = this.#given.differences.servers.flatMap(({changed, actual: server}) =>
      changed.filter(({actual: real}) => real.forwarding !== 'masquerade').map(pair => ({...pair, server})),
    );
    const dropped = comparison.actual.outcomes.flatMap(({verdict, path, probability}) =>
      verdict === 'drop' ? path.slice(-1).map(rule => ({rule, probability})) : [],
    );
    return reals.flatMap(({expected, actual: real, server}) => {
      const [lost] = dropped.filter(({rule: {table, line}}) => table === 'ipvs' && line === real.line);
      if (lost === undefined) return [];
      const how = real.forwarding === 'route' ? 'by routing (-g)' : 'through a tunnel (-i)';
      const detail = `packets for endpoint ${real.hostPort} are forwarded ${how} and not masqueraded (-m): they still have the address of the Service as destination, and the pod drops them`;
      const evidence = {expected: [realServerRule(server, expected)], actual: [lost.rule]};
      const share = shareOfPods(comparison, lost.probability);
      return [
        {
          symptom: {kind: 'wrong-endpoint-address', variant: 'dropped-by-pod', endpoint: real.hostPort, detail, ...evidence, ...share},
          key: `wrong ${real.hostPort}`,
        },
      ];
    });
  }

  /** The virtual server exists, and none of its real servers accepts connections. */
  #exhausted(comparison: ProbeComparison): readonly KeyedSymptom[] {
    if (!comparison.actual.outcomes.some(({verdict, path}) => verdict === 'reject' && path.at(-1)?.table === 'ipvs')) return [];
    return [...comparison.expected.destinations.keys()].map(endpoint => {
      const detail = missingEndpointText(this.#given.item, endpoint, {entry: comparison.probe.entry});
      const evidence = this.evidence.endpoint(endpoint, comparison);
      const share = shareOfPods(comparison, 1 / comparison.expected.destinations.size);
      return {symptom: {kind: 'missing-endpoint', endpoint, detail, ...evidence, ...share}, key: `missing ${endpoint}`};
    });
  }

  /** The virtual server exists, and the node does not accept packets for its address. */
  #notTakenIn(comparison: ProbeComparison): readonly KeyedSymptom[] {
    const {packet, entry, source} = comparison.probe;
    const address = packet.destination.text;
    if (packet.origin === 'node' || !this.#given.differences.missingAddresses.includes(address)) return [];
    if (this.#given.sides.actual.environment.virtualServer?.(packet) === undefined) return [];
    const detail = `packets from ${sourceNames[source.kind]} to its ${entryText(entry)} are not accepted by the node: kube-ipvs0 does not have the address`;
    const evidence = {expected: [addressEvidence(address, 0)], actual: []};
    const share = shareOfPods(comparison, 1);
    return [{symptom: {kind: 'missing-entry', entry, detail, ...evidence, ...share}, key: `entry ${entryText(entry)}`}];
  }

  /**
   * KUBE-IPVS-FILTER rejects new connections to ports of the address that it does not know: because the set of its places lacks this one, or
   * because the virtual server is missing.
   */
  #refusedByFilter(comparison: ProbeComparison): readonly KeyedSymptom[] {
    const {packet, entry, source} = comparison.probe;
    const kept = comparison.actual.outcomes.some(({verdict, path}) => verdict === 'reject' && path.at(-1)?.chain === 'KUBE-IPVS-FILTER');
    if (!kept) return [];
    const share = shareOfPods(comparison, 1);
    if (this.#given.sides.actual.environment.virtualServer?.(packet) === undefined) {
      const detail = `its ${entryText(entry)} is not programmed, while other entries are`;
      const evidence = this.evidence.entry(entry);
      return [{symptom: {kind: 'missing-entry', entry, detail, ...evidence, ...share}, key: `entry ${entryText(entry)}`}];
    }
    const evidence = this.#ofMembers(comparison);
    const [missing] = evidence.expected;
    if (missing === undefined) return [];
    const detail = `packets from ${sourceNames[source.kind]} to its ${entryText(entry)} are refused by KUBE-IPVS-FILTER, because ${missing.chain} lacks the address and port`;
    const symptom = {kind: 'unexpected-reject', severity: 'error', entry, detail, ...evidence, ...share} as const;
    return [{symptom, key: `refused ${entryText(entry)}`}];
  }

  readonly evidence: ModeSemantics['evidence'] = {
    service: () => ({expected: this.#missingServers(() => true).slice(0, 6), actual: []}),
    entry: entry => this.#ofEntry(entry),
    endpoint: (endpoint, comparison) => this.#ofEndpoint(endpoint, comparison),
    shares: () => this.#ofShares(),
    policy: comparison => this.#ofServer(comparison),
    masquerade: comparison => this.#ofMembers(comparison),
    affinity: () => ({expected: [], actual: []}),
  };

  #missingServers(concerns: (entry: Entry) => boolean): readonly Rule[] {
    return this.#given.differences.missingServers.filter(({entry}) => concerns(entry)).flatMap(({server}) => serverEvidence(server));
  }

  #ofEntry(entry: Entry): Evidence {
    const expected = [
      ...this.#missingServers(other => entryText(other) === entryText(entry)),
      ...this.#given.differences.missingAddresses.filter(address => address === entry.address).map(address => addressEvidence(address, 0)),
    ];
    return {expected: expected.slice(0, 6), actual: []};
  }

  /** The virtual server that matches the packet of a probe: the expected and the actual one. */
  #serversOf({probe: {packet}}: ProbeComparison): {readonly wanted: VirtualServer | undefined; readonly found: VirtualServer | undefined} {
    const {expected, actual} = this.#given.sides;
    return {wanted: expected.environment.virtualServer?.(packet), found: actual.environment.virtualServer?.(packet)};
  }

  #ofEndpoint(endpoint: string, comparison: ProbeComparison): Evidence {
    const {wanted, found} = this.#serversOf(comparison);
    const line = (server: VirtualServer | undefined): readonly Rule[] =>
      (server?.realServers ?? []).flatMap(real =>
        server !== undefined && real.hostPort === endpoint ? [realServerRule(server, real)] : [],
      );
    const own = line(found);
    return {expected: line(wanted), actual: own.length > 0 ? own : found === undefined ? [] : serverEvidence(found).slice(0, 4)};
  }

  #ofShares(): Evidence {
    const changed = this.#given.differences.servers.flatMap(({changed: pairs, expected, actual}) =>
      pairs.map(pair => ({expected: realServerRule(expected, pair.expected), actual: realServerRule(actual, pair.actual)})),
    );
    return {expected: changed.map(({expected}) => expected).slice(0, 4), actual: changed.map(({actual}) => actual).slice(0, 4)};
  }

  #ofServer(comparison: ProbeComparison): Evidence {
    const {wanted, found} = this.#serversOf(comparison);
    return {
      expected: wanted === undefined ? [] : serverEvidence(wanted).slice(0, 4),
      actual: found === undefined ? [] : serverEvidence(found).slice(0, 6),
    };
  }

  /** Elements that name the address and port of the packet, or of the endpoint for its own connections. */
  #ofMembers({probe, expected}: ProbeComparison): Evidence {
    const {packet} = probe;
    const names = new Set([joinHostPort(packet.destination.text, packet.port), String(packet.port), ...expected.destinations.keys()]);
    const own = this.#given.differences.members.filter(({member}) => names.has(placeOf(member)));
    const rules = (kind: 'missing' | 'extra'): readonly Rule[] =>
      own
        .filter(difference => difference.kind === kind)
        .map(({set, member, line}) => memberEvidence(set, member, line))
        .slice(0, 4);
    return {expected: rules('missing'), actual: rules('extra')};
  }
}

/** `10.0.0.1:80` of `10.0.0.1,tcp:80,…`, the port of a bare port. */
function placeOf(member: string): string {
  const [first = '', second] = member.split(',');
  return second === undefined ? first : joinHostPort(first, Number(second.split(':')[1]));
}

const rangeChains = new Set(['KUBE-SOURCE-RANGES-FIREWALL', 'KUBE-IPVS-OUT-FILTER', 'KUBE-FIREWALL', 'KUBE-MARK-DROP']);

function sameNames(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  return a.size === b.size && [...a].every(name => b.has(name));
}
