import {podOf} from '../../model/endpoint.ts';
import type {ServedPort} from '../../expect/cluster/served-port.ts';
import {entryText} from '../../model/entry.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {compareMasquerade} from './compare-masquerade.ts';
import {sayRefused} from './explain-refusal.ts';
import type {Misdirected} from './mode-semantics.ts';
import type {OutcomeCase} from './outcome-case.ts';
import {near, type ProbeComparison} from './path-outcome.ts';
import type {Probe} from './probes.ts';

/** Endpoints that get no traffic, or should get none; if these are right, their shares and masquerading. */
export function compareEndpoints<R extends RuleText>(given: OutcomeCase<R>, comparison: ProbeComparison<R>): void {
  const {expected, actual, probe} = comparison;
  const missing = [...expected.destinations.keys()].filter(destination => !actual.destinations.has(destination));
  const extra = [...actual.destinations.keys()].filter(destination => !expected.destinations.has(destination));
  const wrong = given.semantics.misdirected(actual);
  for (const [endpoint, {rule, destination}] of wrong) sayWrongAddress(given, {endpoint, rule, destination, comparison});
  const elsewhere = new Set([...wrong.values()].map(({destination}) => destination));
  // Most probes of a Service port show the same endpoints; the evidence is collected for the first.
  const isNew = (key: string): boolean => !given.symptoms.hasSaid(key);
  for (const endpoint of missing) if (!wrong.has(endpoint) && isNew(`missing ${endpoint}`)) sayMissingEndpoint(given, endpoint, comparison);
  for (const endpoint of extra) if (!elsewhere.has(endpoint) && isNew(`stale ${endpoint}`)) sayStaleEndpoint(given, endpoint, comparison);
  if (missing.length > 0 || extra.length > 0 || wrong.size > 0) return;
  if (actual.rejected > 0 || actual.dropped > 0 || actual.passed > 0) return sayRefused(given, comparison);
  if (probe.endpoint === undefined) compareShares(given, comparison);
  compareMasquerade(given, comparison);
}

interface WrongAddress<R extends RuleText> extends Misdirected<R> {
  readonly endpoint: string;
  readonly comparison: ProbeComparison<R>;
}

function sayWrongAddress<R extends RuleText>(given: OutcomeCase<R>, {endpoint, rule, destination, comparison}: WrongAddress<R>): void {
  const {expected} = given.semantics.evidence({kind: 'endpoint', endpoint, comparison});
  const detail = `the rule of endpoint ${endpoint} sends traffic to ${destination}`;
  given.symptoms.say({kind: 'wrong-endpoint-address', endpoint, detail, expected, actual: [rule]}, `wrong ${endpoint}`);
}

function sayMissingEndpoint<R extends RuleText>(given: OutcomeCase<R>, endpoint: string, comparison: ProbeComparison<R>): void {
  const detail = missingEndpointText(given.item, endpoint, comparison.probe);
  const evidence = given.semantics.evidence({kind: 'endpoint', endpoint, comparison});
  given.symptoms.say({kind: 'missing-endpoint', endpoint, detail, ...evidence}, `missing ${endpoint}`);
}

function sayStaleEndpoint<R extends RuleText>(given: OutcomeCase<R>, endpoint: string, comparison: ProbeComparison<R>): void {
  const share = comparison.actual.destinations.get(endpoint)?.probability ?? 0;
  const detail = staleEndpointText(given.item, endpoint, comparison.probe, share);
  const {actual} = given.semantics.evidence({kind: 'endpoint', endpoint, comparison});
  given.symptoms.say({kind: 'stale-endpoint', endpoint, detail, expected: [], actual}, `stale ${endpoint}`);
}

/** In words: an address that gets a share of the packets of a probe and should get none. */
export function staleEndpointText(item: ServedPort, endpoint: string, probe: Pick<Probe, 'entry'>, share: number): string {
  return `${percentText(share)} of the traffic${through(probe)} goes to ${endpoint}, which ${stateOf(item, endpoint)}`;
}

function stateOf({all}: ServedPort, endpoint: string): string {
  const known = all.find(({hostPort}) => hostPort === endpoint);
  if (known === undefined) return 'is no endpoint of the Service (any more)';
  if (known.ready) return 'should get none on this node';
  return `is an endpoint that must not be used (${known.terminating ? 'terminating' : 'not ready'})`;
}

function compareShares<R extends RuleText>(given: OutcomeCase<R>, comparison: ProbeComparison<R>): void {
  const {expected, actual} = comparison;
  const fair = [...expected.destinations.values()][0]?.probability ?? 0;
  const shareOf = (destination: string): number => actual.destinations.get(destination)?.probability ?? 0;
  if ([...expected.destinations].every(([destination, {probability}]) => near(probability, shareOf(destination)))) return;
  const shares = [...actual.destinations].map(([destination, {probability}]) => `${destination} ${percentText(probability)}`);
  const detail = `traffic${through(comparison.probe)} is not shared equally: ${shares.slice(0, 6).join(', ')}${shares.length > 6 ? ', …' : ''}; each should get ${percentText(fair)}`;
  given.symptoms.say({kind: 'uneven-balance', detail, ...given.semantics.evidence({kind: 'shares'})}, 'uneven');
}

/** In words: an endpoint that the packets of a probe should reach and do not. */
export function missingEndpointText({all}: ServedPort, endpoint: string, probe: Pick<Probe, 'entry'>): string {
  const known = all.find(({hostPort}) => hostPort === endpoint);
  const name = known === undefined ? null : podOf(known);
  const place = known === undefined || known.nodeName === null ? '' : ` on ${known.nodeName}`;
  const pod = name === null ? '' : ` (pod ${name}${place})`;
  return `endpoint ${endpoint}${pod} gets no traffic${through(probe)}`;
}

function through({entry}: Pick<Probe, 'entry'>): string {
  return entry.kind === 'clusterIP' ? '' : ` through its ${entryText(entry)}`;
}

function percentText(probability: number): string {
  return `${Math.round(probability * 1000) / 10}%`;
}
