import type {Rule} from '../../model/ruleset.ts';
import type {VirtualServer} from '../../model/virtual-server.ts';
import {ipvsDevice} from '../../parse/ipvs/kube-ipvs0.ts';
import {realServerRule, serverRule} from '../../trace/balance.ts';

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
