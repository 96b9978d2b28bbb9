import {pushTo} from '../model/lists.ts';
import {heldIn} from '../model/once.ts';
import {type NodeRule, type Outcome, type Packet, type Path, pathRules} from './walked-packet.ts';
import {joinHostPort} from '../model/address.ts';

/** One of the paths that a packet may take, with its probability. */
export interface Branch {
  readonly packet: Packet;
  readonly probability: number;
  readonly path: Path | null;
  /** Rules whose match is unknown and was taken as no match. */
  readonly inferred: readonly NodeRule[];
  /** The rule whose match is unknown and was taken as a match. Such a branch only serves to see what would differ. */
  readonly supposed: NodeRule | null;
}

type ChainVerdict = 'accept' | 'drop' | 'reject' | 'return' | 'undecided';

export interface ChainResult extends Branch {
  readonly verdict: ChainVerdict;
  /** Why it is undecided. */
  readonly reason?: string;
  /** See `Outcome`. */
  readonly isUnrouted?: true;
  /** That is that a dump is truncated. */
  readonly isTruncated?: true;
  /** The base chain whose policy it is, where no rule decided: `table/chain`. */
  readonly policy?: string;
}

/** The paths that continue after one rule. */
export interface Outlets {
  /** Branches that end or leave the chain at this rule. */
  readonly done: ChainResult[];
  /** Branches that continue with the next rule. */
  readonly next: Branch[];
}

export function startBranch(packet: Packet): Branch {
  return {packet, probability: 1, path: null, inferred: [], supposed: null};
}

export function undecided(
  {policy: _, isTruncated: __, ...branch}: Branch & Pick<ChainResult, 'policy' | 'isTruncated'>,
  reason: string,
): ChainResult {
  return {...branch, verdict: 'undecided', reason};
}

/** What follows is missing from the dump. */
export function truncated(branch: Branch, where: string): ChainResult {
  return {...undecided(branch, `the dump was truncated ${where}`), isTruncated: true};
}

/** Merges branches in the same state. */
function mergeAlike(branches: readonly Branch[]): readonly Branch[] {
  if (branches.length < 2) return branches;
  const merged = new Map<string, Branch>();
  for (const branch of branches) {
    const {packet, supposed, inferred} = branch;
    const rules = (supposed === null ? inferred : [supposed]).map(({table, line, text}) => `${table} ${line} ${text}`);
    const kind = supposed === null ? 'real' : 'supposed';
    const key = JSON.stringify([changeableIn(packet), packet.sourceAfter?.text, packet.zone, kind, rules]);
    const before = merged.get(key);
    merged.set(key, before === undefined ? branch : {...before, probability: before.probability + branch.probability});
  }
  return [...merged.values()];
}

/** Above this number, branches that depend on a rule that cannot be evaluated are not followed one by one. */
const maxSuppositions = 256;

function limitSuppositions(branches: readonly Branch[], done: ChainResult[]): readonly Branch[] {
  if (branches.length <= maxSuppositions) return branches;
  const supposed = branches.filter(branch => branch.supposed !== null).slice(maxSuppositions);
  for (const branch of supposed) done.push(undecided(branch, 'too many rules on the way cannot be told'));
  const dropped = new Set(supposed);
  return branches.filter(branch => !dropped.has(branch));
}

/**
 * A rule whose match is unknown: the packet continues as if it did not match, and what would happen if it did is kept in a branch beside
 * it. `follow`: what the rule does if it matches.
 */
export function suppose(rule: NodeRule, branch: Branch, follow: (branch: Branch, out: Outlets) => void, out: Outlets): void {
  const hypothetical: {done: ChainResult[]; next: Branch[]} = {done: [], next: []};
  follow({...branch, supposed: branch.supposed ?? rule}, hypothetical);
  const harmless = hypothetical.done.length === 0 && hypothetical.next.every(({packet}) => samePacket(packet, branch.packet));
  if (harmless) {
    out.next.push(branch);
    return;
  }
  out.next.push({...branch, inferred: [...branch.inferred, rule]});
  for (const other of hypothetical.next) if (!samePacket(other.packet, branch.packet)) out.next.push(other);
  for (const end of hypothetical.done) out.done.push(end);
}

