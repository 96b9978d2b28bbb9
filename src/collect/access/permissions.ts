import type {Permission} from '../../model/permission.ts';
import {ciliumConfigMap, systemConfigMaps} from '../../model/proxy-config.ts';
import {readerAccount} from '../agents/agent-tokens.ts';
import {type TransportName, transports} from '../transports/transports.ts';

export interface AccessScope {
  readonly transport: TransportName;
  /** The namespace of the Services; null for all. */
  readonly namespace: string | null;
  readonly debugNamespace: string;
  /** The namespace of the agents that are asked instead of reading nodes; left out if nodes are read. */
  readonly agentsNamespace?: string | undefined;
  /** Default: `outside`. */
  readonly asker?: Asker;
}

/** All permissions of a run with this transport, without duplicates: for reading the API, and for the transport. */
export function permissionsFor(scope: AccessScope): readonly Permission[] {
  const {transport, namespace, debugNamespace, agentsNamespace, asker = 'outside'} = scope;
  if (agentsNamespace !== undefined) return distinct(collectPermissions(namespace, agentsNamespace, asker));
  const entry = transports[transport];
  // What every run on a live cluster reads, whatever the transport. `namespace` is that of the Services, null for all; `podsNeeded` tells
  // whether nodes are reached through their pods.
  return distinct([
    ...objectPermissions(namespace),
    ...watchPermissions(namespace),
    systemPods(entry.usesPods),
    listPodsOfServices(namespace),
    {...pods, verb: 'get', namespace, purpose: 'packet --source pod/NAME', without: 'packet takes addresses only'},
    kubeProxyLogs,
    ...configMaps,
    ciliumConfig,
    serviceCIDRs,
    {
      verb: 'list',
      group: 'networking.k8s.io',
      resource: 'networkpolicies',
      namespace,
      needed: false,
      purpose: 'policies that see the address of a node in place of the client',
      without: 'ST113 is not reported',
    },
    ...entry.permissions({debugNamespace}),
  ]);
}

/** The required ones first. */
function distinct(all: readonly Permission[]): readonly Permission[] {
  const known = new Map<string, Permission>();
  for (const permission of all) {
    const same = known.get(permissionKey(permission));
    if (same === undefined || (permission.needed && !same.needed)) known.set(permissionKey(permission), permission);
  }
  return [...known.values()].toSorted((a, b) => Number(b.needed) - Number(a.needed));
}

function permissionKey({verb, group, resource, subresource = '', namespace, name = ''}: Permission): string {
  return [verb, group, resource, subresource, namespace ?? '', name].join(' ');
}

/** A pod shows agents its own token. Outside of the cluster, a token of the ServiceAccount `svc-trace-reader` is requested. */
type Asker = 'pod' | 'outside';

/** The permissions of `check --agents`: nodes are not read, their agents answer. `namespace` is that of the Services. */
export function collectPermissions(namespace: string | null, agentsNamespace: string, asker: Asker): readonly Permission[] {
  const pods = {group: '', resource: 'pods', namespace: agentsNamespace, needed: true} as const;
  return [
    ...objectPermissions(namespace),
    {...pods, verb: 'list', purpose: 'the agents', without: 'no node is checked'},
    {...pods, verb: 'get', subresource: 'proxy', purpose: 'the result of each agent', without: 'no node is checked'},
    asker === 'pod' ? readResult : tokenOfReader(agentsNamespace),
    listPodsOfServices(namespace),
  ];
}

/** The permission that an agent requires of the owner of a token. */
export const readResult: Permission = {
  verb: 'get',
  group: '',
  resource: '/result',
  namespace: null,
  needed: true,
  purpose: "agents' results",
  without: 'agents refuse the token (403)',
};

function tokenOfReader(namespace: string): Permission {
  return {
    verb: 'create',
    group: '',
    resource: 'serviceaccounts',
    subresource: 'token',
    name: readerAccount,
    namespace,
    needed: true,
    purpose: 'a token that agents accept, for ten minutes',
    without: 'agents refuse to answer (401)',
  };
}

