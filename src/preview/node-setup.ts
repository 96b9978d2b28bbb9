import {readDumps} from '../analyze/iptables/node-rulesets.ts';
import {hostFacts, type IpvsState, readIpvsState} from '../analyze/ipvs/ipvs-state.ts';
import {ipsetsOf, type NodeData} from '../analyze/proxy-mode.ts';
import type {IpSet} from '../parse/ipvs/ipset-save.ts';
import {readNft} from '../analyze/nftables/nft-rules.ts';
import {resolveNftVersion} from '../analyze/nftables/resolve-nft-version.ts';
import {resolveVersion} from '../analyze/iptables/resolve-version.ts';
import {onceAsked} from '../model/once.ts';
import {seenConfig} from '../analyze/seen-config.ts';
import {servedInAnyFamily} from '../expect/cluster/served-port.ts';
import {nodeFacts} from '../expect/node-facts.ts';
import {type ConfigOverrides, resolveProxyConfig} from '../expect/proxy-config.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {matchesInterfaceName} from '../expect/nftables/nft-versions.ts';
import {parseCidr} from '../model/address.ts';
import type {PreviewSettings} from '../model/preview.ts';
import type {Ruleset} from '../model/ruleset.ts';

/** A node whose rules are to be written for other settings. Dumps are parsed once, when they are first asked for. */
export interface NodeSetup extends NodeData {
  /** All ipsets of the node. */
  readonly sets: () => ReadonlyMap<string, IpSet>;
  readonly ipvs: () => IpvsState;
  /** The addresses bound to kube-ipvs0. */
  readonly bound: () => readonly string[];
  /** The node without kube-ipvs0. */
  readonly hostFacts: () => NodeFacts;
}

interface NodeSetupInput extends Pick<NodeData, 'node' | 'api' | 'view'> {
  readonly overrides: ConfigOverrides;
}

/** The settings of a node's kube-proxy; if there is no other source for them or the version, those that its rules show. */
export function nodeSetup({node, api, view, overrides}: NodeSetupInput): NodeSetup {
  const dumps = readDumps(node);
  const nft = onceAsked(() => readNft(node));
  const ipvs = onceAsked(() => readIpvsState(node));
  const {config: given} = resolveProxyConfig(node, api, overrides, () => seenConfig(node, dumps.current, nft));
  const facts = nodeFacts(node, api);
  const base = {node, api, view, facts, dumps, nft, ipvs, sets: onceAsked(() => ipsetsOf(node)), bound: () => ipvs().bound ?? []};
  const config = resolvedConfig({...base, config: given});
  const own = (): NodeFacts => hostFacts(facts, ipvs(), servedInAnyFamily({view, config}), config.version.value);
  return {...base, config, hostFacts: onceAsked(own)};
}

function resolvedConfig(data: NodeData): ProxyConfig {
  const {api, config, dumps, nft} = data;
  if (api.services === null) return config;
  const input = {...data, traces: () => false};
  if (config.mode.value === 'iptables' && dumps.current.size > 0) return resolveVersion(input, dumps.current).config;
  const ruleset = config.mode.value === 'nftables' ? nft() : null;
  return ruleset === null ? config : resolveNftVersion(input, ruleset);
}

/** The planned change of kube-proxy's settings. Planned objects are in the API objects of the side after. */
export interface PlannedChange {
  readonly overrides: ConfigOverrides;
  /** The text of a KubeProxyConfiguration that replaces all current settings. */
  readonly configFile: string | null;
}

/** The settings of a node's kube-proxy after the change. Its version stays unless the plan names another one. */
export function plannedConfig(setup: NodeSetup, {overrides, configFile}: PlannedChange): ProxyConfig {
  const {node, api, config} = setup;
  const {config: planned} =
    configFile === null
      ? resolveProxyConfig(node, api, overrides, () => inferred(config))
      : resolveProxyConfig(withConfigFile(node, configFile), {...api, configMaps: null, pods: null}, overrides);
  const mode = overrides.mode === undefined && configFile === null ? config.mode : planned.mode;
  return {
    ...planned,
    mode,
    version: overrides.version === undefined ? config.version : planned.version,
    zone: config.zone,
    tcpBeLiberal: config.tcpBeLiberal.source === 'sysctls' ? config.tcpBeLiberal : planned.tcpBeLiberal,
  };
}

/** Settings inferred from the rules, without those that another mode names differently. */
function inferred(config: ProxyConfig) {
  return {
    clusterCIDRs: config.clusterCIDRs.value,
    detectLocalMode: config.detectLocalMode.value,
    bridgeInterface: config.bridgeInterface.value,
    interfaceNamePrefix: config.interfaceNamePrefix.value,
    ...(config.mode.value === 'nftables' ? {nftMasqueradeAll: config.masqueradeAll.value} : {masqueradeAll: config.masqueradeAll.value}),
    localhostNodePorts: config.localhostNodePorts.value,
  };
}

function withConfigFile({name}: NodeDump, text: string): NodeDump {
  const file = 'kube-proxy-config.yaml';
  return {name, files: [file], read: wanted => (wanted === file ? Buffer.from(text) : null)};
}

/** Whether two sets of settings write the same rules, whatever their sources. */
export function isSameConfig(a: ProxyConfig, b: ProxyConfig): boolean {
  return valuesOf(a) === valuesOf(b);
}

function valuesOf(config: ProxyConfig): string {
  return JSON.stringify(
    Object.entries(config).map(([name, {value}]) => [
      name,
      name === 'version' ? [(value as {minor: number}).minor, (value as {patch: number}).patch] : value,
    ]),
  );
}

/** Settings that a node has whatever the plan: they are those of the node at the time of the check. */
const ofNode: ReadonlySet<string> = new Set(['nodeName', 'zone', 'bindAddress']);

/** The settings of a node that a plan records, by name. */
export function plannedSettings(config: ProxyConfig): PreviewSettings {
  return Object.fromEntries(Object.entries(config).flatMap(([name, {value}]) => (ofNode.has(name) ? [] : [[name, value]])));
}

/**
 * Settings with which every sync of kube-proxy fails, because one rule is refused and with it the whole transaction: nothing is written.
 * `current` are the node's rules of iptables, which tell the backend.
 */
export function refusedSettings(config: ProxyConfig, current: Iterable<Ruleset>): readonly string[] {
  const {mode, version, detectLocalMode, interfaceNamePrefix, clusterCIDRs} = config;
  if (mode.value === 'nftables')
    return detectLocalMode.value === 'InterfaceNamePrefix' && !matchesInterfaceName(version.value)
      ? [
          `kube-proxy ${version.value.text} writes iif "${interfaceNamePrefix.value}*" in nftables mode, which nft refuses: no rules are written. 1.33.6, 1.34.2 and 1.35 are the first that write iifname`,
        ]
      : [];
  const zero = clusterCIDRs.value.find(text => parseCidr(text)?.prefix === 0);
  if (zero === undefined || detectLocalMode.value !== 'ClusterCIDR') return [];
  if ([...current].some(({backend}) => backend === 'legacy')) return [];
  return [`clusterCIDR ${zero} makes rules with ! -s ${zero}, which iptables with the nft backend refuses: no rules are written`];
}
