import type {ServedPort} from '../../expect/cluster/served-port.ts';
import type {IpvsContext} from '../../expect/ipvs/ipvs-context.ts';
import {clientsOfOtherRanges} from '../outcomes/other-ranges.ts';
import {packetOf, type Probe, probesFor} from '../outcomes/probes.ts';
import {sourcesFor} from '../outcomes/sources.ts';
import type {IpvsPortDifferences} from './ipvs-differences.ts';

/**
 * Packets that together show the effect of a Service port's differences. Returning clients are covered by comparing the servers' timeouts.
 */
export function ipvsProbes(item: ServedPort, context: IpvsContext, differences: IpvsPortDifferences): readonly Probe[] {
  const changed = new Set(differences.members.flatMap(({role, member}) => (role === 'KUBE-LOOP-BACK' ? [member.split(',')[0] ?? ''] : [])));
  const hairpins = item.endpoints.reachable.filter(({address}) => changed.has(address)).slice(0, 64);
  const ranges = differences.members.filter(({role, kind}) => role.startsWith('KUBE-LOAD-BALANCER-SOURCE') && kind === 'extra');
  const clients = clientsOfOtherRanges(
    ranges.map(({member}) => member.split(',')[2] ?? ''),
    item.port,
    context,
  );
  const probes = probesFor({item, context, hairpins, clients}).filter(({knownTo}) => knownTo.size === 0);
  return [...probes, ...furtherNodePorts(item, context, {differences, probes})];
}

interface Known {
  readonly differences: IpvsPortDifferences;
  readonly probes: readonly Probe[];
}

/** A node has many addresses, and usually only a few are probed: those whose virtual server differs are all probed. */
function furtherNodePorts(item: ServedPort, context: IpvsContext, {differences, probes}: Known): readonly Probe[] {
  const {port} = item;
  const tried = new Set(probes.map(({packet}) => packet.destination.text));
  const servers = [
    ...differences.missingServers.map(({server, entry}) => ({server, entry})),
    ...differences.servers.map(({expected, of}) => ({server: expected, entry: of.entry})),
  ];
  const [from] = sourcesFor(port, context, new Set()).filter(({kind}) => kind === 'outside');
  if (from === undefined) return [];
  return servers
    .filter(({server, entry}) => entry.kind === 'nodePort' && !tried.has(server.address))
    .slice(0, 64)
    .flatMap(({server, entry}) => {
      const packet = packetOf(port, {source: from.address, destination: server.address, port: server.port, from});
      return packet === null ? [] : [{entry, source: from, packet, knownTo: new Set<string>()}];
    });
}
