import {entryText, throughEntry} from '../../model/service-port.ts';
import type {OutcomeCase, Evidence} from './compare-endpoints.ts';
import {compareEndpoints, sayKeyed, compareMasquerade, endpointKinds, sayRefused, shareOfPods} from './compare-endpoints.ts';
import {describePathOutcome, hasSameEnds, isSameOutcome, type ProbeComparison} from './environment.ts';
import {type Probe, whose} from './probes.ts';

/**
 * Reports what the probes of one Service port show, in any proxy mode: each diverging probe gets one symptom that names the cause.
 * Returns whether any probe diverges.
 */
export function comparePathOutcomes(outcomeCase: OutcomeCase): boolean {
  const {probes, walk, symptoms, affinity: compareRules = () => null} = outcomeCase;
  const comparisons = probes.filter(isNewConnection).map(walk);
  const diverging = comparisons.filter(diverges);
  const unreached = unreachedEntries(outcomeCase, comparisons, diverging);
  const isReached = ({entry}: Probe): boolean => !unreached.has(entryText(entry));
  const reached = diverging.filter(({probe}) => isReached(probe));
  for (const comparison of reached) explainComparison(outcomeCase, comparison);
  // Affinity is only compared if the endpoints and the entry are right. There is a returning client for each endpoint, so they are many.
  const isRight = !symptoms.has(...endpointKinds);
  const returning = isRight
    ? probes
        .filter(probe => !isNewConnection(probe) && isReached(probe))
        .map(walk)
        .filter(diverges)
    : [];
  for (const comparison of returning)
    if (isLedBack(comparison) && !symptoms.tellsOf(entryText(comparison.probe.entry))) compareReturn(outcomeCase, comparison);
  const changesOutcome = diverging.length > 0 || returning.length > 0;
  const affinity = compareRules(changesOutcome);
  if (affinity !== null) symptoms.say(affinity, 'affinity');
  if (isRight) for (const comparison of [...reached, ...returning]) compareMemory(outcomeCase, comparison);
  // The policy decides who is masqueraded; with the wrong policy that is no finding of its own.
  if (symptoms.has('traffic-policy-mismatch')) symptoms.drop('masquerade-mismatch');
  return changesOutcome;
}

function diverges({expected, actual}: ProbeComparison): boolean {
  return !isSameOutcome(expected, actual);
}

/** Unreached entries. If all entries are unreached, the Service port is not programmed. */
function unreachedEntries(
  outcomeCase: OutcomeCase,
  comparisons: readonly ProbeComparison[],
  diverging: readonly ProbeComparison[],
): ReadonlySet<string> {
  const entered = new Set(diverging.filter(comparison => !isUnentered(outcomeCase, comparison)).map(({probe}) => entryText(probe.entry)));
  const whole = new Map<string, ProbeComparison>();
  for (const comparison of diverging) {
    const name = entryText(comparison.probe.entry);
    if (comparison.expected.destinations.size > 0 && !entered.has(name) && !whole.has(name)) whole.set(name, comparison);
  }
  if (whole.size === 0) return new Set();
  if (whole.size === servedEntries(comparisons).size && outcomeCase.semantics.hasNoEntry()) {
    const detail = 'not programmed on this node: no entry reaches an endpoint';
    outcomeCase.symptoms.say({kind: 'service-not-programmed', detail, share: 1, ...outcomeCase.semantics.evidence.service()});
  } else {
    for (const comparison of whole.values()) if (!saidSpecial(outcomeCase, comparison)) sayMissingEntry(outcomeCase, comparison);
  }
  return new Set(whole.keys());
}

/** Names of the entries that lead to an endpoint in the expected rules. */
function servedEntries(comparisons: readonly ProbeComparison[]): ReadonlySet<string> {
  const served = comparisons.filter(({expected, probe}) => expected.destinations.size > 0 && probe.endpoint === undefined);
  return new Set(served.map(({probe}) => entryText(probe.entry)));
}

/** The client is known to no endpoint. */
function isNewConnection({knownTo}: Probe): boolean {
  return knownTo.size === 0;
}

/** The client is known to one endpoint, which it should reach. */
function isLedBack({probe, expected}: ProbeComparison): boolean {
  return probe.knownTo.size > 0 && expected.destinations.size === 1;
}

