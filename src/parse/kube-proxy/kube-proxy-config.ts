import {asFields, type Fields, parseJson, readJson} from '../attempt.ts';
import {readYaml} from '../yaml-text.ts';

/** The fields of a KubeProxyConfiguration that matter here, from any format. Undefined means unset. */
export interface KubeProxyFields {
  readonly mode?: string;
  readonly clusterCIDRs?: readonly string[];
  readonly detectLocalMode?: string;
  readonly bridgeInterface?: string;
  readonly interfaceNamePrefix?: string;
  readonly masqueradeAll?: boolean;
  readonly masqueradeBit?: number;
  /** These two exist in nftables mode only. */
  readonly nftMasqueradeAll?: boolean;
  readonly nftMasqueradeBit?: number;
  readonly localhostNodePorts?: boolean;
  readonly nodePortAddresses?: readonly string[];
  readonly bindAddress?: string;
  readonly hostnameOverride?: string;
  readonly tcpBeLiberal?: boolean;
  readonly featureGates?: Readonly<Record<string, boolean>>;
  readonly ipvsScheduler?: string;
  readonly ipvsStrictARP?: boolean;
  readonly ipvsExcludeCIDRs?: readonly string[];
  /** In seconds, of the mode that it names; unset up to the default of a second. */
  readonly minSyncPeriod?: number;
}

/** Reads `/configz`: the internal struct up to 1.35, the versioned form in 1.36. Throws a SyntaxError for invalid JSON. */
export function parseConfigz(text: string): KubeProxyFields {
  const whole = asFields(parseJson(text));
  return fieldsOf(asFields(whole['kubeproxy.config.k8s.io'] ?? whole));
}

/** Reads a KubeProxyConfiguration in YAML or JSON. Throws a YAMLException if it is neither. */
export function parseConfigFile(text: string): KubeProxyFields {
  if (lastFile?.text !== text) lastFile = {text, fields: fieldsBesideName(text) ?? fieldsOf(asFields(readYaml(text)))};
  return lastFile.fields;
}

/** Most nodes have the same file, from a ConfigMap. */
let lastFile: {readonly text: string; readonly fields: KubeProxyFields} | null = null;

/** The fields of a file that has another node's name and is otherwise the last one, as on nodes of one cluster; null if it is not. */
function fieldsBesideName(text: string): KubeProxyFields | null {
  const name = hostnameLine.exec(text)?.[1];
  const nameBefore = lastFile?.fields.hostnameOverride;
  if (lastFile === null || name === undefined || nameBefore === undefined || !isPlainName(name) || !isPlainName(nameBefore)) return null;
  // The name is nowhere else, so the line with it is the one that the field was read from.
  const [start, end, more] = lastFile.text.split(nameBefore);
  const isLine = start !== undefined && end !== undefined && more === undefined && /(?:^|\n)hostnameOverride: $/.test(start);
  return isLine && text === start + name + end ? {...lastFile.fields, hostnameOverride: name} : null;
}

const hostnameLine = /^hostnameOverride: (\S+)$/m;

/** YAML reads it as this text, whatever stands around it. */
function isPlainName(name: string): boolean {
  return /^[a-z][a-z0-9.-]*[a-z0-9]$/.test(name) && !/^(?:null|true|false|yes|no|on|off)$/.test(name);
}

/** The `kind` that a text in YAML or JSON names; null where it names none. Throws a YAMLException on what is neither. */
export function kindOfConfig(text: string): string | null {
  const {kind} = asFields(readYaml(text));
  return typeof kind === 'string' ? kind : null;
}

/**
 * Reads the command line of a kube-proxy. Flags that do not change rules are skipped. With a configuration file (`--config`) all flags
 * except `--hostname-override` are skipped, because kube-proxy ignores them.
 */
