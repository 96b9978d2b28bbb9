import {parseAddress} from '../model/address.ts';
import type {Chain, ChainSource, Rule} from '../model/ruleset.ts';
import {markChange, splitHostPort} from '../parse/comparable-rule.ts';
import {candidateRules} from './chain-index.ts';
import {matchRule} from './match-rule.ts';
import type {Environment, Packet, Path} from './packet.ts';

/** One of the ways that a packet may take, with how likely it is. */
export interface Branch {
  readonly packet: Packet;
  readonly probability: number;
  readonly path: Path | null;
  /** Rules that could not be told and were taken not to match. */
  readonly assumed: readonly Rule[];
  /** The rule that could not be told and was taken to match; such a branch counts for nothing but to see what would differ. */
  readonly supposed: Rule | null;
}

export type ChainVerdict = 'accept' | 'drop' | 'reject' | 'return' | 'undecided';

export interface ChainResult extends Branch {
  readonly verdict: ChainVerdict;
  /** Why it is undecided. */
  readonly reason?: string;
  /** The base chain whose policy it is, where no rule decided: `table/chain`. */
  readonly policy?: string;
}

export interface WalkContext {
  readonly rules: ChainSource;
  readonly environment: Environment;
  /** Counts down; a ruleset that leads round and round ends when it is used up. */
  budget: number;
  /** What was looked at so far, to end a walk that looks at the same over and over. */
  readonly seen?: SeenRules;
}

/** How many rules a walk has come by at all, however often it came by. */
export class SeenRules {
  readonly #chains = new Set<Chain>();
  #rules = 0;
  #looks = 0;

