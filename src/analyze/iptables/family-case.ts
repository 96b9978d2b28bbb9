import type {Hypothesis} from '../../expect/hypothesis.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {NodeRules} from '../third-party/analyze-third-party.ts';

/** Builds the expectation under a hypothesis. */
export type Expect = (hypothesis: Hypothesis) => ExpectedRuleset;

/** One family's rules on one node. */
export interface FamilyCase {
  /** Builds the expectation, under a hypothesis if the rules call for one. */
  readonly expect: Expect;
  readonly actual: Ruleset;
  /** All rules of the node beside it. */
  readonly rules: NodeRules;
  /** False if the Node was not read: then its zone is inferred from the rules. */
  readonly knowsZone: boolean;
  /** Each Service is analyzed by itself: no finding stands for many of them. */
  readonly eachService: boolean;
  /** Not all Services were read: a chain of no expected Service may belong to another one. */
  readonly isPartial: boolean;
}
