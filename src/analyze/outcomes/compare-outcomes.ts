import {entryText} from '../../model/entry.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {compareMemory, compareReturn} from './compare-affinity.ts';
import {explainComparison, isUnentered, saidSpecial, sayMissingEntry} from './explain-comparison.ts';
import {endpointKinds, type OutcomeCase} from './outcome-case.ts';
import {isSameOutcome, type ProbeComparison} from './path-outcome.ts';
import type {Probe} from './probes.ts';

/**
 * Reports what the probes of one Service port show, in any proxy mode: each diverging probe gets one symptom that names the cause.
 * Returns whether any probe diverges.
 */
export function comparePathOutcomes<R extends RuleText>(given: OutcomeCase<R>): boolean {
  const {probes, walk, symptoms, affinity: compareRules = () => null} = given;
  const comparisons = probes.filter(isNewConnection).map(walk);
  const diverging = comparisons.filter(diverges);
  const unreached = unreachedEntries(given, comparisons, diverging);
  const isReached = ({entry}: Probe): boolean => !unreached.has(entryText(entry));
  const reached = diverging.filter(({probe}) => isReached(probe));
  for (const comparison of reached) explainComparison(given, comparison);
  // Affinity is only compared if the endpoints and the entry are right. There is a returning client for each endpoint, so they are many.
  const isRight = !symptoms.has(...endpointKinds);
  const returning = isRight
    ? probes
        .filter(probe => !isNewConnection(probe) && isReached(probe))
        .map(walk)
        .filter(diverges)
    : [];
  for (const comparison of returning)
    if (isLedBack(comparison) && !symptoms.tellsOf(entryText(comparison.probe.entry))) compareReturn(given, comparison);
  const changesOutcome = diverging.length > 0 || returning.length > 0;
  const affinity = compareRules(changesOutcome);
  if (affinity !== null) symptoms.say(affinity, 'affinity');
  if (isRight) for (const comparison of [...reached, ...returning]) compareMemory(given, comparison);
  // The policy decides who is masqueraded; with the wrong policy that is no finding of its own.
  if (symptoms.has('traffic-policy-mismatch')) symptoms.drop('masquerade-mismatch');
  return changesOutcome;
}

function diverges({expected, actual}: ProbeComparison<RuleText>): boolean {
  return !isSameOutcome(expected, actual);
}

/** Unreached entries. If all entries are unreached, the Service port is not programmed. */
function unreachedEntries<R extends RuleText>(
  given: OutcomeCase<R>,
  comparisons: readonly ProbeComparison<R>[],
  diverging: readonly ProbeComparison<R>[],
): ReadonlySet<string> {
  const entered = new Set(diverging.filter(comparison => !isUnentered(given, comparison)).map(({probe}) => entryText(probe.entry)));
  const whole = new Map<string, ProbeComparison<R>>();
  for (const comparison of diverging) {
    const name = entryText(comparison.probe.entry);
    if (comparison.expected.destinations.size > 0 && !entered.has(name) && !whole.has(name)) whole.set(name, comparison);
  }
  if (whole.size === 0) return new Set();
  if (whole.size === servedEntries(comparisons).size && given.semantics.hasNoEntry()) {
    const detail = 'not programmed on this node: no entry reaches an endpoint';
    given.symptoms.say({kind: 'service-not-programmed', detail, ...given.semantics.evidence({kind: 'service'})});
  } else {
    for (const comparison of whole.values()) if (!saidSpecial(given, comparison)) sayMissingEntry(given, comparison);
  }
  return new Set(whole.keys());
}

/** Names of the entries that lead to an endpoint in the expected rules. */
function servedEntries(comparisons: readonly ProbeComparison<RuleText>[]): ReadonlySet<string> {
  const served = comparisons.filter(({expected, probe}) => expected.destinations.size > 0 && probe.endpoint === undefined);
  return new Set(served.map(({probe}) => entryText(probe.entry)));
}

/** The client is known to no endpoint. */
function isNewConnection({knownTo}: Probe): boolean {
  return knownTo.size === 0;
}

/** The client is known to one endpoint, which it should reach. */
function isLedBack({probe, expected}: ProbeComparison<RuleText>): boolean {
  return probe.knownTo.size > 0 && expected.destinations.size === 1;
}
