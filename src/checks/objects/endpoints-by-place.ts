import {serviceProxy} from '../../expect/cilium/cilium-node.ts';
import {nodeObject} from '../../expect/api-index.ts';
import {topologyMode} from '../../expect/cluster/categorize-endpoints.ts';
import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import {honorsNodeHints, honorsZoneHints} from '../../expect/cluster/proxy-versions.ts';
import type {NodeObject, ServiceObject} from '../../model/api-objects.ts';
import {type Endpoint, podOf} from '../../model/endpoint.ts';
import {commandLine, namespacedName, someOf} from '../../model/text.ts';
import type {ClusterContext} from '../check-types.ts';
import {check} from '../catalog.ts';
import {nameOf, ofPort} from '../../model/finding.ts';
import {run} from '../commands/commands.ts';
import {askedEntries, unusualEntries} from './node-ports-and-target-ports.ts';

export const hintsIgnored = check('ST104', {
  // Silent for a node in a zone without hints, if other nodes use the hints: this is by design.
  *cluster(context) {
    // Hints are an option of Cilium, which agents have in their settings.
    if (serviceProxy(context.api) === 'Cilium') return;
    for (const entry of unusualEntries(context)) {
      const reason = whyIgnored(entry, context);
      if (reason !== null) {
        const message = `${entry.port.servicePortName}: traffic ${reason.from}goes to all zones, because kube-proxy ignores the topology hints${reason.from === '' ? '' : ' there'}: ${reason.why}`;
        yield {...ofPort(entry.port), ...run(commandLine`kubectl get nodes -L topology.kubernetes.io/zone`), message};
      }
    }
  },
});

/** Why no node goes by the hints, or one without a zone label does not. */
function whyIgnored({port, set}: PortEntry, {proxy, api}: ClusterContext): {readonly from: string; readonly why: string} | null {
  if (!set.endpoints.some(endpoint => endpoint.ready && hasHint(endpoint))) return null;
  const nodes = api.nodes ?? [];
  const ignoring = nodes.filter(
    node =>
      topologyMode(port, set.endpoints, {nodeName: node.metadata.name, zone: zoneOf(node), labels: node.metadata.labels ?? {}, proxy}) ===
      null,
  );
  const unlabeled = ignoring.filter(node => zoneOf(node) === null).map(({metadata}) => metadata.name);
  const unnamed = `no zone label (topology.kubernetes.io/zone) on ${someOf(unlabeled)}`;
  if (ignoring.length < nodes.length) return unlabeled.length === 0 ? null : {from: `from ${someOf(unlabeled)} `, why: unnamed};
  if (nodes.length === 0) return null;
  return {from: '', why: reasonOfAll({port, set}, {proxy, unnamed: unlabeled.length === 0 ? null : unnamed})};
}

function reasonOfAll(
  {port, set}: Pick<PortEntry, 'port' | 'set'>,
  {proxy, unnamed}: Pick<ClusterContext, 'proxy'> & {readonly unnamed: string | null},
): string {
  const without = set.endpoints.filter(endpoint => endpoint.ready && !hasHint(endpoint));
  if (without.length > 0)
    return `${someOf(without.map(endpoint => podOf(endpoint) ?? endpoint.hostPort))} ${without.length === 1 ? 'has' : 'have'} none, and kube-proxy uses hints only if all endpoints have them`;
  const annotations = port.object.metadata.annotations ?? {};
  if (!honorsZoneHints(proxy.version, proxy.gates, annotations) && !honorsNodeHints(proxy.version, proxy.gates))
    return `kube-proxy ${proxy.version.text} requires an annotation (service.kubernetes.io/topology-mode) or a feature gate`;
  return unnamed ?? 'they name no zone and no node of this cluster';
}

function hasHint({zoneHints, nodeHints}: Endpoint): boolean {
  return zoneHints !== null || nodeHints !== null;
}

function zoneOf(node: NodeObject): string | null {
  return node.metadata.labels?.['topology.kubernetes.io/zone'] ?? null;
}

const label = 'node.kubernetes.io/exclude-from-external-load-balancers';

export const nodesExcludedFromLoadBalancers = check('ST111', {
  *cluster(context) {
    const {nodes} = context.api;
    if (!nodes?.some(isExcluded)) return;
    for (const [object, entries] of Map.groupBy(askedEntries(context), ({port}) => port.object)) {
      if (!hasLoadBalancer(object)) continue;
      const serving = object.spec?.externalTrafficPolicy === 'Local' ? nodesOf(entries, context) : nodes;
      if (serving.length === 0 || !serving.every(isExcluded)) continue;
      const isLocal = serving !== nodes;
      const names = someOf(serving.map(({metadata}) => metadata.name));
      const who = isMetalLB(object)
        ? 'MetalLB announces its addresses from none of them (from 0.14 on, unless its speakers run with --ignore-exclude-lb)'
        : 'a load balancer that respects the label sends it nothing';
      yield {
        service: nameOf(object),
        ...(isMetalLB(object) ? {severity: 'warning' as const} : {}),
        message: `${namespacedName(object.metadata)} has a load balancer, and ${isLocal ? 'all nodes with its endpoints (externalTrafficPolicy is Local)' : 'all nodes'} have the label ${label} (${names}): ${who}`,
        ...run(commandLine`kubectl label node ${serving[0]?.metadata.name ?? ''} ${`${label}-`}`),
      };
    }
  },
});

/** Controllers look for the label, whatever its value. */
function isExcluded({metadata}: NodeObject): boolean {
  return metadata.labels?.[label] !== undefined;
}

/** Whether a load balancer has given an address, and sends packets to nodes rather than to pods. */
function hasLoadBalancer({spec, status, metadata: {annotations = {}}}: ServiceObject): boolean {
  const toPods = annotations['service.beta.kubernetes.io/aws-load-balancer-nlb-target-type'] === 'ip';
  return spec?.type === 'LoadBalancer' && (status?.loadBalancer?.ingress ?? []).length > 0 && !toPods;
}

function isMetalLB({metadata: {annotations = {}}}: ServiceObject): boolean {
  return Object.keys(annotations).some(name => /^metallb\.(?:io|universe\.tf)\/ip-allocated-from-pool$/.test(name));
}

/** Nodes with a ready endpoint of the Service; none if one of them is not known. */
function nodesOf(entries: readonly PortEntry[], {api}: ClusterContext): readonly NodeObject[] {
  const ready = entries.flatMap(({set}) => set.endpoints.filter(endpoint => endpoint.ready));
  const names = [...new Set(ready.map(({nodeName}) => nodeName ?? ''))];
  const found = names.flatMap(name => nodeObject(api, name) ?? []);
  return found.length === names.length ? found : [];
}
