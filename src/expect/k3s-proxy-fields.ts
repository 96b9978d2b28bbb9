import type {NodeObject} from '../model/api-objects.ts';
import type {ApiObjects} from '../model/snapshot.ts';
import {type NodeArgs, parseNodeArgs} from '../parse/kube-proxy/k3s-node-args.ts';
import {type KubeProxyFields, parseArguments} from '../parse/kube-proxy/kube-proxy-config.ts';
import {once} from './api-index.ts';

/**
 * The settings of a kube-proxy that runs inside k3s, from the command lines that k3s and RKE2 write to annotations of the Nodes; null for a
 * Node without one. Follows k3s's kubeProxyArgs: `--kube-proxy-arg` overrides the arguments of k3s itself.
 */
export function k3sProxyFields(object: NodeObject | undefined, api: ApiObjects): KubeProxyFields | null {
  const own = nodeArgs(object);
  if (own === null) return null;
  const handedOn = parseArguments(own.kubeProxyArgs);
  // kube-proxy ignores flags if it has a configuration file.
  if (own.kubeProxyArgs.some(arg => arg.startsWith('--config='))) return handedOn;
  const clusterCIDR = clusterCIDROf(object, api);
  return {mode: 'iptables', ...(clusterCIDR === null ? {} : {clusterCIDRs: clusterCIDR.split(',')}), ...handedOn};
}

/**
 * Whether k3s or RKE2 runs kube-proxy on this node, by `--disable-kube-proxy` of the servers, which pass it to the agents. Null if this is
 * neither of them, if no server is known, and if they disagree.
 */
export function k3sRunsKubeProxy(object: NodeObject | undefined, api: ApiObjects): boolean | null {
  if (nodeArgs(object) === null) return null;
  const {disabled} = saidByServers(api.nodes ?? []);
  const [only] = disabled;
  return disabled.size !== 1 || only === undefined ? null : !only;
}

function nodeArgs(object: NodeObject | undefined): NodeArgs | null {
  const annotations = object?.metadata.annotations;
  const text = annotations?.['k3s.io/node-args'] ?? annotations?.['rke2.io/node-args'];
  return text === undefined ? null : parseNodeArgs(text);
}

/** Agents get it from the servers. Null if no server tells, or the pods of this node show that the default does not apply. */
function clusterCIDROf(object: NodeObject | undefined, api: ApiObjects): string | null {
  const {cidrs} = saidByServers(api.nodes ?? []);
  const [only] = cidrs;
  if (cidrs.size !== 1 || only === undefined) return null;
  return only ?? (isDefault(object) ? defaultClusterCIDR : null);
}

/** The values of the servers, without duplicates. */
const saidByServers = once((nodes: readonly NodeObject[]) => {
  const servers = nodes.flatMap(node => nodeArgs(node) ?? []).filter(({isServer}) => isServer);
  return {
    cidrs: new Set(servers.map(({clusterCIDR}) => clusterCIDR)),
    disabled: new Set(servers.map(({disablesKubeProxy}) => disablesKubeProxy)),
  };
});

const defaultClusterCIDR = '10.42.0.0/16';

function isDefault(object: NodeObject | undefined): boolean {
  const {podCIDR, podCIDRs: given} = object?.spec ?? {};
  const podCIDRs = given ?? [];
  const own = podCIDRs.length > 0 ? podCIDRs : podCIDR === undefined ? [] : [podCIDR];
  return own.length === 1 && own.every(cidr => cidr.startsWith('10.42.'));
}