/** The permissions of the agents themselves. */
export function agentPermissions(): readonly Permission[] {
  const everywhere = {namespace: null, needed: true, without: 'the node is not checked'} as const;
  const services = {...everywhere, group: '', resource: 'services', purpose: 'the Services'};
  const slices = {...everywhere, group: 'discovery.k8s.io', resource: 'endpointslices', purpose: 'their endpoints'};
  const nodes = {...everywhere, group: '', resource: 'nodes'};
  const reviews = {...everywhere, verb: 'create', without: 'metrics and results are refused to everyone'} as const;
  return [
    {...services, verb: 'list'},
    {...services, verb: 'watch'},
    {...slices, verb: 'list'},
    {...slices, verb: 'watch'},
    {...nodes, verb: 'get', purpose: 'its own Node', without: "the node's zone and pod network are unknown"},
    {...nodes, verb: 'list', needed: false, purpose: 'servers of k3s and RKE2', without: 'how kube-proxy runs there is read off the rules'},
    systemPods(false),
    ...configMaps,
    serviceCIDRs,
    {...reviews, group: 'authentication.k8s.io', resource: 'tokenreviews', purpose: 'the owner of the token in a request'},
    {...reviews, group: 'authorization.k8s.io', resource: 'subjectaccessreviews', purpose: 'whether the owner may read them'},
  ];
}

const ofSystem = {group: '', namespace: 'kube-system', needed: false} as const;

function systemPods(needed: boolean): Permission {
  const why = needed
    ? {purpose: 'the pod to exec into on each node', without: 'no node is reached'}
    : {purpose: "kube-proxy's version and arguments", without: 'they are read on the node, or off its rules'};
  return {...ofSystem, verb: 'list', resource: 'pods', needed, ...why};
}

const kubeProxyLogs: Permission = {
  ...ofSystem,
  verb: 'get',
  resource: 'pods',
  subresource: 'log',
  purpose: 'why kube-proxy fails on a node',
  without: 'ST305, ST505 and ST901 do not quote its log',
};

const serviceCIDRs: Permission = {
  verb: 'list',
  group: 'networking.k8s.io',
  resource: 'servicecidrs',
  namespace: null,
  needed: false,
  purpose: 'the Service range',
  without: 'nftables mode: the rule about its unallocated addresses is not checked',
};

const services = {group: '', resource: 'services', purpose: 'the Services', needed: true} as const;

/** The Services, their endpoints, and the Nodes. */
function objectPermissions(namespace: string | null): readonly Permission[] {
  return [
    {...services, verb: 'list', namespace, without: 'nothing can be expected of any node'},
    {...services, verb: 'get', namespace, without: 'no Service can be named (trace, packet, check NAME)'},
    {
      verb: 'list',
      group: 'discovery.k8s.io',
      resource: 'endpointslices',
      namespace,
      needed: true,
      purpose: 'the endpoints of the Services',
      without: 'nothing can be expected of any node',
    },
    {
      verb: 'list',
      group: '',
      resource: 'nodes',
      namespace: null,
      needed: true,
      purpose: 'which nodes there are, their addresses and zones',
      without: 'only nodes that are named (--node) are checked',
    },
  ];
}

/** For knowing every state that Services had while nodes were read. */
function watchPermissions(namespace: string | null): readonly Permission[] {
  const without = 'Services are polled, and ST904 is reported for those that keep changing';
  const watched = {verb: 'watch', namespace, needed: false, purpose: 'changes while nodes are read', without} as const;
  return [
    {...watched, group: '', resource: 'services'},
    {...watched, group: 'discovery.k8s.io', resource: 'endpointslices'},
  ];
}

const pods = {group: '', resource: 'pods', needed: false} as const;

/** For explaining why a Service has no endpoints. */
function listPodsOfServices(namespace: string | null): Permission {
  const without = 'ST101 does not say which pods are not ready, and findings do not count the pods that they hit';
  return {...pods, verb: 'list', namespace, purpose: 'why a Service has no endpoints', without};
}

const configMap = {...ofSystem, verb: 'get', resource: 'configmaps'} as const;

/** Those of kube-proxy. */
const configMaps: readonly Permission[] = systemConfigMaps.map(name => ({
  ...configMap,
  name,
  purpose: "kube-proxy's settings",
  without: 'they are taken from the pod, from the node, or off its rules',
}));

const ciliumConfig: Permission = {
  ...configMap,
  name: ciliumConfigMap,
  purpose: "Cilium's settings",
  without: 'what its agents serve shows which Services and families they should have',
};
