import {heldIn, once} from '../model/once.ts';
import {shapeOf} from '../analyze/outcomes/outcome-changes.ts';
import {sourcesFor} from '../analyze/outcomes/sources.ts';
import {type ClusterView, type PortEntry, proxyVersion} from '../expect/cluster/cluster-view.ts';
import type {NodeContext} from '../expect/node-context.ts';
import {type Address, bitsOf, canonicalAddress, type Cidr, contains, parseAddress, parseCidr} from '../model/address.ts';
import type {Endpoint, ServedPort} from '../model/endpoint.ts';
import {partition} from '../model/lists.ts';
import type {ServicePort} from '../model/service-port.ts';
import {type Deviations, deviationsOf, hasKnownClients, ledPorts, nodeShape, type NodeShapeInput, podNetworksOf} from './node-shape.ts';
import {endpointHere, previewProbes} from './preview-probes.ts';
import {thirdPartyTexts, type WalkedSide, walksReplies} from './sides.ts';

/** A Service port on both sides; null where one does not have it. */
export interface PortPair {
  /** On one of the sides. */
  readonly known: ServedPort;
  readonly before: ServedPort | null;
  readonly after: ServedPort | null;
  /** As the current rules of the node are: with the endpoints that they have. */
  readonly written: ServedPort | null;
}

/** Service ports of one node that no rule distinguishes: only one of them is walked. */
export interface PortGroup {
  /** On nodes of one shape, Service ports of one shape have like outcomes. Null if these have outcomes of their own. */
  readonly shape: string | null;
  readonly pairs: readonly PortPair[];
}

export interface AlikePortsInput extends Omit<NodeShapeInput, 'rest' | 'networks'> {
  /** The API objects after the change. */
  readonly viewAfter: ClusterView;
}

/**
 * All Service ports of a node, in groups. `node`: See `nodeShape`. `isFaulty`: whether packets to a Service port may pass rules that are
 * not those that kube-proxy would write with its current settings. `deviates`: whether the rules of a Service port itself are others.
 * `isSplit`: third-party rules, or source ranges of the Service port, name a part of the node's pod network: other nodes of the shape have
 * other pods there.
 */
export function alikePorts(input: AlikePortsInput) {
  const {setup, before, after, expectedOnly} = input;
  const {family} = before.context;
  const deviations = expectedOnly ? noDeviations : deviationsOf(before, setup);
  const ranges = [before, after].flatMap(({context}) => context.serviceRanges ?? []);
  const rules = [...(expectedOnly ? [] : thirdPartyTexts(setup, family)), ...(deviations?.texts ?? [])];
  const constants = constantsIn([...rules, ...ranges]);
  const ofPorts = deviations?.ofPorts ?? [];
  const all = ofPorts.length === 0 ? constants : constantsIn([...rules, ...ranges, ...ofPorts]);
  const rest = deviations?.rest ?? null;
  const node = rest === null || constants.usesSets ? null : nodeShape({...input, rest, networks: constants.networks});
  const shapes = portShapes(input);
  const contested = contestedPorts(input);
  const names = new Set([...before.ports, ...after.ports].map(({port}) => port.servicePortName));
  const isLed = ledPorts(rules, names);
  const isPairLed = (pair: PortPair): boolean => [pair.before, pair.after].some(item => item !== null && isLed(item));
  // Where nodes share walks, no rule leads packets to other Service ports to the rules of those that deviate.
  const told = node === null ? all : constants;
  const groups = new Map<string, PortGroup & {readonly pairs: PortPair[]}>();
  for (const [index, pair] of pairsOf(before.ports, after.ports, deviations?.written).entries()) {
    const isUnlike = deviations === null || all.usesSets || isPairLed(pair) || contested.some(ports => ports.has(pair.known.port));
    const isOther = pair.before !== null && [deviations?.ports, deviations?.ending].some(ports => ports?.has(pair.known) === true);
    const isAlone = isUnlike || isOther || isSentByWritten(pair, [before.context, after.context]);
    const shape = isAlone ? null : `${shapes(pair)} ${signatures(pair, before, told)}`;
    const key = shape ?? `alone ${index}`;
    heldIn(groups, key, () => ({shape, pairs: []})).pairs.push(pair);
  }
  const isNodeFaulty = !expectedOnly && (deviations === null || deviations.rest === null || deviations.texts.length > 0);
  const deviates = ({before: item, written}: PortPair): boolean =>
    item !== null && (written !== item || deviations?.ports.has(item) === true);
  const isFaulty = (pair: PortPair): boolean => isNodeFaulty || deviates(pair);
  const podNetworks = [before.context, after.context].flatMap(podNetworksOf);
  const isPart = (network: Cidr): boolean =>
    podNetworks.some(pods => network.family === pods.family && network.prefix > pods.prefix && contains(pods, addressOf(network)));
  const isSplitByRules = all.networks.some(isPart);
  const isSplit = ({port}: ServedPort): boolean =>
    isSplitByRules || port.sourceRanges.flatMap(range => parseCidr(range) ?? []).some(isPart);
  return {node, groups: [...groups.values()], isFaulty, deviates, isSplit};
}

