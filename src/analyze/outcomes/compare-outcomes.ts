import {entryText} from '../../model/entry.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {compareMemory, compareReturn} from './compare-affinity.ts';
import {explainComparison, isUnentered, saidSpecial, sayMissingEntry} from './explain-comparison.ts';
import {endpointKinds, type OutcomeCase} from './outcome-case.ts';
import {isSameOutcome, type ProbeComparison} from './path-outcome.ts';

/**
 * Reports what the probe comparisons of one Service port show, in any proxy mode: each diverging probe gets one symptom that names
 * the cause. Returns whether any probe diverges.
 */
export function comparePathOutcomes<R extends RuleText>(given: OutcomeCase<R>): boolean {
  const {affinity: compareRules = () => null} = given;
  const diverging = given.comparisons.filter(({expected, actual}) => !isSameOutcome(expected, actual));
  const unreached = unreachedEntries(given, diverging);
  const reached = diverging.filter(({probe}) => !unreached.has(entryText(probe.entry)));
  for (const comparison of reached) if (isNewConnection(comparison)) explainComparison(given, comparison);
  // Affinity is only compared if the endpoints and the entry are right.
  if (!given.symptoms.has(...endpointKinds)) {
    for (const comparison of reached)
      if (isLedBack(comparison) && !given.symptoms.tellsOf(entryText(comparison.probe.entry))) compareReturn(given, comparison);
  }
  const affinity = compareRules(diverging.length > 0);
  if (affinity !== null) given.symptoms.say(affinity, 'affinity');
  if (!given.symptoms.has(...endpointKinds)) for (const comparison of reached) compareMemory(given, comparison);
  // The policy decides who is masqueraded; with the wrong policy that is no finding of its own.
  if (given.symptoms.has('traffic-policy-mismatch')) given.symptoms.drop('masquerade-mismatch');
  return diverging.length > 0;
}

/** Unreached entries. If all entries are unreached, the Service port is not programmed. */
function unreachedEntries<R extends RuleText>(given: OutcomeCase<R>, diverging: readonly ProbeComparison<R>[]): ReadonlySet<string> {
  const fresh = diverging.filter(isNewConnection);
  const entered = new Set(fresh.filter(comparison => !isUnentered(given, comparison)).map(({probe}) => entryText(probe.entry)));
  const whole = new Map<string, ProbeComparison<R>>();
  for (const comparison of fresh) {
    const name = entryText(comparison.probe.entry);
    if (comparison.expected.destinations.size > 0 && !entered.has(name) && !whole.has(name)) whole.set(name, comparison);
  }
  if (whole.size === 0) return new Set();
  if (whole.size === servedEntries(given).size && given.semantics.hasNoEntry()) {
    const detail = 'not programmed on this node: no entry reaches an endpoint';
    given.symptoms.say({kind: 'service-not-programmed', detail, ...given.semantics.evidence({kind: 'service'})});
  } else {
    for (const comparison of whole.values()) if (!saidSpecial(given, comparison)) sayMissingEntry(given, comparison);
  }
  return new Set(whole.keys());
}

/** Names of the entries that lead to an endpoint in the expected rules. */
function servedEntries<R extends RuleText>(given: OutcomeCase<R>): ReadonlySet<string> {
  const served = given.comparisons.filter(({expected, probe}) => expected.destinations.size > 0 && probe.endpoint === undefined);
  return new Set(served.map(({probe}) => entryText(probe.entry)));
}

/** The client is known to no endpoint. */
function isNewConnection({probe}: ProbeComparison<RuleText>): boolean {
  return probe.knownTo.size === 0;
}

/** The client is known to one endpoint, which it should reach. */
function isLedBack({probe, expected}: ProbeComparison<RuleText>): boolean {
  return probe.knownTo.size > 0 && expected.destinations.size === 1;
}
