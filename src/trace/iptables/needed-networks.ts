import {heldIn} from '../../model/once.ts';
import {type Address, bitsOf, type Cidr, parseCidr} from '../../model/address.ts';
import {pushTo} from '../../model/lists.ts';
import type {Chain, ChainSource, Rule, RuleOption} from '../../model/ruleset.ts';
import {networksIn, parseInterval} from '../../parse/nftables/address-list.ts';
import type {Packet} from '../walked-packet.ts';

/** A rule that matches, or calls a chain in which something matches, only packets of a network on one side. */
interface NeedingRule {
  /** Its index in the chain. */
  readonly at: number;
  /** The network is that of a rule in the chain that it calls. */
  readonly isCall: boolean;
  /** Its only condition on the address of that side is the network. */
  readonly isDecided: boolean;
  readonly protocol: string | null;
  /** Null for any port. */
  readonly ports: readonly (readonly [low: number, high: number])[] | null;
}

interface NeededNetwork {
  readonly side: 'source' | 'destination';
  readonly network: Cidr;
  readonly rule: NeedingRule;
}

/**
 * The networks of which a rule needs one, by itself or in all rules of the chain that it calls: to packets of other networks it does
 * nothing. Null for all other rules.
 */
export function networksNeeded(rules: ChainSource, chain: Chain, rule: Rule, at: number): readonly NeededNetwork[] | null {
  const own = neededBy(rule, at);
  if (own.length > 0) return own;
  const called = rule.target === null || rule.target.goto ? undefined : rules.chain(chain.table, rule.target.name);
  if (called === undefined || called.policy !== null || !called.complete || called.ruleCount > maxCalled) return null;
  // Most chains hold another rule, and need not be parsed for it.
  if (
    !called
      .text()
      .split('\n')
      .every(line => / -[sd] | --(?:src|dst)-range | -j RETURN$/.test(line))
  )
    return null;
  const inside: NeededNetwork[] = [];
  for (const one of called.rules()) {
    // What returns has done nothing to the packet.
    if (one.target?.name === 'RETURN') continue;
    const needed = neededBy(one, at, rule);
    if (needed.length === 0 || needed[0]?.side !== (inside[0] ?? needed[0])?.side) return null;
    inside.push(...needed);
  }
  return inside;
}

/** Chains that are called are searched up to this number of rules. */
const maxCalled = 256;

/** Of two sides the one with the smaller network: it tells more packets apart. */
function neededBy(rule: Rule, at: number, call?: Rule): readonly NeededNetwork[] {
  const [sources, destinations] = [networksOf(rule, '-s', '--src-range'), networksOf(rule, '-d', '--dst-range')];
  const side = widestOf(sources) > widestOf(destinations) ? 'source' : 'destination';
  const isCall = call !== undefined;
  const ranges = rule.matches.filter(({name}) => name === 'iprange').flatMap(({options}) => options);
  const isDecided = !isCall && (ranges.length === 0 || (ranges.length === 1 && !rule.options.some(({flag}) => /^-[sd]$/.test(flag))));
  const [protocol, ports] = [protocolOf(rule) ?? (isCall ? protocolOf(call) : null), portsOf(rule) ?? (isCall ? portsOf(call) : null)];
  const needing: NeedingRule = {at, isCall, isDecided, protocol, ports};
  return (side === 'source' ? sources : destinations).map(network => ({side, network, rule: needing}));
}

function widestOf(networks: readonly Cidr[]): number {
  return networks.length === 0 ? -1 : Math.min(...networks.map(({prefix}) => prefix));
}

/** The network of `-s` or `-d`; without it, those that make up a range. */
function networksOf({options, matches}: Rule, wanted: '-s' | '-d', ofRange: '--src-range' | '--dst-range'): readonly Cidr[] {
  const [value = '', ...others] = options.find(({flag, negated}) => flag === wanted && !negated)?.values ?? [];
  const network = others.length > 0 ? null : parseCidr(value);
  if (network !== null) return [network];
  const range = matches
    .filter(({name}) => name === 'iprange')
    .flatMap(match => match.options)
    .find(({flag, negated}) => flag === ofRange && !negated)?.values[0];
  const interval = range === undefined || value !== '' ? null : parseInterval(range);
  // Networks lie in each other or apart, and ranges overlap.
  return interval === null ? [] : networksIn(interval);
}

function protocolOf({options}: Rule): string | null {
  const value = options.find(({flag, negated}) => flag === '-p' && !negated)?.values[0] ?? '';
  return transports.has(value) ? value : null;
}

const transports: ReadonlySet<string> = new Set(['tcp', 'udp', 'sctp']);

function portsOf({matches}: Rule): NeedingRule['ports'] {
  const isOfPorts = ({flag, negated}: RuleOption): boolean => /^--dports?$/.test(flag) && !negated;
  const list = matches.flatMap(({options}) => options).find(isOfPorts)?.values[0];
  const ranges = list?.split(',').map(range => {
    const [low = '', high = low] = range.split(':');
    return [low === '' ? 0 : Number(low), high === '' ? 65_535 : Number(high)] as const;
  });
  return ranges?.every(([low, high]) => Number.isInteger(low) && Number.isInteger(high)) === true ? ranges : null;
}

/** The rules of a chain by the network that they need on one side. */
export class NeedingRules {
  readonly #byPrefix = new Map<number, Map<bigint, NeedingRule[]>>();
  readonly #bits: number;

  constructor(family: Address['family']) {
    this.#bits = bitsOf(family);
  }

  get isEmpty(): boolean {
    return this.#byPrefix.size === 0;
  }

  add({prefix, base}: Cidr, rule: NeedingRule): void {
    const ofPrefix = heldIn(this.#byPrefix, prefix, () => new Map<bigint, NeedingRule[]>());
    pushTo(ofPrefix, base >> BigInt(this.#bits - prefix), rule);
  }

  /** Those that need a network that holds this address, and that the packet's protocol and port do not rule out. */
  of({value}: Address, packet: Packet): readonly NeedingRule[] {
    const found: NeedingRule[] = [];
    for (const [prefix, ofPrefix] of this.#byPrefix)
      for (const rule of ofPrefix.get(value >> BigInt(this.#bits - prefix)) ?? []) if (mayMatch(rule, packet)) found.push(rule);
    return found;
  }

  /** All networks, with the rules that need them and that the packet's protocol and port do not rule out. */
  *all(packet: Packet): Generator<NetworkWithRules> {
    for (const [prefix, ofPrefix] of this.#byPrefix) {
      const bits = BigInt(this.#bits - prefix);
      for (const [base, all] of ofPrefix) {
        const rules = all.filter(rule => mayMatch(rule, packet));
        if (rules.length > 0) yield {low: base << bits, high: ((base + 1n) << bits) - 1n, rules};
      }
    }
  }
}

export interface NetworkWithRules {
  readonly low: bigint;
  readonly high: bigint;
  readonly rules: readonly NeedingRule[];
}

/** A port that stands for others is asked for by each rule about one. */
function mayMatch({protocol, ports}: NeedingRule, packet: Packet): boolean {
  if (protocol !== null && protocol !== packet.protocol) return false;
  if (ports === null || packet.client === 'destination' || packet.isPortDrawn === true) return true;
  return ports.some(([low, high]) => low <= packet.port && packet.port <= high);
}
