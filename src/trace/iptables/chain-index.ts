import {parseAddress, parseCidr} from '../../model/address.ts';
import {type Chain, type ChainSource, type Rule, ruleAt, type RuleText} from '../../model/ruleset.ts';
import {askAddress, type Environment, type Packet} from '../packet.ts';
import {pushTo} from '../../model/lists.ts';
import {type AlikeSenders, alikeSenders, type SearchedChain} from './alike-senders.ts';
import {NeedingRules, networksNeeded} from './needed-networks.ts';

/**
 * The rules of a chain that may match a packet, in order. A chain of many rules is indexed once by host and network, so that a walk through
 * KUBE-SERVICES, or through a list of banned networks, evaluates a handful of its rules instead of all.
 */
export function candidateRules(
  {rules}: {readonly rules: ChainSource},
  chain: Chain,
  packet: Packet,
  environment: Environment,
): readonly Rule[] {
  // What is masqueraded has another source for the rules than the one by which the index is searched.
  if (chain.ruleCount <= smallChain || packet.masquerade) return chain.rules();
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
  environment.sender?.decideAlone();
  const decided = networks.of(client, packet).filter(({isDecided}) => isDecided);
  for (const at of [...(byHost.get(client.text) ?? []), ...decided.map(one => one.at)]) {
    const rule = ruleAt(chain, at);
    if (rule !== undefined) decidedHosts.set(rule, side === 'source' ? 'saddr' : 'daddr');
  }
}

const decidedHosts = new WeakMap<RuleText, 'saddr' | 'daddr'>();

/** The field by which the list of hosts was searched that a rule is in: it matches, and is asked for already. */
export function decidedHost(rule: RuleText): 'saddr' | 'daddr' | undefined {
  return decidedHosts.get(rule);
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
  const value = rule.options.find(({flag, negated}) => flag === '-d' && !negated)?.values[0] ?? '';
  const cidr = parseCidr(value);
  if (cidr === null || cidr.prefix !== (cidr.family === 'IPv4' ? 32 : 128)) return null;
  return parseAddress(cidr.text.split('/')[0] ?? '')?.text ?? null;
}

const octet = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const plainHost = new RegExp(`^-A \\S+ (?:! -s \\S+ )?-d (${octet}(?:\\.${octet}){3})/32 `);

function exactPort(rule: Rule): string | null {
  const protocol = rule.options.find(({flag, negated}) => flag === '-p' && !negated)?.values[0];
  const port = rule.matches.flatMap(match => match.options).find(({flag, negated}) => flag === '--dport' && !negated)?.values[0];
  return protocol === undefined || port === undefined || !/^\d+$/.test(port) ? null : `${protocol} ${port}`;
}
