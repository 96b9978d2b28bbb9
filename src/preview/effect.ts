import {near} from '../analyze/outcomes/environment.ts';
import type {ServedPort} from '../model/endpoint.ts';
import {type NodeContext, nodePortDestinations} from '../expect/node-context.ts';
import type {Cause, PreviewEffect, PreviewChange, PreviewOutcome, PreviewSource} from '../model/preview-result.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import type {PreviewProbe} from './preview-probes.ts';
import type {SideOutcome, SideShare, WalkedSide} from './sides.ts';
import {joinHostPort} from '../model/address.ts';
import type {SourceKind} from '../analyze/outcomes/sources.ts';

/** The outcome of a probe on one side, as its sender sees it. */
interface ProbeOutcome {
  readonly path: SideOutcome;
  /** Probability by endpoint. */
  readonly served: ReadonlyMap<string, SideShare>;
  /** The sender gets an error at once; also for a packet to the node itself, unless a process listens. */
  readonly refused: number;
  readonly undecided: number;
}

/** A probe that was walked on one side. `item` is the Service port there; null if that side does not have it. */
export function probeOutcome(
  side: WalkedSide,
  {packet, kind}: PreviewProbe,
  {path, item}: {readonly path: SideOutcome; readonly item: ServedPort | null},
): ProbeOutcome {
  const listened = kind === 'localhost' && path.passed > 0 && item !== null ? listenedEndpoints(side, item) : [];
  const served = new Map(path.destinations);
  for (const name of listened) served.set(name, {probability: path.passed / listened.length, masquerade: true});
  if (kind === 'health-check' && path.passed > 0)
    served.set(joinHostPort(packet.destination.text, packet.port), {probability: path.passed, masquerade: false});
  const passed = listened.length > 0 || kind === 'health-check' ? 0 : path.passed;
  const isLocal = side.local.addresses.includes(packet.destination.text) || kind === 'localhost';
  return {
    path,
    served,
    refused: path.rejected + (isLocal ? passed : 0),
    undecided: path.undecided,
  };
}

/** The endpoints that kube-proxy connects to from its own listener on the loopback address: none for UDP and SCTP. */
function listenedEndpoints({context}: WalkedSide, {port, endpoints}: ServedPort): readonly string[] {
  if (context.listensOnLocalhost !== true || port.protocol !== 'TCP') return [];
  return (port.externalPolicyLocal ? endpoints.local : endpoints.cluster).map(({hostPort}) => hostPort);
}

/** How the outcome of one packet changes; null if it does not. */
export function effectOnPacket(before: ProbeOutcome, after: ProbeOutcome): PreviewEffect | null {
  if (!near(before.undecided, after.undecided)) return 'undetermined';
  const [was, is] = [total(before.served), total(after.served)];
  if (!near(was, is)) return is < was ? 'lost' : 'gained';
  if (was === 0) {
    if (near(before.refused, after.refused)) return null;
    return after.refused > before.refused ? 'refused' : 'unanswered';
  }
  if (!hasSameShares(before, after)) return 'shares';
  return [...before.served].some(([name, {masquerade}]) => after.served.get(name)?.masquerade !== masquerade) ? 'source-address' : null;
}

function total(shares: ReadonlyMap<string, SideShare>): number {
  return [...shares.values()].reduce((sum, {probability}) => sum + probability, 0);
}

function hasSameShares(before: ProbeOutcome, after: ProbeOutcome): boolean {
  if (before.served.size !== after.served.size) return false;
  return [...before.served].every(([name, {probability}]) => near(after.served.get(name)?.probability ?? 0, probability));
}

/** `same` if only kube-proxy changes. */
export type PlannedChange = 'same' | 'new' | 'removed' | 'changed';

/** A packet whose outcome changes, and the settings on both sides. */
interface CauseCase {
  readonly item: ServedPort;
  /** What planned objects do to the Service port. */
  readonly planned: PlannedChange;
  readonly probe: PreviewProbe;
  readonly was: ProbeOutcome;
  readonly is: ProbeOutcome;
  readonly effect: PreviewEffect;
  readonly config: ProxyConfig;
  readonly configAfter: ProxyConfig;
  readonly before: NodeContext;
  readonly after: NodeContext;
}

