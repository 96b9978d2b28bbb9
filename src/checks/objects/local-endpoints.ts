import {serviceProxy} from '../../expect/cilium/cilium-node.ts';
import {isNoNode, nodeNamesByAddress} from '../../expect/api-index.ts';
import {usesLocalEndpoints} from '../../model/service-port.ts';
import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import {canonicalAddress} from '../../model/address.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import {once} from '../../model/once.ts';
import {namespacedName, someOf} from '../../model/text.ts';
import type {ClusterContext} from '../check-types.ts';
import {check} from '../catalog.ts';
import {nameOf, ofPort} from '../../model/finding.ts';
import {patchService, showSlices} from '../commands/commands.ts';
import {isApiServer, isUsable, nodePortOwners, unusualEntries} from './node-ports-and-target-ports.ts';

export const localPolicyNowhereLocal = check('ST108', {
  // Silent for a Service without usable endpoints, which is ST101.
  *cluster(context) {
    for (const entry of unusualEntries(context)) {
      const reason = whyNowhereLocal(entry, context);
      if (reason === null) continue;
      const {port} = entry;
      const policy = port.externalPolicyLocal ? 'externalTrafficPolicy' : 'internalTrafficPolicy';
      const message = `${port.servicePortName}: ${policy} is Local, and ${reason}: every node drops this traffic`;
      yield {...ofPort(port), message, ...patchService(nameOf(port.object), {spec: {[policy]: 'Cluster'}})};
    }
  },
});

/** Why no node has a local endpoint of a Service port with a Local policy; null if one has, or the policy is not Local. */
function whyNowhereLocal({port, set}: PortEntry, {api, proxy}: ClusterContext): string | null {
  if (!usesLocalEndpoints(port)) return null;
  const usable = set.endpoints.filter(endpoint => isUsable(endpoint, proxy));
  if (usable.length === 0 || usable.some(({nodeName}) => nodeName !== null && !isNoNode(api, nodeName))) return null;
  // For Cilium, an endpoint without a node is local to each.
  if (usable.some(({nodeName}) => nodeName === null) && serviceProxy(api) === 'Cilium') return null;
  if (usable.every(({nodeName}) => nodeName === null)) return 'none of its endpoints names a node';
  return 'none of its endpoints is on a node of this cluster';
}

export const endpointOnUnknownNode = check('ST109', {
  // Silent under a Local traffic policy, for which ST108 reports it.
  *cluster(context) {
    for (const entry of unusualEntries(context)) {
      const {port, set} = entry;
      if (whyNowhereLocal(entry, context) !== null) continue;
      const lost = set.endpoints.filter(({nodeName}) => nodeName !== null && isNoNode(context.api, nodeName));
      if (lost.length === 0) continue;
      const names = someOf([...new Set(lost.map(({nodeName}) => nodeName ?? ''))]);
      const message = `${port.servicePortName}: ${lost.length} of ${set.endpoints.length} endpoints name a node that the cluster does not have (${names}): they are local to no node`;
      yield {...ofPort(port), ...showSlices(nameOf(port.object), 'yaml'), message};
    }
  },
});

export const endpointIsClusterIP = check('ST117', {
  *cluster(context) {
    for (const {port, set} of unusualEntries(context)) {
      // Hand-made endpoints name no node.
      const handMade = set.endpoints.filter(({nodeName}) => nodeName === null);
      if (handMade.length === 0) continue;
      const holders = holdersOfClusterIPs(context.api.services ?? []);
      const owners = nodePortOwners(context.view.entries(port.family, context.proxy));
      const ofNodes = nodeNamesByAddress(context.api);
      const lost = handMade.flatMap(({address, hostPort}) =>
        holders.has(address) ? `${hostPort}, which is the cluster IP of ${holders.get(address) ?? ''}` : [],
      );
      // The API server and programs of nodes may listen there; those of nodes that are endpoints by a selector name their node.
      const atNodes = handMade.flatMap(({address, port: number, hostPort}) => {
        const owner = ofNodes.has(address) ? owners.get(`${number}/${port.protocol}`) : undefined;
        return owner === undefined || isApiServer(port) ? [] : `${hostPort}, which is the node port of ${owner.port.servicePortName}`;
      });
      const shown = {...ofPort(port), ...showSlices(nameOf(port.object), 'yaml')};
      const start = (names: readonly string[]): string =>
        `${port.servicePortName}: ${names.length} of ${set.endpoints.length} endpoints cannot be reached`;
      if (lost.length > 0)
        yield {
          ...shown,
          message: `${start(lost)} (${someOf(lost)}): kube-proxy sends packets there as they are, and no rule translates them again`,
        };
      if (atNodes.length > 0)
        yield {
          ...shown,
          gist: 'an endpoint is a node port, which its own node does not reach',
          message: `${start(atNodes)} from their own node (${someOf(atNodes)}): rules translate a packet once, so that there it gets to the node itself, which refuses it unless a program listens on that port`,
        };
    }
  },
});

/** By address, as `namespace/name`. */
export const holdersOfClusterIPs = once(
  (services: readonly ServiceObject[]): ReadonlyMap<string, string> =>
    new Map(
      services.flatMap(({metadata, spec}) =>
        (spec?.clusterIPs ?? [spec?.clusterIP ?? '']).flatMap(text => {
          const address = canonicalAddress(text);
          return address === null ? [] : [[address, namespacedName(metadata)] as const];
        }),
      ),
    ),
);