export function parseArguments(args: readonly string[]): KubeProxyFields {
  // The words of a script, with the quoting that kube-proxy's scripts use.
  const words = args.flatMap(arg => (/\s--|^exec /.test(arg) ? arg.split(/\s+/).map(word => word.replaceAll(/["']/g, '')) : [arg]));
  const flags = new Map<string, string>();
  for (const [index, word] of words.entries()) {
    const flag = /^--([a-zA-Z_-]+)(?:=(.*))?$/s.exec(word);
    if (flag === null) continue;
    const name = (flag[1] ?? '').replaceAll('_', '-');
    const next = words[index + 1];
    flags.set(name, flag[2] ?? (next === undefined || next.startsWith('-') || switches.has(name) ? 'true' : next));
  }
  const text = (name: string): string | undefined => (flags.has('config') && name !== 'hostname-override' ? undefined : flags.get(name));
  return withoutUndefined({
    mode: text('proxy-mode'),
    clusterCIDRs: list(text('cluster-cidr')),
    detectLocalMode: text('detect-local-mode'),
    bridgeInterface: text('pod-bridge-interface'),
    interfaceNamePrefix: text('pod-interface-name-prefix'),
    masqueradeAll: truth(text('masquerade-all')),
    nftMasqueradeAll: truth(text('masquerade-all')),
    masqueradeBit: text('iptables-masquerade-bit') === undefined ? undefined : Number(text('iptables-masquerade-bit')),
    localhostNodePorts: truth(text('iptables-localhost-nodeports')),
    nodePortAddresses: list(text('nodeport-addresses')),
    bindAddress: text('bind-address'),
    hostnameOverride: text('hostname-override'),
    tcpBeLiberal: truth(text('conntrack-tcp-be-liberal')),
    ipvsScheduler: text('ipvs-scheduler'),
    ipvsStrictARP: truth(text('ipvs-strict-arp')),
    ipvsExcludeCIDRs: list(text('ipvs-exclude-cidrs')),
    minSyncPeriod: longPeriod(text(text('proxy-mode') === 'ipvs' ? 'ipvs-min-sync-period' : 'iptables-min-sync-period')),
    featureGates: gatesOf(Object.fromEntries((list(text('feature-gates')) ?? []).map(pair => pair.split('=')))),
  });
}

/** These take a value only after `=`. */
const switches: ReadonlySet<string> = new Set([
  'masquerade-all',
  'iptables-localhost-nodeports',
  'conntrack-tcp-be-liberal',
  'ipvs-strict-arp',
]);

function fieldsOf(config: Fields): KubeProxyFields {
  const iptables = part(config, 'iptables', 'IPTables');
  const ipvs = part(config, 'ipvs', 'IPVS');
  const nftables = part(config, 'nftables', 'NFTables');
  const local = part(config, 'detectLocal', 'DetectLocal');
  const linux = part(config, 'linux', 'Linux');
  const conntrack = {...part(config, 'conntrack', 'Conntrack'), ...part(linux, 'conntrack', 'Conntrack')};
  const cidrs = local['ClusterCIDRs'] ?? local['clusterCIDRs'];
  const mode = text(config, 'mode', 'Mode');
  const ofMode = mode === 'ipvs' ? ipvs : mode === 'nftables' ? nftables : iptables;
  return withoutUndefined({
    mode,
    clusterCIDRs: Array.isArray(cidrs) ? strings(cidrs) : list(text(config, 'clusterCIDR', 'ClusterCIDR')),
    detectLocalMode: text(config, 'detectLocalMode', 'DetectLocalMode'),
    bridgeInterface: text(local, 'bridgeInterface', 'BridgeInterface'),
    interfaceNamePrefix: text(local, 'interfaceNamePrefix', 'InterfaceNamePrefix'),
    masqueradeAll: bool(iptables, 'masqueradeAll', 'MasqueradeAll') ?? bool(linux, 'masqueradeAll', 'MasqueradeAll'),
    masqueradeBit: number(iptables, 'masqueradeBit', 'MasqueradeBit'),
    nftMasqueradeAll: bool(nftables, 'masqueradeAll', 'MasqueradeAll') ?? bool(linux, 'masqueradeAll', 'MasqueradeAll'),
    nftMasqueradeBit: number(nftables, 'masqueradeBit', 'MasqueradeBit'),
    localhostNodePorts: bool(iptables, 'localhostNodePorts', 'LocalhostNodePorts'),
    nodePortAddresses: stringList(config['nodePortAddresses'] ?? config['NodePortAddresses']),
    bindAddress: text(config, 'bindAddress', 'BindAddress'),
    hostnameOverride: text(config, 'hostnameOverride', 'HostnameOverride'),
    tcpBeLiberal: bool(conntrack, 'tcpBeLiberal', 'TCPBeLiberal'),
    ipvsScheduler: text(ipvs, 'scheduler', 'Scheduler'),
    ipvsStrictARP: bool(ipvs, 'strictARP', 'StrictARP'),
    ipvsExcludeCIDRs: stringList(ipvs['excludeCIDRs'] ?? ipvs['ExcludeCIDRs']),
    minSyncPeriod: longPeriod(text({...config, ...ofMode}, 'minSyncPeriod', 'MinSyncPeriod')),
    featureGates: gatesOf(part(config, 'featureGates', 'FeatureGates')),
  });
}

/** In seconds, from a duration as Go writes it, such as `1m30s`. */
function longPeriod(text: string | undefined): number | undefined {
  if (text === undefined || !/^(?:[\d.]+(?:h|ms|m|s|us|µs|ns))+$/.test(text)) return undefined;
  const parts = text.matchAll(/([\d.]+)(h|ms|m|s|us|µs|ns)/g);
  const seconds = [...parts].reduce(
    (sum, [, number, unit = '']) => sum + Number(number) * ({h: 3600, m: 60, s: 1, ms: 0.001}[unit] ?? 0),
    0,
  );
  return seconds > 1 ? seconds : undefined;
}

function part(object: Fields, lower: string, upper: string): Fields {
  return asFields(object[lower] ?? object[upper]);
}

function text(object: Fields, lower: string, upper: string): string | undefined {
  const value = object[lower] ?? object[upper];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function bool(object: Fields, lower: string, upper: string): boolean | undefined {
  const value = object[lower] ?? object[upper];
  return typeof value === 'boolean' ? value : undefined;
}

function number(object: Fields, lower: string, upper: string): number | undefined {
  const value = object[lower] ?? object[upper];
  return typeof value === 'number' ? value : undefined;
}

function strings(value: readonly unknown[]): readonly string[] {
  return value.filter(item => typeof item === 'string');
}

function stringList(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) ? strings(value) : undefined;
}

function list(value: string | undefined): readonly string[] | undefined {
  if (value === undefined) return undefined;
  return value
    .split(',')
    .map(item => item.trim())
    .filter(item => item !== '');
}

function truth(value: string | undefined): boolean | undefined {
  return value === undefined ? undefined : !/^(?:0|f|false)$/i.test(value);
}

function gatesOf(object: Fields): Readonly<Record<string, boolean>> | undefined {
  const entries = Object.entries(object).map(([name, value]) => [name, value === true || value === 'true'] as const);
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

function withoutUndefined(fields: {readonly [Name in keyof KubeProxyFields]: KubeProxyFields[Name] | undefined}): KubeProxyFields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** The command line of k3s or RKE2, which it writes into an annotation of the Node, merged with its configuration file. */
export interface NodeArgs {
  /** A server, which passes cluster-wide settings to the agents. */
  readonly isServer: boolean;
  readonly disablesKubeProxy: boolean;
  /** `--cluster-cidr` of a server; null if its default applies. */
  readonly clusterCIDR: string | null;
  /** The flags that are passed on to kube-proxy, such as `--masquerade-all`. */
  readonly kubeProxyArgs: readonly string[];
}

/** Reads the annotation `k3s.io/node-args`: a JSON list in which `--flag=value` is split in two. Null if it is invalid. */
export function parseNodeArgs(text: string): NodeArgs | null {
  const words: unknown = readJson(text);
  if (!Array.isArray(words) || !words.every(word => typeof word === 'string')) return null;
  const valuesOf = (flag: string): readonly string[] =>
    words.flatMap((word, index) =>
      word === flag ? [words[index + 1] ?? ''] : word.startsWith(`${flag}=`) ? [word.slice(flag.length + 1)] : [],
    );
  return {
    isServer: words[0] === 'server',
    disablesKubeProxy: valuesOf('--disable-kube-proxy').some(value => value !== 'false'),
    clusterCIDR: valuesOf('--cluster-cidr').join(',') || null,
    kubeProxyArgs: valuesOf('--kube-proxy-arg').map(arg => `--${arg.replace(/^-+/, '')}`),
  };
}
