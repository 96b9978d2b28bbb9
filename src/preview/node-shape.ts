import {heldIn} from '../model/once.ts';
import {asExpectation} from '../analyze/iptables/resolve-version.ts';
import {endpointChange} from '../analyze/iptables/service-port/endpoint-change.ts';
import {compareIpvs} from '../analyze/ipvs/ipvs-state.ts';
import {asNftExpectation} from '../analyze/nftables/resolve-nft-version.ts';
import {forwardingOff} from '../analyze/outcomes/kernel-obstacle.ts';
import {podNetworkOf, sourcesFor} from '../analyze/outcomes/sources.ts';
import {allOf} from '../analyze/proxy-mode.ts';
import {compareNftTable} from '../compare/compare-nft-table.ts';
import {compareRulesets} from '../compare/compare-rulesets.ts';
import {parseChainName} from '../expect/iptables/chain-names.ts';
import {ExpectedRuleset} from '../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../expect/iptables/service-rules.ts';
import type {ExpectedIpvs} from '../expect/ipvs/expected-ipvs.ts';
import {ExpectedTable, proxyTableId} from '../expect/nftables/expected-table.ts';
import {parseNftName} from '../expect/nftables/nft-names.ts';
import {type NodeContext, nodePortDestinations} from '../expect/node-context.ts';
import {type Cidr, contains, families, type Family, parseAddress, parseCidr} from '../model/address.ts';
import type {ServedPort} from '../model/endpoint.ts';
import type {NftTable} from '../model/nft-ruleset.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import type {Chain, OwnerRules, RuleText, Table} from '../model/ruleset.ts';
import {serverKey, type VirtualServer} from '../model/virtual-server.ts';
import {parseInterval} from '../parse/nftables/address-list.ts';
import {type NodeSetup, jumpsToServiceChain, otherTables, serviceChains, type WalkedSide} from './sides.ts';
import {nodeAddresses} from './preview-probes.ts';

export interface NodeShapeInput {
  readonly setup: NodeSetup;
  readonly configAfter: ProxyConfig;
  readonly before: WalkedSide;
  readonly after: WalkedSide;
  /** No rules of the node are on either side. */
  readonly expectedOnly: boolean;
  /** See `restOfRules`. */
  readonly rest: string;
  /** The networks in rules that do not belong to Service ports. */
  readonly networks: readonly Cidr[];
}

/**
 * All that decides about packets to a Service port on a node, beside the Service port and its endpoints: kube-proxy's settings and version,
 * the other rules of the node, and what rules match of its addresses. Packets to Service ports of one shape have like outcomes on all nodes
 * of one shape.
 */
export function nodeShape({setup, configAfter, before, after, expectedOnly, rest, networks}: NodeShapeInput): string {
  const contexts = [before.context, after.context];
  const places = addressShape([before, after], [...networks, ...contexts.flatMap(podNetworksOf)]);
  const settings = [setup.config, configAfter].map(settingsOf);
  const unforwarded = families.filter(family => forwardingOff(setup.facts, family) !== null);
  const asked = askedByRules.map(name => setup.facts.network.sysctls?.get(name));
  return JSON.stringify([expectedOnly, settings, contexts, places, rest, unforwarded, asked, paths(setup, before, rest)], withoutAddresses);
}

/** What rules may ask the kernel for beside addresses and interfaces: IPsec, queues, and with how many hops the node sends. */
const askedByRules = ['net.xfrm.states', 'net.xfrm.policies', 'net.netfilter.queues', 'net.ipv4.ip_default_ttl'];

/** Where rules match interfaces, all that tells which packets pass which one. Routes name the node's own networks: such nodes are hardly ever alike. */
function paths({facts: {network, onLink}}: NodeSetup, {context: {detector}}: WalkedSide, rest: string): string | null {
  if ((detector.kind === 'cidr' || detector.kind === 'none') && !matchesInterfaces.test(rest)) return null;
  const withTexts = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);
  // The address is the node's own, the network is that of all.
  const networks = onLink?.map(({name, network}) => [name, parseInterval(network)]);
  return JSON.stringify([networks, network.links, network.routes, network.policyRules], withTexts);
}

const matchesInterfaces = /(?:^|\s)(?:-[io]|--physdev\S+|[io]if(?:name|type|group|kind)?|--rpfilter|--limit-iface\S+|fib)\s/m;

