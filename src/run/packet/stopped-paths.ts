import {addressInside, familyOf, parseCidr} from '../../model/address.ts';
import type {Report} from '../../model/report.ts';
import type {EntryTrace, PortTrace} from '../../model/service-trace.ts';
import type {NodeDump, Snapshot} from '../../model/snapshot.ts';
import {splitHostPort} from '../../parse/iptables/comparable-rule.ts';
import {nodeAsker} from './packet-flags.ts';

/**
 * Rules alone show where kube-proxy sends packets of pods. Says also where other rules of the text stop all of them, or keep the kernel from
 * translating them.
 */
export function withStoppedPaths(report: Report, snapshot: Snapshot): Report {
  const node = (name: string) => snapshot.nodes.find(one => one.name === name);
  const traces = report.traces?.map((trace): PortTrace => {
    const dump = node(trace.node);
    if (dump === undefined || trace.service.namespace === 'ipvs') return trace;
    return {...trace, entries: trace.entries.map(entry => ({...entry, end: entry.end ?? stopOf(entry, {trace, snapshot, dump})}))};
  });
  return traces === undefined ? report : {...report, traces};
}

interface Asked {
  readonly trace: PortTrace;
  readonly snapshot: Snapshot;
  readonly dump: NodeDump;
}

/** The end of packets from a pod to a cluster IP that is sent on to endpoints; null where a packet may arrive. */
function stopOf({entry, endpoints}: EntryTrace, {trace, snapshot, dump}: Asked): EntryTrace['end'] {
  const addresses = endpoints.map(({hostPort}) => splitHostPort(hostPort).address);
  const source = addressBeside(addresses);
  if (entry.kind !== 'clusterIP' || entry.address === null || source === null) return null;
  const own = familyOf(source) === 'IPv4' ? '192.0.2.1' : '2001:db8::1';
  const flags = {source, destination: entry.address, port: String(entry.port), protocol: trace.port.protocol, 'local-address': [own]};
  const {outcomes} = nodeAsker(flags, snapshot)(dump);
  const [first] = outcomes;
  const untracking = outcomes.every(({destination}) => destination === null) ? first?.path.find(isNotrack) : undefined;
  if (untracking !== undefined)
    return {
      verdict: 'undecided',
      rule: untracking,
      reason: 'a rule keeps packets from being tracked, so that no rule translates them',
    };
  if (first === undefined || !outcomes.every(({verdict}) => verdict === 'drop' || verdict === 'reject')) return null;
  const {policy, path, verdict} = first;
  return {
    verdict: verdict === 'drop' ? 'dropped' : 'rejected',
    rule: policy === undefined ? (path.at(-1) ?? null) : null,
    reason: `after that, by ${policy === undefined ? 'this rule' : `the policy of ${policy}`}, unless the endpoint has the address of this node`,
  };
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
