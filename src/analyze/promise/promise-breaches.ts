import {type ClusterView, proxyVersion} from '../../expect/cluster/cluster-view.ts';
import {usesTerminatingEndpoints} from '../../expect/cluster/proxy-versions.ts';
import {
  allows,
  type Breach,
  breaches,
  type PromisedEntry,
  promisedEntries,
  type PromiseInput,
  type Sender,
} from '../../expect/cluster/promised.ts';
import {type Address, addressInside, type Cidr, contains, type Family, familyOf, parseAddress, parseCidr} from '../../model/address.ts';
import {uniqueBy} from '../../model/lists.ts';
import {hostIP, type NodeFacts} from '../../model/node/node-facts.ts';
import {heldIn, once} from '../../model/once.ts';
import {
  type KubeProxyVersion,
  newestApi,
  newestKnownMinor,
  type ProxyConfig,
  type ProxyVersion,
  seenInRules,
} from '../../model/proxy-config.ts';
import type {EntryKind, ServicePort} from '../../model/service-port.ts';
import {type WrittenSide, writtenSide} from '../expected-side.ts';
import {outcomeOn} from '../outcomes/environment.ts';
import {packetOf} from '../outcomes/probes.ts';
import {outsideAddress, podInterface} from '../outcomes/sources.ts';
import {isChosenByZone, promisedNode, type PromiseNode, type Shape, shapesOf, smallView} from './shapes.ts';

/** Why kube-proxy writes something else than the API promises. */
type Cause =
  | {readonly kind: 'setting'; readonly setting: SettingName}
  /** `mended` is the first version of its minor or a later one that keeps the promise. */
  | {readonly kind: 'bug' | 'older-api'; readonly mended: KubeProxyVersion}
  | {readonly kind: 'mode'};

export type SettingName = 'nodeName' | 'nodePortAddresses' | 'bindAddress' | 'detector' | 'masqueradeAll' | 'featureGates';

/** One way in which the promises of some Service ports are broken. */
export interface BrokenPromise {
  readonly cause: Cause;
  readonly family: Family;
  readonly entry: EntryKind;
  /** The entry's address, of a node port; otherwise empty. */
  readonly address: string;
  readonly sender: Sender;
  readonly breach: Breach['kind'];
  readonly ports: readonly ServicePort[];
}

type ShapeBreach = Omit<BrokenPromise, 'cause' | 'family' | 'ports'>;
type CausedBreach = ShapeBreach & Pick<BrokenPromise, 'cause'>;

/** Below, kube-proxy knows unready endpoints no more than most of the fields. */
const oldestMinor = 21;

/**
 * What kube-proxy with the node's version and settings should write, compared with what the API promises: once for each shape and setting.
 * Where the promises of the Services that are asked for are kept, the others are left out.
 */
export const brokenPromises = once((node: PromiseNode): readonly BrokenPromise[] => {
  const {config, isAsked} = node;
  const facts = promisedNode(node);
  if (facts === null || config.version.value.minor < oldestMinor || !walkedModes.has(config.mode.value)) return [];
  const isKept = isAsked !== undefined && brokenIn(node, facts, shape => shape.entries().some(({port}) => isAsked(port))).length === 0;
  return isKept ? [] : brokenIn(node, facts, () => true);
});

function brokenIn(node: PromiseNode, facts: NodeFacts, isWanted: (shape: Shape) => boolean): readonly BrokenPromise[] {
  const {config} = node;
  return node.families.flatMap(family => {
    const shapes = shapesOf(node, family).filter(isWanted);
    const settings = shapes.length === 0 ? '' : settingsKey(config, facts, family);
    const own = facts.hostIPs.filter(text => familyOf(text) === family);
    return shapes.flatMap(shape => {
      const zone = isChosenByZone(shape.first) ? config.zone.value : null;
      const key = `${family} ${zone ?? ''} ${settings} ${shape.key}`;
      const {found, hostIPs} = knownBreaches.get(key) ?? {
        found: causedBreaches({node, facts, family, view: smallView(node, shape)}),
        hostIPs: own,
      };
      if (knownBreaches.size >= maxKnown) knownBreaches.clear();
      knownBreaches.set(key, {found, hostIPs});
      if (found.length === 0) return [];
      const here = (address: string): string => own[hostIPs.indexOf(address)] ?? address;
      const ports = shape.entries().map(({port}) => port);
      return found.map(breach => ({...breach, address: here(breach.address), family, ports}));
    });
  });
}

const walkedModes: ReadonlySet<string> = new Set(['iptables', 'ipvs', 'nftables']);

interface KnownBreaches {
  readonly found: readonly CausedBreach[];
  /** Those of the node that was asked about, which the addresses of the breaches are among. */
  readonly hostIPs: readonly string[];
}

/** By settings and shape: they are the same on most nodes, and at the next check of a watch. */
const knownBreaches = new Map<string, KnownBreaches>();
const maxKnown = 10_000;

