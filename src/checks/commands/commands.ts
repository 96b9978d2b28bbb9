import {type MendedBug, mayHaveBug, mendedIn} from '../../expect/patch-releases.ts';
import type {NodeCheckContext} from '../check-types.ts';
import {isNoNode, nodeObject} from '../../expect/api-index.ts';
import {once} from '../../model/once.ts';
import {kubeProxyContainer, kubeProxyPod} from '../../expect/kube-proxy-pod.ts';
import type {Family} from '../../model/address.ts';
import type {PodObject, ServiceObject} from '../../model/api-objects.ts';
import {nameOf, type Observation, type ServiceName} from '../../model/finding.ts';
import {type CommandLine, commandLine, isDnsLabel, joinedCommand, namespacedName} from '../../model/text.ts';
import {parseNodeArgs} from '../../parse/kube-proxy/kube-proxy-config.ts';
import type {NodeData} from '../../analyze/proxy-mode.ts';

type Place = Pick<NodeData, 'api' | 'node'>;
type Command = Pick<Observation, 'command'>;

/** Restarts kube-proxy as it runs on this node. Where that is not known: shows the node's pods, one of which may be kube-proxy. */
export function restart(place: Place): Command {
  return run(...restartLines(place));
}

/** Shows the log of kube-proxy, which a new pod does not have, and restarts it: the same for all findings of a node. */
export const logAndRestart: (place: Place) => Command = once((place: Place) => run(...logLines(place), ...restartLines(place)));

export function showLog(place: Place): Command {
  const lines = logLines(place);
  return run(...(lines.length > 0 ? lines : [podsOfNode(place)]));
}

/** Shows command and arguments of kube-proxy's container. */
export function showArguments({api, node}: Place): Command {
  const pod = kubeProxyPod(api, node.name);
  if (pod === undefined) return {};
  const fields = '{.spec.containers[*].command} {.spec.containers[*].args}{"\\n"}';
  return run(commandLine`kubectl -n ${namespaceOf(pod)} get ${`pod/${pod.metadata.name}`} -o ${`jsonpath=${fields}`}`);
}

/**
 * Runs a program of kube-proxy's image in its pod, which is in the network of the node; without a pod, on the node as root. A command that
 * does not begin with `kubectl` is one for the node.
 */
export function onNode({api, node}: Place, words: CommandLine | null): Command {
  const pod = kubeProxyPod(api, node.name);
  if (pod === undefined) return run(words);
  const exec = commandLine`kubectl -n ${namespaceOf(pod)} exec ${`pod/${pod.metadata.name}`}`;
  return run(joinedCommand(exec, containerOption(pod), commandLine`--`, words));
}

export function iptables(family: Family): string {
  return family === 'IPv6' ? 'ip6tables' : 'iptables';
}

/** Lists the chain, set or virtual servers that the first rule found on the node is in, or the chain whose policy it is; nothing if there is none. */
export function listPlace(
  context: Pick<NodeData, 'api' | 'node' | 'nft'>,
  {actual: [rule] = [], policyOf, family = 'IPv4'}: Observation,
): Command {
  const place = rule ?? policyOf;
  if (place === undefined) return {};
  const {table, chain, backend} = place;
  if (table === 'ipvs') return run(commandLine`ipvsadm -Ln`);
  if (table === 'kube-ipvs0') return run(commandLine`ip address show dev kube-ipvs0`);
  if (table === 'ipset') return onNode(context, commandLine`ipset list ${chain}`);
  const tool = backend === undefined ? iptables(family) : `${iptables(family)}-${backend}`;
  if (!table.includes(' ')) return onNode(context, commandLine`${tool} -t ${table} -S ${chain}`);
  const [nftFamily = '', name = ''] = table.split(' ', 2);
  // nft reads its arguments as one text, in which a semicolon begins another command.
  if (![name, chain].every(text => /^[A-Za-z_.][\w./-]*$/.test(text))) return {};
  const found = context.nft()?.tables.get(table);
  const kind = found?.chain(chain) !== undefined ? 'chain' : (found?.set(chain)?.valueTypes ?? null) !== null ? 'map' : 'set';
  return onNode(context, commandLine`nft list ${kind} ${nftFamily} ${name} ${chain}`);
}

function restartLines(place: Place): readonly (CommandLine | null)[] {
  const pod = kubeProxyPod(place.api, place.node.name);
  const isStatic = pod?.metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined;
  if (pod !== undefined && !isStatic) return [commandLine`kubectl -n ${namespaceOf(pod)} delete ${`pod/${pod.metadata.name}`}`];
  const distribution = distributionOf(place);
  if (pod !== undefined) return [distribution === 'rke2' ? stopContainerOfRKE2 : stopContainer];
  return [distribution === 'k3s' ? commandLine`systemctl restart ${serviceOfK3s(place)}` : podsOfNode(place)];
}

/** The kubelet starts the container of a static pod again; deleting its mirror in the API stops nothing. */
const stopContainer = commandLine`crictl stop $(crictl ps --name '^kube-proxy$' -q)`;

