import type {ApiObjects, NodeDump, Problem} from '../model/snapshot.ts';
import type {ConfigMapObject, NodeObject, PodObject} from '../model/api-objects.ts';
import {type DetectLocalMode, type KubeProxyVersion, newestKnownMinor, type ProxyConfig, type Setting} from '../model/proxy-config.ts';
import {type KubeProxyFields, parseArguments, parseConfigFile, parseConfigz} from '../parse/kube-proxy-config.ts';
import type {InferredConfig} from './iptables/infer-config.ts';

/** What the user says of all kube-proxies; it goes before whatever was found. */
export interface ConfigOverrides extends KubeProxyFields {
  readonly version?: string;
  readonly zone?: string;
}

export interface ResolvedConfig {
  readonly config: ProxyConfig;
  readonly problems: readonly Problem[];
}

/**
 * The settings of one node's kube-proxy, each with its source. In order of trust: flags, `/configz` (what the running
 * kube-proxy works with), its configuration file, the arguments of its pod, the kubeadm ConfigMap; where none of them says
 * anything, what the node's rules show (`inferred`); kube-proxy's defaults.
 */
export function resolveProxyConfig(
  node: NodeDump,
  api: ApiObjects,
  overrides: ConfigOverrides,
  inferred: InferredConfig = {},
): ResolvedConfig {
  const problems: Problem[] = [];
  const found = layersOf(node, api, overrides, problems);
  const layers = found.some(tellsSettings) ? found : [...found, {fields: inferred, source: seenInRules}];
  const object = api.nodes?.find(({metadata}) => metadata.name === node.name);
  const pick = <Name extends keyof KubeProxyFields>(
    name: Name,
    byDefault: NonNullable<KubeProxyFields[Name]>,
  ): Setting<NonNullable<KubeProxyFields[Name]>> => {
    for (const {fields, source} of layers) {
      const value = fields[name];
      if (value !== undefined) return {value, source};
    }
    return {value: byDefault, source: 'kube-proxy default'};
  };
  const detectLocalMode = pick('detectLocalMode', 'ClusterCIDR');
  const hostname = pick('hostnameOverride', node.name);
  const nodeName = hostname.value.includes('$(') ? {value: node.name, source: 'Node'} : hostname;
  const config: ProxyConfig = {
    version: versionOf({node, api, object, overrides, inferred}, problems),
    mode: modeOf(node, pick('mode', 'iptables'), problems),
    clusterCIDRs: pick('clusterCIDRs', []),
    detectLocalMode: {...detectLocalMode, value: asDetectLocalMode(detectLocalMode.value)},
    bridgeInterface: pick('bridgeInterface', ''),
    interfaceNamePrefix: pick('interfaceNamePrefix', ''),
    masqueradeAll: pick('masqueradeAll', false),
    masqueradeBit: pick('masqueradeBit', 14),
    localhostNodePorts: pick('localhostNodePorts', true),
    nodePortAddresses: pick('nodePortAddresses', []),
    bindAddress: pick('bindAddress', '0.0.0.0'),
    nodeName: {...nodeName, value: nodeName.value.trim().toLowerCase()},
    tcpBeLiberal: liberalOf(node, pick('tcpBeLiberal', false)),
    featureGates: pick('featureGates', {}),
    zone: zoneOf(object, overrides),
  };
  return {config, problems};
}

/** A command line that only points to a configuration file tells nothing. */
function tellsSettings({fields, source}: Layer): boolean {
  return source !== 'flag' && Object.keys(fields).some(name => name !== 'hostnameOverride');
}

const seenInRules = "seen in the node's rules";

interface Layer {
  readonly fields: KubeProxyFields;
  readonly source: string;
}

function layersOf(node: NodeDump, api: ApiObjects, overrides: ConfigOverrides, problems: Problem[]): readonly Layer[] {
  const layers: Layer[] = [{fields: overrides, source: 'flag'}];
  const take = (source: string, text: string | undefined, parse: (text: string) => KubeProxyFields): void => {
    if (text === undefined || text.trim() === '') return;
    const fields = attempt(() => parse(text));
    if (fields instanceof Error) problems.push({node: node.name, message: `${source} cannot be read: ${firstLine(fields.message)}`});
    else layers.push({fields, source});
  };
  take('configz.json', node.read('configz.json')?.toString('utf8'), parseConfigz);
  take('kube-proxy-config.yaml', node.read('kube-proxy-config.yaml')?.toString('utf8'), parseConfigFile);
  const pod = kubeProxyPod(api, node.name);
  const container = pod?.spec?.containers?.find(({name}) => name?.includes('kube-proxy')) ?? pod?.spec?.containers?.[0];
  if (container !== undefined)
    layers.push({
      fields: parseArguments([...(container.command ?? []), ...(container.args ?? [])]),
      source: `arguments of pod ${pod?.metadata.name}`,
    });
  const map = api.configMaps?.find(isKubeProxyMap);
  take(`ConfigMap ${map?.metadata.name ?? ''}`, map?.data?.['config.conf'] ?? map?.data?.['config'], parseConfigFile);
  return layers;
}

