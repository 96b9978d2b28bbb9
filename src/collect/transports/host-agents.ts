import {isCiliumAgent} from '../../model/proxy-config.ts';
import {Buffer} from 'node:buffer';
import type {PodObject} from '../../model/api-objects.ts';
import {errorText, namespacedName} from '../../model/text.ts';
import type {ExecTarget, KubeApi} from '../kube/kube-api.ts';
import type {NodeInfo, ReadLog} from '../node/transport.ts';

/** A kind of pod that runs on every node, in the host network, and contains iptables. */
interface HostAgent {
  /** The prefix of its pods' names. */
  readonly name: RegExp;
  /** One of these labels is on its pods. */
  readonly labels: Readonly<Record<string, readonly string[]>>;
  /** The container with the tools. If a pod has none of this name, its first one is used. */
  readonly container: RegExp;
}

/** The best first: kube-proxy's iptables wrote the rules. */
const hostAgents: readonly HostAgent[] = [
  {name: /^kube-proxy/, labels: {'k8s-app': ['kube-proxy'], component: ['kube-proxy']}, container: /^kube-proxy$/},
  {name: /^openshift-kube-proxy/, labels: {}, container: /^kube-proxy$/},
  {name: /^sdn-(?!controller)/, labels: {app: ['sdn']}, container: /^sdn$/},
  {name: /^calico-node/, labels: {'k8s-app': ['calico-node', 'canal']}, container: /^calico-node$/},
  {name: /^kube-router/, labels: {'k8s-app': ['kube-router']}, container: /^kube-router$/},
  {name: /^kindnet/, labels: {app: ['kindnet'], 'k8s-app': ['kindnet']}, container: /^kindnet/},
  {name: /^kube-flannel/, labels: {app: ['flannel'], 'k8s-app': ['flannel']}, container: /^kube-flannel$/},
  {name: /^aws-node/, labels: {'k8s-app': ['aws-node']}, container: /^aws-node$/},
  {name: /^antrea-agent/, labels: {component: ['antrea-agent']}, container: /^antrea-agent$/},
  {name: /^weave-net/, labels: {name: ['weave-net']}, container: /^weave$/},
  {name: /^azure-(?:npm|cns)/, labels: {'k8s-app': ['azure-npm', 'azure-cns']}, container: /^(?:azure-npm|cns-container)$/},
  {name: /^cilium-(?!operator|envoy)/, labels: {'k8s-app': ['cilium']}, container: /^cilium-agent$/},
  {name: /^ovnkube-node/, labels: {app: ['ovnkube-node']}, container: /^ovn(?:kube-controller|kube-node)$/},
];

/** Namespaces in which only administrators create pods: a pod called kube-proxy elsewhere is not trusted. */
const systemNamespaces = /^(?:kube-|openshift-|calico-|cilium|ovn-)/;

/** Where to exec for a node: containers of running pods in its network namespace, the best first. */
export function agentsOn(node: NodeInfo): readonly ExecTarget[] {
  const pods = node.pods.filter(pod => pod.spec?.nodeName === node.name && whyUnusable(pod) === null);
  return hostAgents.flatMap(agent => pods.filter(pod => isOne(pod, agent)).map(pod => containerOf(pod, agent)));
}

/** The container of kube-proxy, whatever its state. */
export function kubeProxyOn(node: NodeInfo): ExecTarget | null {
  const pods = systemPodsOn(node);
  const [found] = hostAgents.slice(0, 3).flatMap(agent => pods.filter(pod => isOne(pod, agent)).map(pod => containerOf(pod, agent)));
  return found ?? null;
}

/** The container of a node's Cilium agent, and why nothing can be run in it; null if the node has none. A pod that can be used first. */
export function ciliumAgentOn(node: NodeInfo): {readonly target: ExecTarget; readonly whyUnusable: string | null} | null {
  const agents = systemPodsOn(node)
    .filter(isCiliumAgent)
    .map(pod => ({
      target: {namespace: pod.metadata.namespace ?? '', pod: pod.metadata.name, container: 'cilium-agent'},
      whyUnusable: whyUnusable(pod),
    }));
  return agents.find(agent => agent.whyUnusable === null) ?? agents[0] ?? null;
}

