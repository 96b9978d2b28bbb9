import {type Cidr, contains, parseCidr} from '../../model/address.ts';
import type {Match, Rule, RuleOption} from '../../model/ruleset.ts';
import {type AddressInterval, parseInterval} from '../../parse/nftables/address-list.ts';
import {
  askAddress,
  askInterface,
  askLocal,
  askPort,
  type Environment,
  firstOf,
  isInterfaceLike,
  type Packet,
  stateOf,
  tcpFlags,
} from '../packet.ts';
import {decidedHost} from './chain-index.ts';
import type {SenderConditions} from '../sender-space.ts';

/** How likely a rule matches: 0 is no, 1 is yes, a value between is random (`statistic`). Null means unknown. */
export type Likelihood = number | null;

/** Matches a packet against all conditions of a rule. One condition that certainly fails outweighs those that are unknown. */
export function matchRule(rule: Rule, packet: Packet, environment: Environment): Likelihood {
  const seen = rule.table === 'raw' ? beforeTracking(packet) : packet;
  if (environment.sender !== undefined)
    return !environment.sender.countsEndpoints && isOfEndpointItself(rule)
      ? matchRule(rule, packet, {...environment, sender: undefined})
      : matchNoting(rule, {packet, seen}, environment, environment.sender);
  let likelihood: Likelihood = 1;
  for (const option of rule.options) {
    likelihood = both(likelihood, matchOption(option, packet, environment, rule));
    if (likelihood === 0) return 0;
  }
  for (const match of rule.matches) {
    likelihood = both(likelihood, matchExtension(match, seen, environment));
    if (likelihood === 0) return 0;
  }
  return likelihood;
}

/** The rule by which kube-proxy masquerades the connections of an endpoint to itself: endpoints are senders of their own kind. */
function isOfEndpointItself({chain, target}: Rule): boolean {
  return target?.name === 'KUBE-MARK-MASQ' && chain.startsWith('KUBE-SEP-');
}

interface MatchedPackets {
  readonly packet: Packet;
  /** As extensions see it. */
  readonly seen: MatchedPacket;
}

/** The same, noting the conditions on the sender: the first that fails, or all if none does, and none if another condition fails. */
function matchNoting(rule: Rule, {packet, seen}: MatchedPackets, environment: Environment, sender: SenderConditions): Likelihood {
  const {options, matches} = rule;
  const known = decidedHost(rule);
  let likelihood: Likelihood = 1;
  let failed: readonly [from: number, to: number] | null = null;
  const count = options.length + matches.length;
  for (let at = 0; at < count; at++) {
    const [option, match] = [options[at], matches[at - options.length]];
    const from = sender.count;
    // The list of hosts that it belongs to is noted already.
    if (known !== undefined && option?.flag === known) continue;
    const one: Likelihood =
      option !== undefined
        ? matchOption(option, packet, environment, rule)
        : match === undefined
          ? 1
          : matchExtension(match, seen, environment);
    if (!sender.keep()) likelihood = both(likelihood, one);
    else if (one === 0) failed ??= [from, sender.count];
    else likelihood = both(likelihood, one);
    if (likelihood === 0) {
      sender.forget();
      return 0;
    }
  }
  sender.decide(...(failed ?? []));
  return failed === null ? likelihood : 0;
}

/** Connection tracking runs after raw, except for a packet that the node sent to itself: that one already has a state. */
function beforeTracking(packet: Packet): MatchedPacket {
  return packet.inInterface === 'lo' || packet.untracked ? packet : {...packet, stateless: true};
}

/** For a packet without a state, conntrack matches INVALID. */
interface MatchedPacket extends Packet {
  readonly stateless?: true;
}

function both(a: Likelihood, b: Likelihood): Likelihood {
  if (a === 0 || b === 0) return 0;
  return a === null || b === null ? null : a * b;
}

function negate(likelihood: Likelihood, negated: boolean): Likelihood {
  return !negated || likelihood === null ? likelihood : 1 - likelihood;
}

function truth(value: boolean | null): Likelihood {
  return value === null ? null : value ? 1 : 0;
}

