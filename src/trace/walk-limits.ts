import type {RuleText} from '../model/ruleset.ts';
import {type Branch, type ChainResult, limitSuppositions, mergeAlike, type Outlets, undecided} from './branch.ts';

/** Limits that end a walk through pathological rules. */
export interface WalkLimits {
  /** Counts down; a walk through rules that loop ends at 0. */
  budget: number;
  /** The rules evaluated so far, to end a walk that evaluates the same rules over and over. */
  readonly seen?: SeenRules;
}

interface Countable {
  readonly name: string;
  readonly ruleCount: number;
}

/** How many different rules a walk has evaluated. */
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

  /** A walk through a real node's rules evaluates each some dozens of times, or once for each endpoint of a large Service. */
  get goesRound(): boolean {
    return this.#evaluated > 50_000 && this.#evaluated > 100 * this.#rules;
  }
}

/** Rules evaluated in one walk. For a real node these are a few hundred, and some dozens for each endpoint of a large Service. */
const walkBudget = 500_000;

/** Rulesets whose chains branch and join again without end: after one walk that hit the limit, later walks through them are short. */
const inVain = new WeakSet<object>();
const shortBudget = 2_000;

/** The limits of one walk through these rules. */
export function limitsFor(rules: object): WalkLimits {
  return {budget: inVain.has(rules) ? shortBudget : walkBudget, seen: new SeenRules()};
}

/** Records that a walk hit the limit. */
export function noteWalk(rules: object, {budget}: WalkLimits): void {
  if (budget < 0) inVain.add(rules);
}

/** The kernel allows no loops and far fewer levels than this. */
const deepestChain = 64;

/** A chain that is being walked, and the call that led to it. */
export interface Call {
  readonly chain: string;
  readonly depth: number;
  readonly above: Call | null;
}

/** Enters a chain. Returns a text with the reason if it cannot. */
export function enterChain(limits: WalkLimits, chain: Countable, above: Call | null): Call | string {
  const call: Call = {chain: chain.name, depth: (above?.depth ?? 0) + 1, above};
  if (call.depth > deepestChain || isOpen(chain.name, above))
    return `chains call each other in a circle, or more than ${deepestChain} deep`;
  limits.seen?.enter(chain);
  if (limits.seen?.goesRound) limits.budget = 0;
  return call;
}

function isOpen(chain: string, call: Call | null): boolean {
  for (let at = call; at !== null; at = at.above) if (at.chain === chain) return true;
  return false;
}

interface PassedRules<R extends RuleText> {
  readonly done: ChainResult<R>[];
  /** What happens at the end of the chain. */
  readonly live: readonly Branch<R>[];
}

/** Takes a packet through rules in order. It may have matched rules of other kinds (`R`) before. */
export function passRules<T extends R, R extends RuleText>(
  limits: WalkLimits,
  rules: readonly T[],
  start: Branch<R>,
  step: (rule: T, branch: Branch<R>, out: Outlets<R>) => void,
): PassedRules<R> {
  const done: ChainResult<R>[] = [];
  let live: readonly Branch<R>[] = [start];
  for (const rule of rules) {
    const next: Branch<R>[] = [];
    for (const branch of live) {
      if (--limits.budget < 0) done.push(undecided(branch, 'the way through these rules is too long to follow'));
      else step(rule, branch, {done, next});
    }
    live = limitSuppositions(mergeAlike(next), done);
    if (live.length === 0) break;
  }
  return {done, live};
}