/** All of a node that decides what its kube-proxy writes for a shape. */
function settingsKey(config: ProxyConfig, facts: NodeFacts, family: Family): string {
  const {nodeName, version, zone: _, ipvsExcludeCIDRs: __, ...others} = config;
  const isInside = (text: string): string =>
    [...config.clusterCIDRs.value, ...config.nodePortAddresses.value, ...facts.podCIDRs]
      .map(network => parseCidr(network))
      .map(network => Number(network !== null && contains(network, parseAddress(text) ?? nowhere)))
      .join('');
  const pods = facts.podCIDRs.map(text => addressInside(parseCidr(text) ?? hostNetwork, new Set()) ?? '');
  return JSON.stringify([
    Object.values(others).map(({value}) => value),
    version.value,
    isKnownVersion(version),
    nodeName.value === facts.name,
    facts.primaryInterface,
    [...facts.hostIPs, ...pods].filter(text => familyOf(text) === family).map(isInside),
  ]);
}

/** What a guess says of the version is no reason to call it faulty. */
function isKnownVersion({value, source}: ProxyConfig['version']): boolean {
  return value.guessed !== true && source !== seenInRules;
}

const nowhere: Address = {family: 'IPv4', value: 0n, text: '0.0.0.0'};
const hostNetwork: Cidr = {family: 'IPv4', base: 0n, prefix: 32, text: '0.0.0.0/32'};

interface ShapeCase {
  readonly node: PromiseNode;
  /** With the addresses that are asked for alone. */
  readonly facts: NodeFacts;
  readonly family: Family;
  /** Of one Service port. */
  readonly view: ClusterView;
}

/** A cause is what makes the breach vanish if it is replaced: one setting by what the API says, the version, or the mode. */
function causedBreaches(shape: ShapeCase): readonly CausedBreach[] {
  const {config} = shape.node;
  const found = breachesWith(shape, config);
  if (found.length === 0) return [];
  // What breaks one promise often breaks several.
  const walked = once((other: ProxyConfig) => breachesWith(shape, other));
  const vanishes = (breach: ShapeBreach, other: ProxyConfig): boolean => !walked(other).some(left => isSame(left, breach));
  const changes = settings.map(({name, replace}) => ({name, changed: replace(config, shape)}));
  const right = settings.reduce((made, {replace}) => replace(made, shape), config);
  const newest = withVersion(right, newestApi.version);
  const inIptables: ProxyConfig = {...newest, mode: {value: 'iptables', source: ''}};
  const versions = new Map<string, ProxyConfig>();
  const rightAt = (version: KubeProxyVersion): ProxyConfig => heldIn(versions, version.text, () => withVersion(right, version));
  return found.flatMap((breach): readonly CausedBreach[] => {
    if (vanishes(breach, right)) {
      const setting = changes.find(({changed}) => vanishes(breach, changed))?.name;
      return setting === undefined ? [] : [{...breach, cause: {kind: 'setting', setting}}];
    }
    if (vanishes(breach, newest)) {
      if (!isKnownVersion(config.version)) return [];
      // What it promises by its own reading of the API, a kube-proxy has to keep.
      const kind = breachesWith(shape, right, proxyVersion(config)).some(own => isSame(own, breach)) ? 'bug' : 'older-api';
      return [{...breach, cause: {kind, mended: mendingVersion(config.version.value, version => vanishes(breach, rightAt(version)))}}];
    }
    return vanishes(breach, inIptables) ? [{...breach, cause: {kind: 'mode'}}] : [];
  });
}

function isSame(a: ShapeBreach, b: ShapeBreach): boolean {
  return a.entry === b.entry && a.address === b.address && a.sender === b.sender && a.breach === b.breach;
}

/** More patches than a minor version ever had. */
const lastPatch = 99;

function withVersion(config: ProxyConfig, value: KubeProxyVersion): ProxyConfig {
  return {...config, version: {value, source: ''}};
}

/** The first minor version whose last patch keeps the promise, and its first patch that does. */
function mendingVersion({minor, patch}: KubeProxyVersion, mends: (version: KubeProxyVersion) => boolean): KubeProxyVersion {
  const version = (at: number, of: number): KubeProxyVersion => ({text: `v1.${at}.${of}`, minor: at, patch: of});
  let at = minor;
  while (at < newestKnownMinor && !mends(version(at, lastPatch))) at++;
  let [low, high] = [at === minor ? (patch ?? -1) : -1, lastPatch];
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (mends(version(at, middle))) high = middle;
    else low = middle;
  }
  return version(at, high);
}

/** Each setting as the API has it, or by default. */
const settings: readonly {readonly name: SettingName; readonly replace: (config: ProxyConfig, shape: ShapeCase) => ProxyConfig}[] = [
  {name: 'nodeName', replace: (config, {facts}) => ({...config, nodeName: {value: facts.name, source: ''}})},
  {name: 'nodePortAddresses', replace: config => ({...config, nodePortAddresses: {value: [], source: ''}})},
  {name: 'bindAddress', replace: config => ({...config, bindAddress: {value: '0.0.0.0', source: ''}})},
  {
    name: 'detector',
    replace: (config, {facts, family}) => ({
      ...config,
      detectLocalMode: {value: 'ClusterCIDR', source: ''},
      clusterCIDRs: {value: facts.podCIDRs.some(text => parseCidr(text)?.family === family) ? facts.podCIDRs : nobodysNetworks, source: ''},
    }),
  },
  {name: 'masqueradeAll', replace: config => ({...config, masqueradeAll: {value: false, source: ''}})},
  {name: 'featureGates', replace: config => ({...config, featureGates: {value: {}, source: ''}})},
];