/** Why the outcome changes: the first cause that fits. */
export function causeOf(causeCase: CauseCase): Cause {
  const [id] = Object.entries(fits).find(([, applies]) => applies(causeCase)) ?? ['other-rules'];
  if (id === 'masquerade-all' && causeCase.config.mode.value === causeCase.configAfter.mode.value) return masqueradeAllSet(causeCase);
  return causes[id] ?? {id: 'other-rules', ...otherRules(causeCase)};
}

/** A restart of kube-proxy without the change would treat the packet as the change does. */
export const healedFault: Cause = {
  id: 'healed',
  reason: "today's rules are not those that kube-proxy writes: any restart of kube-proxy changes this packet in the same way",
  remedy:
    'Find the fault with: kubectl svc-trace check. Correct it before the change, so that its effects are not taken for those of the change.',
};

type CauseTest = (causeCase: CauseCase) => boolean;

/** In order: the first that fits is the cause. */
const fits: Readonly<Record<string, CauseTest>> = {
  undetermined: ({effect}) => effect === 'undetermined',
  'new-service': ({planned}) => planned === 'new',
  'removed-service': ({planned}) => planned === 'removed',
  'changed-service': ({planned, config, configAfter}) => planned === 'changed' && isSameProxy(config, configAfter),
  'traffic-distribution': ({effect, planned, item, config, configAfter}) =>
    effect === 'shares' &&
    planned === 'changed' &&
    config.version.value.minor !== configAfter.version.value.minor &&
    item.all.some(({zoneHints, nodeHints}) => zoneHints !== null || nodeHints !== null),
  'session-affinity': ({effect}) => effect === 'affinity',
  'localhost-node-ports': ({probe, config, configAfter}) =>
    probe.kind === 'localhost' && (config.mode.value !== configAfter.mode.value || config.mode.value === 'nftables'),
  'unused-ports': ({probe}) => probe.kind === 'unused-port',
  'health-check-ports': ({probe}) => probe.kind === 'health-check',
  'third-party-firewalls': ({is, was}) => isByOthers(is) || isByOthers(was),
  'own-address': ({probe}) => probe.source.kind === 'own-address',
  'source-ranges': ({is, was, item}) => item.port.sourceRanges.length > 0 && (isByRanges(is) || isByRanges(was)),
  'unallocated-addresses': ({is}) => is.path.refusal?.last?.chain === 'cluster-ips-check',
  'missing-detector': ({probe, after, item}) =>
    after.detector.kind === 'none' && item.port.externalPolicyLocal && probe.source.kind === 'pod' && probe.entry.kind !== 'clusterIP',
  'local-policies': ({item, config, configAfter}) =>
    config.mode.value !== configAfter.mode.value &&
    [config, configAfter].some(({mode}) => mode.value === 'ipvs') &&
    (item.port.externalPolicyLocal || item.port.internalPolicyLocal),
  'external-refusals': ({probe, item}) =>
    !item.endpoints.hasAny && probe.source.kind === 'node' && (probe.entry.kind === 'loadBalancerIP' || probe.entry.kind === 'externalIP'),
  'node-port-addresses': ({probe, before, after}) => probe.entry.kind === 'nodePort' && answers(before, probe) !== answers(after, probe),
  // One that hashes refuses the clients of a server whose endpoint ends.
  'ipvs-scheduler': ({effect, config, was}) =>
    (effect === 'shares' || (effect === 'gained' && was.served.size > 0)) &&
    config.mode.value === 'ipvs' &&
    !['', 'rr'].includes(config.ipvsScheduler.value),
  'masquerade-all': ({effect, before, after}) => effect === 'source-address' && before.masqueradeAll !== after.masqueradeAll,
  'local-detector': ({effect, before, after}) =>
    effect === 'source-address' && JSON.stringify(before.detector) !== JSON.stringify(after.detector),
  hairpin: ({effect, probe}) => effect === 'source-address' && probe.kind === 'hairpin',
};

/** A rule or a policy outside of kube-proxy's chains ends the packet. */
function isByOthers({path: {refusal}}: ProbeOutcome): boolean {
  if (refusal === null) return false;
  if (refusal.byPolicy) return true;
  const rule = refusal.last;
  return rule !== null && !rule.table.endsWith(' kube-proxy') && !rule.chain.startsWith('KUBE-') && rule.table !== 'ipvs';
}

