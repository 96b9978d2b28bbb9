import {allOf, ipsetsOf, type NodeData, seenConfig} from '../analyze/proxy-mode.ts';
import {environmentOf, collectPathOutcome, type PathOutcome} from '../analyze/outcomes/environment.ts';
import {forwardingOff} from '../analyze/outcomes/kernel-obstacle.ts';
import {withBound, type WrittenSide, writtenSide} from '../analyze/expected-side.ts';
import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import {droppedRanges} from '../expect/nftables/base-chains.ts';
import {expectIpvs} from '../expect/ipvs/expected-ipvs.ts';
import {proxyTableId} from '../expect/nftables/expected-table.ts';
import {heldIn, keptWith, once, onceAsked} from '../model/once.ts';
import {isBaseChain} from '../expect/iptables/expected-ruleset.ts';
import {listChain} from '../analyze/iptables/chain-texts.ts';
import {thirdPartyChains} from '../analyze/third-party/iptables-rules.ts';
import {families, type Family, parseCidr} from '../model/address.ts';
import type {NftChains, NftRuleset, NftSource, NftTableSource} from '../model/nft-ruleset.ts';
import type {PreviewOutcome, PreviewSettings} from '../model/preview-result.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import type {Chain, ChainSource, Rule, Ruleset} from '../model/ruleset.ts';
import type {ConnectionOutcome, Environment, Outcome, Packet} from '../trace/walked-packet.ts';
import {isShownByIptables, walkConnection, walkSide} from '../trace/side.ts';
import type {Intervals} from '../model/intervals.ts';
import {readDumps} from '../analyze/iptables/node-rulesets.ts';
import {boundOf, hostFacts, type IpvsState, readIpvsState} from '../analyze/ipvs/ipvs-state.ts';
import type {IpSet} from '../parse/ipvs/ipset-save.ts';
import {readNft} from '../analyze/nftables/nft-rules.ts';
import {resolveNftVersion} from '../analyze/nftables/resolve-nft-version.ts';
import {resolveVersion} from '../analyze/iptables/resolve-version.ts';
import {servedInAnyFamily} from '../expect/cluster/served-port.ts';
import {nodeFacts} from '../expect/read-node-facts.ts';
import {type ConfigOverrides, resolveProxyConfig} from '../expect/resolve-proxy-config.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {matchesInterfaceName} from '../expect/nftables/nft-versions.ts';

interface ExpectedSideInput {
  readonly setup: NodeSetup;
  readonly view: ClusterView;
  readonly config: ProxyConfig;
  readonly family: Family;
  /** The third-party rules of the node; without them there are only kube-proxy's rules. */
  readonly besideOthers: boolean;
}

/** The rules that kube-proxy with these settings would write, in place of its current ones. */
export function expectedSide(input: ExpectedSideInput): WalkedSide {
  const {setup, family, besideOthers} = input;
  // Settings are those of one node, and several parts of a preview ask for its rules.
  const side = keptWith(writtenFor(input.view)(input.config), input.family, () => writtenRules(input));
  if (!besideOthers) return side;
  const [first, ...rest] = allOf(setup.dumps, family);
  const [own = null] = side.iptables;
  const iptables = first === undefined ? side.iptables : [rulesAfter(first, own), ...rest.map(one => rulesAfter(one, null))];
  const tableSources = tablesAfter(setup, family, side.nft?.tableSources ?? []);
  return {...side, iptables, nft: {tableSources}, isIptablesYounger: first === undefined};
}

/** kube-proxy keeps the table that it has, in its place among the others, and a new one is the youngest. It removes those of other modes. */
function tablesAfter(setup: NodeSetup, family: Family, written: readonly NftTableSource[]): readonly NftTableSource[] {
  const today = setup.nft()?.tableSources ?? [];
  const isKept = today.some(({id}) => id === proxyTableId(family));
  const tables = today.flatMap(table => (!isOfKubeProxy(table) ? [table] : table.id === proxyTableId(family) ? written : []));
  return isKept ? tables : [...tables, ...written];
}

const writtenFor = once((_: ClusterView) => once((_: ProxyConfig): object => ({})));

function writtenRules({setup, view, config, family}: ExpectedSideInput): WrittenSide {
  const table = setup.nft()?.tables.get(proxyTableId(family)) ?? null;
  const side = writtenSide({
    view,
    config,
    family,
    table,
    facts: setup.hostFacts(),
    sets: setup.sets(),
    ruleset: setup.config.mode.value === 'iptables' ? (setup.dumps.current.get(family) ?? null) : null,
    serviceRanges: config.mode.value === 'nftables' ? droppedRanges({api: setup.api, config, family, table}) : undefined,
  });
  return {...side, environment: withForwarding(side.environment, side.local)};
}

/** Where a node forwards nothing, no change of its rules does. */
function withForwarding(environment: Environment, facts: NodeFacts): Environment {
  const isForwarded = ({origin, destination}: Packet): boolean => origin !== 'node' && environment.isLocal(destination) !== true;
  return {...environment, obstacle: packet => (isForwarded(packet) ? forwardingOff(facts, packet.family) : null)};
}

