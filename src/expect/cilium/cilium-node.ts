import {ciliumAgentTable, ciliumConfigMap, isCiliumAgent} from '../../model/proxy-config.ts';
import type {Family} from '../../model/address.ts';
import {type PodObject, proxyNameLabel, type ServiceObject} from '../../model/api-objects.ts';
import {once} from '../../model/once.ts';
import {namespacedName} from '../../model/text.ts';
import {fileText, type ApiObjects, type NodeDump} from '../../model/snapshot.ts';
import {
  type AgentFrontend,
  type AgentStatus,
  type AgentVersion,
  parseAgentStatus,
  parseNodePortAddresses,
  parseServiceList,
} from '../../parse/cilium/agent-table.ts';
import {type MapEntry, parseLbMap, parseMapRanges, parseReplyAddresses} from '../../parse/cilium/lb-map.ts';
import {podsOnNode} from '../api-index.ts';

/** What was read of a node's Cilium. */
export interface CiliumState extends Pick<AgentStatus, 'apiTrouble' | 'trouble'> {
  readonly version: AgentVersion;
  readonly settings: CiliumSettings;
  readonly frontends: readonly AgentFrontend[];
  readonly map: ReadonlyMap<string, MapEntry>;
  /** By the id of an entry; null if they were not read. */
  readonly ranges: ReadonlyMap<number, readonly string[]> | null;
  /** The addresses of replies by the id of an entry; null if they were not read. */
  readonly replies: ReadonlyMap<number, string> | null;
  /** Where node ports are served; null if that was not read. */
  readonly nodePortAddresses: readonly string[] | null;
}

/** The settings that decide which frontends there are; null for what is not known. */
interface CiliumSettings extends Pick<AgentStatus, 'hasAffinity' | 'hasHostPorts' | 'nodePorts' | 'hasExternalIPs' | 'hasSocketLB'> {
  /** Cilium serves what kube-proxy would; else cluster IPs, and addresses of load balancers in part. */
  readonly replacesKubeProxy: boolean | null;
  /** What is sent to a frontend without backends is dropped, and not refused. */
  readonly dropsWithoutBackend: boolean;
  readonly checksRanges: boolean;
  readonly usesTopology: boolean | null;
  readonly families: Readonly<Record<Family, boolean | null>>;
  /** It serves only Services with this name in their label; empty for those without the label. Null if it is not known. */
  readonly proxyName: string | null;
}

const mapFile = 'bpf-lb-list.json';
const frontendsFile = 'bpf-lb-list-frontends.json';

/** Whether tables of Cilium were read of the node, or its agent could not be read. */
export function hasCiliumTables({files, missing = []}: NodeDump): boolean {
  return [ciliumAgentTable, mapFile].some(file => files.includes(file)) || missing.some(({file}) => file === ciliumAgentTable);
}

/** The first version whose tables are compared with the API. */
export const oldestCilium = '1.18';

/** The version that a node's agent says; null if it was not read. */
export function ciliumVersion(node: NodeDump): AgentVersion | null {
  return parseAgentStatus(fileText(node, 'status.json'), fileText(node, 'version.json')).version;
}

/** Whether the agent says that it does not replace kube-proxy. */
export function leavesKubeProxy(node: NodeDump): boolean {
  const {replaces, servesNodePorts} = parseAgentStatus(fileText(node, 'status.json'), '');
  return replaces === false && !servesNodePorts;
}

export function isKnownCilium({major, minor}: AgentVersion): boolean {
  return major > 1 || minor >= 18;
}