function isByRanges({path: {refusal}}: ProbeOutcome): boolean {
  const chain = refusal?.last?.chain ?? '';
  return /^(?:firewall-|KUBE-FW-|KUBE-PROXY-FIREWALL|KUBE-SOURCE-RANGES-FIREWALL)/.test(chain);
}

function answers(context: NodeContext, {packet}: PreviewProbe): boolean {
  return nodePortDestinations(context)?.includes(packet.destination.text) ?? true;
}

function isSameProxy(before: ProxyConfig, after: ProxyConfig): boolean {
  return before.mode.value === after.mode.value && before.version.value.minor === after.version.value.minor;
}

/** The setting is changed within one mode. */
function masqueradeAllSet({after}: CauseCase): Cause {
  return {
    id: 'masquerade-all',
    reason: `masqueradeAll is ${after.masqueradeAll ? 'off today and on' : 'on today and off'} after the change`,
    remedy: after.masqueradeAll
      ? 'Expect endpoints to see the address of the node; remove what relies on the addresses of clients.'
      : 'Make sure that replies of the endpoints return through the node that translated the connection.',
  };
}

function otherRules({config, configAfter}: CauseCase): Omit<Cause, 'id'> {
  if (isSameProxy(config, configAfter)) return {reason: 'the settings change', remedy: 'Compare the settings before and after.'};
  const [was, is] = [config, configAfter].map(({mode, version}) => ({
    mode: `${mode.value} mode`,
    version: `kube-proxy ${version.value.text}`,
  }));
  const differs = (name: 'mode' | 'version'): boolean => was?.[name] !== is?.[name];
  const side = (one: typeof was): string =>
    differs('mode') && differs('version') ? `${one?.version} in ${one?.mode}` : differs('version') ? `${one?.version}` : `${one?.mode}`;
  const reason = `${side(was)} and ${side(is)} treat this packet differently`;
  return {reason, remedy: 'Trace the Service before the change, and test it on the first node that is changed.'};
}

