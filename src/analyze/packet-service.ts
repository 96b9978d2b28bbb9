import {joinHostPort} from '../model/address.ts';
import type {SentPacket} from '../model/finding.ts';
import {newestProxy} from '../model/proxy-config.ts';
import type {EntryKind, ServicePort} from '../model/service-port.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {ClusterView} from '../expect/cluster/cluster-view.ts';
import {once} from '../model/once.ts';
import type {PacketOutcome} from './packet-rules.ts';

type AskedPacket = Omit<SentPacket, 'source'>;

/** The entry of a Service that a packet is sent to. */
export interface AskedEntry {
  readonly kind: EntryKind;
  /** kube-proxy's ServicePortName: `shop/web:http`. */
  readonly service: string;
  /** All that the API has, ready or not, as `ip:port`; null if they were not read. */
  readonly endpoints: ReadonlySet<string> | null;
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