function matchOption({flag, values, negated}: RuleOption, packet: Packet, environment: Environment, rule: Rule): Likelihood {
  const value = values[0] ?? '';
  if (flag === '-i' || flag === '-o') return negate(matchInterface(flag, value, packet, environment, rule), negated);
  return negate(plainOption(flag, value, packet, environment), negated);
}

function plainOption(flag: string, value: string, packet: Packet, environment: Environment): Likelihood {
  switch (flag) {
    case '-s':
      return inCidr(value, 'source', packet, environment);
    case '-d':
      return inCidr(value, 'destination', packet, environment);
    case '-p':
      return truth(isProtocol(value, packet.protocol));
    case '-f':
      return 0;
    default:
      return null;
  }
}

const networks = new Map<string, Network | null>();

interface Network {
  readonly cidr: Cidr;
  readonly interval: AddressInterval;
}

function networkOf(text: string): Network | null {
  let network = networks.get(text);
  if (network === undefined) {
    const [cidr, interval] = [parseCidr(text), parseInterval(text)];
    network = cidr === null || interval === null ? null : {cidr, interval};
    if (networks.size > 100_000) networks.clear();
    networks.set(text, network);
  }
  return network;
}

function inCidr(text: string, side: 'source' | 'destination', packet: Packet, environment: Environment): Likelihood {
  const network = networkOf(text);
  if (network === null) return null;
  askAddress([[network.interval.low, network.interval.high]], side, packet, environment);
  return truth(contains(network.cidr, packet[side]));
}

const protocolNumbers: Readonly<Record<string, string>> = {6: 'tcp', 17: 'udp', 132: 'sctp'};

function isProtocol(value: string, protocol: string): boolean {
  return (
    value === 'all' || value === '0' || value === protocol || (Object.hasOwn(protocolNumbers, value) && protocolNumbers[value] === protocol)
  );
}

/** A packet that the node itself sends has no input interface, so `-i` never matches it and `! -i` always does. */
function inInterfaceOf({inInterface, origin}: Packet): string | null {
  return inInterface ?? (origin === 'node' ? '' : null);
}

function matchInterface(flag: '-i' | '-o', pattern: string, packet: Packet, environment: Environment, rule: Rule): Likelihood {
  // Only packets that the node sends to itself arrive on the loopback interface, and then the interface is known.
  if (flag === '-i' && pattern === 'lo' && packet.inInterface === null) return 0;
  const side = flag === '-i' ? 'source' : 'destination';
  const [name, address] = [flag === '-i' ? inInterfaceOf(packet) : packet.outInterface, packet[side]];
  askInterface(pattern, side, packet, environment, rule);
  if (name === null) return truth(environment.canBeInterface(pattern, address));
  return truth(isInterfaceLike(pattern, name));
}

type Matcher = (match: Match, packet: Packet, environment: Environment) => Likelihood;

function matchExtension(match: Match, packet: Packet, environment: Environment): Likelihood {
  const matcher = Object.hasOwn(matchers, match.name) ? matchers[match.name] : undefined;
  return matcher === undefined ? null : matcher(match, packet, environment);
}

const always: Matcher = () => 1;
const never: Matcher = () => 0;

/** The matches that can be evaluated for a packet. Every other match is unknown. */
const matchers: Readonly<Record<string, Matcher>> = {
  comment: always,
  nfacct: always,
  tcp: everyOption(tcpOption, 'tcp'),
  udp: everyOption(portOption, 'udp'),
  sctp: everyOption(portOption, 'sctp'),
  icmp: never,
  icmp6: never,
  multiport: everyOption(multiportOption),
  mark: everyOption((option, packet) => truth(maskedEquals(option.values[0] ?? '', packet.mark))),
  connmark: everyOption((option, packet) => truth(maskedEquals(option.values[0] ?? '', packet.connectionMark))),
  conntrack: everyOption(conntrackOption),
  state: everyOption((option, packet) => truth(hasState(option.values[0] ?? '', packet))),
  addrtype: everyOption(addressTypeOption),
  statistic: matchStatistic,
  recent: matchRecent,
  set: everyOption((option, packet, environment) =>
    option.flag === '--match-set' ? truth(environment.inSet(option.values[0] ?? '', packet, option.values[1] ?? '', environment)) : null,
  ),
  iprange: everyOption(rangeOption),
  ipvs: everyOption(ipvsOption),
  pkttype: everyOption(option => truth(option.values[0] === 'unicast')),
  // Assumes symmetric routing: the packet arrived on the interface by which replies leave.
  rpfilter: ({options}) => truth(!options.some(({flag}) => flag === '--invert')),
};

