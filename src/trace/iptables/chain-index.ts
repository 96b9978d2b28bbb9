import {heldIn} from '../../model/once.ts';
import {bitsOf, formatAddress, parseAddress, parseCidr} from '../../model/address.ts';
import {type Intervals, intervalsOf} from '../../model/intervals.ts';
import {append, countFirst, pushTo} from '../../model/lists.ts';
import {type Chain, type ChainSource, matchOptionOf, optionOf, type Rule, ruleAt, type RuleText} from '../../model/ruleset.ts';
import {askAddress, type Environment, type Packet} from '../walked-packet.ts';
import {NeedingRules, networksNeeded, type NetworkWithRules} from './needed-networks.ts';

/**
 * The rules of a chain that may match a packet, in order. A chain of many rules is indexed once by host and network, so that a walk through
 * KUBE-SERVICES, or through a list of banned networks, evaluates a handful of its rules instead of all. Null where any may match.
 */
export function candidateRules(
  {rules}: {readonly rules: ChainSource},
  chain: Chain,
  packet: Packet,
  environment: Environment,
): readonly Rule[] | null {
  // What is masqueraded has another source for the rules than the one by which the index is searched.
  if (chain.ruleCount <= smallChain || packet.masquerade) return null;
  let index = indexes.get(chain);
  if (index === undefined) {
    index = buildIndex(rules, chain);
    indexes.set(chain, index);
  }
  const {byPort, others, calls} = index;
  // A port that stands for others is asked for by each rule about one.
  const ports = packet.client === 'destination' || packet.isPortDrawn === true ? byPort.values() : [portOf(packet, byPort)];
  const found = {
    destination: foundAt(index.destination, packet, 'destination'),
    source: foundAt(index.source, packet, 'source'),
    others: [...[...ports].flat(), ...others],
  };
  const side = packet.client;
  if (environment.sender !== undefined && side !== undefined) {
    const rest = [...found[side === 'source' ? 'destination' : 'source'], ...found.others].sort((x, y) => x - y);
    askSenders(index, {rules, chain, side, rest}, packet, environment);
  }
  // The path of a single packet has the calls in which nothing is about it as well.
  const passed = environment.sender === undefined ? calls : [];
  const all = new Set([...found.destination, ...found.source, ...found.others, ...passed]);
  return [...all].sort((x, y) => x - y).flatMap(at => ruleAt(chain, at) ?? []);
}

function portOf({protocol, port}: Packet, byPort: ChainIndex['byPort']): readonly number[] {
  return byPort.get(`${protocol} ${port}`) ?? [];
}

function foundAt({byHost, networks}: SideIndex, packet: Packet, side: 'source' | 'destination'): readonly number[] {
  return [...(byHost.get(packet[side].text) ?? []), ...networks.of(packet[side], packet).map(({at}) => at)];
}

/** Senders of whom the chain says the same in the same place are one class: a list of a thousand banned ones is one condition. */
function askSenders(index: ChainIndex, searched: SearchedChain, packet: Packet, environment: Environment): void {
  const {chain, side, rest} = searched;
  const {byHost, networks, alike} = index[side];
  if (byHost.size === 0 && networks.isEmpty) return;
  const other = packet[side === 'source' ? 'destination' : 'source'].text;
  const sent = networks.isEmpty ? '' : `${packet.protocol} ${packet.port}`;
  const key = [byHost.has(other) ? other : '', sent, ...rest].join();
  let senders = alike.get(key);
  if (senders === undefined) {
    senders = alikeSenders({byHost, networks: networks.all(packet), other}, searched);
    alike.set(key, senders);
  }
  const client = packet[side];
  askAddress(senders.alikeTo(client.value) ?? senders.all, side, packet, environment);
  environment.sender?.commitAdded();
  const decided = networks.of(client, packet).filter(({isDecided}) => isDecided);
  for (const at of [...(byHost.get(client.text) ?? []), ...decided.map(one => one.at)]) {
    const rule = ruleAt(chain, at);
    if (rule !== undefined) searchedFields.set(rule, side === 'source' ? 'saddr' : 'daddr');
  }
}

const searchedFields = new WeakMap<RuleText, 'saddr' | 'daddr'>();

/** The field by which the list of hosts was searched that a rule is in: it matches, and is asked for already. */
export function searchedField(rule: RuleText): 'saddr' | 'daddr' | undefined {
  return searchedFields.get(rule);
}

/** Chains up to this number of rules are not indexed. */
const smallChain = 8;

const indexes = new WeakMap<Chain, ChainIndex>();

interface ChainIndex {
  readonly destination: SideIndex;
  readonly source: SideIndex;
  /** Rules that need no host or network and match one protocol and port, such as node ports. */
  readonly byPort: ReadonlyMap<string, readonly number[]>;
  readonly others: readonly number[];
  /** Those found by a network that call a chain. */
  readonly calls: readonly number[];
}

