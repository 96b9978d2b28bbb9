import type {PortEntry} from '../../expect/cluster/cluster-view.ts';
import {nodeObject} from '../../expect/api-index.ts';
import type {NodeObject, ServiceObject} from '../../model/api-objects.ts';
import {commandLine} from '../../model/text/command-line.ts';
import {namespacedName} from '../../model/text/namespaced-name.ts';
import {someOf} from '../../model/text/some-of.ts';
import type {Check, ClusterContext} from '../check.ts';
import {run} from '../commands/service-commands.ts';
import {nameOf} from '../service-observation.ts';
import {askedEntries} from './port-entries.ts';

const label = 'node.kubernetes.io/exclude-from-external-load-balancers';

export const nodesExcludedFromLoadBalancers: Check<'ST111'> = {
  code: 'ST111',
  name: 'nodes-excluded-from-load-balancers',
  severity: 'info',
  summary: 'Every node that could take the traffic of a load balancer has the label that excludes it from load balancers',
  remedy:
    'Remove the label from nodes that may get this traffic, or run endpoints on nodes without it. kubeadm and Talos put it on control plane nodes.',
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
};

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
