import {namespacedName, someOf} from '../../model/text.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import type {Advice} from '../../model/preview-result.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import type {NodeSetup} from '../sides.ts';
import {type Family, parseCidr, contains, families} from '../../model/address.ts';
import {nodesInRanges} from '../../expect/cluster/service-range.ts';
import {droppedRanges} from '../../expect/nftables/base-chains.ts';
import {proxyTableId} from '../../expect/nftables/expected-table.ts';
import {parseInterval} from '../../parse/nftables/address-list.ts';

/** One node of the change. */
export interface AdviceCase {
  readonly setup: NodeSetup;
  readonly configAfter: ProxyConfig;
}

/** Advice about one node; its texts are the same for all nodes that it concerns. */
export interface NodeAdvice extends Omit<Advice, 'nodes'> {
  /** It concerns the cluster, not this node. */
  readonly ofCluster?: true;
}

/** One piece of advice. */
export function advise(topic: Advice['topic'], id: string, said: Omit<NodeAdvice, 'topic' | 'id'>): readonly NodeAdvice[] {
  return [{topic, id, ...said}];
}

/** External IPs and load-balancer IPs of a Service. */
export function externalAddresses({spec, status}: ServiceObject): readonly string[] {
  return [...(spec?.externalIPs ?? []), ...(status?.loadBalancer?.ingress?.flatMap(({ip}) => ip ?? []) ?? [])];
}

/** Up to three names. */
export function namesOf(services: readonly ServiceObject[]): string {
  const names = services.map(({metadata}) => namespacedName(metadata));
  return someOf(names, {max: 3, noun: 'Service'});
}

/** Effects of a change to nftables mode that neither objects nor dumps show. */
export function checkByHand({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  if (configAfter.mode.value !== 'nftables') return [];
  const ranges = rangesOf(setup, configAfter);
  const hasRoutes = (family: Family = 'IPv4'): boolean => (setup.facts.network.routes[family] ?? null) !== null;
  return [...hostsInRange(ranges, ranges?.every(text => hasRoutes(parseCidr(text)?.family)) ?? false), ...readers];
}

function hostsInRange(ranges: readonly string[] | null, isRouted: boolean): readonly NodeAdvice[] {
  if (ranges?.length === 0) return [];
  if (ranges !== null)
    return advise('by-hand', 'check-by-hand', {
      ofCluster: true,
      reason: `hosts inside the Service range ${ranges.join(', ')}${isRouted ? ' that only routers beyond the nodes have routes to' : ''}: nftables mode drops packets to its unallocated addresses`,
      remedy: `Look in the routing tables of ${isRouted ? '' : 'the nodes and '}the network for addresses in the range.`,
    });
  const reason =
    'endpoints, pod networks, nodes and routed hosts inside the Service range: nftables mode from 1.33 on drops packets to its unallocated addresses, and the ServiceCIDRs are not known';
  const remedy = 'Compare with: kubectl get servicecidrs. A bundle holds them as api/servicecidrs.json.';
  return advise('by-hand', 'check-by-hand', {ofCluster: true, reason, remedy});
}

const readers = advise('by-hand', 'check-by-hand', {
  ofCluster: true,
  reason: 'programs that read the iptables rules of kube-proxy, such as exporters and agents: KUBE-SERVICES is empty in nftables mode',
  remedy: 'Find out from their documentation whether they support nftables mode.',
});

/**
 * Nodes, pod networks and routed networks inside the Service range: nftables mode from 1.33 on drops packets to them. Endpoints inside it
 * are found by their packets.
 */
export function serviceRange({setup, configAfter}: AdviceCase): readonly NodeAdvice[] {
  const ranges = rangesOf(setup, configAfter);
  if (ranges === null || ranges.length === 0 || (rangesOf(setup, setup.config) ?? []).length > 0) return [];
  const intervals = ranges.flatMap(text => parseInterval(text) ?? []);
  const inside = nodesInRanges(setup.api, intervals).map(({text}) => text);
  const routed = routesInto(setup, ranges);
  const said = (who: readonly string[], of: Pick<NodeAdvice, 'ofCluster'>): readonly NodeAdvice[] =>
    who.length === 0
      ? []
      : advise('change', 'unallocated-addresses', {
          effect: 'lost',
          ...of,
          reason: `${someOf(who, {max: 3})} ${who.length === 1 ? 'is' : 'are'} inside the Service range ${ranges.join(', ')}: nftables mode drops new connections to them`,
          remedy: 'Renumber them, or delete the ServiceCIDR that holds them.',
        });
  return [...said(inside, {ofCluster: true}), ...said(routed, {})];
}

/** A route to all of the range, as nodes without a default route have it, leads to no host. */
function routesInto({facts: {network}}: NodeSetup, ranges: readonly string[]): readonly string[] {
  const cidrs = ranges.flatMap(text => parseCidr(text) ?? []);
  const routes = families.flatMap(family => network.routes[family] ?? []);
  const inside = routes.filter(
    ({kind, to}) => kind === 'unicast' && cidrs.some(cidr => to.prefix > cidr.prefix && contains(cidr, {...to, value: to.base})),
  );
  return [
    ...new Set(inside.map(({to, hops}) => `${to.text}, which a route by ${hops[0]?.gateway ?? hops[0]?.dev ?? 'the node'} leads to,`)),
  ];
}

/** The networks of both families that packets are dropped to after the change; null where they are not known. */
function rangesOf(setup: NodeSetup, config: ProxyConfig): readonly string[] | null {
  if (config.mode.value !== 'nftables') return [];
  const ranges = families.map(family =>
    droppedRanges({api: setup.api, config, family, table: setup.nft()?.tables.get(proxyTableId(family)) ?? null}),
  );
  return ranges.includes(undefined) ? null : ranges.flatMap(range => range ?? []);
}
