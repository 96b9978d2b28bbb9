import {type KubeProxyVersion, type ProxyConfig, seenInRules} from '../model/proxy-config.ts';
import {aboutMinor} from '../expect/patch-releases.ts';
import type {ServicePort} from '../model/service-port.ts';
import {nodeObject} from '../expect/api-index.ts';
import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import type {ServedPort} from '../model/endpoint.ts';
import type {Family} from '../model/address.ts';
import type {NftRuleset} from '../model/nft-ruleset.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {PortTrace} from '../model/service-trace.ts';
import {fileText, type ApiObjects, type NodeDump} from '../model/snapshot.ts';
import {type IpSet, parseIpsetSave} from '../parse/ipvs/ipset-save.ts';
import type {Symptom} from './symptoms/symptom.ts';
import type {Truncation, Ruleset} from '../model/ruleset.ts';
import {inferConfig, type InferredConfig} from '../expect/iptables/infer-config.ts';
import {inferIpvsConfig} from '../expect/ipvs/infer-ipvs-config.ts';
import {inferNftConfig} from '../expect/nftables/infer-nft-config.ts';
import {kubeProxyTables} from './nftables/nft-rules.ts';

/** A mode of kube-proxy: how a node that runs in it is evaluated. */
export interface ProxyMode {
  /** As in kube-proxy's `--proxy-mode`. */
  readonly name: string;
  /** Reads the dumps that the evaluation of a node needs, once. */
  prepare(input: NodeInput): PreparedMode;
}

/** Why a node cannot be evaluated (no dump, or an unknown version), or the function that evaluates it. */
type PreparedMode = {readonly whyUnread: string} | {analyze(): ModeAnalysis};

/** One node with all that its kube-proxy's rules follow from. */
export interface NodeData {
  readonly node: NodeDump;
  readonly api: ApiObjects;
  readonly view: ClusterView;
  readonly config: ProxyConfig;
  readonly facts: NodeFacts;
  /** The node's iptables, which other modes use as well. */
  readonly dumps: Dumps;
  /** The node's nftables, parsed when they are first asked for; null when they were not read. */
  readonly nft: () => NftRuleset | null;
}

export interface NodeInput extends NodeData {
  /** Analyze each Service by itself, without findings that stand for many of them, because those depend on the states of all. */
  readonly eachService?: boolean;
  /** The Service ports for which to trace packet paths, given the symptoms of their family. */
  readonly traces: (port: ServicePort, found: readonly Symptom[]) => boolean;
}

export interface ModeAnalysis {
  /** The families that were evaluated. */
  readonly families: readonly Family[];
  /** Families that have Services and could not be evaluated. */
  readonly unread: readonly UnreadFamily[];
  readonly symptoms: readonly Symptom[];
  readonly traces: readonly PortTrace[];
  /** The differences of each Service, by family and `namespace/name` (`IPv4 shop/web`). */
  readonly differing?: ReadonlyMap<string, ServiceDifferences>;
  /** The parts of the dumps are not each of one moment. */
  readonly isReadPiecemeal?: boolean;
  /** The settings that the rules were evaluated with. */
  readonly config: ProxyConfig;
  /** How many rules and chains the mode's own dumps hold. */
  readonly counts: {readonly rules: number; readonly chains: number};
}

export interface UnreadFamily {
  readonly family: Family;
  readonly reason: string;
}

/** False if the Node was not read: then its zone is inferred from the rules. */
export function knowsZone({config, api, node}: Pick<NodeInput, 'config' | 'api' | 'node'>): boolean {
  return config.zone.source === 'flag' || nodeObject(api, node.name) !== undefined;
}

/** All rules of a node in one family, whatever the mode of its kube-proxy. */
export function nodeRules({node, dumps, nft, api}: NodeInput, family: Family): NodeRules {
  return {iptables: allOf(dumps, family), nft, sets: ipsetsOf(node), api};
}

/** The node's ipsets; none where they were not read. */
export function ipsetsOf(node: NodeDump): ReadonlyMap<string, IpSet> {
  return parseIpsetSave(fileText(node, 'ipset-save')).sets;
}