/** Of the documentation: they hold no node and no Service. */
const nobodysNetworks = ['192.0.2.0/24', '2001:db8::/32'];

/** The promise is that of the newest API unless an older `reading` is given. */
function breachesWith({facts, family, view}: ShapeCase, config: ProxyConfig, reading: ProxyVersion = newestApi): readonly ShapeBreach[] {
  const [promised] = view.entries(family, reading);
  if (promised === undefined) return [];
  const {name, zone, hostIPs: addresses} = facts;
  const usesLeaving = usesTerminatingEndpoints(reading.version, reading.gates);
  const endpoints = promised.set.endpoints.filter(({ready}) => ready || usesLeaving);
  const input = {port: promised.port, endpoints, node: {name, zone, addresses}};
  const side = writtenSide({view, config, facts, family, serviceRanges: []});
  return promisedEntries(input).flatMap(entry => sendersTo(entry, input, side).flatMap(client => breachesOf(input, side, entry, client)));
}

interface Client {
  readonly sender: Sender;
  readonly address: string;
  readonly interface: string | null;
}

/** Senders of each kind whose addresses are known to be of that kind. */
function sendersTo(
  {kind, address}: PromisedEntry,
  {port, endpoints, node}: PromiseInput,
  {context, environment}: WrittenSide,
): readonly Client[] {
  const {facts, family, detector} = context;
  const pods = facts.podCIDRs.flatMap(text => parseCidr(text) ?? []).filter(cidr => cidr.family === family);
  const ranges = (port.object.spec?.loadBalancerSourceRanges ?? []).flatMap(text => parseCidr(text.trim()) ?? []);
  const detected = detector.kind === 'cidr' ? [parseCidr(detector.cidr) ?? []].flat() : [];
  const taken = new Set(endpoints.map(endpoint => endpoint.address));
  const isPod = (text: string): boolean => pods.some(cidr => contains(cidr, parseAddress(text) ?? nowhere));
  const here = endpoints.filter(endpoint => endpoint.nodeName === node.name && !node.addresses.includes(endpoint.address));
  const [own] = here.filter(({ready}) => ready);
  const pod = pods[0] === undefined || !here.every(endpoint => isPod(endpoint.address)) ? null : addressInside(pods[0], taken);
  // A network of pods may be any; one that holds nearly all addresses is none.
  const outside = outsideAddress(context, [
    ...pods,
    ...ranges.filter(({prefix}) => prefix > 0),
    ...detected.filter(({prefix}) => prefix > 3),
  ]);
  const inRange = kind === 'loadBalancerIP' ? ranges.filter(range => range.family === family && range.prefix > 0) : [];
  const allowed = inRange.flatMap(range => addressInside(range, taken) ?? []).find(text => !isPod(text) && !node.addresses.includes(text));
  const isLocal = environment.isLocal(parseAddress(address) ?? nowhere) === true;
  const client = (sender: Sender, text: string | null | undefined, name: string | null): readonly Client[] =>
    text === null || text === undefined ? [] : [{sender, address: text, interface: name}];
  return [
    ...client('pod', pod, podInterface(context)),
    ...client('endpoint', pod === null ? null : own?.address, podInterface(context)),
    // Of a packet to one of its own addresses, that is the source too.
    ...client('node', isLocal ? address : hostIP(facts, family), null),
    ...client('outside', outside, facts.primaryInterface),
    ...client(
      'outside',
      detected.some(network => contains(network, parseAddress(allowed ?? '') ?? nowhere)) ? null : allowed,
      facts.primaryInterface,
    ),
  ];
}

function breachesOf(input: PromiseInput, side: WrittenSide, entry: PromisedEntry, client: Client): readonly ShapeBreach[] {
  const {sender, address} = client;
  const source = parseAddress(address);
  const allowed = source === null ? null : allows(input, sender, {kind: entry.kind, source});
  const from = {kind: sender, interface: client.interface};
  const packet = packetOf(input.port, {source: address, destination: entry.address, port: entry.port, from});
  if (allowed === null || packet === null) return [];
  const seen = outcomeOn(side, packet);
  const isNodePort = entry.kind === 'nodePort';
  // Nothing of the node itself listens on a node port.
  const ended = isNodePort ? {...seen, passed: 0, rejected: seen.rejected + seen.passed} : seen;
  const made = breaches(allowed, ended).map(({kind}) => ({
    entry: entry.kind,
    address: isNodePort ? entry.address : '',
    sender,
    breach: kind,
  }));
  return uniqueBy(made, ({breach}) => breach);
}
