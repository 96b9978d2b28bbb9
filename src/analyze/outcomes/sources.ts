import {once} from '../../model/once.ts';
import type {NodeContext} from '../../expect/node-context.ts';
import {
  bitsOf,
  addressInside,
  type Cidr,
  contains,
  familyOf,
  formatAddress,
  hostCidr,
  parseAddress,
  parseCidr,
} from '../../model/address.ts';
import {holds, type Intervals, intervalsOf, subtract} from '../../model/intervals.ts';
import {hostIP} from '../../model/node/node-facts.ts';
import {addressesIn} from '../../parse/nftables/address-list.ts';
import type {ServicePort} from '../../model/service-port.ts';

/** The kind of sender of a packet: kube-proxy treats each of them differently. */
export type SourceKind = 'pod' | 'remote-pod' | 'other-node' | 'node' | 'outside' | 'allowed' | 'other-range' | 'own-address' | 'endpoint';

export interface Source {
  readonly kind: SourceKind;
  readonly address: string;
  readonly interface: string | null;
  /** The network that a rule names, where the source stands for the senders in it. */
  readonly network?: string;
}

export const sourceNames: Readonly<Record<SourceKind, string>> = {
  pod: 'a pod of this node',
  'remote-pod': 'a pod of another node',
  'other-node': 'another node',
  node: 'the node itself',
  outside: 'outside the cluster',
  allowed: 'an allowed source range',
  'other-range': 'a range that the Service does not have',
  'own-address': 'the load-balancer address itself',
  endpoint: 'the endpoint itself',
};

/** Whom packets of such a kind are lost for, in words. Others send on what these sent. */
export const clientNames: Readonly<Partial<Record<SourceKind, string>>> = {
  pod: 'pods of the node',
  node: 'processes of the node',
  outside: 'clients outside the cluster',
  allowed: 'clients outside the cluster',
};

export function sourceName({kind, network}: Source): string {
  return network === undefined ? sourceNames[kind] : `${sourceNames[kind]} in ${network}`;
}

/** Sources from which to try the entries of a Service port on a node. `taken` are addresses that are in use, such as those of endpoints. */
export function sourcesFor(
  port: Pick<ServicePort, 'sourceRanges' | 'loadBalancerVIPs'>,
  context: NodeContext,
  taken: ReadonlySet<string>,
): readonly Source[] {
  if (port.sourceRanges.length > 0) return sourcesBeside(port, context, taken);
  const usual = usualSources(context);
  return usual.some(({address}) => taken.has(address)) ? sourcesBeside(port, context, taken) : usual;
}

/** Those of a Service port without source ranges, beside no address in use. */
export const usualSources = once((context: NodeContext) => sourcesBeside({sourceRanges: [], loadBalancerVIPs: []}, context, new Set()));

const sourcesBeside: typeof sourcesFor = (port, context, taken) => {
  const {facts, family} = context;
  const {podNetworks, local} = podRanges(context);
  const clusterNetworks = local === null ? podNetworks : [local, ...podNetworks];
  const ranges = networks(port.sourceRanges, context);
  // Where the ranges hold every address, as that of all addresses does up to 1.33, a client outside is an allowed one.
  const outside = outsideAddress(context, [...clusterNetworks, ...ranges]) ?? outsideAddress(context, clusterNetworks);
  const sources: Source[] = [];
  const add = (kind: SourceKind, address: string | null | undefined, name: string | null): void => {
    if (address !== null && address !== undefined) sources.push({kind, address, interface: name});
  };
  add('pod', podBeside(taken, context), podInterface(context));
  add('outside', outside, facts.primaryInterface);
  add('node', hostIP(facts, family) ?? facts.addresses.find(address => familyOf(address) === family && address !== '::1'), null);
  if (local !== null && podNetworks[0] !== undefined) add('remote-pod', addressOutside(local, podNetworks, taken), facts.primaryInterface);
  for (const range of ranges) add('allowed', addressInside(range, taken), facts.primaryInterface);
  if (ranges.length > 0) for (const address of port.loadBalancerVIPs) add('own-address', address, null);
  return sources;
};

/** Running pods and other nodes, by address. */
export interface KnownSenders {
  readonly pods: ReadonlyMap<bigint, string>;
  readonly nodes: ReadonlyMap<bigint, string>;
}

/**
 * In each network that rules match sources by: a running pod of this node and one of another, another node, and somebody outside. The rules
 * may treat a part of the pods, or of the clients, differently; a network without any of them is nobody's.
 */
