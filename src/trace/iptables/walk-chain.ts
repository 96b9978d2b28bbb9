import {markChange, splitHostPort, targetsWithoutEffect} from '../../parse/iptables/comparable-rule.ts';
import {parseAddress} from '../../model/address.ts';
import type {Chain, ChainSource, Rule, RuleText} from '../../model/ruleset.ts';
import {
  type Branch,
  type Call,
  type ChainResult,
  type ChainVerdict,
  enterChain,
  type Outlets,
  passRules,
  suppose,
  undecided,
  type WalkLimits,
} from '../branch.ts';
import {candidateRules} from './chain-index.ts';
import {matchRule} from './match-rule.ts';
import type {Environment, Packet} from '../packet.ts';

export interface WalkContext extends WalkLimits {
  readonly rules: ChainSource;
  readonly environment: Environment;
}

/**
 * Walks a packet through one chain of one table, including the chains that it calls. A base chain ends with its policy. Before this chain
 * the packet may have matched rules of other kinds (`R`).
 */
export function walkChain<R extends RuleText>(
  context: WalkContext,
  table: string,
  chain: Chain,
  start: Branch<R | Rule>,
  above: Call | null = null,
): readonly ChainResult<R | Rule>[] {
  const call = enterChain(context, chain, above);
  if (typeof call === 'string') return [undecided(start, call)];
  const {done, live} = passRules(context, candidateRules(context, chain, start.packet, context.environment), start, (rule, branch, out) =>
    step<R>(context, {table, rule, branch, call}, out),
  );
  for (const branch of live) done.push(atEnd(chain, branch));
  return done;
}

function atEnd<R extends RuleText>(chain: Chain, branch: Branch<R>): ChainResult<R> {
  if (!chain.complete) return undecided(branch, `the dump was cut before the end of chain ${chain.name}`);
  if (chain.policy === null) return {...branch, verdict: 'return'};
  return {...branch, verdict: chain.policy === 'DROP' ? 'drop' : 'accept', policy: `${chain.table}/${chain.name}`};
}

interface Step<R extends RuleText> {
  readonly table: string;
  readonly rule: Rule;
  readonly branch: Branch<R | Rule>;
  readonly call: Call;
}

function step<R extends RuleText>(context: WalkContext, at: Step<R>, out: Outlets<R | Rule>): void {
  const {branch, rule} = at;
  const likelihood = matchRule(rule, branch.packet, context.environment);
  if (likelihood === 0) {
    out.next.push(branch);
    return;
  }
  if (likelihood === null) {
    suppose({rule, branch, follow: (supposed, hypothetical) => take<R>(context, {...at, branch: supposed}, hypothetical)}, out);
    return;
  }
  if (likelihood < 1) out.next.push({...branch, probability: branch.probability * (1 - likelihood)});
  take(context, {...at, branch: {...branch, probability: branch.probability * likelihood}}, out);
}

/** The rule matches: applies its target. */
function take<R extends RuleText>(context: WalkContext, {table, rule, branch, call}: Step<R>, out: Outlets<R | Rule>): void {
  const taken = {...branch, path: {rule, before: branch.path}};
  const target = rule.target;
  if (target === null) {
    out.next.push(branch);
    return;
  }
  const called = context.rules.chain(table, target.name);
  if (called !== undefined && called.policy === null) {
    for (const result of walkChain<R>(context, table, called, taken, call)) {
      if (result.verdict !== 'return') out.done.push(result);
      else if (target.goto) out.done.push(result);
      else out.next.push(result);
    }
    return;
  }
  const effect = effectOf(rule, taken.packet, context.environment);
  if (effect.kind === 'continue') out.next.push({...taken, packet: effect.packet});
  else
    out.done.push({
      ...taken,
      packet: effect.packet,
      verdict: effect.verdict,
      ...(effect.reason === undefined ? {} : {reason: effect.reason}),
    });
}

type RuleResult =
  | {readonly kind: 'continue'; readonly packet: Packet}
  | {readonly kind: 'leave'; readonly packet: Packet; readonly verdict: ChainVerdict; readonly reason?: string};

function effectOf(rule: Rule, packet: Packet, environment: Environment): RuleResult {
  const name = rule.target?.name ?? '';
  const leave = (verdict: ChainVerdict, changed: Packet = packet): RuleResult => ({kind: 'leave', packet: changed, verdict});
  switch (name) {
    case 'ACCEPT':
      return leave('accept');
    case 'DROP':
      return leave('drop');
    case 'REJECT':
      return leave('reject');
    case 'RETURN':
      return leave('return');
    case 'MARK':
      return {kind: 'continue', packet: {...packet, mark: changeMark(packet.mark, rule)}};
    case 'CONNMARK':
      return {kind: 'continue', packet: connectionMark(packet, rule)};
    case 'MASQUERADE':
      return leave('accept', {...packet, masquerade: true, ...drawnPorts(rule, optionOf(rule, '--to-ports'))});
    case 'SNAT': {
      const {address, port} = splitHostPort(optionOf(rule, '--to-source'));
      return leave('accept', {...translateSource(packet, address), ...drawnPorts(rule, port)});
    }
    case 'TTL':
    case 'HL': {
      const hops = optionOf(rule, name === 'TTL' ? '--ttl-set' : '--hl-set');
      return {kind: 'continue', packet: hops === '' ? packet : {...packet, hops: Number(hops)}};
    }
    case 'TPROXY':
      return leave('accept', {...packet, captured: true});
    case 'DNAT':
    case 'REDIRECT':
      return rewrite(rule, packet, environment);
    case 'NOTRACK':
      return {kind: 'continue', packet: {...packet, untracked: true}};
    case 'CT':
      return {
        kind: 'continue',
        packet: rule.target?.options.some(({flag}) => flag === '--notrack') ? {...packet, untracked: true} : inZone(packet, rule),
      };
    default:
      if (targetsWithoutEffect.has(name)) return {kind: 'continue', packet};
      // The kernel does not allow a jump to a missing chain. The packet continues here; the comparison of rules reports the broken jump.
      if (/^KUBE-/.test(name)) return {kind: 'continue', packet};
      return {kind: 'leave', packet, verdict: 'undecided', reason: `target ${name} is not known`};
  }
}

