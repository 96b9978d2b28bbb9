import type {Permission} from '../../model/access.ts';
import {configMaps, listPodsOfServices, objectPermissions} from './read-permissions.ts';

/** The permissions of `check --agents`: nodes are not read, their agents answer. `namespace` is that of the Services. */
export function collectPermissions(namespace: string | null, agentsNamespace: string): readonly Permission[] {
  const pods = {group: '', resource: 'pods', namespace: agentsNamespace, needed: true} as const;
  return [
    ...objectPermissions(namespace),
    {...pods, verb: 'list', purpose: 'the agents', without: 'no node is asked for'},
    {...pods, verb: 'get', subresource: 'proxy', purpose: 'what each agent found', without: 'no node is asked for'},
    listPodsOfServices(namespace),
  ];
}

/** The permissions of the agents themselves. */
export function agentPermissions(): readonly Permission[] {
  const everywhere = {namespace: null, needed: true, without: 'the node is not judged'} as const;
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
  ];
}