/** All settings but those that only choose endpoints, which each Service port shows. */
function settingsOf(config: ProxyConfig): unknown {
  return Object.entries(config).map(([name, {value}]) => (name === 'nodeName' || name === 'zone' ? null : value));
}

const ownAddresses = new Set(['facts', 'nodeIP', 'nodePortCIDRs', 'nodeAddresses', 'cidr', 'base']);

/** Leaves out a node's addresses and networks: what rules match of them is in `addressShape`. */
function withoutAddresses(name: string, value: unknown): unknown {
  return ownAddresses.has(name) ? undefined : value;
}

/** Of each address that sends or receives probes, its place in the networks of rules, and whether it is the node's. */
function addressShape(sides: readonly WalkedSide[], networks: readonly Cidr[]): unknown {
  const contexts = sides.map(({context}) => context);
  const known = new Map<string, string>();
  const places = (text: string): string => heldIn(known, text, placesOf);
  const placesOf = (text: string): string => {
    const address = parseAddress(text);
    const own = sides.map(({local, context}) => [local.addresses.includes(text), nodePortDestinations(context)?.includes(text) ?? null]);
    return [...own.flat(), ...networks.map(network => address !== null && contains(network, address))].map(Number).join('');
  };
  return [
    contexts.map(({nodePortCIDRs}) => nodePortCIDRs === null),
    contexts.map(context => sourcesFor(anyPort, context, new Set()).map(({address, ...source}) => [source, places(address)])),
    contexts.map(context => nodeAddresses(context).map(places)),
    ['127.0.0.1', '::1'].map(places),
  ];
}

const anyPort = {sourceRanges: [], loadBalancerVIPs: []};

/** The networks by which a side tells pods. */
export function podNetworksOf(context: NodeContext): readonly Cidr[] {
  const detector = context.detector.kind === 'cidr' ? parseCidr(context.detector.cidr) : null;
  return [podNetworkOf(context), detector].flatMap(network => network ?? []);
}

/** A set of nftables mode remembers clients, so that their packets go where earlier ones went. */
export function hasKnownClients(setup: NodeSetup, family: Family): boolean {
  const sets = setup.nft()?.tables.get(proxyTableId(family))?.sets.values() ?? [];
  return [...sets].some(({timeout, elements}) => timeout !== null && elements.size > 0);
}

/**
 * Tells the Service ports whose packets these rules may send to the chains of another one, whose rules are not theirs. The rules are those
 * of a node that are not expected: of Services that were deleted, and of others than kube-proxy. The names are those of all Service ports.
 */
export function ledPorts(rules: readonly string[], names: ReadonlySet<string>): (item: ServedPort) => boolean {
  const hosts = new Set<string>();
  const nodePorts = new Set<number>();
  for (const rule of rules) {
    // Then kube-proxy's current chains are reached after the change too.
    if (jumpsToEntries.test(rule) && !isBuiltIn.test(rule)) return () => true;
    if (leadsToService(rule, names)) return () => true;
    if (!jumpsToServiceChain.test(rule)) continue;
    const plain = rule.replace(/"(?:[^"\\]|\\.)*"/g, '""');
    const host = /^-A KUBE-SERVICES -d ([^/ ]+)\/(?:32|128) /.exec(plain)?.[1];
    const nodePort = /^-A KUBE-NODEPORTS .*(?<!!) --dport (\d+) /.exec(plain)?.[1];
    if (host !== undefined) hosts.add(host);
    else if (nodePort !== undefined) nodePorts.add(Number(nodePort));
    else return () => true;
  }
  if (hosts.size + nodePorts.size === 0) return () => false;
  return ({port: {clusterIP, externalIPs, loadBalancerVIPs, nodePort}}) =>
    nodePorts.has(nodePort) || [clusterIP, ...externalIPs, ...loadBalancerVIPs].some(address => hosts.has(address));
}

/** In nftables mode: a rule, and not an element of a map, which has the address of one Service, leads to the chains of a Service port. */
function leadsToService(rule: string, names: ReadonlySet<string>): boolean {
  if (isElement.test(rule)) return false;
  return [...rule.matchAll(/(?:jump|goto) ([^\s,}]+)/g)].some(([, chain = '']) => {
    const parsed = parseNftName(chain);
    return parsed !== null && (names.has(parsed.servicePortName) || chain.endsWith('...'));
  });
}

const isElement = /^\S+ \. \S+(?: \. \S+)? : goto /;

