import type {CellTraffic} from '../model/traffic/traffic-report.ts';
import {type Family, parseAddress} from '../model/address.ts';
import {type ConntrackCounts, type EndpointConnections, conntrackKey, type ConntrackOptions} from '../parse/conntrack.ts';
import type {NatCounters, PortCounters, NatCounterOptions} from '../parse/iptables/nat-counters.ts';
import type {IpvsStats} from '../parse/ipvs/ipvsadm-stats.ts';
import type {NodeSurvey, SurveyedPort} from './node-survey.ts';
import type {ServicePort} from '../model/service-port.ts';
import {serverKey} from '../model/virtual-server.ts';

/** The counters of one read of one node. A null or missing counter was not read, and `missing` has the reason. */
export interface NodeSample {
  /** When the read was, in milliseconds, by any clock: only the difference between two reads is used. */
  readonly at: number;
  /** The time within which the counters were read, in milliseconds, with `at` in its middle; left out if not known. */
  readonly width?: number;
  /** The same by the node's clock: without the time that a connection takes, and that the output takes to arrive. */
  readonly onNode?: {readonly at: number; readonly width: number};
  readonly nat: ReadonlyMap<Family, NatCounters>;
  /** From `ipvsadm -Ln --stats --exact` and `ipvsadm -Ln`, as far as they could be read. */
  readonly ipvs: readonly IpvsStats[];
  readonly connections: ConntrackCounts | null;
  /** Why counters were not read, by kind. */
  readonly missing: Readonly<Partial<Record<'counters' | 'conntrack' | 'ipvs', string>>>;
}

/** The two reads of a node; the first is null if there was only one. */
export interface Reads {
  readonly before: NodeSample | null;
  readonly after: NodeSample;
}

/** One node's measurement of one Service port, by `ip:port`. */
export interface MeasuredPort {
  readonly cells: ReadonlyMap<string, CellTraffic>;
  /** Why the new connections are unknown. */
  readonly reason: string | null;
}

type ConnectionCounts = Pick<CellTraffic, 'newConnections' | 'totalConnections'>;

/** How the new connections of a port are counted: `of` an endpoint, for all its `endpoints`. */
interface Counted {
  readonly endpoints: Iterable<string>;
  readonly of: (hostPort: string) => ConnectionCounts;
  readonly reason: string | null;
}

export function measurePort(survey: NodeSurvey, surveyed: SurveyedPort, reads: Reads): MeasuredPort {
  const counted = countedBy(survey, surveyed, reads);
  const open = openConnections(survey, surveyed, reads.after);
  const names = new Set([...surveyed.set.endpoints.map(({hostPort}) => hostPort), ...(surveyed.shares?.keys() ?? [])]);
  for (const name of surveyed.due?.keys() ?? []) names.add(name);
  for (const name of [...counted.endpoints, ...open.endpoints]) names.add(name);
  const seconds = secondsBetween(reads);
  const cell = (hostPort: string): CellTraffic => ({
    node: survey.name,
    seconds,
    ...counted.of(hostPort),
    ...open.of(hostPort),
    expectedShare: surveyed.shares === null ? null : (surveyed.shares.get(hostPort) ?? 0),
    dueShare: surveyed.due === null ? null : (surveyed.due.get(hostPort) ?? 0),
  });
  return {cells: new Map([...names].map(name => [name, cell(name)])), reason: counted.reason};
}

/** By the node's own clock where both reads have its time. Null for a single read. */
export function secondsBetween({before, after}: Reads): number | null {
  if (before === null) return null;
  if (before.onNode !== undefined && after.onNode !== undefined) return (after.onNode.at - before.onNode.at) / 1000;
  return (after.at - before.at) / 1000;
}