interface SideIndex {
  /** Those about one destination: of Services there are tens of thousands. */
  readonly byHost: Map<string, number[]>;
  readonly networks: NeedingRules;
  /** By the rules that may match beside those of this side. */
  readonly alike: Map<string, AlikeSenders>;
}

function buildIndex(rules: ChainSource, chain: Chain): ChainIndex {
  const side = (): SideIndex => ({byHost: new Map(), networks: new NeedingRules(rules.family), alike: new Map()});
  const [source, destination] = [side(), side()];
  const byPort = new Map<string, number[]>();
  const [others, calls]: [number[], number[]] = [[], []];
  let room = maxNetworks;
  for (const [at, line] of chain.text().split('\n').entries()) {
    // Nearly all rules have this form. A large chain has tens of thousands, and parsing each takes longer than all walks.
    const plain = plainHost.exec(line)?.[1];
    const rule = plain === undefined ? ruleAt(chain, at) : undefined;
    const needed = rule === undefined || room <= 0 ? null : networksNeeded(rules, chain, rule, at);
    const isBySource = needed?.some(one => one.side === 'source') === true;
    const host = plain ?? (rule === undefined || isBySource ? null : exactHost(rule));
    const port = rule === undefined ? null : exactPort(rule);
    if (host !== null) pushTo(destination.byHost, host, at);
    else if (needed !== null) {
      room -= needed.length;
      for (const one of needed) (one.side === 'source' ? source : destination).networks.add(one.network, one.rule);
      if (needed[0]?.rule.isCall !== false) calls.push(at);
    } else if (port !== null) pushTo(byPort, port, at);
    else others.push(at);
  }
  return {source, destination, byPort, others, calls};
}

/** Many rules may call the same long chain. */
const maxNetworks = 100_000;

function exactHost(rule: Rule): string | null {
  const value = optionOf(rule, '-d') ?? '';
  const cidr = parseCidr(value);
  if (cidr === null || cidr.prefix !== bitsOf(cidr.family)) return null;
  return parseAddress(cidr.text.split('/')[0] ?? '')?.text ?? null;
}

const octet = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const plainHost = new RegExp(`^-A \\S+ (?:! -s \\S+ )?-d (${octet}(?:\\.${octet}){3})/32 `);

function exactPort(rule: Rule): string | null {
  const protocol = optionOf(rule, '-p');
  const port = matchOptionOf(rule, '--dport');
  return protocol === undefined || port === undefined || !/^\d+$/.test(port) ? null : `${protocol} ${port}`;
}

/** A chain that is searched by the client's address. */
interface SearchedChain {
  readonly rules: ChainSource;
  readonly chain: Chain;
  /** The client's. */
  readonly side: 'source' | 'destination';
  /** The rules that may match whoever the client is, in order. */
  readonly rest: readonly number[];
}

/** Senders that are named by the rules of a chain, in classes of which the rules say the same. */
interface AlikeSenders {
  readonly all: Intervals;
  /** Undefined for an address that no rule is about. */
  alikeTo(address: bigint): Intervals | undefined;
}

interface NamedSenders {
  readonly byHost: ReadonlyMap<string, readonly number[]>;
  readonly networks: Iterable<NetworkWithRules>;
  /** The other side of the packet. */
  readonly other: string;
}

/** Pods that each have a chain with the same rules, or networks that are dropped by a rule each, are one class. */
function alikeSenders(named: NamedSenders, searched: SearchedChain): AlikeSenders {
  const pieces = disjointPieces(namedNetworks(named, searched));
  const lines = searched.chain.text().split('\n');
  const said = new Map<Network, string>();
  const saidIn = (network: Network): string => heldIn(said, network, () => saidOfNetwork(network, lines, named.other, searched));
  const alike = [...Map.groupBy(pieces, ({network}) => saidIn(network)).values()];
  const classes = new Map(
    alike.flatMap(own => {
      const ranges = rangesOf(own);
      return own.map(piece => [piece, ranges]);
    }),
  );
  return {
    all: rangesOf(pieces),
    alikeTo: address => {
      const found = pieces[lastFrom(pieces, address)];
      return found === undefined || found.high < address ? undefined : classes.get(found);
    },
  };
}

function rangesOf(pieces: readonly Piece[]): Intervals {
  return intervalsOf(pieces.map(({low, high}) => [low, high]));
}

/** The index of the last piece that begins at or before an address. */
function lastFrom(pieces: readonly Piece[], address: bigint): number {
  return countFirst(pieces.length, index => (pieces[index]?.low ?? 0n) <= address) - 1;
}

