import type {ServedPort} from '../../model/endpoint.ts';
import type {IpvsContext} from '../../expect/ipvs/ipvs-context.ts';
import type {Rule} from '../../model/ruleset.ts';
import type {VirtualServer} from '../../model/virtual-server.ts';
import {ipvsDevice} from '../../parse/ipvs/kube-ipvs0.ts';
import {realServerRule, serverRule} from '../../trace/iptables/walk-packet.ts';
import {clientsOfOtherRanges, packetOf, type Probe, probesFor} from '../outcomes/probes.ts';
import {sourcesFor} from '../outcomes/sources.ts';
import type {IpvsPortDifferences} from './ipvs-state.ts';

/** An element of a set as `ipset save` prints it. */
export function memberEvidence(set: string, member: string, line: number): Rule {
  return evidence('ipset', set, {line, text: `add ${set} ${member}`});
}

/** An address of kube-ipvs0. It has no line of its own, so an actual address has line 1. */
export function addressEvidence(address: string, line: 0 | 1): Rule {
  return evidence(ipvsDevice, ipvsDevice, {line, text: `${address}/${address.includes(':') ? 128 : 32}`});
}

/** A virtual server and its real servers, as ipvsadm prints them. */
export function serverEvidence(server: VirtualServer): readonly Rule[] {
  return [serverRule(server), ...server.realServers.map(real => realServerRule(server, real))];
}

function evidence(table: string, chain: string, {line, text}: {readonly line: number; readonly text: string}): Rule {
  return {table, chain, line, text, options: [], matches: [], target: null};
}

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
