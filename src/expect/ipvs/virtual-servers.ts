import {parseAddress} from '../../model/address.ts';
import type {Endpoint} from '../../model/endpoint.ts';
import type {Entry} from '../../model/entry.ts';
import type {Protocol, ServicePort} from '../../model/service-port.ts';
import {joinHostPort, type RealServer, type VirtualServer} from '../../model/virtual-server.ts';
import type {ServedPort} from '../cluster/served-port.ts';
import {writesExternalIPs} from '../cluster/proxy-versions.ts';
import type {IpvsContext} from './ipvs-context.ts';
import {hashesPorts} from './ipvs-versions.ts';

/** A virtual server that kube-proxy should have created, and the Service ports that it belongs to. */
export interface ExpectedServer {
  readonly server: VirtualServer;
  readonly owner: ServedPort;
  readonly entry: Entry;
}

/**
 * The virtual servers of one Service port, one for each address on which it answers. Follows `syncProxyRules`, `syncService` and
 * `syncEndpoint`.
 */
export function expectServers(owner: ServedPort, context: IpvsContext): readonly ExpectedServer[] {
  const {port} = owner;
  const external = preferLocal(port.externalPolicyLocal, owner);
  const make = (entry: Entry, address: string, reals: readonly Endpoint[]): ExpectedServer => ({
    ...{owner, entry},
    server: virtualServer(port, {address, port: entry.port, reals, context}),
  });
  const nodePort: Entry = {kind: 'nodePort', address: null, port: port.nodePort};
  return [
    make({kind: 'clusterIP', address: port.clusterIP, port: port.port}, port.clusterIP, preferLocal(port.internalPolicyLocal, owner)),
    ...externalIPsOf(port, context).map(address => make({kind: 'externalIP', address, port: port.port}, address, external)),
    ...[...new Set(port.loadBalancerVIPs)].map(address => make({kind: 'loadBalancerIP', address, port: port.port}, address, external)),
    ...(port.nodePort === 0 ? [] : context.nodeAddresses.map(address => make(nodePort, address, external))),
  ];
}

export function externalIPsOf(port: ServicePort, {version, gates}: IpvsContext): readonly string[] {
  return writesExternalIPs(version, gates) ? [...new Set(port.externalIPs)] : [];
}

/** Unlike in the other modes, a Local policy without a local endpoint falls back to all endpoints (kubernetes#97081). */
function preferLocal(policyLocal: boolean, {endpoints: {local, cluster}}: ServedPort): readonly Endpoint[] {
  return policyLocal && local.length > 0 ? local : cluster;
}

interface VirtualServerParts {
  readonly address: string;
  readonly port: number;
  readonly reals: readonly Endpoint[];
  readonly context: IpvsContext;
}

function virtualServer(
  {family, protocol, affinitySeconds}: ServicePort,
  {address, port, reals, context}: VirtualServerParts,
): VirtualServer {
  const {scheduler, version} = context;
  const place = `${protocolFlags[protocol]} ${joinHostPort(address, port)}`;
  const flags = scheduler === 'mh' && hashesPorts(version) ? ['mh-port'] : [];
  const bits = flags.length === 0 ? '' : ` -b ${flags.join()}`;
  const persistent = affinitySeconds === null ? '' : ` -p ${affinitySeconds}`;
  return {
    ...{family, protocol, address, port, scheduler, flags, line: 0},
    persistence: affinitySeconds,
    text: `-A ${place} -s ${scheduler}${bits}${persistent}`,
    realServers: [...new Map(reals.map(endpoint => [endpoint.hostPort, realServer(endpoint, place)])).values()],
  };
}

const protocolFlags: Readonly<Record<Protocol, string>> = {TCP: '-t', UDP: '-u', SCTP: '--sctp-service'};

function realServer(endpoint: Endpoint, place: string): RealServer {
  const address = parseAddress(endpoint.address)?.text ?? endpoint.address;
  const hostPort = joinHostPort(address, endpoint.port);
  return {
    ...{address, hostPort, port: endpoint.port, forwarding: 'masquerade', weight: 1, upperThreshold: 0, line: 0},
    text: `-a ${place} -r ${hostPort} -m -w 1`,
  };
}
