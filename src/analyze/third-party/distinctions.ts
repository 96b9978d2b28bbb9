import {countFirst} from '../../model/lists.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {NodeContext} from '../../expect/node-context.ts';
import {type Family, parseAddress} from '../../model/address.ts';
import {holds, type Intervals, intervalsOf} from '../../model/intervals.ts';
import type {NftTable} from '../../model/nft-ruleset.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import {addressesIn} from '../../parse/nftables/address-list.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import {lowerRule} from '../../trace/iptables/lower-iptables-rule.ts';
import {elementsIn} from '../../trace/match-conditions.ts';
import {lowerNftRule} from '../../trace/nftables/lower-nft-rule.ts';
import {type Environment, isInterfaceLike} from '../../trace/walked-packet.ts';
import type {Action, Condition, Elements, Expression, LoweredRule} from '../../trace/rule-language.ts';
import {podsHere} from '../outcomes/environment.ts';
import {entryAddresses, entriesOf} from '../outcomes/probes.ts';
import {thirdPartyChains} from './iptables-rules.ts';

/** What third-party rules can tell apart: destinations and senders with the same texts meet the same rules. */
export interface Distinctions {
  readonly ofAddress: (address: string) => string;
  readonly ofPort: (port: number) => string;
  /** Whether a rule is about the ports of senders. */
  readonly usesSourcePorts: boolean;
  /** The hashes of Service ports whose chains a rule leads to. */
  readonly led: ReadonlySet<string>;
}

/** The rules of a family that are not kube-proxy's, and what they are matched against. */
export interface ThirdParties {
  readonly iptables: readonly Ruleset[];
  readonly tables: readonly NftTable[];
  readonly sets: ReadonlyMap<string, IpSet>;
  readonly environment: Environment;
  readonly family: Family;
}

type Ranges = (readonly [low: bigint, high: bigint])[];

/** Every condition on an address or a port is a set of them; what is in the same sets is not told apart. */
export function distinctionsBy({iptables, tables, sets, environment, family}: ThirdParties): Distinctions {
  const collected: Collected = {
    addresses: [],
    ports: [],
    interfaces: new Set(),
    all: environment.interfaces?.(family) ?? [],
    family,
    sets,
    usesSourcePorts: false,
    led: new Set(),
  };
  for (const ruleset of iptables)
    for (const chain of thirdPartyChains(ruleset)) for (const rule of chain.rules()) collect(lowerRule(rule), noSets, collected);
  for (const table of tables)
    for (const {base} of table.baseChains) for (const device of base?.devices ?? []) collected.interfaces.add(device);
  for (const table of tables)
    for (const chain of table.chains.values()) for (const rule of chain.rules()) collect(lowerNftRule(rule), table, collected);
  const [inAddresses, inPorts] = [membership(collected.addresses), membership(collected.ports)];
  const patterns = [...collected.interfaces];
  return {
    usesSourcePorts: collected.usesSourcePorts,
    led: collected.led,
    ofPort: port => inPorts(BigInt(port)),
    ofAddress: text => {
      const address = parseAddress(text);
      if (address === null) return text;
      const name = environment.interfaceOf?.(address) ?? null;
      const behind = name === null ? '?' : patterns.map(pattern => (isInterfaceLike(pattern, name) ? '1' : '0')).join('');
      return `${inAddresses(address.value)} ${environment.isLocal(address)} ${behind}`;
    },
  };
}

/** A function that returns the same text for numbers that are in the same of these sets. */
function membership(sets: readonly Intervals[]): (value: bigint) => string {
  const ends = new Map<bigint, number[]>();
  for (const [index, ranges] of sets.entries())
    for (const [low, high] of ranges) for (const end of [low, high + 1n]) ends.set(end, [...(ends.get(end) ?? []), index]);
  const bounds = [...ends.keys()].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const inside = new Set<number>();
  const texts = bounds.map(bound => {
    for (const index of ends.get(bound) ?? []) if (!inside.delete(index)) inside.add(index);
    return [...inside].sort((a, b) => a - b).join();
  });
  return value => texts[countFirst(bounds.length, index => (bounds[index] ?? 0n) <= value) - 1] ?? '';
}

interface Collected {
  readonly addresses: Intervals[];
  readonly ports: Intervals[];
  readonly interfaces: Set<string>;
  /** Those of the node. */
  readonly all: readonly string[];
  readonly family: Family;
  readonly sets: ReadonlyMap<string, IpSet>;
  usesSourcePorts: boolean;
  readonly led: Set<string>;
}

type Sets = Pick<NftTable, 'set'>;

/** Rules of iptables use ipsets. */
const noSets: Sets = {set: () => undefined};

function collect({steps}: LoweredRule, table: Sets, into: Collected): void {
  for (const {conditions, action} of steps) {
    for (const condition of conditions) collectCondition(condition, table, into);
    if (action !== null) collectAction(action, table, into);
  }
}

function collectCondition(condition: Condition, table: Sets, into: Collected): void {
  if (condition.kind === 'compare') collectKey(condition.left, condition.right, table, into);
  else if (condition.kind === 'any') for (const one of condition.of) collectCondition(one, table, into);
  else if (condition.kind === 'ipset') collectSet(into.sets.get(condition.name), condition.directions, into);
  else if (condition.kind === 'unknown') {
    for (const [address] of condition.text.matchAll(/[0-9a-f]*[.:][0-9a-f.:]*(?:\/\d+)?/g)) addAddress([address], into);
    for (const [, ports = ''] of condition.text.matchAll(/port\S* (\S+)/g)) addPort(ports.split(','), into);
  }
}

