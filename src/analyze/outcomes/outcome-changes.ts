import type {NodeContext} from '../../expect/node-context.ts';
import type {ServedPort, Endpoint} from '../../model/endpoint.ts';
import type {Severity} from '../../model/finding.ts';
import {entryText} from '../../model/service-port.ts';
import {partition, uniqueBy} from '../../model/lists.ts';
import {once} from '../../model/once.ts';
import {plural, someOf} from '../../model/text.ts';
import {environmentOf, type BothWalks, describePathOutcome, hasSameEnds, isSameOutcome, type PathOutcome} from './environment.ts';
import {
  clientsOfOtherRanges,
  directProbe,
  type Probe,
  type ProbeInput,
  type Senders,
  probesFor,
  probedNodePortAddresses,
  entriesOf,
  entryAddresses,
  packetOf,
} from './probes.ts';
import {type KnownSenders, type Source, sourceName, sourcesNamedIn, usualSources} from './sources.ts';
import {parseAddress, formatAddress} from '../../model/address.ts';
import {anyPort} from '../../trace/side.ts';
import {type AddressInterval, parseInterval, addressesIn} from '../../parse/nftables/address-list.ts';
import {holds, intersect, type Intervals, intervalsOf, sizeOf, subtract} from '../../model/intervals.ts';
import type {Packet} from '../../trace/walked-packet.ts';
import {allAddresses, allPorts, senderClasses, SenderConditions, type SenderSpace} from '../../trace/sender-space.ts';
import {clientPorts, isManyPorts, notOnTheWire, portsText, spaceText} from './senders.ts';

/** A probe of a Service port. */
export interface PortProbe {
  readonly item: ServedPort;
  readonly probe: Probe;
}

/** A probe whose outcome with some rules is not the one without them. */
export interface OutcomeChange extends PortProbe {
  readonly pathOutcome: PathOutcome;
  readonly without: PathOutcome;
  /** It ends elsewhere, and is not only masqueraded differently. */
  readonly lost: boolean;
}

/** The probes whose outcome with the rules in question is another than without them, which is the expected one. */
export function outcomeChanges(
  probes: readonly PortProbe[],
  {facts}: Pick<NodeContext, 'facts'>,
  walks: BothWalks,
): readonly OutcomeChange[] {
  const environment = environmentOf(facts);
  return probes.flatMap(({item, probe}) => {
    const pathOutcome = walks.actual(probe.packet, environment);
    const without = walks.expected(probe.packet, environment);
    const isSame =
      isSameOutcome(pathOutcome, without) && (probe.direct === undefined || isMasqueraded(pathOutcome) === isMasqueraded(without));
    return isSame ? [] : [{item, probe, pathOutcome, without, lost: !hasSameEnds(pathOutcome, without)}];
  });
}

/** Of a packet that is sent straight to an endpoint, and so to no other. */
function isMasqueraded({outcomes}: PathOutcome): boolean {
  return outcomes.some(({masquerade}) => masquerade);
}

/** Rules in question: they differ from kube-proxy's, or were not written by it. */
export interface RulesInQuestion {
  readonly context: NodeContext;
  readonly ports: readonly ServedPort[];
  /** Their texts, and those of the rules in third-party chains that they lead to. */
  readonly texts: readonly string[];
  readonly senders: () => KnownSenders;
}

/** Above this number, Service ports are not probed one by one. */
export const maxPorts = 300;

/** So many Service ports, those first that the rules name: by an address, then by a network or range, and by a port. */
export function namedPorts({ports, context, texts}: RulesInQuestion, count: number = maxPorts): readonly ServedPort[] {
  if (texts.length === 0) return [];
  const constants = constantsIn(texts);
  const ranks = new Map(ports.map(item => [item, rankOf(item, context, constants)]));
  return ports.toSorted((a, b) => (ranks.get(b) ?? 0) - (ranks.get(a) ?? 0)).slice(0, count);
}

/** Whether rules name a Service port, by an address or a port that it has. */
export function isNamedBy(texts: readonly string[], context: NodeContext): (item: ServedPort) => boolean {
  const constants = constantsIn(texts);
  return item => texts.length > 0 && rankOf(item, context, constants) > 0;
}

/**
 * New connections to these Service ports from every kind of client and from those that the rules name, and of an endpoint on this node to
 * itself and of those that the rules name.
 */