function addressOf({family, base, text}: Cidr): Address {
  return {family, value: base, text};
}

const noDeviations: Deviations = {ports: new Set(), ending: new Set(), written: new Map(), texts: [], ofPorts: [], rest: ''};

/** What distinguishes Service ports by the constants of other rules, on both sides. */
function signatures(pair: PortPair, {context}: WalkedSide, constants: RuleConstants): string {
  const here = endpointHere(pair.known, context)?.address;
  const signature = (item: ServedPort | null): string => (item === null ? '' : signatureOf(item, here, constants));
  return `${signature(pair.written)} ${hasSameEndpoints(pair.written, pair.after) ? '' : signature(pair.after)}`;
}

/** A function that tells what distinguishes Service ports in kube-proxy's own rules. */
function portShapes(input: AlikePortsInput): (pair: PortPair) => string {
  const {setup, before, after, expectedOnly} = input;
  const hasReplies = walksReplies(input, before.context.family);
  const clusterIPs = new Set([...before.ports, ...after.ports].map(({port}) => port.clusterIP));
  const special = {hosts: before.local.addresses, clusterIPs};
  const knowsClients = !expectedOnly && hasKnownClients(setup, before.context.family);
  const sideShape = (item: ServedPort | null): string => (item === null ? '' : portShape(item, special));
  return pair => {
    const {port} = pair.known;
    const senders = senderShape(pair.known, [before.context, after.context]);
    // A Service port that only one side has, or whose Service the manifests replace, is like no other.
    const own = pair.before === null || pair.after === null || isReplaced(pair) ? portKey(pair.known) : '';
    const clients = knowsClients && port.affinitySeconds !== null ? setup.node.name : '';
    const endpoints = writtenShape(pair, before.context);
    // Replies of the node's own pods pass it in any case.
    const places = hasReplies ? pair.known.endpoints.cluster.map(({nodeName}) => (nodeName === setup.node.name ? '1' : '0')).join('') : '';
    const isSame = pair.written !== null && pair.after !== null && isSamePort(pair.written, pair.after);
    return [sideShape(pair.written), isSame ? '=' : sideShape(pair.after), senders, own, clients, endpoints, places].join(' ');
  };
}

/**
 * If the node has rules for other endpoints than after the change: which of its lists differ, and the places of the endpoint that connects
 * to its own Service. Its rules may be outdated, or the change may be one of endpoints.
 */
function writtenShape({known, before, written, after}: PortPair, context: NodeContext): string {
  if (written === null || (written === before && hasSameEndpoints(written, after))) return '';
  const here = endpointHere(known, context)?.address;
  const places = (list: readonly Endpoint[]): string => list.flatMap(({address}, index) => (address === here ? index : [])).join(',');
  const ofList = (name: 'cluster' | 'local'): readonly unknown[] => [
    hasSameList(written.endpoints[name], after?.endpoints[name] ?? []),
    places(written.endpoints[name]),
    places(after?.endpoints[name] ?? []),
  ];
  return ['written', ...ofList('cluster'), ...ofList('local')].join(' ');
}

/** A probe comes from an address for which the node has rules as for an endpoint: its packets are masqueraded if they return to it. */
function isSentByWritten({known, before, written}: PortPair, contexts: readonly [NodeContext, NodeContext]): boolean {
  if (written === before || written === null) return false;
  const addresses = new Set(written.endpoints.cluster.map(({address}) => address));
  return previewProbes(known, contexts).some(({kind, source}) => kind !== 'hairpin' && addresses.has(source.address));
}

/** The manifests have another Service of this name. */
export function isReplaced({before, after}: PortPair): boolean {
  return before !== null && after !== null && before.port.object !== after.port.object;
}