function collectAction(action: Action, table: Sets, into: Collected): void {
  if (action.kind === 'verdict map') collectKey(action.key, action.elements, table, into);
  else if (action.kind === 'nat' && action.to?.kind === 'map') collectKey(action.to.key, action.to.elements, table, into);
  else if (action.kind === 'nat' && action.to?.kind === 'constant') addAddress([action.to.text], into);
  else if (action.kind === 'call') {
    // It may lead packets to one Service or endpoint.
    const hash = parseChainName(action.chain)?.hash;
    if (hash !== undefined) into.led.add(hash);
    if (action.otherwise !== undefined) collectAction(action.otherwise, table, into);
  }
}

function collectSet(set: IpSet | undefined, sides: string, into: Collected): void {
  const members = set?.type === 'list:set' ? set.elements.map(([member = '']) => into.sets.get(member)) : [];
  for (const member of members) if (member?.type !== 'list:set') collectSet(member, sides, into);
  for (const [index, part] of (set?.parts ?? []).entries()) {
    if (set === undefined || sides === '') continue;
    if (part === 'port' && sides.split(',')[index] === 'src') into.usesSourcePorts = true;
    if (part === 'iface') for (const element of set.elements) into.interfaces.add(element[index] ?? '');
    for (const elements of [set.elements, set.exceptions]) {
      const texts = elements.map(element => element[index] ?? '');
      // Elements of several parts name pairs: each is a set of its own.
      const groups = set.parts.length === 1 && set.exceptions.length === 0 ? [texts] : [...new Set(texts)].map(text => [text]);
      for (const group of groups) (part === 'port' ? addPort : addAddress)(group, into);
    }
  }
}

function addAddress(texts: Iterable<string>, {addresses, family}: Collected): void {
  const ranges = addressesIn(texts, family);
  if (ranges.length > 0) addresses.push(ranges);
}

function addPort(texts: Iterable<string>, {ports}: Collected): void {
  const ranges: Ranges = [];
  for (const text of texts) {
    const [low = '', high = low] = text.replace(/^[a-z]+:/, '').split(/[:-]/);
    if (/^\d*$/.test(low) && /^\d*$/.test(high) && text !== '')
      ranges.push([BigInt(low === '' ? 0 : low), BigInt(high === '' ? 65_535 : high)]);
  }
  if (ranges.length > 0) ports.push(intervalsOf(ranges));
}

function collectKey(key: Expression, where: Elements, table: Sets, into: Collected): void {
  const parts = key.kind === 'concat' ? key.parts : [key];
  const elements = elementsIn(where, table);
  // What a map says of each of its keys differs; a set says the same of all.
  const isOne = parts.length === 1 && elements.every(({value}) => value === null);
  for (const [index, part] of parts.entries()) {
    const field = part.kind === 'binary' ? part.left : part;
    const name = field.kind === 'field' ? field.field.name : '';
    const texts = elements.map(element => element.key.split(' . ')[index] ?? '');
    const groups = isOne ? [texts] : [...new Set(texts)].map(text => [text]);
    for (const group of groups) {
      if (/addr(?:ess)?$/.test(name)) addAddress(group, into);
      else if (name.endsWith('port')) {
        if (/^(?:sport|ct original sport|ct reply dport)$/.test(name)) into.usesSourcePorts = true;
        addPort(group, into);
      } else if (field.kind === 'field' && (field.field.about ?? field.field.ofInterface) !== undefined)
        for (const one of into.all) into.interfaces.add(one);
      else if (/oif$|^iif$/.test(name)) for (const text of group) into.interfaces.add(text);
    }
  }
}

/**
 * Service ports of one group have entries of the same kinds and meet the same third-party rules. `ends`: where the rules of a Service port
 * lead beside its endpoints.
 */
export function groupPorts(
  ports: readonly ServedPort[],
  context: NodeContext,
  {ofAddress, ofPort, led}: Distinctions,
  ends: (item: ServedPort) => readonly string[],
): readonly (readonly ServedPort[])[] {
  const {facts, family} = context;
  const pods = podsHere(facts, family);
  const isHere = (text: string): boolean => facts.hostIPs.includes(text) || holds(pods, parseAddress(text)?.value ?? -1n);
  const groups = Map.groupBy(ports, item => {
    const {port, endpoints} = item;
    const entries = entriesOf(port, context).flatMap(entry =>
      entryAddresses(entry, context).map(address => `${entry.kind} ${ofAddress(address)} ${ofPort(entry.port)}`),
    );
    const all = [...endpoints.reachable, ...ends(item).map(splitHostPort)];
    const reached = all.map(({address, port: number}) => `${ofAddress(address)} ${ofPort(Number(number))} ${isHere(address)}`);
    const {protocol, externalPolicyLocal: external, internalPolicyLocal: internal, sourceRanges} = port;
    const shape = [protocol, external, internal, sourceRanges.join('+'), endpoints.hasAny, endpoints.local.length > 0];
    return [led.has(port.hash) ? port.hash : '', ...shape, ...entries, '|', ...new Set(reached.sort())].join();
  });
  return [...groups.values()];
}

/**
 * Service ports of a group that show what third-party rules do to all of them: the first that is as expected, and those before it, which
 * stand for themselves. The ones that cost the least to walk come first. Packets that the node's own rules of a Service port lose reach no
 * third-party rule.
 */
export function representatives(ports: readonly ServedPort[], isAsExpected: (item: ServedPort) => boolean) {
  const ordered = ports.toSorted((a, b) => a.endpoints.reachable.length - b.endpoints.reachable.length);
  const first = ordered.findIndex(isAsExpected);
  const tried = first < 0 ? ordered : ordered.slice(0, first + 1);
  return tried.map((item, index) => ({item, alike: index === first ? ports : []}));
}
