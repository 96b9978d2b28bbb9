import type {ConfigMapObject, NodeObject, PodObject} from '../model/api-objects.ts';
import {
  type ConfigMapPlace,
  configMapPlaces,
  type DetectLocalMode,
  type KubeProxyVersion,
  newestKnownMinor,
  type ProxyConfig,
  defaultOfKubeProxy,
  seenInRules,
  type Setting,
} from '../model/proxy-config.ts';
import {fileText, type ApiObjects, type NodeDump, type Problem} from '../model/snapshot.ts';
import {attempt} from '../parse/attempt.ts';
import {type KubeProxyFields, parseArguments, parseConfigFile, parseConfigz} from '../parse/kube-proxy/kube-proxy-config.ts';
import {nodeObject} from './api-index.ts';
import {familyOf, hostCidr} from '../model/address.ts';
import {once} from '../model/once.ts';
import type {InferredConfig} from './iptables/infer-config.ts';
import {k3sProxyFields, kubeProxyContainer, kubeProxyPod} from './kube-proxy-pod.ts';

/** Settings by the user for every kube-proxy. They override all other sources. */
export interface ConfigOverrides extends KubeProxyFields {
  readonly version?: string;
  readonly zone?: string;
}

/**
 * The settings of one node's kube-proxy, each with its source. In order of precedence: flags, `/configz` (the settings of the running
 * kube-proxy), its configuration file, the arguments of its pod or of k3s, the ConfigMap; then what the node's rules show (`infer`, called
 * only if needed); then kube-proxy's defaults.
 */
export function resolveProxyConfig(node: NodeDump, api: ApiObjects, overrides: ConfigOverrides, infer: () => InferredConfig = () => ({})) {
  const problems: Problem[] = [];
  const object = nodeObject(api, node.name);
  const found = layersOf({node, api, object, overrides}, problems);
  const layers = found.some(tellsSettings) ? found : [...found, {fields: infer(), source: seenInRules}];
  const pick = <Name extends keyof KubeProxyFields>(
    name: Name,
    byDefault: NonNullable<KubeProxyFields[Name]>,
    among: readonly Layer[] = layers,
  ): Setting<NonNullable<KubeProxyFields[Name]>> => {
    for (const {fields, source} of among) {
      const value = fields[name];
      if (value !== undefined) return {value, source};
    }
    return {value: byDefault, source: defaultOfKubeProxy};
  };
  const detectLocalMode = pick('detectLocalMode', 'ClusterCIDR');
  const mode = modeOf(node, pick('mode', 'iptables'), problems);
  const ofNftables = mode.value === 'nftables';
  const hostname = pick('hostnameOverride', node.name);
  const nodeName = hostname.value.includes('$') ? {value: node.name, source: 'Node'} : hostname;
  const runsAs = nodeName.value.trim().toLowerCase();
  const config: ProxyConfig = {
    version: kubeProxyVersion({node, api, object, override: overrides.version, infer}, problems),
    mode,
    clusterCIDRs: pick('clusterCIDRs', []),
    detectLocalMode: {...detectLocalMode, value: asDetectLocalMode(detectLocalMode.value)},
    bridgeInterface: pick('bridgeInterface', ''),
    interfaceNamePrefix: pick('interfaceNamePrefix', ''),
    masqueradeAll: pick(ofNftables ? 'nftMasqueradeAll' : 'masqueradeAll', false),
    masqueradeBit: pick(ofNftables ? 'nftMasqueradeBit' : 'masqueradeBit', 14),
    localhostNodePorts: pick('localhostNodePorts', true),
    nodePortAddresses: pick('nodePortAddresses', [], ofNftables ? layers : layers.filter(layer => !showsNftDefault(layer, object))),
    bindAddress: pick('bindAddress', '0.0.0.0'),
    nodeName: {...nodeName, value: runsAs},
    tcpBeLiberal: liberalOf(node, pick('tcpBeLiberal', false)),
    featureGates: pick('featureGates', {}),
    ipvsScheduler: pick('ipvsScheduler', ''),
    ipvsStrictARP: strictArpOf(node, pick('ipvsStrictARP', false)),
    ipvsExcludeCIDRs: pick('ipvsExcludeCIDRs', []),
    // kube-proxy reads the label of the Node whose name it has.
    zone: zoneOf(runsAs === node.name ? object : nodeObject(api, runsAs), overrides),
  };
  return {config, problems};
}

