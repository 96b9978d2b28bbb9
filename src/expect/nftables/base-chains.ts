import type {Family} from '../../model/address.ts';
import type {NftHook, NftTable} from '../../model/nft-ruleset.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {serviceRanges} from '../cluster/service-range.ts';
import type {NodeContext} from '../node-context.ts';
import {localhostCounter, localhostRejectChain, localhostRejectMap, rejectedOnLocalhost} from './nft-names.ts';
import * as versions from './nft-versions.ts';
import {mergeAddresses} from '../../parse/nftables/address-list.ts';

/** A chain that does not belong to one Service. */
export interface BaseRuleChain {
  readonly name: string;
  /** Null for a chain that other chains call. */
  readonly base: NftHook | null;
  readonly rules: readonly string[];
}

/** The base chains with their jumps, and the chains that all Services share. Follows `setupNFTables`. */
export function nftBaseRuleChains(context: NodeContext): readonly BaseRuleChain[] {
  return [...baseChains(context), ...checkChains(context), services(context), ...masquerade(context), ...firewall(context)];
}

function baseChains({version}: NodeContext): readonly BaseRuleChain[] {
  return [
    ...(version.minor <= 29 ? filters129 : versions.hasPreDNATChains(version) ? filters : filters130),
    base('nat-prerouting', ['nat', 'prerouting', -100], ['jump services']),
    base('nat-output', ['nat', 'output', -100], ['jump services']),
    base('nat-postrouting', ['nat', 'postrouting', 100], ['jump masquerading']),
  ];
}

type BaseChainHook = readonly [type: string, hook: string, priority: number];

function base(name: string, [type, hook, priority]: BaseChainHook, rules: readonly string[]): BaseRuleChain {
  return {name, base: {type, hook, priority, policy: 'accept'}, rules};
}

function filter(name: string, hook: string, priority: number, targets: readonly string[]): BaseRuleChain {
  return base(
    name,
    ['filter', hook, priority],
    targets.map(target => (target === 'forward' ? 'jump forward' : `ct state new jump ${target}`)),
  );
}

const filters: readonly BaseRuleChain[] = [
  filter('filter-prerouting-pre-dnat', 'prerouting', -110, ['firewall-check']),
  filter('filter-output-pre-dnat', 'output', -110, ['firewall-check']),
  filter('filter-input', 'input', 0, ['nodeport-endpoints-check', 'service-endpoints-check']),
  filter('filter-forward', 'forward', 0, ['service-endpoints-check', 'cluster-ips-check']),
  filter('filter-output', 'output', 0, ['service-endpoints-check', 'cluster-ips-check']),
];

const filters130: readonly BaseRuleChain[] = [
  filter('filter-prerouting', 'prerouting', -110, ['firewall-check']),
  filter('filter-input', 'input', -110, ['nodeport-endpoints-check', 'service-endpoints-check']),
  filter('filter-forward', 'forward', -110, ['service-endpoints-check', 'cluster-ips-check']),
  filter('filter-output', 'output', -110, ['service-endpoints-check', 'firewall-check']),
  filter('filter-output-post-dnat', 'output', -90, ['cluster-ips-check']),
];

const filters129: readonly BaseRuleChain[] = [
  filter('filter-input', 'input', -101, ['endpoints-check', 'firewall-check']),
  filter('filter-forward', 'forward', -101, ['endpoints-check', 'forward', 'firewall-check']),
  filter('filter-output', 'output', -101, ['endpoints-check', 'firewall-check']),
];

/** Base chains of other versions, which an upgrade or a downgrade leaves behind: their rules jump to the same chains. */
export function formerChains(context: NodeContext): readonly BaseRuleChain[] {
  const [own, others] = versions.hasPreDNATChains(context.version) ? [filters, filters130] : [filters130, filters];
  const former = others.filter(({name}) => !own.some(chain => chain.name === name));
  return versions.rewritesInServiceChain(context.version) ? [...former, markChain(context)] : former;
}

function chain(name: string, rules: readonly string[]): BaseRuleChain {
  return {name, base: null, rules};
}

/** `ip daddr . meta l4proto . th dport`. */
function entryKey({family}: NodeContext): string {
  return `${ipWord(family)} daddr . meta l4proto . th dport`;
}

