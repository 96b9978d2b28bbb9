import {someOf} from '../../model/text/some-of.ts';
import {topologyMode} from '../../expect/cluster/categorize-endpoints.ts';
import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import {honorsNodeHints, honorsZoneHints} from '../../expect/cluster/proxy-versions.ts';
import type {NodeObject} from '../../model/api-objects.ts';
import {type Endpoint, podOf} from '../../model/endpoint.ts';
import type {Check, ClusterContext} from '../check.ts';
import {unusualEntries} from './port-entries.ts';
import {ofPort} from '../service-observation.ts';
import {run} from '../commands/service-commands.ts';

export const hintsIgnored: Check<'ST104'> = {
  code: 'ST104',
  name: 'hints-ignored',
  severity: 'info',
  summary: 'Some endpoints carry topology hints but kube-proxy ignores them all',
  remedy:
    'Wait for the EndpointSlice controller to give hints to all endpoints; label nodes with topology.kubernetes.io/zone. Until then traffic goes to all zones.',
  // Silent for a node in a zone without hints, if other nodes use the hints: this is by design.
  *cluster(context) {
    for (const entry of unusualEntries(context)) {
      const reason = whyIgnored(entry, context);
      if (reason !== null)
        yield {
          ...ofPort(entry.port),
          ...run('kubectl get nodes -L topology.kubernetes.io/zone'),
          message: `${entry.port.servicePortName}: traffic goes to all zones, because kube-proxy ignores the topology hints: ${reason}`,
        };
    }
  },
};

function whyIgnored({port, set}: PortEntry, {proxy, api}: ClusterContext): string | null {
  if (!set.endpoints.some(endpoint => endpoint.ready && hasHint(endpoint))) return null;
  const nodes = api.nodes ?? [];
  const used = nodes.some(
    node =>
      topologyMode(port, set.endpoints, {nodeName: node.metadata.name, zone: zoneOf(node), labels: node.metadata.labels ?? {}, proxy}) !==
      null,
  );
  if (used || nodes.length === 0) return null;
  const without = set.endpoints.filter(endpoint => endpoint.ready && !hasHint(endpoint));
  if (without.length > 0)
    return `${someOf(without.map(endpoint => podOf(endpoint) ?? endpoint.hostPort))} ${without.length === 1 ? 'has' : 'have'} none, and kube-proxy uses hints only if all endpoints have them`;
  const annotations = port.object.metadata.annotations ?? {};
  if (!honorsZoneHints(proxy.version, proxy.gates, annotations) && !honorsNodeHints(proxy.version, proxy.gates))
    return `kube-proxy ${proxy.version.text} requires an annotation (service.kubernetes.io/topology-mode) or a feature gate`;
  const unlabeled = nodes.filter(node => zoneOf(node) === null).map(({metadata}) => metadata.name);
  if (unlabeled.length > 0) return `no zone label (topology.kubernetes.io/zone) on ${someOf(unlabeled)}`;
  return 'they name no zone and no node of this cluster';
}

function hasHint({zoneHints, nodeHints}: Endpoint): boolean {
  return zoneHints !== null || nodeHints !== null;
}

function zoneOf(node: NodeObject): string | null {
  return node.metadata.labels?.['topology.kubernetes.io/zone'] ?? null;
}