/** With other objects, or in another zone, a side may have other endpoints. */
export function hasSameEndpoints(before: ServedPort | null, after: ServedPort | null): boolean {
  return (['cluster', 'local'] as const).every(name => hasSameList(before?.endpoints[name] ?? [], after?.endpoints[name] ?? []));
}

/** Objects of manifests make endpoints of their own. */
function hasSameList(was: readonly Endpoint[], is: readonly Endpoint[]): boolean {
  return was.length === is.length && was.every(({hostPort}, index) => hostPort === is[index]?.hostPort);
}

/** Addresses that kube-proxy's rules treat specially if an endpoint has them. */
interface SpecialAddresses {
  /** Those of the node. */
  readonly hosts: readonly string[];
  readonly clusterIPs: ReadonlySet<string>;
}

/** A Service port that no setting of one side gives other endpoints. */
function isSamePort(was: ServedPort, is: ServedPort): boolean {
  return was.port === is.port && was.endpoints === is.endpoints && was.all === is.all;
}

/** All fields by which kube-proxy's own rules distinguish Service ports. */
function portShape(item: ServedPort, {hosts, clusterIPs}: SpecialAddresses): string {
  const {port, endpoints, all} = item;
  return [
    shapeOf(item, hosts),
    port.externalIPs.length,
    port.loadBalancerVIPs.length,
    port.sourceRanges.length,
    port.affinitySeconds,
    port.nodePort !== 0,
    endpoints.cluster.length,
    endpoints.local.length,
    endpoints.reachable.length,
    all.length,
    port.healthCheckNodePort !== 0,
    endpoints.reachable.every(({address}) => hosts.includes(address)),
    [...port.externalIPs, ...port.loadBalancerVIPs].some(address => hosts.includes(address)),
    port.externalIPs.some(address => port.loadBalancerVIPs.includes(address)),
    port.sourceRanges.some(range => range.endsWith('/0')),
    [...all, ...endpoints.reachable].some(({address}) => clusterIPs.has(address)),
  ].join();
}

function pairsOf(
  before: readonly ServedPort[],
  after: readonly ServedPort[],
  written: ReadonlyMap<ServedPort, ServedPort> = new Map(),
): readonly PortPair[] {
  const pairOf = (item: ServedPort, is: ServedPort | null): PortPair => ({
    known: item,
    before: item,
    after: is,
    written: written.get(item) ?? item,
  });
  const isSameList = before.length === after.length && before.every(({port}, index) => port === after[index]?.port);
  if (isSameList) return before.map((item, index) => pairOf(item, after[index] ?? null));
  const later = new Map(after.map(item => [portKey(item), item]));
  const known = new Set(before.map(portKey));
  return [
    ...before.map(item => pairOf(item, later.get(portKey(item)) ?? null)),
    ...after.filter(item => !known.has(portKey(item))).map(item => ({known: item, before: null, after: item, written: null})),
  ];
}

/** A Service has one port of each number and protocol, which may get another name. */
export function portKey({port: {namespace, service, protocol, port}}: ServedPort): string {
  return `${namespace}/${service}:${protocol}:${port}`;
}

/** On each side, Service ports that have an address and port, or a node port, in common with another one: the node decides which is served. */
function contestedPorts({setup, configAfter, viewAfter, before: {context}}: AlikePortsInput): readonly ReadonlySet<ServicePort>[] {
  const before = setup.view.entries(context.family, proxyVersion(setup.config));
  return [before, viewAfter.entries(context.family, proxyVersion(configAfter))].map(contestedIn);
}

const contestedIn = once((entries: readonly PortEntry[]): ReadonlySet<ServicePort> => {
  const claims = new Map<string, ServicePort>();
  const contested = new Set<ServicePort>();
  for (const {port} of entries)
    for (const claim of claimsOf(port)) {
      const other = claims.get(claim) ?? port;
      claims.set(claim, port);
      if (other !== port) contested.add(port).add(other);
    }
  return contested;
});

function claimsOf({clusterIP, externalIPs, loadBalancerVIPs, port, nodePort, protocol}: ServicePort): readonly string[] {
  const claims = [clusterIP, ...externalIPs, ...loadBalancerVIPs].map(address => `${address} ${port} ${protocol}`);
  return nodePort === 0 ? claims : [...claims, `${nodePort} ${protocol}`];
}