/**
 * `/configz` of nftables mode shows the default of that mode as if `nodePortAddresses` were set: `primary`, or up to 1.35 the addresses that
 * it means. In another mode it does not count.
 */
function showsNftDefault({fields: {mode, nodePortAddresses = []}, source}: Layer, object: NodeObject | undefined): boolean {
  const own = new Set([
    'primary',
    ...(object?.status?.addresses ?? []).map(({address = ''}) => hostCidr(address, familyOf(address) ?? 'IPv4')),
  ]);
  return source === 'configz.json' && mode === 'nftables' && nodePortAddresses.every(text => own.has(text));
}

/** Seconds that a kube-proxy lets pass between two syncs, beyond the second that is its default: a change may have to wait for so long. */
export function extraSyncPeriod(node: NodeDump, api: ApiObjects): number {
  const layers = layersOf({node, api, object: nodeObject(api, node.name), overrides: {}}, []);
  const period = layers.find(({fields}) => fields.minSyncPeriod !== undefined)?.fields.minSyncPeriod ?? 1;
  return Math.min(period, longestPeriod) - 1;
}

const longestPeriod = 300;

/**
 * The configuration that leaves the proxy mode to kube-proxy's default; null if one sets it or none was read. `/configz` shows the default
 * as if it were set, so it counts only if it is empty.
 */
export function leavesModeToDefault(node: NodeDump, api: ApiObjects): string | null {
  const layers = layersOf({node, api, object: nodeObject(api, node.name), overrides: {}}, []).filter(tellsSettings);
  const written = layers.filter(({source}) => source !== 'configz.json');
  const deciding = written.length > 0 ? written : layers;
  return deciding.some(({fields}) => fields.mode !== undefined) ? null : (deciding[0]?.source ?? null);
}

/** A command line that only names a configuration file shows no settings, and that of k3s shows only some if the servers' is unknown. */
function tellsSettings({fields, source}: Layer): boolean {
  if (source === argumentsOfK3s) return fields.clusterCIDRs !== undefined;
  return source !== 'flag' && Object.keys(fields).some(name => name !== 'hostnameOverride' && name !== 'minSyncPeriod');
}

const argumentsOfK3s = 'arguments of k3s in the Node';

interface Layer {
  readonly fields: KubeProxyFields;
  readonly source: string;
}

interface LayersInput {
  readonly node: NodeDump;
  readonly api: ApiObjects;
  readonly object: NodeObject | undefined;
  readonly overrides: ConfigOverrides;
}

function layersOf({node, api, object, overrides}: LayersInput, problems: Problem[]): readonly Layer[] {
  const layers: Layer[] = [{fields: forAllModes(overrides), source: 'flag'}];
  const take = (source: string, text: string | undefined, parse: (text: string) => KubeProxyFields): void => {
    if (text === undefined || text.trim() === '') return;
    const fields = attempt(() => parse(text));
    if (fields instanceof Error) problems.push({node: node.name, message: `${source} cannot be read: ${firstLine(fields.message)}`});
    else layers.push({fields, source});
  };
  take('configz.json', node.read('configz.json')?.toString('utf8'), parseConfigz);
  take('kube-proxy-config.yaml', node.read('kube-proxy-config.yaml')?.toString('utf8'), parseConfigFile);
  const pod = kubeProxyPod(api, node.name);
  const container = kubeProxyContainer(pod);
  if (container !== undefined)
    layers.push({
      fields: parseArguments([...(container.command ?? []), ...(container.args ?? [])]),
      source: `arguments of pod ${pod?.metadata.name}`,
    });
  const k3s = pod === undefined ? k3sProxyFields(object, api) : null;
  if (k3s !== null) layers.push({fields: k3s, source: argumentsOfK3s});
  const map = kubeProxyConfigMap(api, pod);
  if (map !== null) take(`ConfigMap ${map.name}`, map.text, parseConfigFile);
  return layers;
}

