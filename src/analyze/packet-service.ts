import {joinHostPort} from '../model/address.ts';
import type {SentPacket} from '../model/finding.ts';
import {newestProxy} from '../model/proxy-config.ts';
import type {EntryKind, ServicePort} from '../model/service-port.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {isLoopback} from '../expect/node-context.ts';
import {ClusterView} from '../expect/cluster/cluster-view.ts';
import {once} from '../model/once.ts';
import {byLastRule, type PacketOutcome} from './packet-rules.ts';

type AskedPacket = Omit<SentPacket, 'source'>;

/** The entry of a Service that a packet is sent to. */
export interface AskedEntry {
  readonly kind: EntryKind;
  /** kube-proxy's ServicePortName: `shop/web:http`. */
  readonly service: string;
  /** All that the API has, ready or not, as `ip:port`; null if they were not read. */
  readonly endpoints: ReadonlySet<string> | null;
}

/** The packet of a query: of `TCP`, `UDP` or `SCTP`, or of `ICMP` for an echo request. */
export interface PacketQuery extends SentPacket {
  /** The destination is known as the cluster IP of a Service. */
  readonly isClusterIP?: boolean;
  /** The range of cluster IPs that holds the destination, which no Service has. */
  readonly unallocatedIn?: string | undefined;
  /** The entry of a Service that the packet is sent to on this node. */
  readonly entry?: AskedEntry | null;
  readonly inInterface: string | null;
  /** Null for any. */
  readonly sourcePort?: number | null;
}

/** Null if the API has no Service at this address and port. */
export function askedEntry(asked: AskedPacket, api: ApiObjects, facts: NodeFacts): AskedEntry | null {
  for (const {port, set} of portsOf(api).get(asked.family) ?? []) {
    const kind = port.protocol === asked.protocol ? kindOf(port, asked, facts) : null;
    if (kind === null) continue;
    const isRead = api.endpointSlices !== null || api.endpoints !== null;
    return {kind, service: port.servicePortName, endpoints: isRead ? new Set(set.endpoints.map(({hostPort}) => hostPort)) : null};
  }
  return null;
}

const portsOf = once((api: ApiObjects) => {
  const view = new ClusterView(api);
  return new Map((['IPv4', 'IPv6'] as const).map(family => [family, view.entries(family, newestProxy)]));
});

function kindOf(port: ServicePort, {destination, port: number}: AskedPacket, {hostIPs}: NodeFacts): EntryKind | null {
  if (port.port === number) {
    if (port.clusterIP === destination) return 'clusterIP';
    if (port.loadBalancerVIPs.includes(destination)) return 'loadBalancerIP';
    if (port.externalIPs.includes(destination)) return 'externalIP';
  }
  return port.nodePort === number && hostIPs.includes(destination) ? 'nodePort' : null;
}

/** Says of a packet to a Service that the rules let it pass without sending it to an endpoint: then nothing serves it. */
export function explainUnserved(
  outcome: PacketOutcome,
  entry: AskedEntry,
  asked: AskedPacket & {readonly isLocal: boolean},
): PacketOutcome {
  const {verdict, destination, reason} = outcome;
  if (verdict !== 'accept' || reason !== undefined) return outcome;
  if (destination === null) return notTranslated(outcome, entry, asked);
  if (entry.endpoints === null || entry.endpoints.has(destination)) return outcome;
  return {...outcome, noEndpointOf: entry.service, reason: `no endpoint of ${entry.service}`};
}

function notTranslated(
  outcome: PacketOutcome,
  {kind, service}: Pick<AskedEntry, 'kind' | 'service'>,
  {destination, port, isLocal}: AskedPacket & {readonly isLocal: boolean},
): PacketOutcome {
  const [verdict, who] = isLocal
    ? (['undecided', 'only a process of the node itself can answer'] as const)
    : kind === 'clusterIP'
      ? (['drop', 'no host has this address'] as const)
      : (['undecided', 'only another host with this address can answer'] as const);
  const what = `no rule sends ${joinHostPort(destination, port)} to an endpoint, and ${who}`;
  return {...outcome, verdict, noEndpointOf: service, reason: what};
}

/** Says of a packet to a loopback address that the node port, which answers on the node's address, is not served there. */
export function explainLoopback(outcome: PacketOutcome, {destination, port}: PacketQuery, isNodePort: () => boolean): PacketOutcome {
  const {verdict, destination: rewritten, reason} = outcome;
  if (!isLoopback(destination) || verdict !== 'accept' || rewritten !== null || reason !== undefined || !isNodePort()) return outcome;
  const why = destination.includes(':')
    ? 'no proxy mode has rules for node ports on ::1'
    : 'rules serve node ports on 127.0.0.1 in iptables mode only, unless --iptables-localhost-nodeports is false or --nodeport-addresses leaves it out';
  return {...outcome, reason: `the node port ${port} is not served on a loopback address: ${why}. Only a process of the node can answer`};
}

/** Cluster IPs are addresses of no host, but in IPVS mode, where the node itself has them. */
export function explainPing(
  outcome: PacketOutcome,
  {protocol, isClusterIP = false, destination}: PacketQuery,
  isLocal: boolean,
): PacketOutcome {
  if (protocol !== 'ICMP' || !isClusterIP) return outcome;
  const {verdict, reason} = outcome;
  const isUntouched = outcome.destination === null && outcome.rewrittenTo === undefined;
  if (verdict === 'accept' && isLocal)
    return {...outcome, reason: `the node itself has the address ${destination} and answers, whatever the endpoints do`};
  const byDesign = 'a cluster IP does not answer ping, by design';
  if (verdict === 'reject' || verdict === 'drop') return {...outcome, reason: refusedBecause(byDesign, outcome)};
  if (!isUntouched) return outcome;
  if (verdict === 'undecided') return {...outcome, reason: `${byDesign}; ${reason ?? ''}`};
  return {
    ...outcome,
    verdict: 'drop',
    reason: `${byDesign}: kube-proxy writes rules for ports of TCP, UDP and SCTP alone, and no host has the address ${destination}`,
  };
}

function refusedBecause(why: string, {path, reason}: PacketOutcome): string {
  const by = reason ?? byLastRule(path);
  return by === '' ? why : `${why}; ${by}`;
}

/** Says of a packet to a cluster IP that no Service has, or has on another port, that it reaches nobody. */
export function explainNoEntry(
  outcome: PacketOutcome,
  query: PacketQuery,
  {mayBeOwn, isPart}: {readonly mayBeOwn: boolean; readonly isPart: boolean},
): PacketOutcome {
  const {protocol, isClusterIP = false, unallocatedIn, destination, port, entry} = query;
  const {verdict, reason} = outcome;
  const isUntouched = outcome.destination === null && outcome.rewrittenTo === undefined;
  if (protocol === 'ICMP' || !(isClusterIP || unallocatedIn !== undefined) || entry != null || !isUntouched) return outcome;
  const what = isClusterIP
    ? `${destination} is a cluster IP, and no rule takes its port ${port}/${protocol} to an endpoint`
    : `no Service has ${destination}, which is in the range of cluster IPs (${unallocatedIn})`;
  // Text tells a Service port by what its rules do to it, such as to refuse it.
  if (verdict === 'drop' || verdict === 'reject') return isPart ? outcome : {...outcome, reason: refusedBecause(what, outcome)};
  if (mayBeOwn) return outcome;
  if (verdict === 'undecided') return {...outcome, reason: `${what}; ${reason ?? ''}`};
  return {...outcome, verdict: 'drop', reason: `${what}: no host has the address`};
}
