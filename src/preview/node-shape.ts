import {forwardingOff} from '../analyze/outcomes/environment.ts';
import {podNetworkOf, sourcesFor} from '../analyze/outcomes/sources.ts';
import type {ServedPort} from '../model/endpoint.ts';
import {proxyTableId} from '../expect/nftables/expected-table.ts';
import {parseNftName} from '../expect/nftables/nft-names.ts';
import {type NodeContext, nodePortDestinations} from '../expect/node-context.ts';
import {type Cidr, contains, families, type Family, parseAddress, parseCidr} from '../model/address.ts';
import type {ProxyConfig} from '../model/proxy-config.ts';
import {parseInterval} from '../parse/nftables/address-list.ts';
import type {NodeSetup} from './node-setup.ts';
import {nodeAddresses} from './preview-probes.ts';
import {jumpsToServiceChain} from './sides.ts';
import type {WalkedSide} from './walk-side.ts';

interface NodeShapeInput {
  readonly setup: NodeSetup;
  readonly configAfter: ProxyConfig;
  readonly before: WalkedSide;
  readonly after: WalkedSide;
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
  return JSON.stringify([expectedOnly, settings, contexts, places, rest, unforwarded, paths(setup, before, rest)], withoutAddresses);
}

/** Where rules match interfaces, all that tells which packets pass which one. Routes name the node's own networks: such nodes are hardly ever alike. */
function paths({facts: {network, onLink}}: NodeSetup, {context: {detector}}: WalkedSide, rest: string): string | null {
  if ((detector.kind === 'cidr' || detector.kind === 'none') && !matchesInterfaces.test(rest)) return null;
  const withTexts = (_: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);
  // The address is the node's own, the network is that of all.
  const networks = onLink?.map(({name, network}) => [name, parseInterval(network)]);
  return JSON.stringify([networks, network?.links, network?.routes, network?.policyRules], withTexts);
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
  const places = (text: string): string => {
    const found = known.get(text) ?? placesOf(text);
    known.set(text, found);
    return found;
  };
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
function podNetworksOf(context: NodeContext): readonly Cidr[] {
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
