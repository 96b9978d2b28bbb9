import {nodeInfos, type ProxyPodsReading, readAgentPods, readCiliumSettings, readProxyPods} from '../../collect/cluster/read-agent-pods.ts';
import type {KubeApi} from '../../collect/kube/kube-api.ts';
import {kubeProxyLogOf} from '../../collect/transports/host-agents.ts';
import {parseTimeout} from '../../collect/kube/kubeconfig.ts';
import {ciliumShell} from '../../collect/transports/exec.ts';
import type {NodeInfo, OpenCilium, ReadLog, Transport} from '../../collect/node/transport.ts';
import type {ConfigMapObject, NodeObject, PodObject} from '../../model/api-objects.ts';
import {whyWithoutKubeProxy} from '../../model/node/node-facts.ts';
import type {ApiObjects, Problem} from '../../model/snapshot.ts';
import {type ChosenNodes, chooseNodes, type NodeChoice} from '../scope/choose-nodes.ts';
import {wrongUse} from '../wrong-use.ts';
import {type TransportName, transportNamed} from '../../collect/transports/transports.ts';
import type {SshAddressType} from '../../collect/transports/ssh.ts';

export type NodeSourceFlags = ParsedTransportFlags & NodeChoice;

/** The nodes to be read, and how: the input of `collectNodes`. */
export interface NodeSource {
  readonly transport: Transport;
  /** Left out where the API server is not asked. */
  readonly readLog?: ReadLog;
  /** The Cilium of a node, if it has one. Left out where the API server is not asked. */
  readonly cilium?: OpenCilium;
  /** Settings of Cilium; none without it. */
  readonly configMaps?: readonly ConfigMapObject[];
  readonly nodes: readonly NodeInfo[];
  readonly concurrency: number;
  /** Timeout for one node, in milliseconds. */
  readonly timeoutMs: number;
  /** The pods that were read to reach the nodes; null if none could be read. */
  readonly pods: readonly PodObject[] | null;
  /** Set if only a sample of the nodes was chosen. */
  readonly sample?: ChosenNodes['sample'];
  readonly problems: readonly Problem[];
}

export interface NodesOfCluster {
  readonly api: KubeApi;
  readonly objects: readonly NodeObject[] | null;
  readonly anyFailure?: boolean;
  /** The result of `readProxyPodsFor`, which does not need the Nodes; read if left out. */
  readonly proxyPods?: ProxyPodsReading | undefined;
}

/** kube-proxy's pods on the nodes that these flags can choose. */
export function readProxyPodsFor({node = []}: NodeChoice, api: KubeApi): Promise<ProxyPodsReading> {
  const [name = null, ...more] = node;
  return readProxyPods(api, more.length === 0 ? name : null);
}

/**
 * The chosen nodes of the cluster, and the transport to reach them. `objects` are the Nodes; null if they may not be listed: then `--node`
 * is trusted, and without it the nodes are those that kube-proxy's pods run on. Throws a CLIError (exit 2) for a node that does not exist.
 */
export async function nodeSource(flags: NodeSourceFlags, cluster: NodesOfCluster): Promise<NodeSource> {
  const {api, objects, anyFailure, proxyPods} = cluster;
  const timeoutMs = nodeTimeout(flags['node-timeout']);
  const transport = transportOf(flags, api, timeoutMs);
  const without = new Set((objects ?? []).filter(object => whyWithoutKubeProxy(object) !== null).map(({metadata}) => metadata.name));
  const wanted = objects === null ? (flags.node ?? null) : chooseNodes(flags, objects).names;
  const {pods, problems} = await readAgentPods(api, wanted?.filter(name => !without.has(name)) ?? null, {anyFailure, proxyPods});
  const settings = await readCiliumSettings(api, pods ?? []);
  const {names, ...sample} = chooseNodes(flags, objects ?? nodesOfPods(flags.node ?? [], pods ?? []));
  const nodes = nodeInfos(names, objects ?? [], {pods, problems});
  return {
    transport,
    readLog: kubeProxyLogOf(api),
    cilium: node => ciliumShell(api, node),
    nodes,
    concurrency: flags.concurrency,
    timeoutMs,
    pods,
    configMaps: settings.configMaps,
    ...sample,
    problems: [...problems, ...settings.problems],
  };
}

/** The objects with the settings of Cilium. */
export function withCiliumSettings<T extends Pick<ApiObjects, 'configMaps'>>(
  objects: T,
  {configMaps = []}: Pick<NodeSource, 'configMaps'>,
): T {
  return configMaps.length === 0 ? objects : {...objects, configMaps: [...(objects.configMaps ?? []), ...configMaps]};
}

/** In milliseconds. Throws a CLIError (exit 2) for an invalid duration. */
export function nodeTimeout(text: string): number {
  const timeout = parseTimeout(text);
  if (timeout === null || timeout === 0) throw wrongUse(`--node-timeout: "${text}" is not a duration; write 30s or 2m`);
  return timeout;
}

/** Without permission to list Nodes: the nodes named by the user, otherwise those that pods run on. */
function nodesOfPods(named: readonly string[], pods: readonly PodObject[]): readonly NodeObject[] {
  const names = named.length > 0 ? named : pods.flatMap(({spec}) => spec?.nodeName ?? []);
  return [...new Set(names)].map(name => ({metadata: {name}}));
}

/** The parsed values of `transportFlags`. */
export interface ParsedTransportFlags {
  readonly transport: string;
  readonly concurrency: number;
  readonly 'node-timeout': string;
  readonly 'ssh-user'?: string | undefined;
  readonly 'ssh-port'?: number | undefined;
  readonly 'ssh-option'?: readonly string[] | undefined;
  readonly 'ssh-address'?: string | undefined;
  readonly sudo?: boolean | undefined;
  readonly 'debug-image'?: string | undefined;
  readonly 'debug-namespace'?: string | undefined;
  readonly 'image-pull-secret'?: string | undefined;
  readonly node?: readonly string[] | undefined;
}

/** The transport that the flags choose. `timeoutMs` is the timeout for one node. */
function transportOf(flags: ParsedTransportFlags, api: KubeApi, timeoutMs: number): Transport {
  const sudo = flags.sudo ?? false;
  return transportNamed(flags.transport as TransportName | 'auto', {
    api,
    exec: {lifetimeMs: lifetimeOf(timeoutMs)},
    debug: {
      startTimeoutMs: timeoutMs,
      lifetimeMs: lifetimeOf(timeoutMs),
      image: flags['debug-image'],
      namespace: flags['debug-namespace'],
      imagePullSecret: flags['image-pull-secret'],
    },
    ssh: {
      sudo,
      connectTimeoutMs: Math.min(timeoutMs, 10_000),
      user: flags['ssh-user'],
      port: flags['ssh-port'],
      options: flags['ssh-option'],
      addressType: flags['ssh-address'] as SshAddressType | undefined,
    },
    local: {sudo, onlyNode: flags.node?.length === 1},
  });
}

/** Leaves time for the commands after the start, and lets what runs on a node outlive the node's timeout only briefly. */
export function lifetimeOf(timeoutMs: number): number {
  return timeoutMs + 60_000;
}
