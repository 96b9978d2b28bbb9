import type {Address} from '../model/address.ts';
import type {Rule, RuleText} from '../model/ruleset.ts';

/** The outcome of a packet: the end of one path through the rules. `R` is the type of rules in this proxy mode. */
export interface Outcome<R extends RuleText = Rule> {
  readonly verdict: 'accept' | 'reject' | 'drop' | 'undecided';
  /** `ip:port` that the packet was rewritten to; null when it was not. */
  readonly destination: string | null;
  readonly probability: number;
  readonly masquerade: boolean;
  /** The address that SNAT gives the packet. */
  readonly sourceAfter?: Address;
  /** The rules that it matched, in order. */
  readonly path: readonly R[];
  /** Where the packet was rewritten to before the outcome became undecided. */
  readonly rewrittenTo?: string;
  /** For an undecided outcome, what is unknown. */
  readonly reason?: string;
  /** The base chain whose policy dropped the packet, if no rule did: `table/chain`. */
  readonly policy?: string;
  /** The rule whose match is unknown, if it is one rule. */
  readonly doubt?: R;
}