/** The chains with the entries of all Services. The built-in chains jump there, and do not after a change of the mode. */
const jumpsToEntries = /(?:-j|-g|jump|goto) KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|PROXY-FIREWALL)(?:\s|$)/;
const isBuiltIn = /^-A (?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING|KUBE-SERVICES) /;

/** Service ports whose rules on the node are not the expected ones, and what else is on it. */
export interface Deviations {
  readonly ports: ReadonlySet<ServedPort>;
  /** Service ports, not among `ports`, whose rules are those of other endpoints and no others: each as its rules are. */
  readonly written: ReadonlyMap<ServedPort, ServedPort>;
  /** Service ports, not among `ports`, that IPVS also has servers of endpoints for that end: that is healthy, and hashes reach them. */
  readonly ending: ReadonlySet<ServedPort>;
  /** The texts of what differs and does not belong to a Service port. */
  readonly texts: readonly string[];
  /** The texts of what belongs to one of `ports`, and packets to others can reach. */
  readonly ofPorts: readonly string[];
  /** See `restOfRules`. */
  readonly rest: string | null;
}

/** What distinguishes Service ports on a node beside their own fields; null if there are no actual rules to compare with. */
export function deviationsOf({expected, context: {family}}: WalkedSide, setup: NodeSetup): Deviations | null {
  if (expected instanceof ExpectedTable) return ofTable(expected, setup);
  if (expected instanceof ExpectedRuleset) return ofChains(expected, setup);
  const servers = setup.ipvs().servers;
  if (servers === null) return null;
  const found = ofServers(expected, servers);
  const others = otherIpvsDeviations(expected, setup);
  const ports = new Set([...found.ports, ...others.ports]);
  const isAsExpected = others.isComplete && ports.size + found.texts.length === 0;
  return {...found, ofPorts: [], ports, written: new Map(), rest: isAsExpected ? restOfRules(setup, family) : null};
}

function ofTable(expected: ExpectedTable, setup: NodeSetup): Deviations | null {
  const {family} = expected.context;
  const table = setup.nft()?.tables.get(proxyTableId(family));
  if (table === undefined) return null;
  const {differences, unexpectedChains} = compareNftTable(asNftExpectation(expected), table);
  const found = byOwner(differences);
  // Only rules that differ call unexpected chains.
  const unexpected = unexpectedChains.map(chain => chain.text());
  const isAsExpected = found.texts.length === 0 && table.complete;
  return {
    ports: found.ports,
    written: new Map(),
    ending: new Set(),
    texts: isAsExpected ? [] : [...found.texts, ...unexpected],
    ofPorts: isAsExpected ? [...found.ofPorts, ...unexpected] : found.ofPorts,
    rest: isAsExpected ? restOfRules(setup, family) : null,
  };
}

function ofChains(expected: ExpectedRuleset, setup: NodeSetup): Deviations | null {
  const {family} = expected.context;
  const ruleset = setup.dumps.current.get(family);
  if (ruleset === undefined) return null;
  const changed = new Map<ServedPort, ServedPort>();
  const explain = (item: PortOnNode, {own}: OwnerRules): readonly string[] | null => {
    const change = endpointChange(item, own, {expected, actual: ruleset});
    if (change === null) return null;
    changed.set(item, change.written);
    return [];
  };
  const expectation = asExpectation(expected);
  const isWhole = ruleset.tables.get('nat')?.complete === true;
  const {differences} = compareRulesets(isWhole ? {...expectation, explain} : expectation, ruleset);
  const compared = new Set([...expected.baseRules().keys()].filter(key => !expectation.open.has(key)));
  // Of a rule in a chain of kube-proxy's, the comparison does not tell the place.
  const isShown = differences.every(({owner, rule: {table, chain}}) => owner !== null || !compared.has(`${table}/${chain}`));
  const found = byOwner(differences);
  return {
    ...found,
    ending: new Set(),
    written: new Map([...changed].filter(([item]) => !found.ports.has(item))),
    ofPorts: byOwner(differences.filter(({rule}) => parseChainName(rule.chain) === null)).ofPorts,
    rest: isShown ? restOfRules(setup, family, compared) : null,
  };
}