function optionOf(rule: Rule, name: string): string {
  return rule.target?.options.find(({flag}) => flag === name)?.values[0] ?? '';
}

function drawnPorts(rule: Rule, range: string): Pick<Packet, 'drawnPorts'> {
  return portsToDraw(range, rule.target?.options.some(({flag}) => flag === '--random' || flag === '--random-fully') === true);
}

/**
 * The ports of which a new source port is drawn: the range that the rule names (`1000-2000`), or, for one of the ports from which clients
 * connect, all that need no rights. Source: `nf_nat_l4proto_unique_tuple`.
 */
export function portsToDraw(range: string, isRandom: boolean): Pick<Packet, 'drawnPorts'> {
  const [low = '', high = low] = range.split('-');
  if (/^\d+$/.test(low) && /^\d+$/.test(high)) return {drawnPorts: [[BigInt(low), BigInt(high)]]};
  return isRandom ? {drawnPorts: [[1024n, 65_535n]]} : {};
}

/** Of a range of addresses, it is unknown which one is taken. */
export function translateSource(packet: Packet, to: string): Packet {
  const address = parseAddress(to);
  return {...packet, masquerade: true, ...(address === null ? {} : {sourceAfter: address})};
}

/** The zone of connection tracking, of both directions or of one. */
function inZone(packet: Packet, rule: Rule): Packet {
  const [both, original, reply] = ['--zone', '--zone-orig', '--zone-reply'].map(name => optionOf(rule, name));
  const before = packet.zone ?? {original: 0, reply: 0};
  const zone = (own: string | undefined, kept: number): number =>
    both !== '' ? zoneOf(both, packet) : own !== '' ? zoneOf(own, packet) : kept;
  if (both === '' && original === '' && reply === '') return packet;
  return {...packet, zone: {original: zone(original, before.original), reply: zone(reply, before.reply)}};
}

/** A number, or `mark`: that of the packet. */
function zoneOf(text: string | undefined, {mark}: Packet): number {
  return text === 'mark' ? mark : Number(text);
}

/** `--set-xmark value/mask`: the bits of the mask are cleared, then the value is xored in. */
function changeMark(mark: number, rule: Rule): number {
  const [value = 0, mask = 0] = markChange(rule.target?.options ?? [])
    .split('/')
    .map(Number);
  return ((mark & ~mask) ^ value) >>> 0;
}

function connectionMark(packet: Packet, rule: Rule): Packet {
  const options = rule.target?.options ?? [];
  const {mark, connectionMark: saved} = packet;
  const mask = (name: string): number => Number(options.find(({flag}) => flag === name || flag === '--mask')?.values[0] ?? 0xffffffff);
  const [nfmask, ctmask] = [mask('--nfmask'), mask('--ctmask')];
  if (options.some(({flag}) => flag === '--restore-mark')) return {...packet, mark: ((mark & ~nfmask) ^ (saved & ctmask)) >>> 0};
  if (options.some(({flag}) => flag === '--save-mark')) return {...packet, connectionMark: ((saved & ~ctmask) ^ (mark & nfmask)) >>> 0};
  return {...packet, connectionMark: changeMark(packet.connectionMark, rule)};
}

export function rewriteTo(packet: Packet, destination: Packet['destination'], port: number): Packet {
  const original = packet.original ?? {destination: packet.destination, port: packet.port};
  return {...packet, destination, port, rewritten: true, original};
}

function rewrite(rule: Rule, packet: Packet, environment: Environment): RuleResult {
  const option = rule.target?.options.find(({flag}) => flag === '--to-destination' || flag === '--to-ports');
  const value = option?.values[0] ?? '';
  const redirect = rule.target?.name === 'REDIRECT';
  const {address, port} = redirect ? {address: '', port: value} : splitHostPort(value);
  const loopback = packet.family === 'IPv4' ? '127.0.0.1' : '::1';
  const fallback = !redirect ? packet.destination : packet.origin === 'node' ? parseAddress(loopback) : environment.redirectAddress(packet);
  const destination = address === '' ? fallback : parseAddress(address);
  const toPort = port === '' ? packet.port : Number(port);
  if (destination === null || !Number.isInteger(toPort))
    return {kind: 'leave', packet, verdict: 'undecided', reason: `the destination of ${value} cannot be told`};
  return {kind: 'leave', packet: rewriteTo(packet, destination, toPort), verdict: 'accept'};
}