export function connectionsTo(items: readonly ServedPort[], {context, texts, senders}: RulesInQuestion): readonly PortProbe[] {
  const constants = constantsIn(texts);
  const clients = sourcesNamedIn(texts, context, senders);
  return items.flatMap(item => {
    const here = item.endpoints.reachable.filter(endpoint => isOnNode(endpoint, context)).slice(0, 1);
    const hairpins = [...new Set([...here, ...namedEndpoints(item, context, constants)])];
    const probes = probesFor({item, context, hairpins, clients}).filter(({knownTo}) => knownTo.size === 0);
    return fromClientPort(probes, texts).map(probe => ({item, probe}));
  });
}

/** Packets that other nodes and their pods send straight to endpoints of this one, those first that rules name: no rule of a Service takes them first. */
export function directProbes({ports, context, texts, senders}: RulesInQuestion, most = 1): readonly PortProbe[] {
  const {facts, family} = context;
  const isHere = ({nodeName, address}: Endpoint): boolean => nodeName === facts.name && !facts.addresses.includes(address);
  const constants = constantsIn(texts);
  const here = ports.flatMap(item => item.endpoints.reachable.filter(isHere).map(endpoint => ({item, endpoint})));
  const [named, others] = partition(here, ({endpoint}) => isNamedAddress(endpoint.address, constants));
  const tried = uniqueBy([...named, ...others], ({item}) => item).slice(0, most);
  const [node] = senders().nodes.keys();
  const usual = usualSources(context);
  const sources: readonly Source[] = [
    ...usual,
    ...(node === undefined ? [] : [{kind: 'other-node', address: formatAddress(family, node), interface: facts.primaryInterface} as const]),
    ...sourcesNamedIn(texts, context, senders),
  ];
  const elsewhere = tried.length === 0 ? [] : sources.filter(({kind}) => kind === 'remote-pod' || kind === 'other-node');
  return tried.flatMap(({item, endpoint}) =>
    elsewhere.flatMap(source => {
      const probe = directProbe(item.port, endpoint, source);
      return probe === null ? [] : [{item, probe: {...probe, packet: {...probe.packet, sourcePort: anyPort}}}];
    }),
  );
}

/** The packets come from a port of clients that rules ask for, where these are a share of them that clients notice; otherwise from another. */
function fromClientPort(probes: readonly Probe[], texts: readonly string[]): readonly Probe[] {
  const asked = texts.flatMap(askedPorts);
  const ports = asked.find(some => isManyPorts(some, clientPorts));
  const [[first] = [BigInt(anyPort)]] = ports ?? asked.reduce(subtract, clientPorts);
  const from = {sourcePort: Number(first)};
  const named = ports === undefined || sizeOf(ports) === sizeOf(clientPorts) ? '' : `, source port ${portsText(ports)}`;
  return probes.map(probe => {
    const senders: Senders = {text: `${sourceName(probe.source)}${named}`, pods: [], ofSomePorts: true};
    return {...probe, packet: {...probe.packet, ...from}, ...(named === '' ? {} : {senders})};
  });
}

/**
 * Packets that cover a Service port's rules, with clients that unexpected rules name, from a port of clients where these ask for it: `ranges`
 * are texts of rules that allow clients, `others` those of all other rules.
 */
export function probesBeside(
  {senders, ...input}: Omit<ProbeInput, 'clients'> & {readonly senders: () => KnownSenders},
  {ranges, others}: {readonly ranges: readonly string[]; readonly others: readonly string[]},
): readonly Probe[] {
  const {item, context} = input;
  const inside = sourcesNamedIn(others, context, senders).filter(({kind}) => kind !== 'outside');
  const probes = probesFor({...input, clients: [...clientsOfOtherRanges(ranges, item.port, context), ...inside]});
  return others.some(text => askedPorts(text).length > 0) ? fromClientPort(probes, others) : probes;
}

/** Of each condition of a rule on the source port, the ports of clients that it matches. */
function askedPorts(text: string): readonly Intervals[] {
  return [...text.matchAll(/(! )?(?:--sports? |\bsport )(!= )?(\{[^}]*\}|\S+)/g)].map(([, before, behind, list = '']) => {
    const ranges = (list.match(/\d+(?:[-:]\d+)?/g) ?? []).map(range => range.split(/[-:]/).map(BigInt));
    const ports = intervalsOf(ranges.map(([low = 0n, high = low]) => [low, high] as const));
    return intersect(clientPorts, (before ?? behind) === undefined ? ports : subtract(allPorts, ports));
  });
}