/** A network, or a host, with the rules that are about it itself. */
interface Network {
  readonly low: bigint;
  readonly high: bigint;
  readonly host: string | null;
  readonly own: number[];
  /** Of the rules that are about it: those that call a chain about it. */
  readonly calls: Set<number>;
  above: Network | null;
}

function namedNetworks({byHost, networks}: NamedSenders, {rules: {family}, chain}: SearchedChain): readonly Network[] {
  const all = new Map<string, Network>();
  const at = (low: bigint, high: bigint): Network =>
    heldIn(all, `${low}-${high}`, () => ({
      low,
      high,
      host: low === high ? formatAddress(family, low) : null,
      own: [],
      calls: new Set(),
      above: null,
    }));
  for (const [host, rules] of byHost) {
    const value = parseAddress(host)?.value;
    if (value === undefined) throw new Error(`the index of chain ${chain.name} has a host that is no address: ${host}`);
    append(at(value, value).own, rules);
  }
  for (const {low, high, rules} of networks) {
    const network = at(low, high);
    for (const rule of rules) {
      network.own.push(rule.at);
      if (rule.isCall) network.calls.add(rule.at);
    }
  }
  return [...all.values()];
}

interface Piece {
  readonly low: bigint;
  readonly high: bigint;
  readonly network: Network;
}

/** Networks hold each other or are apart. A piece is what a network has beside those inside it. */
function disjointPieces(networks: readonly Network[]): readonly Piece[] {
  const sorted = networks.toSorted((a, b) => (a.low < b.low ? -1 : a.low > b.low ? 1 : a.high > b.high ? -1 : 1));
  const pieces: Piece[] = [];
  let open: Network | null = null;
  let from = 0n;
  const closeBefore = (low: bigint | null): void => {
    for (; open !== null && (low === null || open.high < low); open = open.above) {
      if (from <= open.high) pieces.push({low: from, high: open.high, network: open});
      from = open.high + 1n;
    }
  };
  for (const network of sorted) {
    closeBefore(network.low);
    if (open !== null && from < network.low) pieces.push({low: from, high: network.low - 1n, network: open});
    network.above = open;
    open = network;
    from = network.low;
  }
  closeBefore(null);
  return pieces;
}

/** What the rules say of the senders of a network: those of the networks around it by their place, its own by their text. */
function saidOfNetwork({host, own, calls, above}: Network, lines: readonly string[], other: string, searched: SearchedChain): string {
  if (host !== null && host === other) return 'itself';
  const around: number[] = [];
  for (let network = above; network !== null; network = network.above) for (const at of network.own) around.push(at);
  around.sort((a, b) => a - b);
  const said = own
    .toSorted((a, b) => a - b)
    .map(at => {
      const line = lines[at] ?? '';
      const isAlone = calls.has(at) || (host === null && calledBy(line, searched) !== undefined);
      return isAlone ? `${at}` : [countBefore(around, at), countBefore(searched.rest, at), saidOf(line, host ?? '', searched)].join(' ');
    });
  return [around.join(), ...said].join('\n');
}

/** How many of these are before a rule. */
function countBefore(sorted: readonly number[], at: number): number {
  return countFirst(sorted.length, index => (sorted[index] ?? 0) < at);
}

function calledBy(line: string, {rules, chain}: SearchedChain): Chain | undefined {
  const target = / -[jg] (\S+)$/.exec(line)?.[1];
  return target === undefined ? undefined : rules.chain(chain.table, target);
}

/** The text of a rule about a host or network without it, with the rules of a chain for the host. */
function saidOf(text: string, host: string, searched: SearchedChain): string {
  const {chain, side} = searched;
  const led = calledBy(text, searched);
  const own = text
    .slice(`-A ${chain.name} `.length)
    .replace(/ ?-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)/, '')
    .replace(side === 'source' ? /(?:^| )(?:-s|-m iprange --src-range) \S+/ : /(?:^| )(?:-d|-m iprange --dst-range) \S+/, '');
  if (led === undefined || led.ruleCount > maxCompared) return own;
  // A client does not send to itself here, so what its chain says of packets that it gets from itself is left out.
  const escaped = host.replaceAll('.', '\\.');
  const isOwn = (flag: string, line: string): boolean => new RegExp(`(?<!!) ${flag} ${escaped}(?:/(?:32|128))? `).test(line);
  const [client, server] = side === 'source' ? ['-s', '-d'] : ['-d', '-s'];
  const inside = led
    .text()
    .split('\n')
    .filter(line => !isOwn(server, line))
    .map(line => (isOwn(client, line) ? line.replace(new RegExp(` ${client} \\S+`), '') : line))
    .map(line => line.slice(`-A ${led.name}`.length).replace(/ -m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)/, ''));
  return [own.slice(0, -led.name.length), ...inside].join('\n');
}

/** The rules of a chain for one host are compared with those for another up to this number. */
const maxCompared = 32;