/** A returning client reaches another endpoint than the one it is known to. */
function compareReturn(outcomeCase: OutcomeCase, comparison: ProbeComparison): void {
  if (hasSameEnds(comparison.expected, comparison.actual)) return compareMasquerade(outcomeCase, comparison);
  const detail = `a returning client is not sent back to its endpoint through its ${entryText(comparison.probe.entry)}`;
  outcomeCase.symptoms.say({kind: 'session-affinity-mismatch', detail, ...outcomeCase.semantics.evidence.affinity()}, 'affinity');
}

/** Packets reach the right endpoint, but the rule does not record the client, or records it in another list. */
function compareMemory(outcomeCase: OutcomeCase, {expected, actual, probe}: ProbeComparison): void {
  for (const [destination, {remembered}] of expected.destinations) {
    const found = actual.destinations.get(destination);
    if (found === undefined || found.remembered === remembered) continue;
    const state = found.remembered === null ? 'is not remembered' : `is remembered in the list ${found.remembered}, which is not its own`;
    const detail = `a client that comes through its ${entryText(probe.entry)} and is sent to ${destination} ${state}`;
    outcomeCase.symptoms.say({kind: 'session-affinity-mismatch', detail, expected: [], actual: found.path.slice(-1)}, 'affinity');
  }
}

/** The cause of one diverging probe, as one symptom. */
function explainComparison(outcomeCase: OutcomeCase, comparison: ProbeComparison): void {
  const {expected, actual} = comparison;
  if (actual.undecided > 0 && expected.undecided === 0) return sayUndetermined(outcomeCase, comparison);
  if (saidSpecial(outcomeCase, comparison)) return;
  if (expected.destinations.size === 0) return shouldBeRefused(outcomeCase, comparison);
  if (isUnentered(outcomeCase, comparison))
    return outcomeCase.symptoms.tellsOf(entryText(comparison.probe.entry)) ? undefined : sayMissingEntry(outcomeCase, comparison);
  if (saidOtherPolicy(outcomeCase, comparison)) return;
  if (actual.destinations.size === 0 && (actual.rejected > 0 || actual.dropped > 0)) return sayRefused(outcomeCase, comparison);
  compareEndpoints(outcomeCase, comparison);
}

/** Says what only the mode knows of a probe. False if that is nothing. */
function saidSpecial(outcomeCase: OutcomeCase, comparison: ProbeComparison): boolean {
  const special = outcomeCase.semantics.special(comparison);
  for (const one of special) sayKeyed(outcomeCase.symptoms, one);
  return special.length > 0;
}

/** The packet ends as if its entry were not programmed. */
function isUnentered(outcomeCase: OutcomeCase, {actual}: ProbeComparison): boolean {
  return actual.destinations.size === 0 && actual.outcomes.every(outcome => outcomeCase.semantics.isUnentered(outcome));
}

function sayMissingEntry(outcomeCase: OutcomeCase, comparison: ProbeComparison): void {
  const {
    probe: {entry},
    actual,
  } = comparison;
  const found = outcomeCase.semantics.evidence.entry(entry);
  const isThere = found.actual.length > 0;
  const detail =
    found.expected.length > 0
      ? `its ${entryText(entry)} ${isThere ? 'does not lead to its endpoints, while other entries do' : 'is not programmed, while other entries are'}`
      : `no packet to its ${entryText(entry)} enters its chains, though the rule that should take it is there`;
  const last = found.expected.length > 0 ? found.actual : (actual.outcomes[0]?.path.slice(-1) ?? []);
  outcomeCase.symptoms.say(
    {kind: 'missing-entry', entry, detail, expected: found.expected, actual: last, ...shareOfPods(comparison, 1)},
    `entry ${entryText(entry)}`,
  );
}

function sayUndetermined(outcomeCase: OutcomeCase, {actual, probe}: ProbeComparison): void {
  const outcome = actual.outcomes.find(({verdict}) => verdict === 'undecided');
  // A truncated dump is reported for the node, as ST506.
  if (outcome?.isTruncated === true) return;
  const detail = `the outcome for ${whose(probe)} is undetermined: ${outcome?.reason ?? 'unknown'}`;
  outcomeCase.symptoms.say(
    {kind: 'undecided-path', entry: probe.entry, detail, expected: [], actual: outcome?.path.slice(-1) ?? []},
    'undecided',
  );
}