const stopContainerOfRKE2 = commandLine`env CRI_CONFIG_FILE=/var/lib/rancher/rke2/agent/etc/crictl.yaml PATH=/var/lib/rancher/rke2/bin:$PATH sh -c ${stopContainer ?? ''}`;

function logLines(place: Place): readonly (CommandLine | null)[] {
  const pod = kubeProxyPod(place.api, place.node.name);
  if (pod === undefined) return distributionOf(place) === 'k3s' ? [commandLine`journalctl -u ${serviceOfK3s(place)} -n 300`] : [];
  const logs = commandLine`kubectl -n ${namespaceOf(pod)} logs ${`pod/${pod.metadata.name}`}`;
  return [joinedCommand(logs, containerOption(pod), commandLine`--tail=300`)];
}

/** Null where the dump has not the name of a Node, but that of a file or a page. */
export function podsOfNode({api, node: {name}}: Place, selector: CommandLine | null = commandLine``): CommandLine | null {
  const isNode = api.nodes === null ? api.services !== null && name.split('.').every(isDnsLabel) : !isNoNode(api, name);
  const pods = commandLine`kubectl get pods -A -o wide`;
  return isNode ? joinedCommand(pods, selector, commandLine`--field-selector ${`spec.nodeName=${name}`}`) : null;
}

function namespaceOf({metadata}: PodObject): string {
  return metadata.namespace ?? 'default';
}

/** Only for a pod with several containers. */
function containerOption(pod: PodObject): CommandLine | null {
  const container = kubeProxyContainer(pod)?.name;
  return container === undefined || (pod.spec?.containers ?? []).length < 2 ? commandLine`` : commandLine`-c ${container}`;
}

/** By the version of the kubelet: `v1.36.2+k3s1`, `v1.36.2+rke2r1`. */
function distributionOf({api, node}: Place): 'k3s' | 'rke2' | null {
  const version = nodeObject(api, node.name)?.status?.nodeInfo?.kubeletVersion ?? '';
  return /\+k3s\d/.test(version) ? 'k3s' : /\+rke2r\d/.test(version) ? 'rke2' : null;
}

/** The unit that the install script of k3s makes on servers and on agents. */
function serviceOfK3s({api, node}: Place): string {
  const {labels = {}, annotations = {}} = nodeObject(api, node.name)?.metadata ?? {};
  const isServer =
    parseNodeArgs(annotations['k3s.io/node-args'] ?? '')?.isServer ?? labels['node-role.kubernetes.io/control-plane'] !== undefined;
  return isServer ? 'k3s' : 'k3s-agent';
}

/** Lines that are to be run one after the other; nothing if one of them cannot be written. */
export function run(...lines: readonly (CommandLine | null)[]): Command {
  return lines.length === 0 || lines.includes(null) ? {} : {command: lines.join('\n')};
}

/** Opens an editor. */
export function editService({namespace, name}: ServiceName): Command {
  return run(commandLine`kubectl -n ${namespace} edit ${`service/${name}`}`);
}

/** What is wrong with the fields of a Service, and the command to edit them. `text` follows its name. */
export function ofFields(object: ServiceObject, text: string): Pick<Observation, 'service' | 'message' | 'command'> {
  const service = nameOf(object);
  return {service, message: `${namespacedName(service)}${text}`, ...editService(service)};
}

/** `patch` is merged into the Service. */
export function patchService({namespace, name}: ServiceName, patch: object): Command {
  return run(commandLine`kubectl -n ${namespace} patch ${`service/${name}`} -p ${JSON.stringify(patch)}`);
}

export function showService({namespace, name}: ServiceName): Command {
  return run(commandLine`kubectl -n ${namespace} get ${`service/${name}`} -o wide --show-labels`);
}

/** Shows the EndpointSlices of a Service; `yaml` with every field of their endpoints. */
export function showSlices({namespace, name}: ServiceName, as: 'labels' | 'yaml'): Command {
  const slices = commandLine`kubectl -n ${namespace} get endpointslices -l ${`kubernetes.io/service-name=${name}`}`;
  return run(joinedCommand(slices, as === 'yaml' ? commandLine`-o yaml` : commandLine`--show-labels`));
}

/** Shows the pods that these labels select, with their readiness. */
export function showPods(namespace: string, labels: Readonly<Record<string, string>>): Command {
  const selector = Object.entries(labels).map(([name, value]) => `${name}=${value}`);
  return run(commandLine`kubectl -n ${namespace} get pods -l ${selector.join(',')} -o wide`);
}

/** A remedy, and which upgrade mends the bugs of this kube-proxy that may be the cause. */
export function withUpgrade(remedy: string, {config}: Pick<NodeCheckContext, 'config'>, bugs: readonly MendedBug[]): string {
  const version = config.version.value;
  const mode = config.mode.value;
  const own = bugs.filter(bug => bug.modes.some(name => name === mode) && mayHaveBug(version, bug));
  const sentences = own.map(
    bug => ` In kube-proxy ${version.text} ${bug.what}: upgrade it to ${mendedIn(version, bug)} or newer (kubernetes#${bug.pulls[0]}).`,
  );
  return remedy + sentences.join('');
}
