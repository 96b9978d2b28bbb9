import {once} from '../../model/once.ts';
import {type NodeContext, addressesOfPod, podCIDRsOf, podsByNode, hasOwnAddress} from '../../expect/node-context.ts';
import {bitsOf, type Family, formatAddress, parseAddress, parseCidr} from '../../model/address.ts';
import type {NodeObject} from '../../model/api-objects.ts';
import {holds, intersect, type Intervals, intervalsOf, sizeOf, subtract} from '../../model/intervals.ts';
import type {Severity} from '../../model/finding.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import {someOf} from '../../model/text.ts';
import {addressesIn, parseInterval} from '../../parse/nftables/address-list.ts';
import {
  allAddresses,
  allPorts,
  type NoteCondition,
  type Sender,
  type SenderClass,
  senderClasses,
  type SenderSpace,
} from '../../trace/sender-space.ts';
import {minShare} from '../../trace/side.ts';
import type {Probe, Senders} from './probes.ts';
import {podRanges, type Source, type SourceKind, sourceNames} from './sources.ts';

/** Whoever may send packets of one kind, and by what names they are known. */
export interface SenderGroups {
  /** By the kind of a probe's source; only the source itself where it is left out. */
  readonly spaces: ReadonlyMap<SourceKind, Intervals>;
  /** Running pods, not those in the host network or at an address of this node, by address. */
  readonly pods: ReadonlyMap<bigint, string>;
  /** Other nodes, by address. */
  readonly nodes: ReadonlyMap<bigint, string>;
  /** The pods were not read: any address of their networks may be one. */
  readonly arePodsUnknown: boolean;
  /** Routes lead to single pods: what they do to a pod that runs tells nothing of other addresses of its network. */
  readonly areRoutedSingly: boolean;
}

/** The groups of senders of a node in one family. */
export function senderGroups({api, context}: {readonly api: ApiObjects; readonly context: NodeContext}): SenderGroups {
  const {facts, family} = context;
  const ranges = (texts: readonly string[]): Intervals => addressesIn(texts, family);
  const {podNetworks, local} = podRanges(context);
  const running = podsByAddress(api);
  const others = (api.nodes ?? []).filter(({metadata}) => metadata.name !== facts.name);
  const podsOn = (isHere: boolean): Intervals =>
    intervalsOf(
      [...running]
        .filter(([, {node}]) => (node === facts.name) === isHere)
        .map(([, {range}]) => range)
        .filter(({family: own}) => own === family)
        .map(({low, high}) => [low, high] as const),
    );
  const own = ranges(facts.addresses);
  const here = subtract(intervalsOf([...ranges(podNetworks.map(({text}) => text)), ...podsOn(true)]), own);
  const remote = ranges([...(local === null ? [] : [local.text]), ...others.flatMap(other => podsOfNode(other, api, family))]);
  const elsewhere = subtract(subtract(intervalsOf([...remote, ...podsOn(false)]), here), own);
  const outside = [here, elsewhere, own, notOnTheWire(family)].reduce(subtract, allAddresses(family));
  const nodes = others.flatMap(({metadata, status}) =>
    (status?.addresses ?? []).flatMap(({address = ''}) => {
      const parsed = parseAddress(address);
      return parsed?.family === family ? [[parsed.value, metadata.name ?? ''] as const] : [];
    }),
  );
  const pods = new Map(
    [...running.values()].filter(({range}) => range.family === family && !holds(own, range.low)).map(({range, name}) => [range.low, name]),
  );
  const routes = facts.network.routes[family] ?? [];
  return {
    spaces: new Map([
      ['pod', here],
      ['remote-pod', elsewhere],
      ['outside', outside],
      ['other-node', intervalsOf(nodes.map(([value]) => [value, value] as const))],
    ]),
    pods,
    nodes: new Map(nodes),
    arePodsUnknown: api.pods === null || api.podsOf !== undefined,
    areRoutedSingly: routes.some(({to}) => to.prefix === bitsOf(family) && pods.has(to.base)),
  };
}

/** The networks of the pods of a node, or in a family without one the addresses that are known. */
function podsOfNode(node: NodeObject, api: ApiObjects, family: Family): readonly string[] {
  const networks = podCIDRsOf(node).filter(text => parseCidr(text)?.family === family);
  return networks.length > 0 ? networks : [...(podsByNode(api, family).get(node.metadata.name ?? '') ?? [])];
}

/** Addresses that no packet from elsewhere has as its source. */
export function notOnTheWire(family: 'IPv4' | 'IPv6'): Intervals {
  return addressesIn(
    family === 'IPv4' ? ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/3'] : ['::/127', 'fe80::/10', 'ff00::/8'],
    family,
  );
}

