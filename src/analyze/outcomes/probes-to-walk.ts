import type {RuleText} from '../../model/ruleset.ts';
import type {OutcomeCase} from './outcome-case.ts';
import type {ProbeComparison} from './path-outcome.ts';

/**
 * All probes; or the first alone, where it shows what all others would: nothing but the endpoints differs (`differsInEndpointsOnly`, asked
 * at most once), and the packets of this probe reach endpoints on both sides, not the same ones, and end nowhere else.
 */
export function probesToWalk<R extends RuleText>(
  {probes, walk}: Pick<OutcomeCase<R>, 'probes' | 'walk'>,
  differsInEndpointsOnly: () => boolean,
): Pick<OutcomeCase<R>, 'probes' | 'walk'> {
  const [first] = probes;
  if (first === undefined || first.knownTo.size > 0 || !differsInEndpointsOnly()) return {probes, walk};
  const comparison = walk(first);
  return {probes: reachesOthers(comparison) ? [first] : probes, walk: probe => (probe === first ? comparison : walk(probe))};
}

function reachesOthers({expected, actual}: ProbeComparison<RuleText>): boolean {
  const isServed = [expected, actual].every(
    ({destinations, passed, rejected, dropped, undecided}) => destinations.size > 0 && passed + rejected + dropped + undecided === 0,
  );
  const [should, does] = [[...expected.destinations.keys()], [...actual.destinations.keys()]];
  return (
    isServed && (should.some(endpoint => !actual.destinations.has(endpoint)) || does.some(endpoint => !expected.destinations.has(endpoint)))
  );
}
