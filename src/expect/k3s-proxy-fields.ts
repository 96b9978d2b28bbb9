import type {NodeObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {type NodeArgs, parseNodeArgs} from '../parse/k3s-node-args.ts';
import {once} from './api-index.ts';
import {type KubeProxyFields, parseArguments} from '../parse/kube-proxy-config.ts';

/**
 * The settings of a kube-proxy that runs inside k3s, from the command lines that k3s and RKE2 write into annotations of the Nodes;
 * null on a Node without one. Follows k3s's kubeProxyArgs: what is handed on (`--kube-proxy-arg`) goes before what k3s gives itself.
 */
export function k3sProxyFields(object: NodeObject | undefined, api: ApiObjects): KubeProxyFields | null {
  const own = nodeArgs(object);
  if (own === null) return null;
  const handedOn = parseArguments(own.kubeProxyArgs);
  // kube-proxy heeds no flags beside a file.
  if (own.kubeProxyArgs.some(arg => arg.startsWith('--config='))) return handedOn;
  const clusterCIDR = clusterCIDROf(object, api);
  return {mode: 'iptables', ...(clusterCIDR === null ? {} : {clusterCIDRs: clusterCIDR.split(',')}), ...handedOn};
}

/** Whether kube-proxy was switched off for this node: something else serves its Services then. */
export function disablesKubeProxy(object: NodeObject | undefined): boolean {
  return nodeArgs(object)?.disablesKubeProxy ?? false;
}

function nodeArgs(object: NodeObject | undefined): NodeArgs | null {
  const annotations = object?.metadata.annotations;
  const text = annotations?.['k3s.io/node-args'] ?? annotations?.['rke2.io/node-args'];
  return text === undefined ? null : parseNodeArgs(text);
}

/** Agents learn it from the servers. Null where no server tells, or the pods of this node show that the default does not count. */
function clusterCIDROf(object: NodeObject | undefined, api: ApiObjects): string | null {
  const said = saidByServers(api.nodes ?? []);
  const [only] = said;
  if (said.size !== 1 || only === undefined) return null;
  return only ?? (isDefault(object) ? defaultClusterCIDR : null);
}

const saidByServers = once((nodes: readonly NodeObject[]) => {
  const servers = nodes.flatMap(node => nodeArgs(node) ?? []).filter(({isServer}) => isServer);
  return new Set(servers.map(({clusterCIDR}) => clusterCIDR));
});

const defaultClusterCIDR = '10.42.0.0/16';

function isDefault(object: NodeObject | undefined): boolean {
  const {podCIDRs = [], podCIDR} = object?.spec ?? {};
  const own = podCIDRs.length > 0 ? podCIDRs : podCIDR === undefined ? [] : [podCIDR];
  return own.length === 1 && own.every(cidr => cidr.startsWith('10.42.'));
}
