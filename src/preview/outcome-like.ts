import type {ServedPort} from '../expect/cluster/served-port.ts';
import type {Endpoint} from '../model/endpoint.ts';
import type {SideOutcome, SideShare} from './walk-side.ts';

/**
 * The outcome of a packet to a Service port, by that of the same packet to another one that no rule distinguishes from it: with its own
 * endpoints, in the place of the other's. Null if the endpoints are not treated alike, so that their places matter: the packet must be
 * walked.
 */
export function outcomeLike(walked: SideOutcome, lead: ServedPort | null, item: ServedPort | null): SideOutcome | null {
  const {destinations, passed, rejected, dropped, undecided} = walked;
  if (destinations.size === 0) return undecided === 0 ? walked : null;
  if (lead === null || item === null || passed + rejected + dropped + undecided > 0) return null;
  const shares = [...destinations];
  if (new Set(shares.map(([, {masquerade}]) => masquerade)).size > 1) return null;
  const served = listOf(shares, lead, item);
  if (served === null) return null;
  const own = shares.map(([, share], index): [string, SideShare] => [served[index]?.hostPort ?? '', share]);
  return new Map(own).size === shares.length ? {...walked, destinations: new Map(own)} : null;
}

/** The list of endpoints that the packet was balanced over, as the other Service port has it; null if it is not one, or in another order. */
function listOf(shares: readonly (readonly [string, unknown])[], lead: ServedPort, item: ServedPort): readonly Endpoint[] | null {
  const isList = (list: readonly Endpoint[]): boolean =>
    list.length === shares.length && list.every(({hostPort}, index) => shares[index]?.[0] === hostPort);
  const lists = (['cluster', 'local'] as const).filter(name => isList(lead.endpoints[name])).map(name => item.endpoints[name]);
  const [first, second = first] = lists;
  if (first === undefined || first.length !== shares.length) return null;
  // Where both are the same list of the one, they must be of the other.
  return second !== undefined && first.every((endpoint, index) => second[index] === endpoint) ? first : null;
}
