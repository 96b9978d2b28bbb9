import type {Rule, RuleText} from '../model/ruleset.ts';
import type {Packet, Path} from './packet.ts';

/** One of the paths that a packet may take, with its probability. */
export interface Branch<R extends RuleText = Rule> {
  readonly packet: Packet;
  readonly probability: number;
  readonly path: Path<R> | null;
  /** Rules whose match is unknown and was taken as no match. */
  readonly inferred: readonly R[];
  /** The rule whose match is unknown and was taken as a match. Such a branch only serves to see what would differ. */
  readonly supposed: R | null;
}

export type ChainVerdict = 'accept' | 'drop' | 'reject' | 'return' | 'undecided';

export interface ChainResult<R extends RuleText = Rule> extends Branch<R> {
  readonly verdict: ChainVerdict;
  /** Why it is undecided. */
  readonly reason?: string;
  /** The base chain whose policy it is, where no rule decided: `table/chain`. */
  readonly policy?: string;
}

/** The paths that continue after one rule. */
export interface Outlets<R extends RuleText = Rule> {
  /** Branches that end or leave the chain at this rule. */
  readonly done: ChainResult<R>[];
  /** Branches that continue with the next rule. */
  readonly next: Branch<R>[];
}

export function startBranch<R extends RuleText>(packet: Packet): Branch<R> {
  return {packet, probability: 1, path: null, inferred: [], supposed: null};
}

export function undecided<R extends RuleText>(branch: Branch<R>, reason: string): ChainResult<R> {
  return {...branch, verdict: 'undecided', reason};
}

/** Merges branches in the same state. */
export function mergeAlike<R extends RuleText>(branches: readonly Branch<R>[]): readonly Branch<R>[] {
  if (branches.length < 2) return branches;
  const merged = new Map<string, Branch<R>>();
  for (const branch of branches) {
    const {packet, supposed, inferred} = branch;
    const {mark, connectionMark, destination, port, untracked, masquerade} = packet;
    const rules = (supposed === null ? inferred : [supposed]).map(({table, line, text}) => `${table} ${line} ${text}`);
    const kind = supposed === null ? 'real' : 'supposed';
    const key = JSON.stringify([mark, connectionMark, destination.text, port, untracked, masquerade, kind, rules]);
    const before = merged.get(key);
    merged.set(key, before === undefined ? branch : {...before, probability: before.probability + branch.probability});
  }
  return [...merged.values()];
}

/** Above this number, branches that depend on a rule that cannot be evaluated are not followed one by one. */
const maxSuppositions = 256;

export function limitSuppositions<R extends RuleText>(branches: readonly Branch<R>[], done: ChainResult<R>[]): readonly Branch<R>[] {
  if (branches.length <= maxSuppositions) return branches;
  const supposed = branches.filter(branch => branch.supposed !== null).slice(maxSuppositions);
  for (const branch of supposed) done.push(undecided(branch, 'too many rules on the way cannot be told'));
  const dropped = new Set(supposed);
  return branches.filter(branch => !dropped.has(branch));
}

interface Supposition<R extends RuleText> {
  readonly rule: R;
  readonly branch: Branch<R>;
  /** What the rule does if it matches. */
  follow(branch: Branch<R>, out: Outlets<R>): void;
}

/**
 * A rule whose match is unknown: the packet continues as if it did not match, and what would happen if it did is kept in a branch beside
 * it.
 */
export function suppose<R extends RuleText>({rule, branch, follow}: Supposition<R>, out: Outlets<R>): void {
  const hypothetical: {done: ChainResult<R>[]; next: Branch<R>[]} = {done: [], next: []};
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
