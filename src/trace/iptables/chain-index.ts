import {parseAddress, parseCidr} from '../../model/address.ts';
import {type Intervals, intervalsOf} from '../../model/intervals.ts';
import {type Chain, type ChainSource, type Rule, ruleAt, type RuleText} from '../../model/ruleset.ts';
import {askAddress, type Environment, type Packet} from '../packet.ts';
import {pushTo} from '../../model/lists.ts';

/**
 * The rules of a chain that may match a packet, in order. A chain of many rules is indexed once by host, so that a walk through
 * KUBE-SERVICES evaluates a handful of its rules instead of all.
 */
export function candidateRules(
  {rules}: {readonly rules: ChainSource},
  chain: Chain,
  packet: Packet,
  environment: Environment,
): readonly Rule[] {
  if (chain.ruleCount <= smallChain) return chain.rules();
  let index = indexes.get(chain);
  if (index === undefined) {
    index = buildIndex(chain);
    indexes.set(chain, index);
  }
  const {byHost, byPort, bySource, others} = index;
  // A port that stands for others is asked for by each rule about one.
  const ports = packet.client === 'destination' || packet.isPortDrawn === true ? byPort.values() : [portOf(packet, byPort)];
  const found = {
    destination: byHost.get(packet.destination.text) ?? [],
    source: bySource.get(packet.source.text) ?? [],
    others: [...[...ports].flat(), ...others],
  };
  if (environment.sender !== undefined && packet.client !== undefined) {
    const side = packet.client;
    const rest = [...found[side === 'source' ? 'destination' : 'source'], ...found.others].sort((x, y) => x - y);
    askHosts(index, {rules, chain, side, rest}, packet, environment);
  }
  return [...found.destination, ...found.source, ...found.others].sort((x, y) => x - y).flatMap(at => ruleAt(chain, at) ?? []);
}

function portOf({protocol, port}: Packet, byPort: ChainIndex['byPort']): readonly number[] {
  return byPort.get(`${protocol} ${port}`) ?? [];
}

interface AskedHosts {
  readonly rules: ChainSource;
  readonly chain: Chain;
  /** The client's. */
  readonly side: 'source' | 'destination';
  /** The rules that may match whoever the client is. */
  readonly rest: readonly number[];
}

/**
 * Hosts of which the chain says the same in the same place are one class: a list of a thousand banned hosts, or the pods that each have a
 * chain with the same rules, is one condition.
 */
function askHosts(index: ChainIndex, asked: AskedHosts, packet: Packet, environment: Environment): void {
  const {chain, side, rest} = asked;
  const hosts = side === 'source' ? index.bySource : index.byHost;
  if (hosts.size === 0) return;
  const other = packet[side === 'source' ? 'destination' : 'source'].text;
  const key = [side, hosts.has(other) ? other : '', ...rest].join();
  let alike = index.alike.get(key);
  if (alike === undefined) {
    alike = alikeHosts(hosts, asked, other);
    index.alike.set(key, alike);
  }
  const host = packet[side].text;
  askAddress(alike.byHost.get(host) ?? alike.all, side, packet, environment);
  environment.sender?.decideAlone();
  for (const at of hosts.get(host) ?? []) {
    const rule = ruleAt(chain, at);
    if (rule !== undefined) decidedHosts.set(rule, side === 'source' ? 'saddr' : 'daddr');
  }
}

interface AlikeHosts {
  readonly all: Intervals;
  readonly byHost: ReadonlyMap<string, Intervals>;
}

function alikeHosts(hosts: ReadonlyMap<string, readonly number[]>, asked: AskedHosts, other: string): AlikeHosts {
  const lines = asked.chain.text().split('\n');
  const said = Map.groupBy([...hosts.keys()], host =>
    host === other ? 'itself' : (hosts.get(host) ?? []).map(at => saidOf({at, line: lines[at] ?? ''}, host, asked)).join('\n'),
  );
  const ranges = [...said.values()].map(alike => [alike, rangesOf(alike)] as const);
  return {all: rangesOf([...hosts.keys()]), byHost: new Map(ranges.flatMap(([alike, range]) => alike.map(host => [host, range])))};
}