/** The user names the mode that kube-proxy runs in, whatever it is called. */
function forAllModes(overrides: ConfigOverrides): KubeProxyFields {
  const {masqueradeAll, masqueradeBit} = overrides;
  return {
    ...overrides,
    ...(masqueradeAll === undefined ? {} : {nftMasqueradeAll: masqueradeAll}),
    ...(masqueradeBit === undefined ? {} : {nftMasqueradeBit: masqueradeBit}),
  };
}

/** The running kube-proxy's answer overrides its configuration; an empty mode is iptables on Linux. */
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

/** The sysctl decides, whoever set it; kube-proxy's setting only sets the sysctl. */
function liberalOf(node: NodeDump, configured: Setting<boolean>): Setting<boolean> {
  const sysctl = /nf_conntrack_tcp_be_liberal\s*=\s*(\d)/.exec(fileText(node, 'sysctls'));
  return sysctl === null ? configured : {value: sysctl[1] !== '0', source: 'sysctls'};
}

/** kube-proxy sets the sysctls; their current values count. */
function strictArpOf(node: NodeDump, configured: Setting<boolean>): Setting<boolean> {
  const sysctls = fileText(node, 'sysctls');
  const ignore = /conf\.all\.arp_ignore\s*=\s*(\d)/.exec(sysctls)?.[1];
  const announce = /conf\.all\.arp_announce\s*=\s*(\d)/.exec(sysctls)?.[1];
  return ignore === undefined || announce === undefined ? configured : {value: ignore === '1' && announce === '2', source: 'sysctls'};
}

function zoneOf(object: NodeObject | undefined, overrides: ConfigOverrides): Setting<string | null> {
  if (overrides.zone !== undefined) return {value: overrides.zone, source: 'flag'};
  return {value: object?.metadata.labels?.['topology.kubernetes.io/zone'] ?? null, source: 'label of the Node'};
}

function firstLine(text: string): string {
  return text.trim().split('\n', 1)[0] ?? '';
}

/**
 * The configuration that kube-proxy's pod reads from a ConfigMap; null if none is known. A pod reads only the ConfigMaps that it mounts:
 * one that is left over from another installation is ignored.
 */
function kubeProxyConfigMap({configMaps}: ApiObjects, pod: PodObject | undefined): {readonly name: string; readonly text: string} | null {
  if (configMaps === null) return null;
  const mounted = pod?.spec?.volumes?.flatMap(({configMap}) => configMap?.name ?? []);
  return (
    mappedConfigs(configMaps).find(
      ({namespace, name}) => mounted === undefined || (namespace === pod?.metadata.namespace && mounted.includes(name)),
    ) ?? null
  );
}

const mappedConfigs = once((configMaps: readonly ConfigMapObject[]) =>
  configMapPlaces.flatMap(place => {
    const text = configMaps.find(candidate => isAt(candidate, place))?.data?.[place.key];
    return text === undefined ? [] : [{...place, text}];
  }),
);

function isAt({metadata}: ConfigMapObject, {namespace, name}: ConfigMapPlace): boolean {
  return metadata.namespace === namespace && metadata.name === name;
}

interface VersionInput {
  readonly node: NodeDump;
  readonly api: ApiObjects;
  readonly object: NodeObject | undefined;
  /** The version that the user gives. */
  readonly override: string | undefined;
  /** The version that the node's rules show. */
  readonly infer: () => {readonly version?: KubeProxyVersion};
}