/** The destinations of node ports: some addresses of the node, or all except loopback addresses. */
function nodePortMatch({family, nodePortCIDRs}: NodeContext): string {
  const daddr = `${ipWord(family)} daddr`;
  if (nodePortCIDRs !== null) return `${daddr} @nodeport-ips`;
  return `${daddr} != ${family === 'IPv4' ? '127.0.0.0/8' : '::1'}`;
}

function checkChains(context: NodeContext): readonly BaseRuleChain[] {
  const refusals = `${entryKey(context)} vmap @no-endpoint-services`;
  const nodePorts = `${nodePortMatch(context)} meta l4proto . th dport vmap @no-endpoint-nodeports`;
  const local = context.nodePortCIDRs === null ? 'fib daddr type local ' : '';
  const checks = versions.splitsEndpointsCheck(context.version)
    ? [chain('nodeport-endpoints-check', [nodePorts, ...localhostCheck(context)]), chain('service-endpoints-check', [refusals])]
    : [chain('endpoints-check', [refusals, local + nodePorts])];
  return [...checks, ...clusterIPsCheck(context), chain('reject-chain', ['reject']), ...localhostChains(context)];
}

/** Connections to processes of the node that listen on a node port of a loopback address are rejected too. */
function localhostCheck(context: NodeContext): readonly string[] {
  if (rejectedOnLocalhost(context).length === 0) return [];
  const loopback = context.family === 'IPv4' ? 'ip daddr 127.0.0.0/8' : 'ip6 daddr ::1';
  return [`${loopback} meta l4proto . th dport vmap @${localhostRejectMap}`];
}

function localhostChains(context: NodeContext): readonly BaseRuleChain[] {
  return rejectedOnLocalhost(context).map(protocol =>
    chain(localhostRejectChain(protocol), [`counter name "${localhostCounter(protocol)}" reject`]),
  );
}

function clusterIPsCheck({family, version, serviceRanges = []}: NodeContext): readonly BaseRuleChain[] {
  const rule = `${ipWord(family)} daddr @cluster-ips reject${nftComment('Reject traffic to invalid ports of ClusterIPs')}`;
  const unallocated = serviceRanges.length === 0 ? [] : [serviceRangeRule(family, serviceRanges)];
  return versions.checksClusterIPs(version) ? [chain('cluster-ips-check', [rule, ...unallocated])] : [];
}

/** The rule of cluster-ips-check that drops packets to addresses of the Service range that no Service has. */
export function serviceRangeRule(family: Family, ranges: readonly string[]): string {
  return `${ipWord(family)} daddr ${addressList(ranges)} drop${nftComment('Drop traffic to unallocated ClusterIPs')}`;
}

/** Whether a rule of cluster-ips-check, without its comment, is one that `serviceRangeRule` makes. */
export function isServiceCIDRRule(body: string): boolean {
  return /^ip6? daddr [^@!]+ drop$/.test(body);
}

function services(context: NodeContext): BaseRuleChain {
  const local = context.nodePortCIDRs === null ? 'fib daddr type local ' : '';
  return chain('services', [
    ...clusterIPMark(context),
    `${entryKey(context)} vmap @service-ips`,
    `${local}${nodePortMatch(context)} meta l4proto . th dport vmap @service-nodeports`,
  ]);
}

function clusterIPMark(context: NodeContext): readonly string[] {
  if (!versions.rewritesInServiceChain(context.version)) return [];
  const ip = ipWord(context.family);
  const daddr = `${ip} daddr @cluster-ips`;
  if (context.masqueradeAll) return [`${daddr} ${setMarkStatement(context)}${nftComment('masquerade all clusterIP traffic')}`];
  const others = detects(context, false, {source: (network, isNegated) => nftSourceText(ip, network, isNegated), link: linkText});
  if (others === null) return [];
  return [`${daddr} ${others} ${setMarkStatement(context)}${nftComment('masquerade clusterIP traffic from outside cluster')}`];
}

function masquerade(context: NodeContext): readonly BaseRuleChain[] {
  const {family, version, mark} = context;
  const ip = ipWord(family);
  if (versions.rewritesInServiceChain(version))
    return [
      chain('masquerading', [
        `meta mark & ${mark} != 0x00000000 meta mark set meta mark ^ ${mark} masquerade fully-random`,
        `ct status dnat ${ip} saddr . ${ip} daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random`,
      ]),
    ];
  const rules = [`meta mark & ${mark} == 0x00000000 return`, `meta mark set meta mark ^ ${mark}`, 'masquerade fully-random'];
  return [chain('masquerading', rules), markChain(context)];
}

