import type {Endpoint} from '../../model/endpoint.ts';
import {hasExternalEntry} from '../../model/service-port.ts';
import {usesClusterEndpoints, usesLocalEndpoints} from '../cluster/categorize-endpoints.ts';
import type {ServedPort} from '../cluster/served-port.ts';
import {writesExternalIPs} from '../cluster/proxy-versions.ts';
import type {NodeContext} from '../node-context.ts';
import type {PortNames} from './nft-names.ts';
import {hasFirewallChains, rewritesInServiceChain} from './nft-versions.ts';

/** One Service port with the input for its nftables objects on a node. */
export interface NftPort extends ServedPort {
  readonly names: PortNames;
  /** Whether a node name is the one that this kube-proxy uses. */
  readonly isLocal: (nodeName: string | null) => boolean;
}

/** The derived conditions of `syncProxyRules`, under the names used there. */
export interface NftPlan {
  readonly item: NftPort;
  readonly context: NodeContext;
  /** External and load-balancer addresses, without duplicates. */
  readonly externalAddresses: readonly string[];
  readonly balancerAddresses: readonly string[];
  readonly hasInternal: boolean;
  readonly hasExternal: boolean;
  readonly internalChain: string;
  readonly externalPolicyChain: string;
  /** The verdict for packets that no endpoint may serve. */
  readonly noEndpointVerdict: string;
  readonly usesExternalChain: boolean;
  readonly usesFirewall: boolean;
  readonly usesCluster: boolean;
  readonly usesLocal: boolean;
  /** Endpoints with a chain of their own. */
  readonly chained: readonly Endpoint[];
}

/** Unlike in iptables mode, source ranges apply to a Service without endpoints too. */
export function nftPlan(item: NftPort, context: NodeContext): NftPlan {
  const {port, endpoints, names} = item;
  const {hasAny, cluster, local, reachable} = endpoints;
  const externalIPs = writesExternalIPs(context.version, context.gates) ? port.externalIPs : [];
  const chained = !rewritesInServiceChain(context.version) || port.affinitySeconds !== null;
  const firewall = port.loadBalancerVIPs.length > 0 && port.sourceRanges.length > 0;
  return {
    ...{item, context},
    externalAddresses: [...new Set([...externalIPs, ...port.loadBalancerVIPs])],
    balancerAddresses: [...new Set(port.loadBalancerVIPs)],
    hasInternal: hasAny && (!port.internalPolicyLocal || local.length > 0),
    hasExternal: hasAny && (!port.externalPolicyLocal || local.length > 0),
    internalChain: port.internalPolicyLocal ? names.local : names.service,
    externalPolicyChain: port.externalPolicyLocal ? names.local : names.service,
    noEndpointVerdict: hasAny ? 'drop' : 'goto reject-chain',
    usesExternalChain: hasAny && hasExternalEntry(port),
    usesFirewall: firewall && (hasFirewallChains(context.version) || hasAny),
    usesCluster: cluster.length > 0 && usesClusterEndpoints(port),
    usesLocal: local.length > 0 && usesLocalEndpoints(port),
    chained: chained ? reachable : [],
  };
}