export function sourcesNamedIn(texts: readonly string[], context: NodeContext, senders: () => KnownSenders): readonly Source[] {
  const named = texts.flatMap(text =>
    [...text.matchAll(sourceCondition)].flatMap(([, list = '']) => list.match(/[\da-f.:]+(?:[/-][\da-f.:]+)?/g) ?? []),
  );
  if (named.length === 0) return [];
  const {pods, nodes} = senders();
  const {podNetworks, local} = podRanges(context);
  const toIntervals = (networksIn: readonly Cidr[]): Intervals =>
    addressesIn(
      networksIn.map(({text}) => text),
      context.family,
    );
  const here = toIntervals(podNetworks);
  const all = intervalsOf([...here, ...toIntervals(local === null ? [] : [local])]);
  return [...new Set(named)].slice(0, maxNetworks).flatMap(network => {
    const range = addressesIn([network], context.family);
    const source = (kind: SourceKind, value: bigint | undefined): readonly Source[] => {
      if (value === undefined || context.facts.addresses.includes(formatAddress(context.family, value))) return [];
      const name = kind === 'pod' ? podInterface(context) : context.facts.primaryInterface;
      return [{kind, address: formatAddress(context.family, value), interface: name, network}];
    };
    const running = [...pods.keys()].filter(value => holds(range, value));
    const [outside] = subtract(subtract(range, all), intervalsOf([...nodes.keys()].map(value => [value, value] as const)));
    // One of two may be an endpoint, whose own connections are treated differently.
    const ownPods = running.filter(value => holds(here, value));
    return [
      ...source('pod', ownPods[0]),
      ...(ownPods.length > 1 ? source('pod', ownPods.at(-1)) : []),
      ...source(
        'remote-pod',
        running.find(value => !holds(here, value)),
      ),
      ...source(
        'other-node',
        [...nodes.keys()].find(value => holds(range, value)),
      ),
      ...source('outside', outside === undefined ? undefined : outside[0] + (outside[1] - outside[0]) / 2n),
    ];
  });
}

const sourceCondition = /(?: -s |--src-range |saddr (?:!= )?)(\{[^}]*\}|\S+)/g;
const maxNetworks = 64;

/** The network of the pods that send to Services; null if none is known. */
export function podNetworkOf(context: NodeContext): Cidr | null {
  return networks(context.facts.podCIDRs, context)[0] ?? podRanges(context).local;
}

/** A pod of the node that is none of the endpoints; null if none is known. */
export function podBeside(taken: ReadonlySet<string>, context: NodeContext): string | null {
  const {podNetworks, local} = podRanges(context);
  for (const network of podNetworks) {
    const address = addressInside(network, taken);
    if (address !== null) return address;
  }
  return local === null ? null : addressInside(local, taken);
}

/**
 * Parsed once: the senders are asked for with each Service port. `podNetworks`: those of the node's pods. `local`: that of all pods, by the
 * detector of local traffic; null if it detects them otherwise.
 */
export const podRanges = once((context: NodeContext) => ({
  podNetworks: networks([...context.facts.podCIDRs, ...hostsOf(context)], context),
  local: context.detector.kind === 'cidr' ? parseCidr(context.detector.cidr) : null,
}));

function hostsOf({facts, family}: NodeContext): readonly string[] {
  return (facts.podAddresses?.(family) ?? []).map(address => hostCidr(address, family));
}

function networks(texts: readonly string[], {family}: NodeContext): readonly Cidr[] {
  return texts.map(text => parseCidr(text)).filter(cidr => cidr !== null && cidr.family === family) as readonly Cidr[];
}

/** With a detector by interface, the interface identifies pods. */
export function podInterface({detector}: NodeContext): string | null {
  return detector.kind === 'interface' ? detector.name.replace(/\+$/, '0') : null;
}

const unknownChains: Readonly<Record<string, readonly string[]>> = {
  IPv4: ['198.18.77.7', '203.0.113.250', '192.0.2.250', '100.127.250.9', '45.67.89.10'],
  IPv6: ['2001:db8:ffff::77', '2600:77:77::77'],
};

/** An address that is in none of the networks and not the node's. */
export function outsideAddress({family, facts}: NodeContext, inside: readonly Cidr[]): string | undefined {
  return unknownChains[family]?.find(text => {
    const address = parseAddress(text);
    return address !== null && !facts.addresses.includes(text) && !inside.some(cidr => contains(cidr, address));
  });
}

/** An address of the cluster's pods that is none of this node's. */
function addressOutside(network: Cidr, own: readonly Cidr[], taken: ReadonlySet<string>): string | null {
  const size = 1n << BigInt(bitsOf(network.family) - network.prefix);
  for (const part of [3n, 7n, 11n, 13n]) {
    const candidate = addressInside({...network, base: network.base + (size * part) / 16n, prefix: bitsOf(network.family)}, taken);
    const address = candidate === null ? null : parseAddress(candidate);
    if (address !== null && !own.some(cidr => contains(cidr, address))) return candidate;
  }
  return null;
}