function markChain(context: NodeContext): BaseRuleChain {
  return chain('mark-for-masquerade', [setMarkStatement(context)]);
}

function firewall(context: NodeContext): readonly BaseRuleChain[] {
  const {family, version, invalidDrop} = context;
  const key = entryKey(context);
  if (versions.hasFirewallChains(version)) return [chain('firewall-check', [`${key} vmap @firewall-ips`])];
  return [
    chain('forward', invalidDrop ? ['ct state invalid drop'] : []),
    chain('firewall-check', [`${key} @firewall jump firewall-allow-check`]),
    chain('firewall-allow-check', [`${key} . ${ipWord(family)} saddr @firewall-allow return`, 'drop']),
  ];
}

interface DroppedRangesInput {
  readonly api: ApiObjects;
  readonly config: ProxyConfig;
  readonly family: Family;
  /** The node's own table: its rule shows the ranges where the ServiceCIDRs were not read. */
  readonly table: NftTable | null;
}

/** The networks whose unallocated addresses a kube-proxy in nftables mode drops packets to; undefined where they are not known. */
export function droppedRanges({api, config, family, table}: DroppedRangesInput): readonly string[] | undefined {
  if (!versions.dropsUnallocated(config.version.value, config.featureGates.value)) return [];
  return serviceRanges(api, family) ?? rangesInTable(table);
}

function rangesInTable(table: NftTable | null): readonly string[] | undefined {
  const rule = table?.chains
    .get('cluster-ips-check')
    ?.rules()
    .find(({body}) => isServiceCIDRRule(body));
  return rule === undefined ? undefined : networksIn(rule.body);
}

/** The networks that a rule of cluster-ips-check names. */
export function networksIn(body: string): readonly string[] {
  return [...body.matchAll(/[0-9a-f.:]*[.:][0-9a-f.:]*(?:\/\d+|-[0-9a-f.:]+)?/g)].map(([found]) => found);
}

/** How the match for pods is written: as statements of a rule, or as text. */
interface DetectorWriter<Result> {
  source(network: string, isNegated: boolean): Result;
  link(key: 'iif' | 'iifname', name: string, isNegated: boolean): Result;
}

/** Writes the match for traffic of this node's pods, or for all other traffic; null if kube-proxy cannot detect pods (`detectsPods`). */
export function detects<Result>({detector, version}: NodeContext, local: boolean, writer: DetectorWriter<Result>): Result | null {
  if (detector.kind === 'none') return null;
  if (detector.kind === 'cidr') return writer.source(detector.cidr, !local);
  return writer.link(versions.matchesInterfaceName(version) ? 'iifname' : 'iif', detector.name.replace(/\+$/, '*'), !local);
}

export function detectsPods({detector}: NodeContext): boolean {
  return detector.kind !== 'none';
}

/** Parts of rules in the spelling of `nft list ruleset`. */

/** `ip` or `ip6`. */
export function ipWord(family: Family): 'ip' | 'ip6' {
  return family === 'IPv4' ? 'ip' : 'ip6';
}

function nftComment(text: string): string {
  return ` comment "${text}"`;
}

function setMarkStatement({mark}: NodeContext): string {
  return `meta mark set meta mark | ${mark}`;
}

/** A network, without the prefix if it is a single host. */
export function prefixText(cidr: string): string {
  return cidr.replace(/^([^:]*)\/32$/, '$1').replace(/\/128$/, '');
}

/** `ip saddr 10.244.0.0/16`, or with `!=`. */
function nftSourceText(ip: string, network: string, isNegated: boolean): string {
  return `${ip} saddr ${isNegated ? '!= ' : ''}${prefixText(network)}`;
}

/** `iifname "NAME"`, or with `!=`. */
function linkText(key: 'iif' | 'iifname', name: string, isNegated: boolean): string {
  return `${key} ${isNegated ? '!= ' : ''}"${name}"`;
}

/** A list of networks as nft lists it: sorted, overlapping and adjacent ones merged; braces unless one was written. */
function addressList(networks: readonly string[]): string {
  const texts = mergeAddresses(networks) ?? networks;
  return networks.length === 1 ? (texts[0] ?? '') : `{ ${texts.join(', ')} }`;
}