type OptionMatcher = (option: RuleOption, packet: Packet, environment: Environment) => Likelihood;

function everyOption(matcher: OptionMatcher, protocol?: string): Matcher {
  return (match, packet, environment) => {
    let likelihood: Likelihood = protocol === undefined || packet.protocol === protocol ? 1 : 0;
    for (const option of match.options) likelihood = both(likelihood, negate(matcher(option, packet, environment), option.negated));
    return likelihood;
  };
}

function portOption(option: RuleOption, packet: Packet, environment: Environment): Likelihood {
  const value = option.values[0] ?? '';
  if (option.flag === '--dport' || option.flag === '--destination-port') return inPorts([value], 'destination', packet, environment);
  return option.flag === '--sport' || option.flag === '--source-port' ? inPorts([value], 'source', packet, environment) : null;
}

/** Whether a port of the packet is in one of the ranges. Unknown for a source port that is left open. */
function inPorts(ranges: readonly string[], side: 'source' | 'destination', packet: Packet, environment: Environment): Likelihood {
  const port = side === 'source' ? packet.sourcePort : packet.port;
  const inside = (wanted: number): boolean => ranges.some(range => inPortRange(range, wanted));
  if (port === undefined) return inside(0) && inside(65_535) && ranges.length === 1 ? 1 : null;
  askPort(ranges.flatMap(portInterval), side, packet, environment);
  return truth(inside(port));
}

/** None for text that is no range of ports. */
function portInterval(text: string): readonly (readonly [bigint, bigint])[] {
  const [low = '', high = low] = text.split(':');
  if (!/^\d*$/.test(low) || !/^\d*$/.test(high)) return [];
  return [[BigInt(low === '' ? 0 : low), BigInt(high === '' ? 65_535 : high)]];
}

function inPortRange(text: string, port: number): boolean {
  const [low = '', high = low] = text.split(':');
  return port >= Number(low === '' ? 0 : low) && port <= Number(high === '' ? 65_535 : high);
}

function tcpOption(option: RuleOption, packet: Packet, environment: Environment): Likelihood {
  const flags = tcpFlags(packet);
  if (option.flag === '--syn') return truth(flags.join() === 'SYN');
  if (option.flag !== '--tcp-flags') return portOption(option, packet, environment);
  const [mask = '', wanted = ''] = option.values;
  const set = flags.filter(flag => mask === 'ALL' || mask.split(',').includes(flag));
  return truth(set.length === 0 ? wanted === 'NONE' : set.toSorted().join() === wanted.split(',').sort().join());
}

function multiportOption(option: RuleOption, packet: Packet, environment: Environment): Likelihood {
  const ranges = (option.values[0] ?? '').split(',');
  if (option.flag === '--dports' || option.flag === '--destination-ports') return inPorts(ranges, 'destination', packet, environment);
  const source = inPorts(ranges, 'source', packet, environment);
  if (option.flag === '--sports' || option.flag === '--source-ports') return source;
  return option.flag === '--ports' ? (inPorts(ranges, 'destination', packet, environment) === 1 ? 1 : source) : null;
}

function maskedEquals(text: string, mark: number): boolean {
  const [value = '0', mask = '0xffffffff'] = text.split('/');
  return (mark & Number(mask)) >>> 0 === Number(value);
}

function conntrackOption(option: RuleOption, packet: MatchedPacket, environment: Environment): Likelihood {
  const value = option.values[0] ?? '';
  if (option.flag === '--ctstate') return truth(hasState(value, packet));
  if (option.flag === '--ctdir') return truth(value === (packet.connection?.direction ?? 'original').toUpperCase());
  const {source, destination, port} = firstOf(packet);
  const first: Packet = {...packet, source, destination, port, ...(packet.client === undefined ? {} : {client: 'source'})};
  if (option.flag === '--ctproto') return truth(isProtocol(value, packet.protocol));
  if (option.flag === '--ctorigdst') return inCidr(value, 'destination', first, environment);
  if (option.flag === '--ctorigsrc') return inCidr(value, 'source', first, environment);
  return option.flag === '--ctorigdstport' ? truth(inPortRange(value, port)) : null;
}

