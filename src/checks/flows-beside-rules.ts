import {servicesInRules} from '../analyze/services-in-rules/services-in-rules.ts';
import {canonicalAddress, parseAddress} from '../model/address.ts';
import type {Observation} from '../model/finding.ts';
import type {EntryTrace} from '../model/service-trace.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {plural, servicePortText, someOf} from '../model/text.ts';
import {joinHostPort} from '../model/virtual-server.ts';
import type {TrackedConnection} from '../parse/conntrack.ts';
import {splitHostPort} from '../parse/iptables/comparable-rule.ts';

/** Of rules alone: flows that lead elsewhere than these rules. A tracked flow keeps its way while packets come. */
export function* flowsBesideRules(node: NodeDump, flows: readonly TrackedConnection[]): Iterable<Observation> {
  if (flows.length === 0) return;
  for (const {service, port, family, entries} of servicesInRules(node)) {
    const whole = entries.filter(showsAllEndpoints);
    const own = flows.filter(flow => flow.protocol.toUpperCase() === port.protocol && whole.some(entry => leadsElsewhere(flow, entry)));
    const ends = [...new Set(own.map(({reply}) => joinHostPort(reply.source, reply.sourcePort)))];
    const [many, add] = port.protocol === 'TCP' ? ['connection', ' without an answer'] : ['flow', ''];
    const what = `${plural(own.length, `tracked ${port.protocol} ${many}`)}${add} ${own.length === 1 ? 'leads' : 'lead'} to ${someOf(ends)}`;
    const lines = someOf(own.map(({line}) => String(line)));
    if (own.length > 0)
      yield {
        family,
        service,
        port,
        message: `${servicePortText(service, port)}: ${what}, and these rules to none of them (conntrack line ${lines}): the rules are not asked again while packets of the flow come`,
      };
  }
}

function leadsElsewhere({original, reply}: TrackedConnection, {entry, endpoints}: EntryTrace): boolean {
  const [destination, end] = [canonicalAddress(original.destination), canonicalAddress(reply.source)];
  // A flow to a node port goes to an address of the node: if it was not translated, it may be one through the node.
  const isToEntry = entry.address === null ? entry.kind === 'nodePort' && destination !== end : entry.address === destination;
  return (
    isToEntry &&
    entry.port === original.destinationPort &&
    !endpoints.some(({hostPort}) => hostPort === joinHostPort(end ?? '', reply.sourcePort))
  );
}

/** The text shows the address of each endpoint, and no share of the packets is left for others. */
function showsAllEndpoints({endpoints, end}: EntryTrace): boolean {
  const total = endpoints.reduce((sum, {share}) => sum + (share ?? 0), 0);
  return end === null && total > 0.999 && endpoints.every(({hostPort}) => parseAddress(splitHostPort(hostPort).address) !== null);
}