function byOwner(
  differences: readonly {readonly rule: RuleText; readonly owner: ServedPort | null}[],
): Pick<Deviations, 'ports' | 'texts' | 'ofPorts'> {
  return {
    ports: new Set(differences.flatMap(({owner}) => owner ?? [])),
    texts: differences.flatMap(({owner, rule}) => (owner === null ? rule.text : [])),
    ofPorts: differences.flatMap(({owner, rule}) => (owner === null ? [] : rule.text)),
  };
}

function ofServers(
  {servers, context: {family}}: ExpectedIpvs,
  actual: readonly VirtualServer[],
): Pick<Deviations, 'ports' | 'ending' | 'texts'> {
  const found = new Map(actual.map(server => [serverKey(server), server]));
  const ports = new Set<ServedPort>();
  const ending = new Set<ServedPort>();
  for (const [key, claims] of servers) {
    const server = found.get(key);
    for (const {owner, server: expected} of claims) {
      const wanted = new Set(expected.realServers.map(({hostPort}) => hostPort));
      const kept = server?.realServers.filter(({weight, hostPort}) => weight > 0 || wanted.has(hostPort)) ?? [];
      if (server === undefined || serverText({...server, realServers: kept}) !== serverText(expected)) ports.add(owner);
      else if (kept.length < server.realServers.length) ending.add(owner);
    }
  }
  const unexpected = actual.filter(server => server.family === family && !servers.has(serverKey(server)));
  return {ports, ending, texts: unexpected.map(({text}) => text)};
}

function serverText({text, realServers}: VirtualServer): string {
  return [text, ...realServers.map(real => real.text).toSorted()].join('\n');
}

/** The Service ports whose ipsets or bound addresses differ. Complete if nothing else of IPVS mode differs, and all of it was read. */
function otherIpvsDeviations(expected: ExpectedIpvs, setup: NodeSetup) {
  const state = setup.ipvs();
  const {byPort, extraServers, extraAddresses, extraMembers, missingAddresses, wrongSets} = compareIpvs(expected, state);
  const ports = [...byPort].flatMap(([port, {members, missingAddresses: missing}]) => (members.length + missing.length > 0 ? [port] : []));
  const others = [extraServers, extraAddresses, extraMembers, missingAddresses, wrongSets];
  return {ports, isComplete: state.problems.length === 0 && others.every(({length}) => length === 0)};
}

/**
 * The text of all rules of a node in one family beside those that were compared with the expected ones: the chains in `compared`
 * (`table/chain`) and those of Service ports in iptables mode, or the table of kube-proxy in nftables mode. If it is the same on two nodes,
 * the rules that packets to Service ports without deviations can reach differ only as far as the expected rules do. Null if it cannot
 * show that.
 */
function restOfRules(setup: NodeSetup, family: Family, compared: ReadonlySet<string> = new Set()): string | null {
  const [ruleset, second] = allOf(setup.dumps, family);
  // Only one backend was compared.
  if (second !== undefined || ruleset?.isByChain === true || (ruleset?.truncation ?? null) !== null) return null;
  const nft = setup.nft();
  if ((nft?.truncation ?? null) !== null || (setup.config.mode.value !== 'nftables' && nft?.tables.has(proxyTableId(family)) === true))
    return null;
  const chains = [...(ruleset?.tables.values() ?? [])].flatMap(table => chainsBeside(table, compared).map(chainText));
  const others = new Set(otherTables(nft, ruleset === undefined ? [] : [ruleset]).map(({id}) => id));
  const tables = [...(nft?.tables.values() ?? [])].filter(({id}) => others.has(id)).map(tableText);
  const order = nft?.tableSources.map(({id}) => id) ?? [];
  const text = [...chains, ...tables, ...order].join('\n');
  return jumpsToServiceChain.test(text) ? null : text;
}

/** Only the compared chains jump to the chains of Service ports. */
function chainsBeside({name: table, chains}: Table, compared: ReadonlySet<string>): readonly Chain[] {
  const others = table === 'nat' ? chains.notStartingWith(...serviceChains) : chains.values();
  return [...others].filter(({name}) => !compared.has(`${table}/${name}`));
}

function chainText(chain: Chain): string {
  return `${chain.table}/${chain.name} ${chain.policy} ${chain.complete}\n${chain.text()}`;
}

function tableText({id, dormant, declared, chains, others}: NftTable): string {
  const texts = [...chains.values()].map(chain => `${chain.name} ${JSON.stringify(chain.base)} ${chain.complete}\n${chain.text()}`);
  return [`${id} ${dormant} ${declared}`, ...texts, ...others].join('\n');
}
