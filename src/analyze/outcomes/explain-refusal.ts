import {entryText} from '../../model/entry.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {OutcomeCase} from './outcome-case.ts';
import {describePathOutcome, type ProbeComparison} from './path-outcome.ts';
import {whose} from './probes.ts';

/** Endpoints should be reached, and the packet is refused. */
export function sayRefused<R extends RuleText>(given: OutcomeCase<R>, comparison: ProbeComparison<R>): void {
  const {expected, actual, probe} = comparison;
  const outcome = actual.outcomes.find(({verdict}) => verdict === 'reject' || verdict === 'drop');
  const rule = outcome?.path.at(-1);
  const differing = given.semantics.evidence({kind: 'policy', comparison});
  // An element of a map that refuses is no rule of the path with a place of its own.
  const evidence = {expected: differing.expected, actual: rule === undefined || rule.line === 0 ? differing.actual : [rule]};
  if (outcome !== undefined && given.semantics.refusedFor(outcome) === 'ranges') {
    const ranges = given.item.port.sourceRanges.length > 0;
    const detail = `${whose(probe)} are dropped though ${ranges ? 'loadBalancerSourceRanges allow them' : 'there are no loadBalancerSourceRanges'}`;
    return given.symptoms.say(
      {kind: 'source-ranges-mismatch', refuses: true, entry: probe.entry, detail, ...evidence},
      `ranges ${entryText(probe.entry)}`,
    );
  }
  const detail = `${whose(probe)} end in ${describePathOutcome(actual)}, and should reach ${describePathOutcome(expected)}`;
  given.symptoms.say(
    {kind: 'unexpected-reject', severity: 'error', entry: probe.entry, detail, ...evidence},
    `refused ${entryText(probe.entry)}`,
  );
}
