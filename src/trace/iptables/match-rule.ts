import {type Cidr, contains, parseAddress, parseCidr} from '../../model/address.ts';
import type {Match, Rule, RuleOption} from '../../model/ruleset.ts';
import type {Environment, Packet} from '../packet.ts';

/** How likely a rule matches: 0 is no, 1 is yes, a value between is random (`statistic`). Null means unknown. */
export type Likelihood = number | null;

/** Matches a packet against all conditions of a rule. One condition that certainly fails outweighs those that are unknown. */
export function matchRule(rule: Rule, packet: Packet, environment: Environment): Likelihood {
  let likelihood: Likelihood = 1;
  for (const option of rule.options) {
    likelihood = both(likelihood, matchOption(option, packet, environment));
    if (likelihood === 0) return 0;
  }
  const seen = rule.table === 'raw' ? beforeTracking(packet) : packet;
  for (const match of rule.matches) {
    likelihood = both(likelihood, matchExtension(match, seen, environment));
    if (likelihood === 0) return 0;
  }
  return likelihood;
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

function matchOption(option: RuleOption, packet: Packet, environment: Environment): Likelihood {
  const value = option.values[0] ?? '';
  return negate(plainOption(option.flag, value, packet, environment), option.negated);
}

function plainOption(flag: string, value: string, packet: Packet, environment: Environment): Likelihood {
  switch (flag) {
    case '-s':
      return inCidr(value, packet.source);
    case '-d':
      return inCidr(value, packet.destination);
    case '-p':
      return truth(isProtocol(value, packet.protocol));
    case '-i':
      // Only packets that the node sends to itself arrive on the loopback interface, and then the interface is known.
      return value === 'lo' && packet.inInterface === null ? 0 : matchInterface(value, inInterfaceOf(packet), packet, environment);
    case '-o':
      return matchInterface(value, packet.outInterface, packet, environment);
    case '-f':
      return 0;
    default:
      return null;
  }
}

const cidrs = new Map<string, Cidr | null>();

function inCidr(text: string, address: Packet['source']): Likelihood {
  let cidr = cidrs.get(text);
  if (cidr === undefined) {
    cidr = parseCidr(text);
    if (cidrs.size > 100_000) cidrs.clear();
    cidrs.set(text, cidr);
  }
  return cidr === null ? null : truth(contains(cidr, address));
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

function matchInterface(pattern: string, name: string | null, packet: Packet, environment: Environment): Likelihood {
  if (name === null) return truth(environment.canBeInterface(pattern, packet) === false ? false : null);
  return truth(pattern.endsWith('+') ? name.startsWith(pattern.slice(0, -1)) : name === pattern);
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
    option.flag === '--match-set' ? truth(environment.inSet(option.values[0] ?? '', packet, option.values[1] ?? '')) : null,
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

function portOption(option: RuleOption, packet: Packet): Likelihood {
  const value = option.values[0] ?? '';
  if (option.flag === '--dport' || option.flag === '--destination-port') return truth(inPortRange(value, packet.port));
  if (option.flag === '--sport' || option.flag === '--source-port') return inPortRange(value, 0) && inPortRange(value, 65_535) ? 1 : null;
  return null;
}

function inPortRange(text: string, port: number): boolean {
  const [low = '', high = low] = text.split(':');
  return port >= Number(low === '' ? 0 : low) && port <= Number(high === '' ? 65_535 : high);
}

/** The first packet of a TCP connection has SYN set and no other flag. */
function tcpOption(option: RuleOption, packet: Packet, _environment: Environment): Likelihood {
  if (option.flag === '--syn') return 1;
  if (option.flag !== '--tcp-flags') return portOption(option, packet);
  const [mask = '', wanted = ''] = option.values;
  const flag = mask === 'ALL' || mask.split(',').includes('SYN') ? 'SYN' : 'NONE';
  return truth(flag === wanted);
}

function multiportOption(option: RuleOption, packet: Packet): Likelihood {
  const inside = (option.values[0] ?? '').split(',').some(range => inPortRange(range, packet.port));
  if (option.flag === '--dports' || option.flag === '--destination-ports') return truth(inside);
  return option.flag === '--ports' && inside ? 1 : null;
}

function maskedEquals(text: string, mark: number): boolean {
  const [value = '0', mask = '0xffffffff'] = text.split('/');
  return (mark & Number(mask)) >>> 0 === Number(value);
}

function conntrackOption(option: RuleOption, packet: MatchedPacket): Likelihood {
  if (option.flag === '--ctstate') return truth(hasState(option.values[0] ?? '', packet));
  if (option.flag === '--ctdir') return truth(option.values[0] === 'ORIGINAL');
  return null;
}

/** A new connection is NEW, and DNAT once its destination was rewritten. */
function hasState(text: string, packet: MatchedPacket): boolean {
  const states = text.split(',');
  if (packet.stateless) return states.includes('INVALID');
  if (packet.untracked) return states.includes('UNTRACKED');
  return states.includes('NEW') || (packet.rewritten && states.includes('DNAT'));
}

function addressTypeOption(option: RuleOption, packet: Packet, environment: Environment): Likelihood {
  if (option.flag !== '--src-type' && option.flag !== '--dst-type') return null;
  const address = option.flag === '--src-type' ? packet.source : packet.destination;
  const local = environment.isLocal(address);
  const types = (option.values[0] ?? '').split(',').map(type => isOfType(type, address, local));
  if (types.includes(true)) return 1;
  return types.includes(null) ? null : 0;
}

function isOfType(type: string, address: Packet['source'], local: boolean | null): boolean | null {
  if (type === 'LOCAL') return local;
  const multicast = address.text.startsWith('ff') || (address.family === 'IPv4' && address.value >> 28n === 14n);
  if (type === 'MULTICAST') return multicast;
  if (type === 'UNICAST') return multicast ? false : local === null ? null : !local;
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
function ipvsOption(option: RuleOption, {virtual, protocol}: Packet): Likelihood {
  const value = option.values[0] ?? '';
  if (virtual === undefined) return option.negated && option.flag !== '--ipvs' ? 1 : 0;
  if (option.flag === '--ipvs') return 1;
  if (option.flag === '--vproto') return truth(isProtocol(value, protocol));
  if (option.flag === '--vaddr') return inCidr(value, virtual.destination);
  if (option.flag === '--vport') return truth(Number(value) === virtual.port);
  if (option.flag === '--vdir') return truth(value === 'ORIGINAL');
  return option.flag === '--vmethod' ? truth(value === 'MASQ') : null;
}

function rangeOption(option: RuleOption, packet: Packet): Likelihood {
  const [low, high] = (option.values[0] ?? '').split('-').map(text => parseAddress(text));
  const address = option.flag === '--src-range' ? packet.source : packet.destination;
  if (low === undefined || high === undefined || low === null || high === null || low.family !== address.family) return null;
  return truth(low.value <= address.value && address.value <= high.value);
}