/** How far a rate can be off, as a part of it: a counter was read at some time within each read. Null if that is not known. */
export function rateError(reads: Reads): number | null {
  const {before, after} = reads;
  const seconds = secondsBetween(reads);
  if (before === null || seconds === null || seconds <= 0) return null;
  const isOnNode = before.onNode !== undefined && after.onNode !== undefined;
  const [first, second] = [before, after].map(({onNode, width}) => (isOnNode ? onNode?.width : width));
  return first === undefined || second === undefined ? null : (first + second) / 2 / 1000 / seconds;
}

const nothing: ConnectionCounts = {newConnections: null, totalConnections: null};

function uncounted(reason: string): Counted {
  return {endpoints: [], of: () => nothing, reason};
}

function countedBy(survey: NodeSurvey, surveyed: SurveyedPort, reads: Reads): Counted {
  if (survey.mode === 'iptables') return byRules(surveyed, reads);
  if (survey.mode === 'ipvs') return byVirtualServers(survey, surveyed, reads);
  if (survey.mode === 'nftables') return byConntrack(surveyed, reads);
  return uncounted(`nothing counts new connections in ${survey.mode ?? 'an unknown'} mode`);
}

function byRules({key, port}: SurveyedPort, {before, after}: Reads): Counted {
  const now = after.nat.get(port.family);
  if (now?.hasRules === false) return uncounted('the table nat has no rules of kube-proxy any more');
  if (now === undefined || !now.counted)
    return uncounted(after.missing.counters ?? 'the rules were read without counters (iptables-save -c)');
  if (!now.complete) return uncounted('the table nat was not read to its end');
  const total = (hostPort: string): number => now.ports.get(key)?.endpoints.get(hostPort) ?? 0;
  const endpoints = now.ports.get(key)?.endpoints.keys() ?? [];
  const onlyTotal = (reason: string | null): Counted => ({
    endpoints,
    reason,
    of: hostPort => ({newConnections: null, totalConnections: total(hostPort)}),
  });
  if (before === null) return onlyTotal(null);
  const first = before.nat.get(port.family);
  if (first === undefined || !first.counted || !first.complete)
    return onlyTotal(before.missing.counters ?? 'the first read has no counters');
  const reason = whyNotComparable(first, now, key);
  if (reason !== null) return onlyTotal(reason);
  const old = first.ports.get(key)?.endpoints;
  return {
    endpoints,
    reason: null,
    of: hostPort => ({newConnections: total(hostPort) - (old?.get(hostPort) ?? 0), totalConnections: total(hostPort)}),
  };
}

function byVirtualServers(survey: NodeSurvey, {port}: SurveyedPort, {before, after}: Reads): Counted {
  const keys = virtualServersOf(port, survey.addresses);
  const now = realServers(after.ipvs, keys);
  if (now === null) return uncounted(after.missing.ipvs ?? 'ipvsadm was not read');
  const old = before === null ? null : realServers(before.ipvs, keys);
  const names = new Set([...now.values(), ...(old?.values() ?? [])].flatMap(reals => [...reals.keys()]));
  const isReset = (name: string): boolean =>
    [...(old ?? [])].some(([key, reals]) => (now.get(key)?.get(name)?.connections ?? -1) < (reals.get(name)?.connections ?? -1));
  const total = (side: IpvsStats, name: string): number =>
    [...side.values()].reduce((sum, reals) => sum + (reals.get(name)?.connections ?? 0), 0);
  const reset = old === null ? [] : [...names].filter(isReset);
  const firstRead = before === null ? null : (before.missing.ipvs ?? 'the first read has no totals of ipvsadm');
  return {
    endpoints: names,
    reason:
      old === null ? firstRead : reset.length === 0 ? null : `IPVS counts from 0 again: ${reset.join(', ')} was removed or added again`,
    of: name => ({
      totalConnections: total(now, name),
      newConnections: old === null || reset.includes(name) ? null : total(now, name) - total(old, name),
    }),
  };
}

/** The real servers of these virtual servers, where their totals were read. */
function realServers(stats: readonly IpvsStats[], keys: readonly string[]): IpvsStats | null {
  const totals = stats.find(servers =>
    [...servers.values()].some(reals => [...reals.values()].some(({connections}) => connections !== null)),
  );
  return totals === undefined ? null : new Map(keys.flatMap(key => [[key, totals.get(key) ?? new Map()] as const]));
}