interface RunningPod {
  readonly name: string;
  readonly node: string | undefined;
  readonly range: {readonly family: string; readonly low: bigint; readonly high: bigint};
}

const podsByAddress = once((api: ApiObjects): ReadonlyMap<string, RunningPod> => {
  const found = new Map<string, RunningPod>();
  for (const pod of (api.pods ?? []).filter(hasOwnAddress)) {
    const {metadata, spec} = pod;
    for (const ip of addressesOfPod(pod)) {
      const range = parseInterval(ip);
      if (range !== null) found.set(ip, {name: `${metadata.namespace ?? ''}/${metadata.name ?? ''}`, node: spec?.nodeName, range});
    }
  }
  return found;
});

interface ClassesInput {
  readonly groups: SenderGroups;
  readonly except: Intervals;
  readonly ports: readonly Intervals[];
  /** How many classes are walked; one at least. */
  readonly most: number;
  /** Whether the walks took so much that no other follows. */
  readonly isOver?: (() => boolean) | undefined;
  /** The part of the senders that is walked; all where it is left out. */
  readonly within?: Intervals | undefined;
}

/**
 * The probe for every class of senders that a walk tells apart, in place of a probe that stands for all. The endpoints of the Service itself
 * are left out of its pods: their packets may return to them.
 */
export function classesOfProbe<T>(
  probe: Probe,
  {groups, except, ports, most, isOver, within}: ClassesInput,
  walk: (probe: Probe, note: NoteCondition) => T,
): {readonly classes: readonly (readonly [Probe, T, Intervals])[]; readonly isTruncated: boolean} {
  const {packet, source} = probe;
  const address = subtract(spaceOf(source, packet.source.value, groups), source.kind === 'pod' ? except : []);
  const pods = groups.areRoutedSingly ? runningPods(groups).get(source.kind) : undefined;
  const running = pods?.find(value => holds(address, value));
  const usual = (space: SenderSpace): bigint => (running !== undefined && holds(space.address, running) ? running : packet.source.value);
  const made = new Map<Sender, Probe>();
  const {classes, rest} = senderClasses({
    most,
    isOver,
    spaces: ports.map(port => ({address: within === undefined ? address : intersect(address, within), port})),
    pick: space => pick(space, usual(space), groups),
    walk: (sender, note) => {
      const text = formatAddress(packet.family, sender.address);
      const sent = {
        ...packet,
        source: {family: packet.family, value: sender.address, text},
        sourcePort: sender.port,
        client: 'source' as const,
      };
      const own = {...probe, source: {...source, address: text}, packet: sent};
      made.set(sender, own);
      return walk(own, note);
    },
  });
  return {
    isTruncated: rest.length > 0,
    classes: classes.flatMap(found => {
      const own = made.get(found.sender);
      if (own === undefined) return [];
      return [[withSenders(own, found, {address, port: ports[0] ?? clientPorts}, groups), found.result, found.space.address] as const];
    }),
  };
}

/** The ports from which nearly all clients connect (`net.ipv4.ip_local_port_range`), and all others. */
export const clientPorts: Intervals = [[32_768n, 60_999n]];
export const otherPorts: Intervals = subtract(allPorts, clientPorts);

function spaceOf({kind}: Source, own: bigint, {spaces}: SenderGroups): Intervals {
  const space = spaces.get(kind) ?? [];
  return holds(space, own) ? space : [[own, own]];
}

/** The usual source if it is there; otherwise a running pod, another node, or some address. */
function pick({address, port}: SenderSpace, usual: bigint, {pods, nodes}: SenderGroups): Sender {
  const [[low, high] = [0n, 0n]] = address;
  const inside = (values: ReadonlyMap<bigint, string>): bigint | undefined => [...values.keys()].find(value => holds(address, value));
  const found = holds(address, usual) ? usual : (inside(pods) ?? inside(nodes) ?? (high > low + 1n ? low + 1n : low));
  const [[first, last] = [0n, 0n]] = port;
  return {address: found, port: Number(holds(port, 40_000n) ? 40_000n : first === 0n && last > 0n ? 1n : first)};
}

function withSenders<T>(probe: Probe, {space}: SenderClass<T>, whole: SenderSpace, groups: SenderGroups): Probe {
  const isWhole = sizeOf(space.address) === sizeOf(whole.address) && subtract(whole.port, space.port).length === 0;
  if (isWhole && !holdsNoPodOf(probe.source, space, groups)) return probe;
  return {...probe, senders: sendersOf(probe, space, whole, groups)};
}