/** No endpoint should be reached: the Service has none, the node has none, or the source is not allowed. */
function shouldBeRefused(outcomeCase: OutcomeCase, comparison: ProbeComparison): void {
  const {expected, actual, probe} = comparison;
  const [outcome] = expected.outcomes;
  const reason = outcome === undefined ? 'other' : outcomeCase.semantics.refusedFor(outcome);
  const decisive = outcome?.path.at(-1);
  const evidence = {expected: decisive === undefined ? [] : [decisive], actual: actual.outcomes[0]?.path.slice(0, 3) ?? []};
  const entry = entryText(probe.entry);
  if (reason === 'ranges') return outsideRanges(outcomeCase, comparison, evidence);
  if (expected.dropped > 0) {
    const detail = `${whose(probe)} must be dropped, since the policy is Local and no endpoint is on this node; they end in ${describePathOutcome(actual)}`;
    return outcomeCase.symptoms.say(
      {
        kind: 'traffic-policy-mismatch',
        variant: actual.destinations.size > 0 ? 'served-without-local-endpoint' : 'not-dropped',
        entry: probe.entry,
        detail,
        ...evidence,
      },
      `policy ${entry}`,
    );
  }
  if (actual.destinations.size > 0) return compareEndpoints(outcomeCase, comparison);
  if (expected.rejected === 0) return;
  const detail = `it has no endpoints, so ${whose(probe)} must be refused; they end in ${describePathOutcome(actual)}: clients wait until they time out, where they should get "connection refused"`;
  outcomeCase.symptoms.say({kind: 'missing-reject', entry: probe.entry, detail, ...evidence}, `reject ${entry}`);
}

/** The source is outside of loadBalancerSourceRanges. */
function outsideRanges(outcomeCase: OutcomeCase, {actual, probe}: ProbeComparison, evidence: Evidence): void {
  const entry = entryText(probe.entry);
  const symptom = {kind: 'source-ranges-mismatch', entry: probe.entry, ...evidence} as const;
  const end = describePathOutcome(actual);
  if (actual.destinations.size > 0) {
    const detail = `${whose(probe)} must be dropped, and end in ${end}: loadBalancerSourceRanges are not enforced`;
    return outcomeCase.symptoms.say({...symptom, variant: 'ranges-not-enforced', detail}, `ranges ${entry}`);
  }
  if (actual.passed > 0) {
    const detail = `${whose(probe)} must be dropped because of loadBalancerSourceRanges, and end in ${end}: they leave the node or hang`;
    return outcomeCase.symptoms.say({...symptom, variant: 'not-dropped', detail}, `ranges ${entry}`);
  }
  const detail = `${whose(probe)} must be dropped because of loadBalancerSourceRanges, and end in ${end}: they do not get in`;
  outcomeCase.symptoms.say(
    {...symptom, severity: 'warning', gist: 'clients outside loadBalancerSourceRanges are refused, and should be dropped', detail},
    `ranges refused ${entry}`,
  );
}

/** The endpoints are picked by the other policy, or packets are dropped as under the other policy. */
function saidOtherPolicy(outcomeCase: OutcomeCase, comparison: ProbeComparison): boolean {
  const {expected, actual, probe} = comparison;
  const should = outcomeCase.semantics.policyOf(expected);
  const does = outcomeCase.semantics.policyOf(actual);
  const dropped = actual.outcomes.some(outcome => outcome.verdict === 'drop' && outcomeCase.semantics.refusedFor(outcome) === 'policy');
  if ((should === does || does === null || should === null) && !dropped) return false;
  // No policy picks the endpoints of another Service.
  const known = new Set(outcomeCase.item.all.map(({hostPort}) => hostPort));
  if (actual.destinations.size > 0 && ![...actual.destinations.keys()].some(destination => known.has(destination))) return false;
  const detail = dropped
    ? `${whose(probe)} are dropped because the node has no local endpoint, and should reach ${describePathOutcome(expected)}`
    : `${whose(probe)} are balanced by the ${does} policy, and should be by the ${should} policy`;
  const evidence = outcomeCase.semantics.evidence.policy(comparison);
  const more = dropped
    ? ({variant: 'dropped-beside-local-endpoint'} as const)
    : {gist: `packets${throughEntry(probe.entry)} are balanced by the ${does} policy, and should be by the ${should} policy`};
  outcomeCase.symptoms.say(
    {kind: 'traffic-policy-mismatch', ...more, entry: probe.entry, detail, ...evidence},
    `policy ${entryText(probe.entry)}`,
  );
  return true;
}
