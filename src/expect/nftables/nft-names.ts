import {heldIn, once} from '../../model/once.ts';
import type {Endpoint, ServedPort} from '../../model/endpoint.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {writesExternalIPs} from '../cluster/proxy-versions.ts';
import {chainsUsed} from '../cluster/served-port.ts';
import {hash8} from '../name-hash.ts';
import type {NodeContext} from '../node-context.ts';
import {hasFirewallChains, rewritesInServiceChain} from './nft-versions.ts';

/** The names of everything that kube-proxy creates for one Service port. */
interface PortNames {
  /** The part of its chain names after the role: `2QRHZV4L-default/kubernetes/tcp/https`. */
  readonly base: string;
  readonly service: string;
  readonly local: string;
  readonly external: string;
  readonly firewall: string;
  readonly endpoint: (endpoint: Endpoint) => string;
  readonly affinity: (endpoint: Endpoint) => string;
}

/** Names are the same on every node, and hashing takes much of the time in a large cluster: they are computed once. */
export const portNames = once(({namespace, service, protocol, portName}: ServicePort): PortNames => {
  const text = `${namespace}/${service}/${protocol.toLowerCase()}/${portName}`;
  const base = hashed(text);
  const endpoints = new Map<Endpoint, string>();
  // nftables allows no colons in names.
  const nameOf = ({address, port}: Endpoint): string =>
    `${endpointRole}${hashed(`${text}__${address.includes(':') ? address.replaceAll(':', '.') : address}/${port}`)}`;
  const endpointChain = (endpoint: Endpoint): string => heldIn(endpoints, endpoint, nameOf);
  return {
    base,
    service: `service-${base}`,
    local: `local-${base}`,
    external: `external-${base}`,
    firewall: `firewall-${base}`,
    endpoint: endpointChain,
    affinity: endpoint => `affinity-${endpointChain(endpoint).slice(endpointRole.length)}`,
  };
});

const endpointRole = 'endpoint-';

/** Follows `hashAndTruncate`. */
function hashed(text: string): string {
  const name = `${hash8(text)}-${text}`;
  return name.length > 240 ? `${name.slice(0, 237)}...` : name;
}

type NftRole = 'service' | 'local' | 'external' | 'firewall' | 'endpoint' | 'affinity';

/**
 * The parts of the name of a chain or set that belongs to one Service port or endpoint; null for all others. `servicePortName`:
 * `namespace/name:port`, unless the name was truncated.
 */
export function parseNftName(name: string) {
  const found = /^(service|local|external|firewall|endpoint|affinity)-([A-Z2-7]{8}-([^/]+)\/([^/]+)\/([a-z]+)(?:\/(.*))?)$/s.exec(name);
  if (found === null) return null;
  const [, role, base = '', namespace = '', service = '', , rest = ''] = found;
  const portName = rest.replace(/__.*$/s, '').replace(/\.\.\.$/, '');
  const servicePortName = `${namespace}/${service}${portName === '' ? '' : `:${portName}`}`;
  return {role: role as NftRole, base, namespace, service, servicePortName};
}

/** One Service port with the input for its nftables objects on a node. */
export interface NftPort extends ServedPort {
  readonly names: PortNames;
  /** Whether a node name is the one that this kube-proxy uses. */
  readonly isLocal: (nodeName: string | null) => boolean;
}

export type NftPlan = ReturnType<typeof nftPlan>;

/**
 * The derived conditions of `syncProxyRules`, under the names used there. Unlike in iptables mode, source ranges apply to a Service without
 * endpoints too. `externalAddresses`: external and load-balancer addresses, without duplicates. `noEndpointVerdict`: for packets that no
 * endpoint may serve. `chained`: endpoints with a chain of their own.
 */
export function nftPlan(item: NftPort, context: NodeContext) {
  const {port, endpoints, names} = item;
  const {hasAny, reachable} = endpoints;
  const externalIPs = writesExternalIPs(context.version, context.gates) ? port.externalIPs : [];
  const chained = !rewritesInServiceChain(context.version) || port.affinitySeconds !== null;
  const firewall = port.loadBalancerVIPs.length > 0 && port.sourceRanges.length > 0;
  return {
    ...chainsUsed(item),
    item,
    context,
    externalAddresses: [...new Set([...externalIPs, ...port.loadBalancerVIPs])],
    balancerAddresses: [...new Set(port.loadBalancerVIPs)],
    internalChain: port.internalPolicyLocal ? names.local : names.service,
    externalPolicyChain: port.externalPolicyLocal ? names.local : names.service,
    noEndpointVerdict: hasAny ? 'drop' : 'goto reject-chain',
    usesFirewall: firewall && (hasFirewallChains(context.version) || hasAny),
    chained: chained ? reachable : [],
  };
}

/** The map of node ports that are rejected on loopback addresses. */
export const localhostRejectMap = 'localhost-nodeport-reject-ports';

export function localhostRejectChain(protocol: string): string {
  return `localhost-nodeport-reject-${protocol}`;
}

/** The named counter of the chain that rejects node ports of a protocol on loopback addresses. */
export function localhostCounter(protocol: string): string {
  return `localhost-nodeport-rejected-${protocol}`;
}

/**
 * The protocols whose node ports are rejected on loopback addresses. For TCP, kube-proxy itself listens if `nodePortAddresses` names a
 * loopback address; it never does for the others. Empty without the feature gate.
 */
export function rejectedOnLocalhost({listensOnLocalhost}: NodeContext): readonly string[] {
  if (listensOnLocalhost === undefined) return [];
  return listensOnLocalhost ? ['udp', 'sctp'] : ['tcp', 'udp', 'sctp'];
}
