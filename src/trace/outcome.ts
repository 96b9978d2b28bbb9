import type {Rule, RuleText} from '../model/ruleset.ts';

/** The outcome of a packet: the end of one path through the rules. `R` is what a rule is in the proxy mode at hand. */
export interface Outcome<R extends RuleText = Rule> {
  readonly verdict: 'accept' | 'reject' | 'drop' | 'undecided';
  /** `ip:port` that the packet was rewritten to; null when it was not. */
  readonly destination: string | null;
  readonly probability: number;
  readonly masquerade: boolean;
  /** The rules that it matched, in order. */
  readonly path: readonly R[];
  /** Where the packet was rewritten to before the outcome became undecided. */
  readonly rewrittenTo?: string;
  /** For an undecided outcome, what could not be told. */
  readonly reason?: string;
  /** The base chain whose policy dropped the packet, where no rule did: `table/chain`. */
  readonly policy?: string;
  /** The rule that could not be told, where it is one rule's match. */
  readonly doubt?: R;
}