/** The current rules of the node. */
export function actualSide(setup: NodeSetup, view: ClusterView, family: Family): WalkedSide {
  const {config} = setup;
  const {context, ports, expected} = expectedSide({setup, view, config, family, besideOthers: false});
  const isIpvs = config.mode.value === 'ipvs';
  const local = isIpvs ? withBound(setup.hostFacts(), setup.bound()) : setup.facts;
  return {
    context,
    ports,
    expected,
    local,
    iptables: allOf(setup.dumps, family),
    nft: tablesToday(setup, family),
    environment: withForwarding(
      environmentOf(local, {sets: setup.sets(), ...(isIpvs ? {servers: setup.ipvs().servers ?? []} : {})}),
      local,
    ),
  };
}

/** Where the dump ends before kube-proxy's table, there is one of which nothing is known. */
function tablesToday({nft, config}: NodeSetup, family: Family): NftSource | null {
  const ruleset = nft();
  const id = proxyTableId(family);
  if (ruleset === null || ruleset.truncation === null || config.mode.value !== 'nftables' || ruleset.tables.has(id)) return ruleset;
  const unread: NftTableSource = {
    id,
    family: family === 'IPv4' ? 'ip' : 'ip6',
    baseChains: [],
    declared: false,
    chain: () => undefined,
    set: () => undefined,
  };
  return {tableSources: [...ruleset.tableSources, unread]};
}

/** Chains that belong to one Service port or endpoint, of iptables. */
export const serviceChains = ['KUBE-SVC-', 'KUBE-SVL-', 'KUBE-SEP-', 'KUBE-EXT-', 'KUBE-FW-', 'KUBE-XLB-'];

export const jumpsToServiceChain = new RegExp(`(?:-j|-g|jump|goto) (?:${serviceChains.join('|')})`);

/**
 * The iptables rules of a node after kube-proxy removed its own and wrote those of `written`. Built-in chains contain kube-proxy's jumps in
 * their old position, or first, and all third-party rules. Without `written`, only the latter remain.
 */
function rulesAfter(actual: Ruleset, written: ChainSource | null): ChainSource & Pick<Ruleset, 'backend'> {
  const make = (table: string, name: string): Chain | undefined => {
    const own = actual.chain(table, name);
    const other = written?.chain(table, name);
    if (!isBaseChain(name)) return other ?? own;
    const rules = own?.rules() ?? [];
    const place = Math.max(0, rules.findIndex(isProxyJump));
    const others = rules.filter(rule => !isProxyJump(rule));
    const before = rules.slice(0, place).filter(rule => !isProxyJump(rule)).length;
    const all = others.toSpliced(before, 0, ...(other?.rules() ?? []));
    return listChain({table, name, policy: own?.policy ?? 'ACCEPT', complete: true}, all);
  };
  const made = new Map<string, {readonly chain: Chain | undefined}>();
  return {
    family: actual.family,
    backend: actual.backend,
    hasTable: table => actual.hasTable(table) || (written?.hasTable(table) ?? false),
    chain: (table, name) => heldIn(made, `${table}/${name}`, () => ({chain: make(table, name)})).chain,
  };
}

/** kube-proxy deletes its jumps, except those to KUBE-FIREWALL, which the kubelet used as well. Others with `KUBE-` are kube-router's. */
function isProxyJump({target}: Rule): boolean {
  return target !== null && /^KUBE-(?!FIREWALL$|KUBELET|IPTABLES-HINT|ROUTER-|NWPLCY-|POD-FW-)/.test(target.name);
}

/** The tables of nftables that are neither kube-proxy's nor in the dump of iptables. */
export function otherTables(nft: NftRuleset | null, iptables: readonly Ruleset[]): readonly NftTableSource[] {
  return (nft?.tableSources ?? []).filter(table => !isOfKubeProxy(table) && !isShownByIptables(table, iptables));
}

function isOfKubeProxy({id}: NftTableSource): boolean {
  return id.endsWith(' kube-proxy');
}

/** The texts of all rules of a node, in one family, outside of kube-proxy's own chains and tables. */
export function thirdPartyTexts(setup: NodeSetup, family: Family): readonly string[] {
  const iptables = allOf(setup.dumps, family);
  const tables = otherTables(setup.nft(), iptables);
  const nft = tables.flatMap(table => [...('chains' in table ? (table.chains as NftChains).values() : [])].map(chain => chain.text()));
  return [...iptables.flatMap(textsBeside), ...nft];
}

/**
 * Whether the reply to a packet may be lost on one side alone: KUBE-FORWARD accepts those of established connections, nftables mode does not,
 * and other rules or policies drop.
 */
export function walksReplies(
  {setup, configAfter, expectedOnly}: {readonly setup: NodeSetup; readonly configAfter: ProxyConfig; readonly expectedOnly: boolean},
  family: Family,
): boolean {
  const isNft = [setup.config, configAfter].map(({mode}) => mode.value === 'nftables');
  if (expectedOnly || isNft[0] === isNft[1]) return false;
  const iptables = allOf(setup.dumps, family);
  return (
    iptables.some(ruleset => ruleset.chain('filter', 'FORWARD')?.policy === 'DROP') ||
    otherTables(setup.nft(), iptables).some(({baseChains}) => baseChains.some(({base}) => base?.policy === 'drop')) ||
    thirdPartyTexts(setup, family).some(text => /\b(?:DROP|REJECT|drop|reject)\b/.test(text))
  );
}