/** The reason and remedy of each cause, whatever the Service. */
const causes: Readonly<Record<string, Cause>> = Object.fromEntries(
  Object.entries({
    undetermined: [
      'on one side the outcome is undetermined: a rule cannot be interpreted',
      'Run kubectl svc-trace packet for it, and look at the rule it names.',
    ],
    'new-service': ['the manifests add the Service port', 'No action if clients are to see this.'],
    'removed-service': ['the manifests remove the Service port', 'Keep it as long as clients use it.'],
    'changed-service': ['the manifests change the Service or its endpoints', 'Compare the objects with: kubectl diff -f FILE.'],
    'traffic-distribution': [
      'the two versions follow the hints of EndpointSlices under other conditions: without an annotation of the Service from 1.31 on, hints that name nodes from 1.34 on',
      'Check that the endpoints in each zone, or on each node, can carry its clients: see trafficDistribution of the Service.',
    ],
    'session-affinity': ['session affinity or its timeout changes', 'Expect clients to be sent to another endpoint once.'],
    'localhost-node-ports': [
      'node ports on loopback addresses work in iptables mode (IPv4), not in IPVS mode, and in nftables mode only from 1.37 on for TCP, with a feature gate',
      'Use the address of the node or a hostPort; or set the gate KubeProxyNFTablesLocalhostNodePorts and nodePortAddresses primary,localhost.',
    ],
    'unused-ports': [
      'a port that no Service has at a cluster IP is refused in nftables mode and in IPVS mode from 1.26 on, and times out in iptables mode',
      'Adapt checks that rely on the timeout.',
    ],
    'health-check-ports': [
      'a firewall drops what load balancers send to the health check node port: iptables and IPVS mode accept it first, nftables mode does not',
      'Open the healthCheckNodePort of the Service in that firewall.',
    ],
    'third-party-firewalls': [
      "a rule or policy that is not kube-proxy's ends the packet, and kube-proxy's own accept rules are not before it on both sides",
      'Allow the pod network and the translated ports in that firewall: in nftables mode kube-proxy accepts nothing that another table drops.',
    ],
    'own-address': [
      'the node uses the address of the load balancer as its source: IPVS mode drops such connections to the Service, other modes apply the source ranges',
      'Nothing, unless the load balancer puts its address on nodes.',
    ],
    'source-ranges': [
      'loadBalancerSourceRanges are enforced at another place: nftables mode drops before translation, also for pods, for Services without endpoints and for an external IP that is a load-balancer IP too',
      'Review the ranges; add the networks of pods and nodes that use the load-balancer address.',
    ],
    'unallocated-addresses': [
      'nftables mode rejects or drops packets to addresses of Services that were not translated',
      'Move what lives at an address of the Service range to another network.',
    ],
    'missing-detector': [
      'without clusterCIDR or detectLocalMode kube-proxy cannot tell pods, and a Local policy applies to them too',
      'Set detectLocalMode or clusterCIDR.',
    ],
    'local-policies': [
      'IPVS mode applies Local policies in another way: without an endpoint on the node it falls back on those of other nodes, and what pods and the node itself send is treated as if it came from outside',
      'Let the load balancer use the health check node port, run an endpoint on each node that gets traffic, or use the Cluster policy.',
    ],
    'external-refusals': [
      'iptables mode does not refuse what the node itself sends to an external or load-balancer IP of a Service without endpoints; other modes do',
      'Nothing: the Service has no endpoint.',
    ],
    'node-port-addresses': [
      'node ports answer on other addresses of the node: in nftables mode from 1.31 on only on its primary addresses, unless nodePortAddresses says otherwise',
      'List the networks in nodePortAddresses, or 0.0.0.0/0 and ::/0 for all.',
    ],
    'ipvs-scheduler': [
      'the IPVS scheduler is not rr; other modes choose endpoints at random, of those alone that are in service',
      'Use sessionAffinity where the scheduler kept clients at an endpoint.',
    ],
    'masquerade-all': [
      'masqueradeAll differs: each of iptables and nftables mode has its own setting',
      'Copy iptables.masqueradeAll to nftables.masqueradeAll.',
    ],
    'local-detector': [
      'kube-proxy distinguishes pods from other clients in another way',
      'Compare clusterCIDR and detectLocalMode on both sides.',
    ],
    hairpin: [
      'the connection of an endpoint to its own Service is masqueraded under other conditions',
      'Nothing, unless the endpoint evaluates source addresses.',
    ],
  }).map(([id, [reason = '', remedy = '']]) => [id, {id, reason, remedy}]),
);

/** A packet whose outcome changes. */
export interface ChangeCase extends Pick<CauseCase, 'item' | 'probe' | 'was' | 'is' | 'effect'> {
  readonly node: string;
  readonly cause: Cause;
}

/** The change without the rules behind it, which would keep a node's dumps in memory. */
export function previewChange({node, item, probe, was, is, effect, cause}: ChangeCase): PreviewChange {
  const {port} = item;
  const {packet, source, who} = probe;
  return {
    node,
    effect,
    cause,
    entry: probe.entry,
    service: {namespace: port.namespace, name: port.service},
    port: {name: port.portName, protocol: port.protocol, port: port.port},
    source: {kind: sourceKinds[source.kind], address: source.address, senders: who},
    packet: {
      family: packet.family,
      source: packet.source.text,
      destination: packet.destination.text,
      port: packet.port,
      protocol: packet.protocol,
    },
    before: outcomesOf(was),
    after: outcomesOf(is),
  };
}

const sourceKinds: Readonly<Record<SourceKind, PreviewSource>> = {
  pod: 'pod',
  'remote-pod': 'remotePod',
  'other-node': 'external',
  node: 'node',
  outside: 'external',
  allowed: 'external',
  'other-range': 'external',
  'own-address': 'node',
  endpoint: 'endpoint',
};

export function outcomesOf({path, served}: ProbeOutcome): readonly PreviewOutcome[] {
  const ends = [...served].map(([destination, {probability, masquerade}]) => ({
    verdict: 'accept' as const,
    destination,
    probability,
    masquerade,
  }));
  const dialed = total(served) - total(path.destinations);
  const other = [
    ['accept', path.passed - dialed],
    ['reject', path.rejected],
    ['drop', path.dropped],
    ['undecided', path.undecided],
  ] as const;
  return [
    ...ends,
    ...other
      .filter(([, probability]) => probability > 1e-9)
      .map(([verdict, probability]) => ({verdict, destination: null, probability, masquerade: false})),
  ];
}