/** The version of a node's kube-proxy with its source. An invalid version is reported, and the next source is tried. */
function kubeProxyVersion({node, api, object, override, infer}: VersionInput, problems: Problem[]): Setting<KubeProxyVersion> {
  const info = object?.status?.nodeInfo;
  const sources: readonly VersionSource[] = [
    {name: 'flag', text: override},
    {name: 'kube-proxy-version', text: node.read('kube-proxy-version')?.toString('utf8')},
    ...imageSource(api, node.name),
    ...(isK3s(info?.kubeletVersion) ? [{name: 'k3s in the Node status: kube-proxy is a part of it', text: info?.kubeletVersion}] : []),
    // The kubelet writes its own version here, if anything: it does not know kube-proxy's. The field is deprecated since 1.29.
    {name: 'Node status', text: info?.kubeProxyVersion, weak: true},
    {name: 'kubelet version in the Node status', text: info?.kubeletVersion, weak: true},
  ];
  for (const {name, text, weak} of sources) {
    if (text === undefined || text.trim() === '') continue;
    const value = parseVersion(text);
    // kube-proxy may be older than the kubelet.
    if (value !== null && weak) return {value: {...value, guessed: true}, source: name};
    if (value !== null) return {value, source: sourceOf(name, value)};
    if (!weak) problems.push({node: node.name, message: `${name}: "${text.trim().split('\n', 1)[0] ?? ''}" is no version of kube-proxy`});
  }
  const {version: inferred} = infer();
  if (inferred !== undefined) return {value: inferred, source: seenInRules};
  const source = 'not found: checked against the newest known rules';
  return {value: {text: 'unknown', minor: newestKnownMinor, patch: null, guessed: true}, source};
}

interface VersionSource {
  readonly name: string;
  readonly text: string | undefined;
  /** It may be wrong by some versions; an invalid one is not reported. */
  readonly weak?: boolean;
}

function sourceOf(name: string, {minor}: KubeProxyVersion): string {
  return minor > newestKnownMinor ? `${name}; newer than the newest known rules, checked against those of 1.${newestKnownMinor}` : name;
}

/** The image of kube-proxy's container. An image with another name (OpenShift's, a mirror's) counts only if its tag is a version. */
function imageSource(api: ApiObjects, node: string): readonly VersionSource[] {
  const image = kubeProxyContainer(kubeProxyPod(api, node))?.image;
  // The tag of `registry:5000/kube-proxy:v1.36.2@sha256:…`; undefined if there is none.
  const tag = image === undefined ? undefined : /^[^@]*:([^/:@]+)(?:@|$)/.exec(image)?.[1];
  if (image === undefined || tag === undefined) return [];
  // Images of all components, tagged with the version of Kubernetes: RKE2's, and the old hyperkube.
  if (!image.includes('kube-proxy') && !/\/(?:hardened-kubernetes|hyperkube)(?:-[a-z0-9]+)?[:@]/.test(`/${image}`)) return [];
  return [{name: "image of kube-proxy's pod", text: tag}];
}

function isK3s(kubeletVersion: string | undefined): boolean {
  return kubeletVersion?.includes('+k3s') ?? false;
}

/**
 * Reads `v1.36.2`, `Kubernetes v1.30.5-gke.100` and the like; null if the text contains no version. One that begins with a `v` counts before
 * others, such as that of Go. What distributions append keeps the upstream patch; only upstream's pre-releases come before it.
 */
function parseVersion(text: string): KubeProxyVersion | null {
  const found = /(?<![\w.])v1\.(\d+)(?:\.(\d+))?[^\s]*/.exec(text) ?? /(?<![\w.])1\.(\d+)(?:\.(\d+))?[^\s]*/.exec(text);
  if (found === null) return null;
  const [whole, minor, patch] = found;
  const version = {
    text: whole.startsWith('v') ? whole : `v${whole}`,
    minor: Number(minor),
    patch: patch === undefined ? null : Number(patch),
  };
  return /^v?[\d.]+-(?:alpha|beta|rc)\.\d/.test(whole) ? {...version, isPreRelease: true} : version;
}
