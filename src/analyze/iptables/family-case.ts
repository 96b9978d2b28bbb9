import type {Hypothesis} from '../../expect/hypothesis.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';

/** Builds the expectation anew under an assumption. */
export type Expect = (hypothesis: Hypothesis) => ExpectedRuleset;

/** One family's rules on one node. */
export interface FamilyCase {
  /** Builds what is expected, under assumptions where the rules call for them. */
  readonly expect: Expect;
  readonly actual: Ruleset;
  /** The node's ipsets, where they were read. */
  readonly sets: ReadonlyMap<string, IpSet>;
  /** False where the Node was not read: then its zone is one more thing that the rules have to show. */
  readonly knowsZone: boolean;
  /** Each Service is analyzed by itself: no finding stands for many of them. */
  readonly eachService: boolean;
}