/** What a bundle's file holds is anybody's text: that it cannot be parsed is data here, not a failure. */
function attempt<T>(parse: () => T): T | Error {
  try {
    return parse();
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}

function isKubeProxyMap({metadata}: ConfigMapObject): boolean {
  return metadata.namespace === 'kube-system' && (metadata.name === 'kube-proxy' || metadata.name === 'kube-proxy-config');
}

/** The pod that runs kube-proxy on a node; null where it runs as a process or not at all. */
export function kubeProxyPod(api: ApiObjects, node: string): PodObject | undefined {
  return api.pods?.find(
    ({metadata, spec}) => spec?.nodeName === node && metadata.namespace === 'kube-system' && metadata.name.startsWith('kube-proxy'),
  );
}

interface VersionInput {
  readonly node: NodeDump;
  readonly api: ApiObjects;
  readonly object: NodeObject | undefined;
  readonly overrides: ConfigOverrides;
  readonly inferred: InferredConfig;
}

function versionOf({node, api, object, overrides, inferred}: VersionInput, problems: Problem[]): Setting<KubeProxyVersion> {
  const image = kubeProxyPod(api, node.name)
    ?.spec?.containers?.map(container => container.image ?? '')
    .find(name => name.includes('kube-proxy'));
  const candidates: readonly (readonly [source: string, text: string | undefined])[] = [
    ['flag', overrides.version],
    ['kube-proxy-version', node.read('kube-proxy-version')?.toString('utf8')],
    ["image of kube-proxy's pod", image === undefined ? undefined : tagOf(image)],
    ['Node status', object?.status?.nodeInfo?.kubeProxyVersion],
    ['kubelet version in the Node status', object?.status?.nodeInfo?.kubeletVersion],
  ];
  for (const [source, text] of candidates) {
    if (text === undefined || text.trim() === '') continue;
    const value = parseVersion(text);
    // What the Node says is the kubelet's version, which kube-proxy's may lag behind.
    const fromNode = source.endsWith('Node status');
    if (value !== null && fromNode) return {value: {...value, guessed: true}, source};
    if (value !== null)
      return {
        value,
        source:
          value.minor > newestKnownMinor
            ? `${source}; newer than the newest known rules, judged by those of 1.${newestKnownMinor}`
            : source,
      };
    if (!fromNode) problems.push({node: node.name, message: `${source}: "${firstLine(text)}" is no version of kube-proxy`});
  }
  if (inferred.version !== undefined) return {value: inferred.version, source: seenInRules};
  return {
    value: {text: 'unknown', minor: newestKnownMinor, patch: 0, guessed: true},
    source: 'not found: judged by the newest known rules',
  };
}

/** The tag of `registry:5000/kube-proxy:v1.36.2@sha256:…`; undefined when there is none. */
function tagOf(image: string): string | undefined {
  return /^[^@]*:([^/:@]+)(?:@|$)/.exec(image)?.[1];
}

/** Reads `v1.36.2`, `Kubernetes v1.30.5-gke.100` and the like; null when there is no version in it. */
export function parseVersion(text: string): KubeProxyVersion | null {
  const found = /(?<![\d.])v?1\.(\d+)(?:\.(\d+))?[^\s]*/.exec(text);
  if (found === null) return null;
  return {text: found[0].startsWith('v') ? found[0] : `v${found[0]}`, minor: Number(found[1]), patch: Number(found[2] ?? 0)};
}

/** What the running kube-proxy says of itself goes before its configuration; an empty mode is iptables on Linux. */
function modeOf(node: NodeDump, configured: Setting<string>, problems: Problem[]): Setting<string> {
  const said = node.read('proxy-mode')?.toString('utf8').trim();
  if (configured.source === 'flag' || said === undefined || said === '')
    return configured.value === '' ? {...configured, value: 'iptables'} : configured;
  if (proxyModes.has(said)) return {value: said, source: 'proxy-mode'};
  problems.push({node: node.name, message: `proxy-mode: "${firstLine(said)}" is no mode of kube-proxy`});
  return configured;
}

const proxyModes = new Set(['iptables', 'ipvs', 'nftables', 'userspace', 'kernelspace']);

function asDetectLocalMode(mode: string): DetectLocalMode {
  return mode === 'NodeCIDR' || mode === 'BridgeInterface' || mode === 'InterfaceNamePrefix' ? mode : 'ClusterCIDR';
}

/** The sysctl decides, whoever set it; the setting of kube-proxy only sets it. */
function liberalOf(node: NodeDump, configured: Setting<boolean>): Setting<boolean> {
  const sysctl = /nf_conntrack_tcp_be_liberal\s*=\s*(\d)/.exec(node.read('sysctls')?.toString('utf8') ?? '');
  return sysctl === null ? configured : {value: sysctl[1] !== '0', source: 'sysctls'};
}

function zoneOf(object: NodeObject | undefined, overrides: ConfigOverrides): Setting<string | null> {
  if (overrides.zone !== undefined) return {value: overrides.zone, source: 'flag'};
  return {value: object?.metadata.labels?.['topology.kubernetes.io/zone'] ?? null, source: 'label of the Node'};
}

function firstLine(text: string): string {
  return text.trim().split('\n', 1)[0] ?? '';
}
