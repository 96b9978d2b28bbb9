import type {NodeContext} from '../../expect/node-context.ts';
import type {CategorizedEndpoints, Endpoint} from '../../model/endpoint.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import type {OutcomeCase} from './compare-endpoints.ts';
import {environmentOf, type BothWalks, type ProbeComparison} from './environment.ts';
import type {Probe} from './probes.ts';

/**
 * All probes; or the first of each group alone, where it shows what the others of its group would: nothing but the endpoints differs
 * (`differsInEndpointsOnly`, asked at most once), and the packets of this probe reach endpoints on both sides, not the same ones, and end
 * nowhere else. A group is of packets that get the same endpoints; all do if `groupOf` is left out.
 */
export function probesToWalk(
  {probes, walk}: Pick<OutcomeCase, 'probes' | 'walk'>,
  differsInEndpointsOnly: () => boolean,
  groupOf: (probe: Probe) => string = () => 'all',
): Pick<OutcomeCase, 'probes' | 'walk'> {
  if ((probes[0]?.knownTo.size ?? 1) > 0 || !differsInEndpointsOnly()) return {probes, walk};
  const walked = new Map<Probe, ProbeComparison>();
  const left = new Set(probes);
  for (const [first, ...others] of Map.groupBy(probes, groupOf).values()) {
    if (first === undefined || first.knownTo.size > 0) continue;
    const comparison = walk(first);
    walked.set(first, comparison);
    if (reachesOthers(comparison)) for (const other of others) left.delete(other);
  }
  return {probes: [...left], walk: probe => walked.get(probe) ?? walk(probe)};
}

/** Walks a probe on both sides. */
export function probeWalks({facts}: Pick<NodeContext, 'facts'>, {expected, actual}: BothWalks): (probe: Probe) => ProbeComparison {
  return probe => {
    const environment = environmentOf(facts, {knownTo: probe.knownTo});
    return {probe, expected: expected(probe.packet, environment), actual: actual(probe.packet, environment)};
  };
}

function reachesOthers({expected, actual}: ProbeComparison): boolean {
  const isServed = [expected, actual].every(
    ({destinations, passed, rejected, dropped, undecided}) => destinations.size > 0 && passed + rejected + dropped + undecided === 0,
  );
  const [should, does] = [[...expected.destinations.keys()], [...actual.destinations.keys()]];
  return (
    isServed && (should.some(endpoint => !actual.destinations.has(endpoint)) || does.some(endpoint => !expected.destinations.has(endpoint)))
  );
}

/**
 * The endpoints that the rules of a node name by `ip:port`. One that the API does not have is like the others, and on no node: whether it
 * is local matters only for its own connections. Null for a Service port without endpoints.
 */
export function endpointsByName({cluster: [like], reachable}: CategorizedEndpoints): ((hostPort: string) => Endpoint) | null {
  if (like === undefined) return null;
  const known = new Map(reachable.map(endpoint => [endpoint.hostPort, endpoint]));
  return hostPort => {
    const found = known.get(hostPort);
    if (found !== undefined) return found;
    const {address, port} = splitHostPort(hostPort);
    return {...like, address, port: Number(port), hostPort, nodeName: null, chainName: undefined};
  };
}