/** A new connection is NEW, one with a reply ESTABLISHED, and DNAT once its destination was rewritten. */
function hasState(text: string, packet: MatchedPacket): boolean {
  const states = text.split(',');
  if (packet.stateless) return states.includes('INVALID');
  const state = stateOf(packet);
  if (state === 'untracked' || state === 'invalid') return states.includes(state.toUpperCase());
  const {connection, rewritten, masquerade} = packet;
  return (
    states.includes(state.toUpperCase()) ||
    ((connection?.rewritten ?? rewritten) && states.includes('DNAT')) ||
    ((connection?.masquerade ?? masquerade) && states.includes('SNAT'))
  );
}

function addressTypeOption(option: RuleOption, packet: Packet, environment: Environment): Likelihood {
  if (option.flag !== '--src-type' && option.flag !== '--dst-type') return null;
  const side = option.flag === '--src-type' ? 'source' : 'destination';
  const address = packet[side];
  const local = environment.isLocal(address);
  askLocal(side, packet, environment);
  const types = (option.values[0] ?? '').split(',').map(type => isOfType(type, address, local));
  if (types.includes(true)) return 1;
  return types.includes(null) ? null : 0;
}

function isOfType(type: string, address: Packet['source'], local: boolean | null): boolean | null {
  if (type === 'LOCAL') return local;
  const multicast = address.text.startsWith('ff') || (address.family === 'IPv4' && address.value >> 28n === 14n);
  if (type === 'MULTICAST') return multicast;
  // For IPv6, an address of the node is a unicast one too (match_type6 of xt_addrtype).
  if (type === 'UNICAST') return multicast ? false : address.family === 'IPv6' ? true : local === null ? null : !local;
  return type === 'BROADCAST' && address.text !== '255.255.255.255' ? false : null;
}

function matchStatistic({options}: Match): Likelihood {
  const value = (flag: string): RuleOption | undefined => options.find(option => option.flag === flag);
  const random = value('--probability');
  if (random !== undefined) return negate(chance(Number(random.values[0])), random.negated);
  const every = value('--every');
  return every === undefined ? null : negate(chance(1 / Number(every.values[0])), every.negated);
}

function chance(value: number): Likelihood {
  return value >= 0 && value <= 1 ? value : null;
}

/** Whether a client is on a list. The number of its packets is not modeled. */
function matchRecent({options}: Match, _packet: Packet, environment: Environment): Likelihood {
  if (options.some(({flag}) => flag === '--set')) return 1;
  if (options.some(({flag}) => flag === '--hitcount')) return null;
  const name = options.find(({flag}) => flag === '--name')?.values[0] ?? 'DEFAULT';
  const check = options.find(({flag}) => flag === '--rcheck' || flag === '--update' || flag === '--remove');
  return check === undefined ? null : negate(truth(environment.knownTo.has(name)), check.negated);
}

/** Matches what IPVS did to a packet: only `! --ipvs` matches a packet that IPVS has not forwarded. */
function ipvsOption(option: RuleOption, packet: Packet, environment: Environment): Likelihood {
  const {virtual, protocol} = packet;
  const value = option.values[0] ?? '';
  if (virtual === undefined) return option.negated && option.flag !== '--ipvs' ? 1 : 0;
  if (option.flag === '--ipvs') return 1;
  if (option.flag === '--vproto') return truth(isProtocol(value, protocol));
  if (option.flag === '--vaddr') return inCidr(value, 'destination', {...packet, destination: virtual.destination}, environment);
  if (option.flag === '--vport') return truth(Number(value) === virtual.port);
  if (option.flag === '--vdir') return truth(value === 'ORIGINAL');
  return option.flag === '--vmethod' ? truth(value === 'MASQ') : null;
}

function rangeOption(option: RuleOption, packet: Packet, environment: Environment): Likelihood {
  const range = parseInterval(option.values[0] ?? '');
  const side = option.flag === '--src-range' ? 'source' : 'destination';
  const address = packet[side];
  if (range === null || range.family !== address.family) return null;
  askAddress([[range.low, range.high]], side, packet, environment);
  return truth(range.low <= address.value && address.value <= range.high);
}
