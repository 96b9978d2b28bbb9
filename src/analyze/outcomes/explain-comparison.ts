import {entryText} from '../../model/entry.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {compareEndpoints} from './compare-endpoints.ts';
import {sayRefused} from './explain-refusal.ts';
import type {Evidence} from './mode-semantics.ts';
import type {OutcomeCase} from './outcome-case.ts';
import {describePathOutcome, type ProbeComparison} from './path-outcome.ts';
import {whose} from './probes.ts';

/** The cause of one diverging probe, as one symptom. */
export function explainComparison<R extends RuleText>(given: OutcomeCase<R>, comparison: ProbeComparison<R>): void {
  const {expected, actual} = comparison;
  if (actual.undecided > 0 && expected.undecided === 0) return sayUndetermined(given, comparison);
  if (saidSpecial(given, comparison)) return;
  if (expected.destinations.size === 0) return shouldBeRefused(given, comparison);
  if (isUnentered(given, comparison))
    return given.symptoms.tellsOf(entryText(comparison.probe.entry)) ? undefined : sayMissingEntry(given, comparison);
  if (saidOtherPolicy(given, comparison)) return;
  if (actual.destinations.size === 0 && (actual.rejected > 0 || actual.dropped > 0)) return sayRefused(given, comparison);
  compareEndpoints(given, comparison);
}

/** Says what only the mode knows of a probe. False if that is nothing. */
export function saidSpecial<R extends RuleText>(given: OutcomeCase<R>, comparison: ProbeComparison<R>): boolean {
  const special = given.semantics.special(comparison);
  for (const {symptom, key} of special) given.symptoms.say(symptom, key);
  return special.length > 0;
}

/** The packet ends as if its entry were not programmed. */
export function isUnentered<R extends RuleText>(given: OutcomeCase<R>, {actual}: ProbeComparison<R>): boolean {
  return actual.destinations.size === 0 && actual.outcomes.every(outcome => given.semantics.isUnentered(outcome));
}

export function sayMissingEntry<R extends RuleText>(given: OutcomeCase<R>, {probe: {entry}, actual}: ProbeComparison<R>): void {
  const found = given.semantics.evidence({kind: 'entry', entry});
  const detail =
    found.expected.length > 0
      ? `its ${entryText(entry)} is not programmed, while other entries are`
      : `no packet to its ${entryText(entry)} enters its chains, though the rule that should take it is there`;
  const last = found.expected.length > 0 ? found.actual : (actual.outcomes[0]?.path.slice(-1) ?? []);
  given.symptoms.say({kind: 'missing-entry', entry, detail, expected: found.expected, actual: last}, `entry ${entryText(entry)}`);
}

function sayUndetermined<R extends RuleText>(given: OutcomeCase<R>, {actual, probe}: ProbeComparison<R>): void {
  const outcome = actual.outcomes.find(({verdict}) => verdict === 'undecided');
  // A truncated dump is reported for the node, as ST506.
  if (/the dump was (?:cut|truncated)/.test(outcome?.reason ?? '')) return;
  const detail = `the outcome for ${whose(probe)} is undetermined: ${outcome?.reason ?? 'unknown'}`;
  given.symptoms.say(
    {kind: 'undecided-path', entry: probe.entry, detail, expected: [], actual: outcome?.path.slice(-1) ?? []},
    'undecided',
  );
}

/** No endpoint should be reached: the Service has none, the node has none, or the source is not allowed. */
function shouldBeRefused<R extends RuleText>(given: OutcomeCase<R>, comparison: ProbeComparison<R>): void {
  const {expected, actual, probe} = comparison;
  const [outcome] = expected.outcomes;
  const reason = outcome === undefined ? 'other' : given.semantics.refusedFor(outcome);
  const decisive = outcome?.path.at(-1);
  const evidence = {expected: decisive === undefined ? [] : [decisive], actual: actual.outcomes[0]?.path.slice(0, 3) ?? []};
  const entry = entryText(probe.entry);
  if (reason === 'ranges') return outsideRanges(given, comparison, evidence);
  if (expected.dropped > 0) {
    const detail = `${whose(probe)} must be dropped, since the policy is Local and no endpoint is on this node; they end in ${describePathOutcome(actual)}`;
    return given.symptoms.say({kind: 'traffic-policy-mismatch', entry: probe.entry, detail, ...evidence}, `policy ${entry}`);
  }
  if (actual.destinations.size > 0) return compareEndpoints(given, comparison);
  if (expected.rejected === 0) return;
  const detail = `it has no endpoints, so ${whose(probe)} must be refused; they end in ${describePathOutcome(actual)}: connections hang or leave the node`;
  given.symptoms.say({kind: 'missing-reject', entry: probe.entry, detail, ...evidence}, `reject ${entry}`);
}

/** The source is outside of loadBalancerSourceRanges. */
function outsideRanges<R extends RuleText>(given: OutcomeCase<R>, {actual, probe}: ProbeComparison<R>, evidence: Evidence<R>): void {
  const entry = entryText(probe.entry);
  const symptom = {kind: 'source-ranges-mismatch', entry: probe.entry, ...evidence} as const;
  const end = describePathOutcome(actual);
  if (actual.destinations.size > 0) {
    const detail = `${whose(probe)} must be dropped, and end in ${end}: loadBalancerSourceRanges are not enforced`;
    return given.symptoms.say({...symptom, detail}, `ranges ${entry}`);
  }
  if (actual.passed > 0) {
    const detail = `${whose(probe)} must be dropped because of loadBalancerSourceRanges, and end in ${end}: they leave the node or hang`;
    return given.symptoms.say({...symptom, detail}, `ranges ${entry}`);
  }
  const detail = `${whose(probe)} must be dropped because of loadBalancerSourceRanges, and end in ${end}: they do not get in`;
  given.symptoms.say({...symptom, severity: 'warning', detail}, `ranges refused ${entry}`);
}

/** The endpoints are picked by the other policy, or packets are dropped as under the other policy. */
function saidOtherPolicy<R extends RuleText>(given: OutcomeCase<R>, comparison: ProbeComparison<R>): boolean {
  const {expected, actual, probe} = comparison;
  const should = given.semantics.policyOf(expected);
  const does = given.semantics.policyOf(actual);
  const dropped = actual.outcomes.some(outcome => outcome.verdict === 'drop' && given.semantics.refusedFor(outcome) === 'policy');
  if ((should === does || does === null || should === null) && !dropped) return false;
  const detail = dropped
    ? `${whose(probe)} are dropped because the node has no local endpoint, and should reach ${describePathOutcome(expected)}`
    : `${whose(probe)} are balanced by the ${does} policy, and should be by the ${should} policy`;
  const evidence = given.semantics.evidence({kind: 'policy', comparison});
  given.symptoms.say({kind: 'traffic-policy-mismatch', entry: probe.entry, detail, ...evidence}, `policy ${entryText(probe.entry)}`);
  return true;
}