function samePacket(a: Packet, b: Packet): boolean {
  if (a === b) return true;
  const changed = changeableIn(b);
  return changeableIn(a).every((part, index) => part === changed[index]);
}

/** What rules may change of a packet, and what matters to its path. */
function changeableIn(packet: Packet): readonly unknown[] {
  const {mark, connectionMark, destination, port, untracked, masquerade, captured, hops, tos, isLabeled} = packet;
  return [mark, connectionMark, destination.text, port, untracked, masquerade, captured, hops, tos, isLabeled];
}

/** An outcome, and the packet at the end of its path. */
export interface OutcomeEnd {
  readonly outcome: Outcome;
  readonly packet: Packet;
}

/**
 * Merges the ends of all branches. An end that depends on a rule whose match is unknown counts only if the outcomes are the same when the
 * rule matches; otherwise it is undecided.
 */
export function summarizeEnds(ends: readonly ChainResult[]): readonly OutcomeEnd[] {
  const real = ends.filter(({supposed}) => supposed === null);
  const doubtful = doubtfulRules(ends);
  return real.map(end => {
    // A rule may only seem to matter because of a later one that cannot be evaluated either.
    const doubt = end.inferred.findLast(rule => doubtful.has(rule));
    const {packet} = end;
    if (doubt === undefined) return {packet, outcome: outcomeOf(end)};
    const others = doubtful.get(doubt) ?? [];
    const other = others.find(one => samePlace(one.packet, end.packet)) ?? others[0];
    const reason = `whether this rule matches cannot be told, and it would lead to ${other === undefined ? 'something else' : pathOutcome(other)}: ${doubt.text}`;
    const isAnyway = packet.rewritten && end.inferred.every(rule => (doubtful.get(rule) ?? []).every(one => samePlace(one.packet, packet)));
    const isLost = end.inferred.every(rule => (doubtful.get(rule) ?? []).every(isLoss));
    const known = {...(isAnyway ? {isRewrittenAnyway: true as const} : {}), ...(isLost ? {otherwise: outcomeOf(end)} : {})};
    return {packet, outcome: {...outcomeOf(undecided(end, reason)), doubt, ...known}};
  });
}

function isLoss({verdict}: ChainResult): boolean {
  return verdict === 'drop' || verdict === 'reject';
}

function samePlace(a: Packet, b: Packet): boolean {
  return a.destination.text === b.destination.text && a.port === b.port;
}

/** The rules whose match would change the outcome, each with the ends that the packet would then have. */
function doubtfulRules(ends: readonly ChainResult[]): ReadonlyMap<NodeRule, readonly ChainResult[]> {
  const usual = new Map<NodeRule, Set<string>>();
  for (const end of ends) if (end.supposed === null) for (const rule of end.inferred) pathOutcomesOf(usual, rule).add(pathOutcome(end));
  const supposed = new Map<NodeRule, Set<string>>();
  for (const end of ends) if (end.supposed !== null) pathOutcomesOf(supposed, end.supposed).add(pathOutcome(end));
  const doubtful = new Map<NodeRule, ChainResult[]>();
  for (const end of ends) {
    const rule = end.supposed;
    if (rule === null) continue;
    const isNew = !pathOutcomesOf(usual, rule).has(pathOutcome(end));
    const isFewer = !doubtful.has(rule) && pathOutcomesOf(supposed, rule).size < pathOutcomesOf(usual, rule).size;
    if (isNew || isFewer) pushTo(doubtful, rule, end);
  }
  return doubtful;
}

function pathOutcomesOf(map: Map<NodeRule, Set<string>>, rule: NodeRule): Set<string> {
  return heldIn(map, rule, () => new Set());
}

function pathOutcome({verdict, packet}: ChainResult): string {
  if (verdict === 'accept' && packet.captured === true) return 'a program of the node';
  return [
    verdict,
    ...(packet.rewritten ? [joinHostPort(packet.destination.text, packet.port)] : []),
    ...(packet.masquerade && verdict === 'accept' ? ['masquerade'] : []),
  ].join(' ');
}