/** The constants by which third-party rules distinguish Service ports. */
interface RuleConstants {
  readonly networks: readonly Cidr[];
  readonly ports: readonly (readonly [low: number, high: number])[];
  /** They match sets or ranges, whose members are not among the constants. */
  readonly usesSets: boolean;
}

/** All addresses and port numbers in rules. A list of `-m recent` counts as empty, so that it distinguishes no packets. */
function constantsIn(texts: readonly string[]): RuleConstants {
  const networks = new Map<string, Cidr>();
  const ports = new Map<string, readonly [number, number]>();
  let usesSets = false;
  for (const text of texts) {
    if (/--match-set|@[\w-]/.test(text) || addressRange.test(text)) usesSets = true;
    for (const [found] of text.matchAll(/[0-9a-fA-F]*[.:][0-9a-fA-F.:]*(?:\/\d+)?/g)) {
      const cidr = parseCidr(found) ?? parseCidr(`${found.replace(/:\d+$/, '')}/32`) ?? parseCidr(`${found}/128`);
      if (cidr !== null) networks.set(cidr.text, cidr);
    }
    for (const [, low = '', high = low] of text.matchAll(/\b(\d{1,5})(?:[:-](\d{1,5}))?\b/g))
      ports.set(`${low}-${high}`, [Number(low), Number(high)]);
  }
  return {networks: [...networks.values()], ports: [...ports.values()], usesSets};
}

const addressRange = /\d\.\d+-\d+\.\d|[0-9a-f]*:[0-9a-f:]*-[0-9a-f]*:[0-9a-f]/;

/** Service ports with the same signature match the same third-party rules. `here` is the endpoint that connects to its own Service. */
function signatureOf({port, endpoints: {cluster, local}}: ServedPort, here: string | undefined, {networks, ports}: RuleConstants): string {
  if (networks.length + ports.length === 0) return '';
  const served = [...cluster, ...local];
  const addresses = [port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs, ...served.map(({address}) => address)];
  const numbers = [port.port, port.nodePort, port.healthCheckNodePort, ...new Set(served.map(one => one.port))];
  const {hosts, wide} = byHost(networks);
  const inside = addresses.flatMap((text, place) => {
    const found = wide.flatMap((network, index) => (isInside(network, text) ? index : []));
    const canonical = canonicalAddress(text);
    const host = canonical !== null && hosts.has(canonical) ? [canonical] : [];
    return found.length + host.length === 0 ? [] : [`${place}:${[...host, ...found].join('+')}`];
  });
  const within = ports.map(([low, high]) => numbers.map(number => (low <= number && number <= high ? '1' : '0')).join(''));
  return [served.findIndex(({address}) => address === here), addresses.length, ...inside, ...within].join();
}

/** Single addresses are looked up: rules can name thousands. */
const byHost = once((networks: RuleConstants['networks']) => {
  const [hosts, wide] = partition(networks, ({family, prefix}) => prefix === bitsOf(family));
  return {hosts: new Set(hosts.map(({text}) => canonicalAddress(text.replace(/\/\d+$/, '')))), wide};
});

function isInside(network: Cidr, text: string): boolean {
  const address = parseAddress(text);
  return address !== null && contains(network, address);
}

/**
 * What kube-proxy's rules match of the senders of packets to a Service port: whether its endpoint that connects to it is a pod for the
 * detectors of both sides, and which senders are in its source ranges. Two Service ports that differ in this are not alike.
 */
function senderShape(item: ServedPort, contexts: readonly [NodeContext, NodeContext]): string {
  const [before] = contexts;
  const here = endpointHere(item, before)?.address;
  const ofEndpoint = here === undefined ? 'none' : inside(here, contexts.flatMap(podNetworksOf));
  if (item.port.sourceRanges.length === 0) return ofEndpoint;
  const ranges = item.port.sourceRanges.map(range => parseCidr(range));
  const taken = new Set(item.all.map(({address}) => address));
  const senders = contexts.flatMap(context => sourcesFor(item.port, context, taken).map(({address}) => address));
  const nodes = contexts.flatMap(({nodeIP, facts}) => [nodeIP, ...facts.addresses]);
  return [ofEndpoint, ...[...senders, ...nodes, ...(here === undefined ? [] : [here])].map(address => inside(address, ranges))].join();
}

/** A digit for each network: whether the address is in it. */
function inside(text: string, networks: readonly (Cidr | null)[]): string {
  const address = parseAddress(text);
  return networks.map(network => (network !== null && address !== null && contains(network, address) ? '1' : '0')).join('');
}