function rangesOf(hosts: readonly string[]): Intervals {
  return intervalsOf(hosts.flatMap(host => parseAddress(host)?.value ?? []).map(value => [value, value]));
}

/** What a rule about a host says: its place among the rules that may match whoever it is, and its text, with those of a chain for the host. */
function saidOf(
  {at, line: text}: {readonly at: number; readonly line: string},
  host: string,
  {rules, chain, side, rest}: AskedHosts,
): string {
  const target = / -[jg] (\S+)$/.exec(text)?.[1];
  const led = target === undefined ? undefined : rules.chain(chain.table, target);
  const own = (line: string): string =>
    line
      .slice(`-A ${chain.name} `.length)
      .replace(/ ?-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)/, '')
      .replace(side === 'source' ? /(?:^| )-s \S+/ : /(?:^| )-d \S+/, '');
  const before = rest.findIndex(index => index > at);
  if (led === undefined || led.ruleCount > maxCompared) return `${before} ${own(text)}`;
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
  return [before, own(text).slice(0, -(target ?? '').length), ...inside].join('\n');
}

const decidedHosts = new WeakMap<RuleText, 'saddr' | 'daddr'>();

/** The field by which the list of hosts was searched that a rule is in: it matches, and is asked for already. */
export function decidedHost(rule: RuleText): 'saddr' | 'daddr' | undefined {
  return decidedHosts.get(rule);
}

/** Chains up to this number of rules are not indexed. */
const smallChain = 8;

/** The rules of a chain for one host are compared with those for another up to this number. */
const maxCompared = 32;

const indexes = new WeakMap<Chain, ChainIndex>();

interface ChainIndex {
  readonly byHost: ReadonlyMap<string, readonly number[]>;
  /** Rules without a destination host that match one protocol and port, such as node ports. */
  readonly byPort: ReadonlyMap<string, readonly number[]>;
  /** Rules without a destination host or port that match one source host. */
  readonly bySource: ReadonlyMap<string, readonly number[]>;
  readonly others: readonly number[];
  /** By the rules that may match beside those about the hosts. */
  readonly alike: Map<string, AlikeHosts>;
}

function buildIndex(chain: Chain): ChainIndex {
  const byHost = new Map<string, number[]>();
  const byPort = new Map<string, number[]>();
  const bySource = new Map<string, number[]>();
  const others: number[] = [];
  for (const [at, line] of chain.text().split('\n').entries()) {
    // Nearly all rules have this form. A large chain has tens of thousands, and parsing each takes longer than all walks.
    const plain = plainHost.exec(line)?.[1];
    const rule = plain === undefined ? ruleAt(chain, at) : undefined;
    const host = plain ?? (rule === undefined ? null : exactHost(rule, '-d'));
    const port = host === null && rule !== undefined ? exactPort(rule) : null;
    const source = host === null && port === null && rule !== undefined ? exactHost(rule, '-s') : null;
    if (host !== null) pushTo(byHost, host, at);
    else if (port !== null) pushTo(byPort, port, at);
    else if (source !== null) pushTo(bySource, source, at);
    else others.push(at);
  }
  return {byHost, byPort, bySource, others, alike: new Map()};
}

function exactHost(rule: Rule, wanted: '-d' | '-s'): string | null {
  const value = rule.options.find(({flag, negated}) => flag === wanted && !negated)?.values[0] ?? '';
  const cidr = parseCidr(value);
  if (cidr === null || cidr.prefix !== (cidr.family === 'IPv4' ? 32 : 128)) return null;
  return parseAddress(cidr.text.split('/')[0] ?? '')?.text ?? null;
}

const octet = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const plainHost = new RegExp(`^-A \\S+ (?:(?:! )?-s \\S+ )?-d (${octet}(?:\\.${octet}){3})/32 `);

function exactPort(rule: Rule): string | null {
  const protocol = rule.options.find(({flag, negated}) => flag === '-p' && !negated)?.values[0];
  const port = rule.matches.flatMap(match => match.options).find(({flag, negated}) => flag === '--dport' && !negated)?.values[0];
  return protocol === undefined || port === undefined || !/^\d+$/.test(port) ? null : `${protocol} ${port}`;
}