  enter(chain: Chain): void {
    this.#looks += chain.ruleCount;
    if (this.#chains.has(chain)) return;
    this.#chains.add(chain);
    this.#rules += chain.ruleCount;
  }

  /** Through the rules of a real node a walk comes by each some dozens of times, or once for each endpoint of a large Service. */
  get goesRound(): boolean {
    return this.#looks > 50_000 && this.#looks > 100 * this.#rules;
  }
}

/** The kernel allows no loops and far fewer levels than this. */
const deepestChain = 64;

/** A chain that is being walked, and the call that led to it. */
interface Call {
  readonly chain: string;
  readonly depth: number;
  readonly above: Call | null;
}

/** Walks a packet through one chain of one table, into the chains that it calls. A base chain ends in its policy. */
export function walkChain(
  context: WalkContext,
  table: string,
  chain: Chain,
  start: Branch,
  above: Call | null = null,
): readonly ChainResult[] {
  const call: Call = {chain: chain.name, depth: (above?.depth ?? 0) + 1, above};
  if (call.depth > deepestChain || isOpen(chain.name, above))
    return [undecided(start, `chains call each other in a circle, or more than ${deepestChain} deep`)];
  context.seen?.enter(chain);
  if (context.seen?.goesRound) context.budget = 0;
  const done: ChainResult[] = [];
  let live: readonly Branch[] = [start];
  for (const rule of candidateRules(chain, start.packet)) {
    const next: Branch[] = [];
    for (const branch of live) {
      if (--context.budget < 0) done.push(undecided(branch, 'the way through these rules is too long to follow'));
      else step(context, {table, rule, branch, call}, {done, next});
    }
    live = limitSuppositions(mergeAlike(next), done);
    if (live.length === 0) return done;
  }
  for (const branch of live) done.push(atEnd(chain, branch));
  return done;
}

function isOpen(chain: string, call: Call | null): boolean {
  for (let at = call; at !== null; at = at.above) if (at.chain === chain) return true;
  return false;
}

function undecided(branch: Branch, reason: string): ChainResult {
  return {...branch, verdict: 'undecided', reason};
}

/** Branches in the same state go on as one. */
function mergeAlike(branches: readonly Branch[]): readonly Branch[] {
  if (branches.length < 2) return branches;
  const merged = new Map<string, Branch>();
  for (const branch of branches) {
    const {packet, supposed, assumed} = branch;
    const {mark, connectionMark, destination, port, untracked, masquerade} = packet;
    const rules = (supposed === null ? assumed : [supposed]).map(({table, line, text}) => `${table} ${line} ${text}`);
    const kind = supposed === null ? 'real' : 'supposed';
    const key = JSON.stringify([mark, connectionMark, destination.text, port, untracked, masquerade, kind, rules]);
    const before = merged.get(key);
    merged.set(key, before === undefined ? branch : {...before, probability: before.probability + branch.probability});
  }
  return [...merged.values()];
}

/** More ways than this that rest on a rule that cannot be told are not followed one by one. */
const mostSuppositions = 256;

function limitSuppositions(branches: readonly Branch[], done: ChainResult[]): readonly Branch[] {
  if (branches.length <= mostSuppositions) return branches;
  const supposed = branches.filter(branch => branch.supposed !== null).slice(mostSuppositions);
  for (const branch of supposed) done.push(undecided(branch, 'too many rules on the way cannot be told'));
  const dropped = new Set(supposed);
  return branches.filter(branch => !dropped.has(branch));
}

function atEnd(chain: Chain, branch: Branch): ChainResult {
  if (!chain.complete) return undecided(branch, `the dump was cut before the end of chain ${chain.name}`);
  if (chain.policy === null) return {...branch, verdict: 'return'};
  return {...branch, verdict: chain.policy === 'DROP' ? 'drop' : 'accept', policy: `${chain.table}/${chain.name}`};
}

interface Step {
  readonly table: string;
  readonly rule: Rule;
  readonly branch: Branch;
  readonly call: Call;
}

interface Outlets {
  /** Branches that leave the chain here. */
  readonly done: ChainResult[];
  /** Branches that go on to the next rule. */
  readonly next: Branch[];
}

function step(context: WalkContext, at: Step, out: Outlets): void {
  const {branch, rule} = at;
  const likelihood = matchRule(rule, branch.packet, context.environment);
  if (likelihood === 0) {
    out.next.push(branch);
    return;
  }
  if (likelihood === null) {
    suppose(context, at, out);
    return;
  }
  if (likelihood < 1) out.next.push({...branch, probability: branch.probability * (1 - likelihood)});
  take(context, {...at, branch: {...branch, probability: branch.probability * likelihood}}, out);
}

/** A rule that cannot be told: the packet goes on as if it did not match, and what would be if it did is kept beside. */
function suppose(context: WalkContext, at: Step, out: Outlets): void {
  const {branch, rule} = at;
  const trial: {done: ChainResult[]; next: Branch[]} = {done: [], next: []};
  take(context, {...at, branch: {...branch, supposed: branch.supposed ?? rule}}, trial);
  const harmless = trial.done.length === 0 && trial.next.every(({packet}) => samePacket(packet, branch.packet));
  if (harmless) {
    out.next.push(branch);
    return;
  }
  out.next.push({...branch, assumed: [...branch.assumed, rule]});
  for (const other of trial.next) if (!samePacket(other.packet, branch.packet)) out.next.push(other);
  for (const end of trial.done) out.done.push(end);
}

function samePacket(a: Packet, b: Packet): boolean {
  return (
    a === b ||
    (a.mark === b.mark &&
      a.connectionMark === b.connectionMark &&
      a.destination.text === b.destination.text &&
      a.port === b.port &&
      a.untracked === b.untracked &&
      a.masquerade === b.masquerade)
  );
}

/** The rule matches: do what its target says. */
function take(context: WalkContext, {table, rule, branch, call}: Step, out: Outlets): void {
  const taken = {...branch, path: {rule, before: branch.path}};
  const target = rule.target;
  if (target === null) {
    out.next.push(branch);
    return;
  }
  const called = context.rules.chain(table, target.name);
  if (called !== undefined && called.policy === null) {
    for (const result of walkChain(context, table, called, taken, call)) {
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

type Effect =
  | {readonly kind: 'continue'; readonly packet: Packet}
  | {readonly kind: 'leave'; readonly packet: Packet; readonly verdict: ChainVerdict; readonly reason?: string};

function effectOf(rule: Rule, packet: Packet, environment: Environment): Effect {
  const name = rule.target?.name ?? '';
  const leave = (verdict: ChainVerdict, changed: Packet = packet): Effect => ({kind: 'leave', packet: changed, verdict});
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
    case 'SNAT':
      return leave('accept', {...packet, masquerade: true});
    case 'DNAT':
    case 'REDIRECT':
      return rewrite(rule, packet, environment);
    case 'NOTRACK':
      return {kind: 'continue', packet: {...packet, untracked: true}};
    case 'CT':
      return {
        kind: 'continue',
        packet: rule.target?.options.some(({flag}) => flag === '--notrack') ? {...packet, untracked: true} : packet,
      };
    default:
      if (withoutEffect.has(name)) return {kind: 'continue', packet};
      // A chain that is not there cannot be jumped to in a kernel. The packet passes on here, and the broken jump is found by its structure.
      if (/^KUBE-/.test(name)) return {kind: 'continue', packet};
      return {kind: 'leave', packet, verdict: 'undecided', reason: `target ${name} is not known`};
  }
}

/** Targets that let a packet pass on as it is, as far as its way is concerned. */
const withoutEffect = new Set([
  'LOG',
  'NFLOG',
  'ULOG',
  'AUDIT',
  'TRACE',
  'TCPMSS',
  'TOS',
  'DSCP',
  'CLASSIFY',
  'SET',
  'CHECKSUM',
  'SECMARK',
  'CONNSECMARK',
  'TTL',
  'HL',
  'LED',
  'IDLETIMER',
  'RATEEST',
  'HMARK',
  'ECN',
  'TEE',
]);

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

function rewrite(rule: Rule, packet: Packet, environment: Environment): Effect {
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
  return {kind: 'leave', packet: {...packet, destination, port: toPort, rewritten: true}, verdict: 'accept'};
}