function systemPodsOn({name, pods}: NodeInfo): readonly PodObject[] {
  return pods.filter(({spec, metadata}) => spec?.nodeName === name && systemNamespaces.test(metadata.namespace ?? ''));
}

/** The labels by which kube-proxy's pods are known, in words. */
export const proxyLabels = 'k8s-app=kube-proxy or component=kube-proxy';

/** The pods of kube-proxy and CNI agents that are on a node and cannot be used, each with the reason. */
export function unusableAgents(node: string, pods: readonly PodObject[]): readonly string[] {
  return pods
    .filter(pod => pod.spec?.nodeName === node && hostAgents.some(agent => isOne(pod, agent)))
    .flatMap(pod => {
      const why = whyUnusable(pod);
      return why === null ? [] : [`${namespacedName(pod.metadata)} ${why}`];
    });
}

function whyUnusable({metadata, spec, status}: PodObject): string | null {
  if (!systemNamespaces.test(metadata.namespace ?? '')) return 'is not in a system namespace';
  if (spec?.hostNetwork !== true) return 'is not in the host network';
  if (metadata.deletionTimestamp !== undefined) return 'is being deleted';
  return status?.phase === 'Running' ? null : `is ${status?.phase ?? 'of unknown phase'}`;
}

function isOne({metadata}: PodObject, {name, labels}: HostAgent): boolean {
  if (name.test(metadata.name)) return true;
  return Object.entries(labels).some(([key, values]) => values.includes(metadata.labels?.[key] ?? ''));
}

function containerOf({metadata, spec}: PodObject, {container}: HostAgent): ExecTarget {
  const names = (spec?.containers ?? []).flatMap(({name}) => name ?? []);
  return {namespace: metadata.namespace ?? '', pod: metadata.name, container: names.find(name => container.test(name)) ?? names[0] ?? ''};
}

const maxBytes = 200_000;

/**
 * The end of the log of kube-proxy's container, by the API server. If the container waits for its next start, that of its last run; if it has
 * just been started again, both: a container in a crash loop runs for some seconds each time, and says nothing before it fails.
 */
export function kubeProxyLogOf(api: KubeApi): ReadLog {
  // Whoever may not read one log may read none.
  let refusal: unknown;
  return async (node, signal) => {
    if (refusal !== undefined) throw refusal;
    const target = kubeProxyOn(node);
    if (target === null) return null;
    const path = `/api/v1/namespaces/${target.namespace}/pods/${target.pod}/log`;
    const query = {container: target.container, tailLines: '200', limitBytes: String(maxBytes)};
    const readParts = async (more: Readonly<Record<string, string>>): Promise<readonly Buffer[]> => {
      const limits = {signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]), silenceMs: timeoutMs};
      const parts: Buffer[] = [];
      for await (const part of await api.stream(path, {...query, ...more}, limits)) parts.push(part);
      return parts;
    };
    try {
      // The node may have removed it.
      const before = hasJustRestarted(node, target) ? await readParts({previous: 'true'}).catch(() => []) : [];
      return Buffer.concat([...before, ...(await readParts({}))]);
    } catch (error) {
      if (/forbidden/i.test(errorText(error))) refusal = error;
      throw error;
    }
  };
}

/** Whether the container failed, and runs again since some minutes at most. */
function hasJustRestarted({pods}: NodeInfo, {namespace, pod, container}: ExecTarget): boolean {
  const found = pods.find(({metadata}) => metadata.name === pod && metadata.namespace === namespace);
  const status = found?.status?.containerStatuses?.find(({name}) => name === container);
  const ended = status?.lastState?.terminated;
  const started = Date.parse(status?.state?.running?.startedAt ?? '');
  return ended !== undefined && ended.exitCode !== 0 && Date.now() - started < justRestartedMs;
}

/** As long as kubelet waits at most between two starts, and then resets the wait. */
const justRestartedMs = 600_000;
const timeoutMs = 5000;