/**
 * Rules of nftables have no counters. The entry of a connection that has ended stays for a while, so two reads in short succession see all
 * connections.
 */
function byConntrack({key}: SurveyedPort, {before, after}: Reads): Counted {
  if (after.connections === null) return uncounted(after.missing.conntrack ?? 'conntrack was not read');
  if (before === null) return uncounted('the rules of nftables mode count nothing: new connections take two reads of conntrack');
  if (before.connections === null) return uncounted(before.missing.conntrack ?? 'conntrack was not read');
  if (after.at - before.at > maxGap)
    return uncounted(
      `the rules of nftables mode count nothing, and over more than ${maxGap / 1000} s conntrack forgets connections that ended`,
    );
  const [old, now] = [before.connections.get(key), after.connections.get(key)];
  return {
    endpoints: [],
    reason: null,
    of: hostPort => ({newConnections: newEntries(old?.endpoints.get(hostPort), now?.endpoints.get(hostPort)), totalConnections: null}),
  };
}

/** The shortest time for which the kernel keeps an entry that has ended (`nf_conntrack_tcp_timeout_close`), in milliseconds. */
const maxGap = 10_000;

function newEntries(before: EndpointConnections | undefined, after: EndpointConnections | undefined): number | null {
  if (after === undefined) return 0;
  if (after.identities === null || before?.identities === null) return null;
  const old = before?.identities ?? new Float64Array();
  let at = 0;
  let count = 0;
  for (const identity of after.identities) {
    while (at < old.length && (old[at] ?? 0) < identity) at++;
    if (old[at] !== identity) count++;
  }
  return count;
}

type Open = Pick<CellTraffic, 'openConnections' | 'closingConnections'>;

function openConnections(
  survey: NodeSurvey,
  {key, port}: SurveyedPort,
  {connections, ipvs}: NodeSample,
): {readonly endpoints: Iterable<string>; readonly of: (hostPort: string) => Open} {
  if (connections !== null) {
    const endpoints = connections.get(key)?.endpoints;
    const count = (hostPort: string): EndpointConnections | undefined => endpoints?.get(hostPort);
    const of = (name: string): Open => ({openConnections: count(name)?.open ?? 0, closingConnections: count(name)?.closing ?? 0});
    return {endpoints: endpoints?.keys() ?? [], of};
  }
  const listed = ipvs.find(servers => [...servers.values()].some(reals => [...reals.values()].some(({open}) => open !== null)));
  if (listed === undefined) return {endpoints: [], of: () => ({openConnections: null, closingConnections: null})};
  const reals = virtualServersOf(port, survey.addresses).flatMap(server => [...(listed.get(server) ?? [])]);
  const sum = (name: string, what: 'open' | 'closing'): number =>
    reals.reduce((total, [real, stats]) => total + (real === name ? (stats[what] ?? 0) : 0), 0);
  return {
    endpoints: reals.map(([name]) => name),
    of: name => ({openConnections: sum(name, 'open'), closingConnections: sum(name, 'closing')}),
  };
}

/**
 * Why the counters of a Service port cannot be compared over two reads; null if they can. kube-proxy resets counters whenever it writes a
 * chain: the chains of a changed Service in a partial sync, all chains in a full one. A chain that was rewritten may have a higher counter
 * in the second read than in the first.
 */
function whyNotComparable(before: NatCounters, after: NatCounters, key: string): string | null {
  const [old, now] = [before.ports.get(key), after.ports.get(key)];
  if (old === undefined || now === undefined) return old === now ? null : rewritten;
  if (hasDecreased(old.rules, now.rules) || !sameRules(old, now)) return rewritten;
  if (!hasDecreased(before.base, after.base)) return hasDecreased(before.others, after.others) ? uncertain(before, after, old, now) : null;
  return uncertain(before, after, old, now);
}

