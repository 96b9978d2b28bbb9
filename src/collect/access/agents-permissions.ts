import type {Permission} from '../../model/access.ts';
import {readerAccount} from '../agents/agent-place.ts';
import {configMaps, listPodsOfServices, objectPermissions, serviceCIDRs} from './read-permissions.ts';

/** A pod shows agents its own token. Outside of the cluster, a token of the ServiceAccount `svc-trace-reader` is requested. */
export type Asker = 'pod' | 'outside';

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
  ...{verb: 'get', group: '', resource: '/result', namespace: null, needed: true},
  ...{purpose: "agents' results", without: 'agents refuse the token (403)'},
};

function tokenOfReader(namespace: string): Permission {
  return {
    ...{verb: 'create', group: '', resource: 'serviceaccounts', subresource: 'token', name: readerAccount, namespace, needed: true},
    ...{purpose: 'a token that agents accept, for ten minutes', without: 'agents refuse to answer (401)'},
  };
}

/** The permissions of the agents themselves. */
export function agentPermissions(): readonly Permission[] {
  const everywhere = {namespace: null, needed: true, without: 'the node is not checked'} as const;
  const services = {...everywhere, group: '', resource: 'services', purpose: 'the Services'};
  const slices = {...everywhere, group: 'discovery.k8s.io', resource: 'endpointslices', purpose: 'their endpoints'};
  const nodes = {...everywhere, group: '', resource: 'nodes'};
  return [
    {...services, verb: 'list'},
    {...services, verb: 'watch'},
    {...slices, verb: 'list'},
    {...slices, verb: 'watch'},
    {...nodes, verb: 'get', purpose: 'its own Node', without: "the node's zone and pod network are unknown"},
    {...nodes, verb: 'list', needed: false, purpose: 'servers of k3s and RKE2', without: 'how kube-proxy runs there is read off the rules'},
    {
      ...{verb: 'list', group: '', resource: 'pods', namespace: 'kube-system', needed: false},
      ...{purpose: "kube-proxy's version and arguments", without: 'they are read on the node, or off its rules'},
    },
    ...configMaps,
    serviceCIDRs,
    {
      ...{verb: 'create', group: 'authentication.k8s.io', resource: 'tokenreviews', namespace: null, needed: true},
      ...{purpose: 'the owner of the token in a request', without: 'metrics and results are refused to everyone'},
    },
    {
      ...{verb: 'create', group: 'authorization.k8s.io', resource: 'subjectaccessreviews', namespace: null, needed: true},
      ...{purpose: 'whether the owner may read them', without: 'metrics and results are refused to everyone'},
    },
  ];
}