function sendersOf({source, packet: {family}}: Probe, {address, port}: SenderSpace, whole: SenderSpace, groups: SenderGroups): Senders {
  const {kind} = source;
  const pods = [...groups.pods].filter(([value]) => holds(address, value)).map(([, name]) => name);
  const nodes = [...groups.nodes].filter(([value]) => holds(address, value)).map(([, name]) => name);
  const [size, all] = [sizeOf(address), sizeOf(whole.address)];
  const isMost = 2n * size > all;
  const ports = subtract(whole.port, port).length === 0 ? '' : `, source port ${portsText(port)}`;
  const ofSomePorts = ports === '' ? {} : {ofSomePorts: true as const};
  const exceptions = isMost && size < all ? ` (all but ${rangesText(subtract(whole.address, address), family)})` : '';
  if (isMost && !holdsNoPodOf(source, {address, port}, groups))
    return {text: `${sourceNames[kind]}${exceptions}${ports}`, pods, ...ofSomePorts, ...mostOf(isManyPorts(port, whole.port))};
  const areNodes = pods.length === 0 && (kind === 'outside' || kind === 'other-node') && nodes.length > 0;
  const who = pods.length > 0 ? namesText(pods, 'pod') : areNodes ? namesText(nodes, 'node') : kind === 'node' ? 'of the node itself' : '';
  const isUnknownPod = isOfPods(source) && groups.arePodsUnknown;
  return {
    text: `${rangesText(address, family)}${who === '' ? '' : ` (${who})`}${ports}`,
    pods,
    ...(areNodes ? {areNodes} : {}),
    ...ofSomePorts,
    ...mostOf(isManyPorts(port, whole.port), who !== '' ? undefined : isUnknownPod ? 'warning' : 'info'),
  };
}

function isOfPods({kind}: Source): boolean {
  return kind === 'pod' || kind === 'remote-pod';
}

/** Whether pods of this kind run, and none of them in this space. */
function holdsNoPodOf(source: Source, {address}: SenderSpace, groups: SenderGroups): boolean {
  const running = groups.arePodsUnknown ? [] : (runningPods(groups).get(source.kind) ?? []);
  return running.length > 0 && !running.some(value => holds(address, value));
}

const runningPods = once(({spaces, pods}: SenderGroups): ReadonlyMap<SourceKind, readonly bigint[]> => {
  const inside = (space: Intervals = []): readonly bigint[] => [...pods.keys()].filter(value => holds(space, value));
  return new Map((['pod', 'remote-pod'] as const).map(kind => [kind, inside(spaces.get(kind))]));
});

/** Whether some ports are a share of the usual ones that clients notice. */
export function isManyPorts(port: Intervals, usual: Intervals): boolean {
  return Number(sizeOf(intersect(port, usual))) >= minShare * Number(sizeOf(usual));
}

function mostOf(isOften: boolean, most?: Severity): {readonly most?: Severity} {
  const severity = most ?? (isOften ? undefined : 'info');
  return severity === undefined ? {} : {most: severity};
}

function namesText(names: readonly string[], noun: string): string {
  return names.length === 1 ? `${noun} ${names[0]}` : `${names.length} ${noun}s: ${someOf(names, {max: 3})}`;
}

/** A space of senders in words, such as `10.244.11.0/24, source port 1-1023`; of all, `any sender`. */
export function spaceText({address, port}: SenderSpace, family: 'IPv4' | 'IPv6'): string {
  const who = sizeOf(address) === sizeOf(allAddresses(family)) ? 'any sender' : rangesText(address, family);
  return sizeOf(port) === sizeOf(allPorts) ? who : `${who}, source port ${portsText(port)}`;
}

export function portsText(port: Intervals): string {
  return someOf(
    port.map(([low, high]) => (low === high ? `${low}` : `${low}-${high}`)),
    {max: 3},
  );
}

function rangesText(ranges: Intervals, family: 'IPv4' | 'IPv6'): string {
  const first = ranges.slice(0, 3).map(([low, high]) => networkText(low, high, family));
  return someOf(first, {max: 3, count: ranges.length});
}

/** A network where it is one, otherwise a range. */
function networkText(low: bigint, high: bigint, family: 'IPv4' | 'IPv6'): string {
  const text = formatAddress(family, low);
  if (low === high) return text;
  const bits = (high - low + 1n).toString(2).length - 1;
  const network = parseCidr(`${text}/${bitsOf(family) - bits}`);
  return network?.base === low && high - low + 1n === 1n << BigInt(bits) ? network.text : `${text}-${formatAddress(family, high)}`;
}
