import type {PacketOutcome} from '../../analyze/packet-rules.ts';
import {addressInside, type Family, familyOf, parseCidr} from '../../model/address.ts';
import {subtract} from '../../model/intervals.ts';
import type {Report} from '../../model/report.ts';
import type {EntryTrace, PortTrace} from '../../model/service-trace.ts';
import type {NodeDump, Snapshot} from '../../model/snapshot.ts';
import {addressesIn} from '../../parse/nftables/address-list.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import {allAddresses, type SenderSpace} from '../../trace/sender-space.ts';
import {nodeAsker} from './packet-flags.ts';

/**
 * Rules alone show where kube-proxy sends packets of pods. Says also where other rules of the text stop all of them, or keep the kernel from
 * translating them.
 */
export function withStoppedPaths(report: Report, snapshot: Snapshot): Report {
  const node = (name: string) => snapshot.nodes.find(one => one.name === name);
  const traces = report.traces?.map((trace): PortTrace => {
    const dump = node(trace.node);
    if (dump === undefined) return trace;
    const stop = trace.service.namespace === 'ipvs' ? stopBeforeServer : stopOf;
    return {...trace, entries: trace.entries.map(entry => ({...entry, end: entry.end ?? stop(entry, {trace, snapshot, dump})}))};
  });
  return traces === undefined ? report : {...report, traces};
}

interface Asked {
  readonly trace: PortTrace;
  readonly snapshot: Snapshot;
  readonly dump: NodeDump;
}

/** The end of packets to an entry that is sent on to endpoints; null where a packet may arrive. */
function stopOf({entry, endpoints}: EntryTrace, {trace, snapshot, dump}: Asked): EntryTrace['end'] {
  const addresses = endpoints.map(({hostPort}) => splitHostPort(hostPort).address);
  const beside = addressBeside(addresses);
  if (beside === null || entry.port === 0) return null;
  const isInside = entry.kind === 'clusterIP';
  const [own, outside] = trace.family === 'IPv4' ? ['192.0.2.1', '203.0.113.1'] : ['2001:db8::1', '2001:db8:1::1'];
  const destination = entry.address ?? own;
  const [port, protocol] = [String(entry.port), trace.port.protocol];
  const flags = {source: isInside ? beside : outside, destination, port, protocol, 'local-address': [own]};
  const {outcomes, space, senders = ''} = nodeAsker(flags, snapshot)(dump);
  const [first] = outcomes;
  const untracking = outcomes.every(({destination: to}) => to === null) ? first?.path.find(isNotrack) : undefined;
  if (untracking !== undefined) {
    const reason = 'a rule keeps packets from being tracked, so that no rule translates them';
    return {verdict: 'undecided', rule: untracking, reason};
  }
  const stops = outcomes.map(outcome => stopIn(outcome, new Set(endpoints.map(({hostPort}) => hostPort)), isInside));
  if (first === undefined || stops.includes(null)) return null;
  const doubt = stops.find(stop => stop?.unless != null)?.unless;
  const {policy, path, lost} = first;
  const verdict = stops[0]?.verdict === 'drop' ? 'dropped' : 'rejected';
  const rule = policy === undefined ? (path.at(-1) ?? null) : null;
  const cause = policy === undefined ? 'this rule' : `the policy of ${policy}`;
  const after = lost === undefined ? 'after that' : lost === 'reply' ? 'its answer' : 'later packets';
  const whose =
    isInside || space === undefined || holdsForAll(space, [...addresses, own], trace.family) ? '' : `, for senders in ${senders}`;
  if (doubt !== undefined && doubt !== null) {
    const done = verdict === 'dropped' ? 'dropped' : 'refused';
    return {verdict: 'undecided', rule, reason: `${done} after that by ${cause}${whose}, unless ${doubt}`};
  }
  return {verdict, rule, reason: `${after}, by ${cause}${whose}, unless the endpoint has the address of this node`};
}

/** What keeps packets of pods from a virtual server: rules of INPUT, or that no interface has its address. Null if nothing does. */
function stopBeforeServer({entry: {port}, endpoints}: EntryTrace, {trace, snapshot, dump}: Asked): EntryTrace['end'] {
  const source = addressBeside(endpoints.map(({hostPort}) => splitHostPort(hostPort).address));
  const destination = trace.service.name;
  if (source === null || familyOf(destination) === null) return null;
  const {outcomes} = nodeAsker({source, destination, port: String(port), protocol: trace.port.protocol}, snapshot)(dump);
  const [first] = outcomes;
  if (first === undefined || outcomes.some(({verdict, condition}) => verdict !== first.verdict || condition !== first.condition))
    return null;
  const {verdict, condition = 'sent to', path, policy} = first;
  const by = policy === undefined ? 'by this rule' : `by the policy of ${policy}`;
  if (verdict === 'drop' || verdict === 'reject')
    return {
      verdict: verdict === 'drop' ? 'dropped' : 'rejected',
      rule: policy === undefined ? (path.at(-1) ?? null) : null,
      reason: `before that, ${by}`,
    };
  return verdict === 'undecided' && !condition.startsWith('sent ') ? {verdict, rule: null, reason: condition} : null;
}

/** How rules stop a packet that was sent on to an endpoint; null if they do not. */
function stopIn(outcome: PacketOutcome, ends: ReadonlySet<string>, isInside: boolean): PacketOutcome['stopped'] | null {
  const {verdict, destination, rewrittenTo, stopped, lost, sourceAfter} = outcome;
  // Whether the node has the address that SNAT takes is not in the text.
  if (lost === 'reply' && sourceAfter !== undefined) return null;
  const end = destination ?? rewrittenTo;
  // A node port may be served on other addresses of the node alone.
  if (end == null ? !isInside : !ends.has(end)) return null;
  if (verdict === 'drop' || verdict === 'reject') return {verdict, unless: null};
  return end == null ? null : (stopped ?? null);
}

/** The endpoints, the node itself and loopback addresses are no clients from outside. */
function holdsForAll({address}: SenderSpace, others: readonly string[], family: Family): boolean {
  const known = addressesIn([family === 'IPv4' ? '127.0.0.0/8' : '::1', ...others], family);
  return subtract(subtract(allAddresses(family), address), known).length === 0;
}

function isNotrack({text}: {readonly text: string}): boolean {
  return / -j (?:NOTRACK|CT --notrack)/.test(text) || /\bnotrack\b/.test(text);
}

/** An address in the network of the first endpoint that is none of them. */
function addressBeside(endpoints: readonly string[]): string | null {
  const [first = ''] = endpoints;
  const network = parseCidr(`${first}/${familyOf(first) === 'IPv4' ? 24 : 64}`);
  return network === null ? null : addressInside(network, new Set(endpoints));
}
