import {isForIngress, selects} from '../../analyze/third-party/network-policies.ts';
import type {NetworkPolicyObject} from '../../model/api-objects.ts';
import {partition} from '../../model/lists.ts';
import {plural, namespacedName, someOf} from '../../model/text.ts';
import {contains, parseAddress, parseCidr} from '../../model/address.ts';
import {hasExternalEntry} from '../../model/service-port.ts';
import {type Observation, nameOf} from '../../model/finding.ts';
import type {ClusterContext} from '../check-types.ts';
import {check} from '../catalog.ts';
import {askedEntries} from './node-ports-and-target-ports.ts';

export const policySeesNode = check('ST113', {
  *cluster(context) {
    const all = (context.api.networkPolicies ?? []).filter(isForIngress);
    yield* closedTo(all, context);
    if (!all.some(policy => blocksOf(policy).length > 0)) return;
    for (const [object, entries] of Map.groupBy(askedEntries(context), ({port}) => port.object)) {
      const masqueraded = entries.filter(({port, set}) => hasExternalEntry(port) && !port.externalPolicyLocal && set.endpoints.length > 0);
      const selector = object.spec?.selector ?? null;
      if (masqueraded.length === 0 || selector === null) continue;
      const namespace = object.metadata.namespace ?? 'default';
      const own = all.filter(({metadata}) => (metadata.namespace ?? 'default') === namespace);
      const selecting = own.filter(policy => blocksOf(policy).length > 0 && selects(policy, selector) === true);
      // What one policy lets in, no other keeps out.
      if (selecting.length === 0 || own.some(policy => isOpen(policy) && selects(policy, selector) !== false)) continue;
      const blocks = [...new Set(selecting.flatMap(blocksOf))];
      const nodes = nodesIn(blocks, context);
      const names = someOf(selecting.map(({metadata}) => namespacedName(metadata)));
      const effect =
        nodes.length === 0
          ? 'clients in these networks are refused by node ports and load balancers as others are'
          : `the address of ${plural(nodes.length, 'node')} (${someOf(nodes)}) is in them, which lets all clients of ${nodes.length === 1 ? 'this node' : 'these nodes'} in`;
      const message = `${namespacedName(object.metadata)}: NetworkPolicy ${names} selects its pods and allows clients by address (${someOf(blocks)}), and externalTrafficPolicy is Cluster: connections from outside arrive with the address of a node, so ${effect}`;
      yield {service: nameOf(object), message};
    }
  },
});

/** Services to whose ports, as their pods have them, no policy lets anybody in. */
function* closedTo(all: readonly NetworkPolicyObject[], context: ClusterContext): Iterable<Observation> {
  if (!all.some(policy => (policy.spec?.ingress ?? []).every(({ports}) => (ports ?? []).length > 0))) return;
  for (const [object, entries] of Map.groupBy(askedEntries(context), ({port}) => port.object)) {
    const {selector} = object.spec ?? {};
    const ports = entries.flatMap(({port: {protocol}, set}) => set.endpoints.map(({port}) => ({protocol, port})));
    if (selector == null || ports.length === 0) continue;
    const namespace = object.metadata.namespace ?? 'default';
    const own = all.filter(({metadata}) => (metadata.namespace ?? 'default') === namespace);
    const [open, closing] = partition(own, policy => ports.some(port => admits(policy, port)));
    const named = closing.filter(policy => selects(policy, selector) === true);
    if (named.length === 0 || open.some(policy => selects(policy, selector) !== false)) continue;
    const names = someOf(named.map(({metadata}) => namespacedName(metadata)));
    const to = someOf([...new Set(ports.map(({protocol, port}) => `${protocol} ${port}`))]);
    const message = `${namespacedName(object.metadata)}: NetworkPolicy ${names} selects its pods, and no NetworkPolicy lets any connection in to their ports (${to}): where the network plugin carries policies out, only a pod's own node reaches it`;
    const remedy =
      'Write a NetworkPolicy that lets the clients in (ingress; ports are those of the pods, not of the Service), or delete this one.';
    yield {service: nameOf(object), message, remedy};
  }
}

/** Whether a policy lets somebody in to a port, or may: which port has a name, pods tell. */
function admits({spec}: NetworkPolicyObject, {protocol, port}: {readonly protocol: string; readonly port: number}): boolean {
  return (spec?.ingress ?? []).some(
    ({ports}) =>
      (ports ?? []).length === 0 ||
      ports?.some(
        one =>
          (one.protocol ?? 'TCP') === protocol &&
          (typeof one.port !== 'number' || one.port === port || (one.port <= port && port <= (one.endPort ?? 0))),
      ),
  );
}

/** A rule without senders, or with all addresses, lets everybody in, to some port at least. */
function isOpen({spec}: NetworkPolicyObject): boolean {
  return (spec?.ingress ?? []).some(({from}) => (from ?? []).length === 0 || from?.some(({ipBlock}) => ipBlock?.cidr.endsWith('/0')));
}

function blocksOf({spec}: NetworkPolicyObject): readonly string[] {
  return (spec?.ingress ?? []).flatMap(({from}) => (from ?? []).flatMap(({ipBlock}) => ipBlock?.cidr ?? []));
}

function nodesIn(blocks: readonly string[], {api}: ClusterContext): readonly string[] {
  const networks = blocks.flatMap(block => parseCidr(block) ?? []);
  const isInside = (text: string | undefined): boolean => {
    const address = parseAddress(text ?? '');
    return address !== null && networks.some(network => contains(network, address));
  };
  return (api.nodes ?? [])
    .filter(({status}) => status?.addresses?.some(({address}) => isInside(address)))
    .map(({metadata}) => metadata.name);
}