const textsBeside = once((ruleset: Ruleset): readonly string[] => thirdPartyChains(ruleset).flatMap(linesOf));

/** The texts of its rules, none of which is parsed. */
function linesOf(chain: Chain): readonly string[] {
  const text = chain.text();
  return text === '' ? [] : text.split('\n');
}

/** One of the two sides of a node in one family. */
export interface WalkedSide extends WrittenSide {
  /** The addresses of the node's pods, where replies are walked as well; see `walksReplies`. */
  readonly pods?: Intervals;
}

/**
 * Where the first packet of a connection ends on one side. It holds no rules: outcomes are kept for other nodes, and rules would keep the
 * dumps of the node in memory.
 */
export interface SideOutcome extends Pick<PathOutcome, 'passed' | 'rejected' | 'dropped' | 'undecided'> {
  /** Endpoints by `ip:port`. */
  readonly destinations: ReadonlyMap<string, SideShare>;
  /** What drops or rejects the packet first; null if nothing does. */
  readonly refusal: Refusal | null;
}

export interface SideShare {
  readonly probability: number;
  readonly masquerade: boolean;
}

/** The chain of the last rule that the packet matched; null if it matched none. */
interface Refusal {
  readonly byPolicy: boolean;
  readonly last: {readonly table: string; readonly chain: string} | null;
}

export function sideOutcome(side: WalkedSide, packet: Packet): SideOutcome {
  const outcomes = walkedOutcomes(side, packet);
  const {passed, rejected, dropped, undecided, destinations} = collectPathOutcome(outcomes);
  const shares = [...destinations].map(([name, {probability, masquerade}]) => [name, {probability, masquerade}] as const);
  return {passed, rejected, dropped, undecided, destinations: new Map(shares), refusal: refusalIn(outcomes)};
}

/** The outcomes with the rules on their ways: walked again, as what is kept for other nodes holds no rules. */
export function withPaths(side: WalkedSide, packet: Packet, outcomes: readonly PreviewOutcome[]): readonly PreviewOutcome[] {
  const walked = walkedOutcomes(side, packet);
  const {destinations} = collectPathOutcome(walked);
  return outcomes.map(outcome => {
    const share = outcome.destination === null ? undefined : destinations.get(outcome.destination);
    return {...outcome, path: (share ?? walked.find(({verdict}) => verdict === outcome.verdict))?.path ?? []};
  });
}

function walkedOutcomes(side: WalkedSide, packet: Packet): readonly Outcome[] {
  const {pods, environment} = side;
  // A load balancer may put its address on the node, where the reply would come back.
  const isAnswered = packet.origin !== 'node' || environment.isLocal(packet.source) === true;
  if (pods === undefined || !isAnswered) return walkSide(side, packet);
  return walkConnection(side, packet, {pods, signature: text => text}).map(withReply);
}

/** A connection whose reply a rule keeps away is not served. Whether an endpoint sees itself as its client is told by its hairpin. */
function withReply({lost, ...outcome}: ConnectionOutcome): Outcome {
  if (lost === undefined || lost.outcome.path.length + (lost.outcome.policy?.length ?? 0) === 0) return outcome;
  const {verdict, policy, path} = lost.outcome;
  return {...outcome, verdict, path, destination: null, policy: policy ?? outcome.policy};
}

function refusalIn(outcomes: readonly Outcome[]): Refusal | null {
  const found = outcomes.find(({verdict}) => verdict === 'drop' || verdict === 'reject');
  if (found === undefined) return null;
  const last = found.path.at(-1);
  return {byPolicy: found.policy !== undefined, last: last === undefined ? null : {table: last.table, chain: last.chain}};
}

/** A node whose rules are to be written for other settings. Dumps are parsed once, when they are first asked for. */
export interface NodeSetup extends NodeData {
  /** All ipsets of the node. */
  readonly sets: () => ReadonlyMap<string, IpSet>;
  readonly ipvs: () => IpvsState;
  /** The addresses bound to kube-ipvs0. Where they were not read, they are taken to be as expected, as `check` does. */
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
  const base = {node, api, view, facts, dumps, nft, ipvs, sets: onceAsked(() => ipsetsOf(node))};
  const config = resolvedConfig({...base, config: given});
  const own = (): NodeFacts => hostFacts(facts, ipvs(), servedInAnyFamily({view, config}), config.version.value);
  const ownFacts = onceAsked(own);
  const boundAsExpected = (family: Family): readonly string[] =>
    boundOf(expectIpvs({view, config, facts: ownFacts(), family, bound: []}), ipvs());
  const bound = onceAsked(() => ipvs().bound ?? (config.mode.value === 'ipvs' ? families.flatMap(boundAsExpected) : []));
  return {...base, config, hostFacts: ownFacts, bound};
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
