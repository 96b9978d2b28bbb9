import type {RuleText} from '../../model/ruleset.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import type {NodeDump} from '../../model/snapshot.ts';
import type {VirtualServer} from '../../model/virtual-server.ts';
import {parseIpvsadm} from '../../parse/ipvs/ipvsadm-save.ts';
import {entryTrace, type ShownPick} from './shown-port.ts';

/** The virtual servers of IPVS with their real servers. Of Services the kernel knows addresses and no names. */
export function ipvsServices(node: NodeDump): readonly PortTrace[] {
  const text = (node.read('ipvsadm-save') ?? node.read('ipvsadm-part'))?.toString('utf8');
  return text === undefined ? [] : parseIpvsadm(text).servers.map(server => portTrace(node.name, server));
}

function portTrace(node: string, server: VirtualServer): PortTrace {
  const {family, address, port, protocol} = server;
  const isNodePort = port >= 30_000 && port <= 32_767;
  const step = {...placeOf(server), to: `virtual server ${address}`};
  const entry = {kind: isNodePort ? 'nodePort' : 'clusterIP', address: isNodePort ? null : address, port} as const;
  const picks = picksOf(server);
  const end = picks.length === 0 ? ({verdict: 'rejected', rule: placeOf(server)} as const) : null;
  return {
    ...{node, family, service: {namespace: 'ipvs', name: address}, port: {name: '', protocol, port}},
    entries: [entryTrace(entry, {steps: [step], picks, masquerade: false, end})],
  };
}

function placeOf({address, line, text}: VirtualServer): RuleText {
  return {table: 'ipvs', chain: address, line, text};
}

function picksOf(server: VirtualServer): readonly ShownPick[] {
  const total = server.realServers.reduce((sum, {weight}) => sum + weight, 0);
  return server.realServers
    .filter(({weight}) => weight > 0)
    .map(({hostPort, weight, line, text}) => {
      const rule = {table: 'ipvs', chain: server.address, line, text};
      return {hostPort, share: weight / total, pick: rule, rewrite: rule};
    });
}