/** What was found in one family of a node. */
export interface FamilyResult {
  readonly family: Family;
  /** Why it was not evaluated, or not wholly. */
  readonly reasons: readonly string[];
  readonly evaluated: boolean;
  readonly symptoms: readonly Symptom[];
  readonly traces: readonly PortTrace[];
  /** The Service ports that differ, with the part of the dumps that each differing object is in. */
  readonly differing: readonly (readonly [ServedPort, readonly string[]])[];
}

/** Without the one that no requested Service has. */
export function askedFamilies(all: readonly Family[], {leftOut}: NodeDump): readonly Family[] {
  return all.filter(family => family !== leftOut);
}

/** A family of which nothing was found, because it was not evaluated. */
export function unreadFamily(family: Family, reason: string): FamilyResult {
  return {family, reasons: [reason], evaluated: false, symptoms: [], traces: [], differing: []};
}

export function joinFamilies(
  results: readonly FamilyResult[],
): Pick<ModeAnalysis, 'families' | 'unread' | 'symptoms' | 'traces' | 'differing'> {
  const differing = new Map<string, ServiceDifferences>();
  for (const [{port}, parts] of results.flatMap(result => result.differing)) {
    const key = differingKey(port.family, `${port.namespace}/${port.service}`);
    const known = differing.get(key);
    differing.set(key, {count: (known?.count ?? 0) + parts.length, parts: new Set([...(known?.parts ?? []), ...parts])});
  }
  return {
    families: results.filter(({evaluated}) => evaluated).map(({family}) => family),
    unread: results.flatMap(({family, reasons}) => reasons.map(reason => ({family, reason}))),
    symptoms: results.flatMap(({symptoms}) => symptoms),
    traces: results.flatMap(({traces}) => traces),
    differing,
  };
}

/** Follows `the dump` in messages. A dump in JSON has only one line. */
export function truncationReason({table, line, by, seenBy}: Truncation): string {
  if (by !== undefined) return `has a line in table ${table} that is no rule (line ${line}: ${by})`;
  return `is truncated ${line > 1 ? `at line ${line} ` : ''}inside table ${table}${seenBy === undefined ? '' : ` (${seenBy})`}`;
}

/**
 * Settings that were inferred from a truncated dump may be wrong, so differences from them are no findings. Null if another source
 * has the settings, or the dump is complete.
 */
export function whyDoubtful(
  {version, clusterCIDRs, masqueradeAll, masqueradeBit}: ProxyConfig,
  truncation: Truncation | null,
): string | null {
  const isGuess = version.value.guessed === true || [clusterCIDRs, masqueradeAll, masqueradeBit].some(({source}) => source === seenInRules);
  if (truncation === null || !isGuess) return null;
  return `a dump ${truncationReason(truncation)}, and kube-proxy's settings are known from the rules alone: the rules were not checked`;
}

export interface NodeAnalysis extends ModeAnalysis {
  readonly status: AnalyzedStatus;
  /** The node's iptables, in whatever mode kube-proxy runs. */
  readonly rulesets: ReadonlyMap<Family, Ruleset>;
  readonly backends: Dumps['both'];
  readonly nft: NodeInput['nft'];
  /** Set if the tables of Cilium were compared: its version. */
  readonly cilium?: string;
}

export type AnalyzedStatus =
  | {readonly kind: 'checked'}
  | {readonly kind: 'unread' | 'unsupported' | 'not-served'; readonly reason: string; readonly remedy?: string};

/** All that a node has beside the rules of the mode that kube-proxy runs in. */
export interface NodeRules {
  /** The node's iptables rules in this family; of both backends if both are in use. */
  readonly iptables: readonly Ruleset[];
  /** Parsed when it is asked for; null if it was not read. */
  readonly nft: () => NftRuleset | null;
  /** The node's ipsets, where they were read. */
  readonly sets: ReadonlyMap<string, IpSet>;
  readonly api: ApiObjects;
}

