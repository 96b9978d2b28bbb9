import type {Permission} from '../../model/access.ts';
import {systemConfigMaps} from '../../model/config-map-places.ts';

/**
 * What every run on a live cluster reads, whatever the transport. `namespace` is that of the Services, null for all; `podsNeeded` tells
 * whether nodes are reached through their pods.
 */
export function readPermissions(namespace: string | null, podsNeeded: boolean): readonly Permission[] {
  return [
    ...objectPermissions(namespace),
    ...watchPermissions(namespace),
    {
      ...{verb: 'list', group: '', resource: 'pods', namespace: 'kube-system', needed: podsNeeded},
      ...(podsNeeded
        ? {purpose: 'the pod to exec into on each node', without: 'no node is reached'}
        : {purpose: "kube-proxy's version and arguments", without: 'they are read on the node, or off its rules'}),
    },
    ...podsOfServices(namespace),
    kubeProxyLogs,
    ...configMaps,
    serviceCIDRs,
  ];
}

export const kubeProxyLogs: Permission = {
  ...{verb: 'get', group: '', resource: 'pods', subresource: 'log', namespace: 'kube-system', needed: false},
  ...{purpose: 'why kube-proxy fails on a node', without: 'ST305, ST505 and ST901 do not quote its log'},
};

export const serviceCIDRs: Permission = {
  ...{verb: 'list', group: 'networking.k8s.io', resource: 'servicecidrs', namespace: null, needed: false},
  ...{purpose: 'the Service range', without: 'nftables mode: the rule about its unallocated addresses is not checked'},
};

const services = {group: '', resource: 'services', purpose: 'the Services', needed: true} as const;

/** The Services, their endpoints, and the Nodes. */
export function objectPermissions(namespace: string | null): readonly Permission[] {
  return [
    {...services, verb: 'list', namespace, without: 'nothing can be expected of any node'},
    {...services, verb: 'get', namespace, without: 'no Service can be named (trace, packet, check NAME)'},
    {
      ...{verb: 'list', group: 'discovery.k8s.io', resource: 'endpointslices', namespace, needed: true},
      ...{purpose: 'the endpoints of the Services', without: 'nothing can be expected of any node'},
    },
    {
      ...{verb: 'list', group: '', resource: 'nodes', namespace: null, needed: true},
      ...{purpose: 'which nodes there are, their addresses and zones', without: 'only nodes that are named (--node) are checked'},
    },
  ];
}

/** For knowing every state that Services had while nodes were read. */
function watchPermissions(namespace: string | null): readonly Permission[] {
  const watched = {
    verb: 'watch',
    namespace,
    needed: false,
    purpose: 'changes while nodes are read',
    without: 'Services are polled, and ST904 is reported for those that keep changing',
  } as const;
  return [
    {...watched, group: '', resource: 'services'},
    {...watched, group: 'discovery.k8s.io', resource: 'endpointslices'},
  ];
}

const pods = {group: '', resource: 'pods', needed: false} as const;

/** For explaining why a Service has no endpoints. */
export function listPodsOfServices(namespace: string | null): Permission {
  return {
    ...pods,
    verb: 'list',
    namespace,
    purpose: 'why a Service has no endpoints',
    without: 'ST101 does not say which pods are not ready',
  };
}

function podsOfServices(namespace: string | null): readonly Permission[] {
  return [
    listPodsOfServices(namespace),
    {...pods, verb: 'get', namespace, purpose: 'packet --source pod/NAME', without: 'packet takes addresses only'},
  ];
}

/** Those of kube-proxy. */
export const configMaps: readonly Permission[] = systemConfigMaps.map(name => ({
  ...{verb: 'get', group: '', resource: 'configmaps', name, namespace: 'kube-system', needed: false},
  ...{purpose: "kube-proxy's settings", without: 'they are taken from the pod, from the node, or off its rules'},
}));
