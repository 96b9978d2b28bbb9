import type {PodObject} from '../../model/api-objects.ts';
import type {ExecTarget} from '../kube/kube-api.ts';
import type {NodeInfo} from '../node/transport.ts';

/** A kind of pod that runs on every node, in the host network, and has iptables inside. */
interface HostAgent {
  /** What its pods are called, at the beginning. */
  readonly name: RegExp;
  /** Labels of which one is on its pods. */
  readonly labels: Readonly<Record<string, readonly string[]>>;
  /** The container with the tools. Where a pod has none of that name its first one is used. */
  readonly container: RegExp;
}

/** The best first: kube-proxy's iptables is the one that wrote the rules. */
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

/** Namespaces in which only an administrator makes pods: a pod that somebody calls kube-proxy elsewhere is not believed. */
const systemNamespaces = /^(?:kube-|openshift-|calico-|cilium|ovn-)/;

/** Where to exec for a node: containers of running pods of its own network, the best first. */
export function agentsOn(node: NodeInfo): readonly ExecTarget[] {
  const pods = node.pods.filter(pod => runsInHostNetwork(pod, node.name));
  return hostAgents.flatMap(agent => pods.filter(pod => isOne(pod, agent)).map(pod => containerOf(pod, agent)));
}

function runsInHostNetwork({metadata, spec, status}: PodObject, node: string): boolean {
  return (
    spec?.nodeName === node &&
    spec.hostNetwork === true &&
    status?.phase === 'Running' &&
    metadata.deletionTimestamp === undefined &&
    systemNamespaces.test(metadata.namespace ?? '')
  );
}

function isOne({metadata}: PodObject, {name, labels}: HostAgent): boolean {
  if (name.test(metadata.name)) return true;
  return Object.entries(labels).some(([key, values]) => values.includes(metadata.labels?.[key] ?? ''));
}

function containerOf({metadata, spec}: PodObject, {container}: HostAgent): ExecTarget {
  const names = (spec?.containers ?? []).flatMap(({name}) => name ?? []);
  return {namespace: metadata.namespace ?? '', pod: metadata.name, container: names.find(name => container.test(name)) ?? names[0] ?? ''};
}