const rewritten = 'kube-proxy rewrote its chains between the reads, which sets their counters to 0';
const undecided = 'kube-proxy wrote rules between the reads, and whether it reset these counters is not known';

/** kube-proxy has written some rules. Unchanged counters of other rules show that it did not rewrite everything. */
function uncertain(before: NatCounters, after: NatCounters, old: PortCounters, now: PortCounters): string | null {
  const grown = sum(now.rules) - sum(old.rules);
  if (grown === 0 && sum(old.rules) > 0) return null;
  if (!isUnchanged(before.others, after.others)) return undecided;
  // After a reset, as many connections as before, or more, would have to have passed every rule since.
  return sum(old.rules) >= grown ? null : undecided;
}

/** A rule has a lower counter than before. */
function hasDecreased(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): boolean {
  return [...before].some(([rule, packets]) => (after.get(rule) ?? packets) < packets);
}

/** Counters that were high enough are unchanged: this does not happen by chance after a reset. */
function isUnchanged(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): boolean {
  const unchanged = [...before].reduce((total, [rule, packets]) => total + (after.get(rule) === packets ? packets : 0), 0);
  return unchanged >= enough;
}

const enough = 20;

function sameRules({rules: before}: PortCounters, {rules: after}: PortCounters): boolean {
  return before.size === after.size && [...before.keys()].every(rule => after.has(rule));
}

function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((total, packets) => total + packets, 0);
}

/** What to read from the table nat of one family. */
export function wantedChains({ports}: NodeSurvey, family: Family): NatCounterOptions {
  const own = ports.filter(({port}) => port.family === family);
  return {
    byName: new Map(own.map(({port, key}) => [port.servicePortName, key])),
    byHash: new Map(own.map(({port, key}) => [port.hash, key])),
  };
}

/** What to read from conntrack. Only nftables mode needs to identify connections. */
export function wantedConnections(survey: NodeSurvey): ConntrackOptions {
  return {ports: conntrackDestinations(survey), identify: survey.mode === 'nftables'};
}

/** The Service port that a tracked connection belongs to, by its original destination as printed by conntrack and /proc. */
function conntrackDestinations({ports, addresses}: Pick<NodeSurvey, 'ports' | 'addresses'>): ReadonlyMap<string, string> {
  const keys = new Map<string, string>();
  for (const {key, port} of ports) {
    for (const {address, port: number} of destinationsOf(port, addresses)) {
      keys.set(conntrackKey(port.protocol, address, number), key);
      if (port.family === 'IPv6') keys.set(conntrackKey(port.protocol, fullIPv6(address), number), key);
    }
  }
  return keys;
}

/** The virtual servers of a Service port on a node with these addresses, by `serverKey`. */
function virtualServersOf(port: ServicePort, addresses: readonly string[]): readonly string[] {
  return destinationsOf(port, addresses).map(({address, port: number}) => serverKey({protocol: port.protocol, address, port: number}));
}

/** The addresses that clients of the surveyed Service ports connect to. */
export function destinationAddresses({ports, addresses}: Pick<NodeSurvey, 'ports' | 'addresses'>, family: Family): readonly string[] {
  const own = ports.filter(({port}) => port.family === family).flatMap(({port}) => destinationsOf(port, addresses));
  return [...new Set(own.map(({address}) => address))];
}

function destinationsOf(port: ServicePort, addresses: readonly string[]): readonly {readonly address: string; readonly port: number}[] {
  const own = [port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs].map(address => ({address, port: port.port}));
  if (port.nodePort === 0) return own;
  const ofFamily = addresses.filter(address => address.includes(':') === (port.family === 'IPv6'));
  return [...own, ...ofFamily.map(address => ({address, port: port.nodePort}))];
}

/** As /proc prints it: without abbreviation. */
function fullIPv6(address: string): string {
  const value = parseAddress(address)?.value;
  if (value === undefined) return address;
  return value.toString(16).padStart(32, '0').match(/.{4}/g)?.join(':') ?? address;
}
