import {formatAddress, parseAddress} from '../../model/address.ts';
import {type Intervals, intervalsOf} from '../../model/intervals.ts';
import {append} from '../../model/lists.ts';
import type {Chain, ChainSource} from '../../model/ruleset.ts';
import type {NetworkWithRules} from './needed-networks.ts';

/** A chain that is searched by the client's address. */
export interface SearchedChain {
  readonly rules: ChainSource;
  readonly chain: Chain;
  /** The client's. */
  readonly side: 'source' | 'destination';
  /** The rules that may match whoever the client is, in order. */
  readonly rest: readonly number[];
}

/** Senders that are named by the rules of a chain, in classes of which the rules say the same. */
export interface AlikeSenders {
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
export function alikeSenders(named: NamedSenders, searched: SearchedChain): AlikeSenders {
  const pieces = disjointPieces(namedNetworks(named, searched));
  const lines = searched.chain.text().split('\n');
  const said = new Map<Network, string>();
  const saidIn = (network: Network): string => {
    const known = said.get(network);
    if (known !== undefined) return known;
    const text = saidOfNetwork(network, lines, named.other, searched);
    said.set(network, text);
    return text;
  };
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
  let [low, high] = [0, pieces.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((pieces[middle]?.low ?? 0n) <= address) low = middle + 1;
    else high = middle;
  }
  return low - 1;
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
  const at = (low: bigint, high: bigint): Network => {
    const key = `${low}-${high}`;
    const network = all.get(key) ?? {
      low,
      high,
      host: low === high ? formatAddress(family, low) : null,
      own: [],
      calls: new Set(),
      above: null,
    };
    all.set(key, network);
    return network;
  };
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
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) < at) low = middle + 1;
    else high = middle;
  }
  return low;
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
    .replace(side === 'source' ? /(?:^| )-s \S+/ : /(?:^| )-d \S+/, '');
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