/** What rules do to packets: the worst change in words, and how many Service ports it concerns. If there is none, other senders are tried. */
export function effectOfRules(
  rules: RulesInQuestion,
  changes: readonly OutcomeChange[],
  walks: BothWalks,
): {readonly severity: Severity; readonly text: string} {
  const {context, texts} = rules;
  const worst = changes.find(change => change.lost && !isOfSome(change)) ?? changes.find(({lost}) => lost) ?? changes[0];
  if (worst === undefined) {
    return {severity: 'info', text: effectOnOthers(texts, () => namedPorts(rules), context, walks)};
  }
  const {item, probe, pathOutcome, without, lost} = worst;
  const others = new Set(changes.map(change => change.item)).size - 1;
  const more = others > 0 ? `, and ${plural(others, 'more Service port')} ${others === 1 ? 'is' : 'are'} affected` : '';
  const sender = probe.senders?.text ?? sourceName(probe.source);
  const to = probe.direct === undefined ? `to the ${entryText(probe.entry)}` : `sent on by other nodes to the endpoint ${probe.direct}`;
  const where = `packets from ${sender} ${to} of ${item.port.servicePortName}`;
  const text = lost
    ? `${where} end in ${describePathOutcome(pathOutcome)}, and without it in ${describePathOutcome(without)}`
    : `${where} are masqueraded differently because of it`;
  // What is unknown is not broken.
  return {severity: isOfSome(worst) ? 'info' : lost && pathOutcome.undecided === 0 ? 'error' : 'warning', text: text + more};
}

/** A part of the clients outside is hit on purpose. */
export function isOfSome({probe: {source}}: Pick<PortProbe, 'probe'>): boolean {
  return source.kind === 'outside' && source.network !== undefined;
}

/** All properties of a Service port that decide which base rules its packets match, in a mode whose base rules name no Service. */
export function shapeOf({port, endpoints}: ServedPort, hostIPs: readonly string[]): string {
  return [
    port.protocol,
    port.externalPolicyLocal,
    port.internalPolicyLocal,
    port.nodePort !== 0,
    port.loadBalancerVIPs.length > 0,
    port.externalIPs.length > 0,
    port.sourceRanges.length > 0,
    endpoints.hasAny,
    endpoints.local.length > 0,
    endpoints.reachable.some(({address}) => hostIPs.includes(address)),
  ].join();
}

/** The last Service port of each shape. The full walks of `test/differential` replace it by its name. */
export function onePerShape(ports: readonly ServedPort[], shape: (item: ServedPort) => string): readonly ServedPort[] {
  return [...new Map(ports.map(item => [shape(item), item])).values()];
}

/** The addresses, ports and networks in rules: only by these can rules tell Service ports of one shape apart. */
interface RuleConstants {
  readonly words: ReadonlySet<string>;
  /** Networks and ranges. */
  readonly networks: readonly AddressInterval[];
  /** From the first to the last. */
  readonly portRanges: readonly (readonly [number, number])[];
}

/** Reads texts of rules, of nftables or iptables, and keys of elements. */
const constantsIn = once((texts: readonly string[]): RuleConstants => {
  const words = new Set<string>();
  const networks: AddressInterval[] = [];
  const portRanges: (readonly [number, number])[] = [];
  const noteInterval = (text: string): void => {
    const interval = parseInterval(text);
    if (interval === null) words.add(text);
    else if (interval.low === interval.high) words.add(text.split(/[/-]/, 1)[0] ?? '');
    else if (networks.length < maxNetworks) networks.push(interval);
  };
  for (const text of texts) {
    for (const word of (text.match(/[0-9a-f.:]+(?:\/\d+)?/g) ?? []).filter(isName)) {
      if (!word.includes('/')) words.add(word);
      else noteInterval(word);
    }
    for (const [range, low = '', high = ''] of text.matchAll(/\b([0-9a-f.:]+)-([0-9a-f.:]+)\b/g)) {
      if (/^\d{1,5}-\d{1,5}$/.test(range)) portRanges.push([Number(low), Number(high)]);
      else noteInterval(range);
    }
    for (const [, list = ''] of text.matchAll(/--[ds]?ports? ([\d,:]+)/g))
      for (const [low = '', high = low] of list.split(',').map(part => part.split(':'))) portRanges.push([Number(low), Number(high)]);
  }
  return {words, networks, portRanges};
});

const maxNetworks = 200;

function isName(word: string): boolean {
  return /^\d{1,5}$/.test(word) || /^[0-9a-f]*[.:][0-9a-f.:]*(?:\/\d+)?$/.test(word);
}

/**
 * Endpoints of a Service port on this node whose addresses rules name: their own connections to the Service may be treated differently from
 * others'. Those of other nodes connect to themselves by the rules of those nodes.
 */
