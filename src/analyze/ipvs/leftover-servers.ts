import {servedInAnyFamily} from '../../expect/cluster/ports-on-node.ts';
import type {ClusterView} from '../../expect/cluster/cluster-view.ts';
import type {Family} from '../../model/family.ts';
import type {NodeFacts} from '../../model/node/node-facts.ts';
import type {ProxyConfig} from '../../model/proxy-config.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {NodeDump} from '../../model/snapshot.ts';
import {joinHostPort, type VirtualServer} from '../../model/virtual-server.ts';
import {sharesOf} from '../../trace/balance.ts';
import {walkPacket} from '../../trace/iptables/walk-packet.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {packetOf} from '../outcomes/probes.ts';
import {readIpvsState} from './ipvs-state.ts';

interface LeftoverServersCase {
  readonly node: NodeDump;
  readonly facts: NodeFacts;
  readonly view: ClusterView;
  readonly config: ProxyConfig;
  readonly rulesets: ReadonlyMap<Family, Ruleset>;
}

/**
 * Virtual servers that IPVS mode left behind and that still match packets. Another mode translates the packets of Services before IPVS, so
 * these are servers for addresses and ports of deleted Services.
 */
export function catchingServers({node, facts, view, config, rulesets}: LeftoverServersCase): readonly VirtualServer[] {
  const {servers, sets, bound} = readIpvsState(node);
  if (servers === null) return [];
  const taken = new Set(
    servedInAnyFamily({view, config}).flatMap(({protocol, clusterIP, externalIPs, loadBalancerVIPs, port, nodePort}) => [
      ...[clusterIP, ...externalIPs, ...loadBalancerVIPs].map(address => `${protocol} ${joinHostPort(address, port)}`),
      ...(nodePort === 0 ? [] : [`${protocol} ${nodePort}`]),
    ]),
  );
  const isTaken = ({protocol, address, port}: VirtualServer): boolean =>
    taken.has(`${protocol} ${joinHostPort(address, port)}`) || taken.has(`${protocol} ${port}`);
  const local = {...facts, addresses: [...facts.addresses, ...(bound ?? [])]};
  const environment = environmentOf(local, {servers, ...(sets === null ? {} : {sets})});
  return servers.filter(server => {
    const ruleset = rulesets.get(server.family);
    const packet = packetTo(server);
    if (isTaken(server) || sharesOf(server).length === 0 || ruleset === undefined || packet === null) return false;
    return walkPacket(ruleset, packet, environment).some(
      ({path, destination}) => destination !== null && path.some(({table}) => table === 'ipvs'),
    );
  });
}

function packetTo({family, protocol, address, port}: VirtualServer) {
  const source = family === 'IPv4' ? '198.18.77.7' : '2001:db8:ffff::77';
  return packetOf({protocol, family}, {source, destination: address, port, from: {kind: 'outside', interface: null}});
}