/** What a node holds of iptables. */
export interface Dumps {
  readonly current: ReadonlyMap<Family, Ruleset>;
  readonly both: readonly {readonly family: Family; readonly nft: Ruleset; readonly legacy: Ruleset}[];
  /** The files whose rules have no counters. */
  readonly uncounted: ReadonlySet<string>;
  /** Why the rules of a family are not known: a file has two dumps of it, with other rules. */
  readonly contradictions: ReadonlyMap<Family, string>;
}

/** All that the kernel holds of a family, as far as it was read: both backends where both are in use. */
export function allOf({current, both}: Dumps, family: Family): readonly Ruleset[] {
  const pair = both.find(one => one.family === family);
  const one = current.get(family);
  return pair !== undefined ? [pair.nft, pair.legacy] : one === undefined ? [] : [one];
}

/** The differences of one Service. */
export interface ServiceDifferences {
  /** The number of objects that differ: rules, elements, servers. */
  readonly count: number;
  /** The parts of the dumps with a difference. Each part is of one moment, and kube-proxy may have written between two of them. */
  readonly parts: ReadonlySet<string>;
}

export function differingKey(family: string, service: string): string {
  return `${family} ${service}`;
}

/** The settings with the version whose rules the node's fit best, and how many differences are left; of those that fit alike, with the first. */
export function bestVersion(
  config: ProxyConfig,
  candidates: Iterable<KubeProxyVersion>,
  countDifferences: (config: ProxyConfig) => number,
) {
  let best = {config, differences: Number.POSITIVE_INFINITY};
  for (const version of candidates) {
    const candidate = withVersion(config, version);
    const differences = countDifferences(candidate);
    if (differences < best.differences) best = {config: candidate, differences};
    if (differences === 0) break;
  }
  return best;
}

/** The settings with the rules of another version; a version that was said keeps its name. */
function withVersion(config: ProxyConfig, {minor, patch}: KubeProxyVersion): ProxyConfig {
  const {value, source} = config.version;
  if (minor === value.minor && patch === value.patch) return config;
  const name = patch === null ? `1.${minor}` : `1.${minor}.${patch}`;
  if (value.guessed === undefined) {
    const evaluated = `${source}; evaluated with the rules of ${name}, which fit best`;
    return {...config, version: {value: {...value, minor, patch}, source: evaluated}};
  }
  const basis = source === seenInRules ? source : `${seenInRules}, which fit it better than ${value.text} (${source})`;
  return {...config, version: {value: {...aboutMinor(minor), text: `about v${name}`, patch}, source: basis}};
}

/**
 * What the node's rules show of its kube-proxy. In iptables and IPVS mode kube-proxy deletes its tables of nftables mode when it starts;
 * rules of iptables may stay behind in nftables mode: in the other backend, or because a third-party chain jumps to one of its chains.
 */
export function seenConfig(node: NodeDump, rulesets: Dumps['current'], nft: () => NftRuleset | null): InferredConfig {
  const tables = kubeProxyTables(nft());
  if (tables.some(({baseChains}) => baseChains.some(({ruleCount}) => ruleCount > 0))) return inferNftConfig(tables);
  const ipvs = inferIpvsConfig(rulesets);
  if (ipvs !== null) return ipvs;
  const seen = inferConfig(rulesets);
  const found = Object.keys(seen).length === 0 ? inferNftConfig(tables) : seen;
  return Object.keys(found).length === 0 && holdsVirtualServers(node) ? {mode: 'ipvs'} : found;
}

/** Where no rule shows a mode, as in a text with the output of ipvsadm alone. */
function holdsVirtualServers(node: NodeDump): boolean {
  const signs = {'kube-ipvs0.json': /"local"/, 'ipvsadm-save': serverRow, 'ipvsadm-part': serverRow};
  return Object.entries(signs).some(([file, sign]) => sign.test(fileText(node, file)));
}

/** Of `ipvsadm-save`, or of `ipvsadm -L`. */
const serverRow = /^\s*(?:-A -|TCP|UDP|SCTP)/m;
