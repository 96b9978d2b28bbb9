import {entryText} from '../../model/entry.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {OutcomeCase} from './outcome-case.ts';
import type {ProbeComparison} from './path-outcome.ts';
import {sourceName} from './sources.ts';

/** Packets reach the right endpoints, with another source address than they should have. */
export function compareMasquerade<R extends RuleText>(given: OutcomeCase<R>, comparison: ProbeComparison<R>): void {
  const {expected, actual} = comparison;
  const diverging = [...expected.destinations].find(
    ([destination, {masquerade}]) => (actual.destinations.get(destination)?.masquerade ?? masquerade) !== masquerade,
  );
  if (diverging !== undefined) sayOtherMasquerade(given, comparison, {destination: diverging[0], should: diverging[1].masquerade});
}

function sayOtherMasquerade<R extends RuleText>(
  given: OutcomeCase<R>,
  comparison: ProbeComparison<R>,
  {destination, should}: {readonly destination: string; readonly should: boolean},
): void {
  const {probe} = comparison;
  const isHairpin = probe.endpoint?.hostPort === destination;
  const who = probe.endpoint === undefined ? sourceName(probe.source) : `endpoint ${probe.endpoint.hostPort}`;
  const entry = entryText(probe.entry);
  const detail = should
    ? `packets from ${isHairpin ? `${who} to itself` : who} through its ${entry} are not masqueraded${isHairpin ? ': a pod that reaches itself through the Service never gets a reply' : ', and should be'}`
    : `packets from ${who} through its ${entry} are masqueraded, and should keep their source address`;
  const mustReturn = should && (isHairpin || (probe.entry.kind !== 'clusterIP' && !given.item.port.externalPolicyLocal));
  const evidence = given.semantics.evidence({kind: 'masquerade', comparison});
  const cause = evidence.expected[0]?.text ?? evidence.actual[0]?.text ?? entry;
  given.symptoms.say(
    {
      kind: 'masquerade-mismatch',
      severity: mustReturn ? 'error' : 'warning',
      ...(isHairpin ? {endpoint: destination} : {}),
      entry: probe.entry,
      detail,
      ...evidence,
    },
    `masquerade ${should} ${isHairpin ? destination : cause}`,
  );
}