/** All tables of a node; or why they cannot be compared. */
export function readCilium(node: NodeDump, api: ApiObjects): CiliumState | string {
  const status = parseAgentStatus(fileText(node, 'status.json'), fileText(node, 'version.json'));
  const {version} = status;
  const missing = [ciliumAgentTable, mapFile, frontendsFile].filter(file => !node.files.includes(file));
  // What was asked for and not given says why.
  if (missing.length > 0 && (version !== null || node.missing?.some(({file}) => file === ciliumAgentTable)))
    return whyMissing(node, missing);
  if (version === null) return 'the version of its Cilium is not known: it has no status.json and no version.json of the agent';
  const frontends = parseServiceList(fileText(node, ciliumAgentTable));
  if (frontends === null) return `${ciliumAgentTable} is not what the agent prints`;
  const map = parseLbMap({list: fileText(node, mapFile), frontends: fileText(node, frontendsFile)});
  if (typeof map === 'string') return map;
  if (frontends.length === 0 && map.size > 0)
    return "the agent's table has no Service while the kernel's map has some: the agent is starting";
  return {
    ...status,
    version,
    frontends,
    map,
    settings: settingsOf(api, {status, frontends}),
    ranges: parseMapRanges(fileText(node, 'bpf-lb-list-source-ranges.json')),
    replies: parseReplyAddresses(fileText(node, 'bpf-lb-list-revnat.json')),
    nodePortAddresses: parseNodePortAddresses(fileText(node, 'db-show-node-addresses.txt')),
  };
}

function whyMissing({missing = []}: NodeDump, files: readonly string[]): string {
  return files
    .map(file => {
      const reason = missing.find(one => one.file === file)?.reason;
      return `it has no ${file} of Cilium${reason === undefined ? '' : ` (${reason})`}`;
    })
    .join('; ');
}

function settingsOf(
  {configMaps, services}: ApiObjects,
  {status, frontends}: {readonly status: AgentStatus; readonly frontends: readonly AgentFrontend[]},
): CiliumSettings {
  const data = dataOf(configMaps);
  const setting = (name: string): boolean | null => isOn(data, name);
  // Helm always writes both; the agent serves both unless it is told not to.
  const family = (name: string): boolean | null => (data === undefined ? null : data[name] === undefined || setting(name));
  return {
    ...status,
    replacesKubeProxy: status.replaces ?? setting('kube-proxy-replacement'),
    dropsWithoutBackend: data?.['service-no-backend-response'] === 'drop',
    checksRanges: data?.['enable-svc-source-range-check'] === undefined || setting('enable-svc-source-range-check') === true,
    usesTopology: setting('enable-service-topology'),
    families: {IPv4: family('enable-ipv4'), IPv6: family('enable-ipv6')},
    proxyName: data === undefined ? seenProxyName(services ?? [], frontends) : (data['k8s-service-proxy-name'] ?? ''),
  };
}

function dataOf(configMaps: ApiObjects['configMaps']): Readonly<Record<string, string>> | undefined {
  return (configMaps ?? []).find(({metadata}) => metadata.name === ciliumConfigMap)?.data;
}

function isOn(data: Readonly<Record<string, string>> | undefined, name: string): boolean | null {
  return data === undefined ? null : /^(?:true|1|t)$/i.test(data[name] ?? '');
}

/** A switch of ConfigMap cilium-config; null if that was not read. */
export function ciliumSetting({configMaps}: ApiObjects, name: string): boolean | null {
  return isOn(dataOf(configMaps), name);
}

/** The name in the label of a Service that the agent serves. That of the API server never has the label. */
function seenProxyName(services: readonly ServiceObject[], frontends: readonly AgentFrontend[]): string | null {
  const served = new Set(frontends.map(({namespace, service}) => `${namespace}/${service}`));
  if (served.has('default/kubernetes')) return '';
  const names = services.flatMap(({metadata}) => (served.has(namespacedName(metadata)) ? [metadata.labels?.[proxyNameLabel] ?? ''] : []));
  return names.includes('') ? '' : (names[0] ?? null);
}

/** Who serves Services in this cluster, as far as its objects show it. */
export const serviceProxy = once((api: ApiObjects): 'kube-proxy' | 'Cilium' => {
  const replaces = ciliumSetting(api, 'kube-proxy-replacement') === true;
  return replaces && !(api.pods ?? []).some(({metadata}) => metadata.labels?.['k8s-app'] === 'kube-proxy') ? 'Cilium' : 'kube-proxy';
});

/** The pod of Cilium's agent on a node, running ones first. */
export function ciliumPod(api: ApiObjects, node: string): PodObject | undefined {
  const pods = podsOnNode(api, node).filter(isCiliumAgent);
  return pods.find(({status}) => status?.phase === 'Running') ?? pods[0];
}