function namedEndpoints({endpoints}: ServedPort, context: NodeContext, constants: RuleConstants): readonly Endpoint[] {
  const named = endpoints.reachable.filter(endpoint => isOnNode(endpoint, context) && isNamedAddress(endpoint.address, constants));
  return named.slice(0, maxEndpoints);
}

/** Or on one that is not known. */
function isOnNode({nodeName}: Endpoint, {facts}: NodeContext): boolean {
  return nodeName === null || nodeName === facts.name;
}

const maxEndpoints = 16;

function rankOf(item: ServedPort, context: NodeContext, constants: RuleConstants): number {
  const {addresses, ports} = addressesProbed(item, context);
  const byHost = addresses.some(address => constants.words.has(address));
  const byNetwork = addresses.some(address => isNamedAddress(address, constants));
  const byPort = ports.some(number => isNamedPort(number, constants));
  return (byHost ? 4 : 0) + (byNetwork ? 2 : 0) + (byPort ? 1 : 0);
}

/** The addresses and ports by which a rule may select a Service port. */
function addressesProbed({port, endpoints}: ServedPort, context: NodeContext) {
  const nodePort = port.nodePort === 0 ? [] : probedNodePortAddresses(context);
  return {
    addresses: [
      port.clusterIP,
      ...port.externalIPs,
      ...port.loadBalancerVIPs,
      ...nodePort,
      ...endpoints.reachable.map(({address}) => address),
    ],
    ports: [port.port, ...(port.nodePort === 0 ? [] : [port.nodePort]), ...new Set(endpoints.reachable.map(({port: number}) => number))],
  };
}

function isNamedPort(number: number, {words, portRanges}: RuleConstants): boolean {
  return words.has(String(number)) || portRanges.some(([low, high]) => low <= number && number <= high);
}

function isNamedAddress(text: string, {words, networks}: RuleConstants): boolean {
  if (words.has(text)) return true;
  const address = networks.length === 0 ? null : parseAddress(text);
  return (
    address !== null && networks.some(({family, low, high}) => family === address.family && low <= address.value && address.value <= high)
  );
}

/**
 * What differences do that change nothing for the usual senders, in words. All senders are compared, class by class: that no traffic is
 * affected is proved, where a rule tells senders apart.
 */
export function effectOnOthers(
  texts: readonly string[],
  items: () => readonly Pick<ServedPort, 'port'>[],
  context: NodeContext,
  walks: BothWalks,
): string {
  const isOfSenders = texts.some(text => /(?: -s | --src-| --sports? |\bsrc\b|\bsaddr\b|\bsport\b)/.test(text));
  for (const {port} of isOfSenders ? items() : []) {
    const found = entriesOf(port, context).flatMap(entry =>
      entryAddresses(entry, context).flatMap(destination => {
        const packet = packetOf(port, {source: destination, destination, port: entry.port, from: {kind: 'outside', interface: null}});
        return packet === null ? [] : affectedSpaces(packet, context, walks);
      }),
    );
    if (found.length > 0) return `only packets from ${spacesText(found, context)} are affected`;
  }
  return 'no traffic is affected';
}

function affectedSpaces(packet: Packet, {family, facts}: NodeContext, {expected, actual}: BothWalks): readonly SenderSpace[] {
  const usual = environmentOf(facts);
  const address = [addressesIn(facts.addresses, family), notOnTheWire(family)].reduce(subtract, allAddresses(family));
  const {classes, rest} = senderClasses({
    spaces: [{address, port: allPorts}],
    pick: space => ({
      address: space.address[0]?.[0] ?? 0n,
      port: holds(space.port, BigInt(anyPort)) ? anyPort : Number(space.port[0]?.[0] ?? 0n),
    }),
    walk: (sender, note) => {
      const source = {family, value: sender.address, text: formatAddress(family, sender.address)};
      const sent: Packet = {...packet, source, sourcePort: sender.port, client: 'source'};
      const environment = {...usual, sender: new SenderConditions(note)};
      return !isSameOutcome(expected(sent, environment), actual(sent, environment));
    },
  });
  // What was not walked may differ.
  return [...classes.flatMap(({result, space}) => (result ? [space] : [])), ...rest];
}

function spacesText(spaces: readonly SenderSpace[], {family}: NodeContext): string {
  const byPorts = Map.groupBy(spaces, ({port}) => port.join(' '));
  const joined = [...byPorts.values()].flatMap(([first, ...others]) => {
    const address: Intervals = intervalsOf([first, ...others].flatMap(space => space?.address ?? []));
    return first === undefined ? [] : [spaceText({address, port: first.port}, family)];
  });
  return someOf(joined);
}
