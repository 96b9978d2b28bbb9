import {heldIn, once} from '../model/once.ts';
import {bitsOf, canonicalAddress, type Family, familyOf, parseCidr} from '../model/address.ts';
import type {NodeObject, PodObject} from '../model/api-objects.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {ApiObjects} from '../model/snapshot.ts';

export function podCIDRsOf(node: NodeObject | undefined): readonly string[] {
  return node?.spec?.podCIDRs ?? (node?.spec?.podCIDR === undefined ? [] : [node.spec.podCIDR]);
}

export function addressesOfPod({status}: PodObject): readonly string[] {
  return [...(status?.podIPs ?? []).flatMap(({ip}) => ip ?? []), ...(status?.podIP === undefined ? [] : [status.podIP])];
}

type PodPort = NonNullable<NonNullable<NonNullable<PodObject['spec']>['containers']>[number]['ports']>[number];

/** The ports that its containers declare. */
export function portsOfPod({spec}: Pick<PodObject, 'spec'>): readonly PodPort[] {
  return (spec?.containers ?? []).flatMap(({ports}) => ports ?? []);
}

/** Whether its addresses are its own, and still in use. */
export function hasOwnAddress({spec, status}: PodObject): boolean {
  return spec?.hostNetwork !== true && status?.phase !== 'Succeeded' && status?.phase !== 'Failed';
}

/** The addresses of all pods that are not in the network of their node. */
export const addressesOfPods = once(
  ({pods}: ApiObjects) => new Set((pods ?? []).filter(hasOwnAddress).flatMap(addressesOfPod).map(canonicalAddress)),
);

/** The addresses of pods by their node, as pods and EndpointSlices have them; those in the network of a node are left out. */
export function podsByNode(api: ApiObjects, family: Family): ReadonlyMap<string, ReadonlySet<string>> {
  return (family === 'IPv4' ? podsOfIPv4 : podsOfIPv6)(api);
}

const podsOfIPv4 = once((api: ApiObjects) => readPods(api, 'IPv4'));
const podsOfIPv6 = once((api: ApiObjects) => readPods(api, 'IPv6'));

function readPods({pods, endpointSlices, nodes}: ApiObjects, family: Family): ReadonlyMap<string, ReadonlySet<string>> {
  const ofNodes = new Set((nodes ?? []).flatMap(({status}) => (status?.addresses ?? []).map(({address}) => address)));
  const found = new Map<string, Set<string>>();
  const note = (node: string | null | undefined, address: string): void => {
    if (typeof node !== 'string' || familyOf(address) !== family || ofNodes.has(address)) return;
    heldIn(found, node, () => new Set()).add(address);
  };
  for (const pod of (pods ?? []).filter(hasOwnAddress)) for (const address of addressesOfPod(pod)) note(pod.spec?.nodeName, address);
  for (const {endpoints} of endpointSlices ?? [])
    for (const {nodeName, addresses, targetRef} of endpoints ?? [])
      if (targetRef?.kind === 'Pod') for (const address of addresses ?? []) note(nodeName, address);
  return found;
}

/**
 * Who is here where the Node has no podCIDR of a family, because the network plugin gives out addresses: the pods and endpoints of the node,
 * and each host that has a route of its own into another network namespace.
 */
export function ownPods(
  {name, podCIDRs, addresses, network, primaryInterface}: NodeFacts,
  api: ApiObjects,
  family: Family,
): readonly string[] {
  if (podCIDRs.some(text => parseCidr(text)?.family === family)) return [];
  const elsewhere = new Set((network.links ?? []).filter(({isPeerElsewhere}) => isPeerElsewhere).map(link => link.name));
  const bits = bitsOf(family);
  const routed = (network.routes[family] ?? []).flatMap(({kind, to, table, hops: [hop, ...others]}) => {
    const dev = hop?.gateway === null && others.length === 0 ? hop.dev : null;
    const isOfPod = kind === 'unicast' && to.prefix === bits && (table === 'main' || table === '254');
    return isOfPod && dev !== null && dev !== primaryInterface && elsewhere.has(dev) ? [to.text.replace(/\/\d+$/, '')] : [];
  });
  const own = new Set(addresses);
  return [...new Set([...(podsByNode(api, family).get(name) ?? []), ...routed])].filter(address => !own.has(address));
}