function outcomeOf(end: ChainResult): Outcome {
  const {packet, probability, path, verdict, reason, isUnrouted, isTruncated, policy} = end;
  const rewrittenTo = packet.rewritten && packet.captured !== true ? joinHostPort(packet.destination.text, packet.port) : null;
  return {
    verdict: verdict === 'return' ? 'accept' : verdict,
    destination: verdict === 'undecided' ? null : rewrittenTo,
    ...(verdict === 'undecided' && rewrittenTo !== null ? {rewrittenTo} : {}),
    probability,
    masquerade: packet.masquerade,
    sourceAfter: packet.sourceAfter,
    path: pathRules(path),
    reason,
    isUnrouted,
    isTruncated,
    ...((verdict === 'drop' || verdict === 'undecided') && policy !== undefined ? {policy} : {}),
  };
}

/** Limits that end a walk through pathological rules. */
export interface WalkLimits {
  /** Counts down; a walk through rules that loop ends at 0. */
  budget: number;
}

interface Countable {
  readonly name: string;
  readonly ruleCount: number;
}

/** How many different rules a walk through a base chain has evaluated, to end one that evaluates the same over and over. */
class SeenRules {
  readonly #chains = new Set<Countable>();
  #rules = 0;
  #evaluated = 0;

  enter(chain: Countable): void {
    this.#evaluated += chain.ruleCount;
    if (this.#chains.has(chain)) return;
    this.#chains.add(chain);
    this.#rules += chain.ruleCount;
  }

  /** A walk through a real node's rules evaluates each some dozens of times. */
  get isRepeating(): boolean {
    return this.#evaluated > 50_000 && this.#evaluated > 100 * this.#rules;
  }
}

/** Rules evaluated in one walk. For a real node these are a few hundred, and some dozens for each endpoint of a large Service. */
const walkBudget = 500_000;

/** Rulesets whose chains branch and join again without end: after one walk that hit the limit, later walks through them are short. */
const endlessRules = new WeakSet<object>();
const shortBudget = 2_000;

/** The limits of one walk through these rules. */
export function limitsFor(rules: object): WalkLimits {
  return {budget: endlessRules.has(rules) ? shortBudget : walkBudget};
}

/** Records that a walk hit the limit. */
export function noteWalk(rules: object, {budget}: WalkLimits): void {
  if (budget < 0) endlessRules.add(rules);
}

/** The kernel allows no loops and far fewer levels than this. */
const deepestChain = 64;

/** A chain that is being walked, and the call that led to it. */
export interface Call {
  readonly chain: string;
  readonly depth: number;
  readonly above: Call | null;
  readonly seen: SeenRules;
}

/** Enters a chain. Returns a text with the reason if it cannot. */
export function enterChain(limits: WalkLimits, chain: Countable, above: Call | null): Call | string {
  const call: Call = {chain: chain.name, depth: (above?.depth ?? 0) + 1, above, seen: above?.seen ?? new SeenRules()};
  if (call.depth > deepestChain || isOpen(chain.name, above))
    return `chains call each other in a circle, or more than ${deepestChain} deep`;
  call.seen.enter(chain);
  if (call.seen.isRepeating) limits.budget = 0;
  return call;
}

function isOpen(chain: string, call: Call | null): boolean {
  for (let at = call; at !== null; at = at.above) if (at.chain === chain) return true;
  return false;
}

/**
 * Takes a packet through rules in order. It may have matched rules of other kinds (`NodeRule`) before. `live`: what happens at the end of
 * the chain.
 */
export function passRules<T>(
  limits: WalkLimits,
  rules: readonly T[],
  start: Branch,
  step: (rule: T, branch: Branch, out: Outlets) => void,
) {
  const done: ChainResult[] = [];
  let live: readonly Branch[] = [start];
  for (const rule of rules) {
    const next: Branch[] = [];
    for (const branch of live) {
      if (--limits.budget < 0) done.push(undecided(branch, 'the way through these rules is too long to follow'));
      else step(rule, branch, {done, next});
    }
    live = limitSuppositions(mergeAlike(next), done);
    if (live.length === 0) break;
  }
  return {done, live};
}
