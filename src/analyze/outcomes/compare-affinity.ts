import {entryText} from '../../model/entry.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {compareMasquerade} from './compare-masquerade.ts';
import type {OutcomeCase} from './outcome-case.ts';
import {hasSameEnds, type ProbeComparison} from './path-outcome.ts';

/** A returning client reaches another endpoint than the one it is known to. */
export function compareReturn<R extends RuleText>(given: OutcomeCase<R>, comparison: ProbeComparison<R>): void {
  if (hasSameEnds(comparison.expected, comparison.actual)) return compareMasquerade(given, comparison);
  const detail = `a returning client is not sent back to its endpoint through its ${entryText(comparison.probe.entry)}`;
  given.symptoms.say({kind: 'session-affinity-mismatch', detail, ...given.semantics.evidence({kind: 'affinity'})}, 'affinity');
}

/** Packets reach the right endpoint, but the rule does not record the client, or records it in another list. */
export function compareMemory<R extends RuleText>(given: OutcomeCase<R>, {expected, actual, probe}: ProbeComparison<R>): void {
  for (const [destination, {remembered}] of expected.destinations) {
    const found = actual.destinations.get(destination);
    if (found === undefined || found.remembered === remembered) continue;
    const state = found.remembered === null ? 'is not remembered' : `is remembered in the list ${found.remembered}, which is not its own`;
    const detail = `a client that comes through its ${entryText(probe.entry)} and is sent to ${destination} ${state}`;
    given.symptoms.say({kind: 'session-affinity-mismatch', detail, expected: [], actual: found.path.slice(-1)}, 'affinity');
  }
}
