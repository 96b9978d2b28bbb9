import type {NodeContext} from '../../expect/node-context.ts';
import {isLoopback, nodePortDestinations} from '../../expect/node-context.ts';
import {writesExternalIPs} from '../../expect/cluster/proxy-versions.ts';
import type {Entry} from '../../model/entry.ts';
import {familyOf} from '../../model/address.ts';
import type {ServicePort} from '../../model/service-port.ts';

/** All entries of a Service port that kube-proxy serves on a node. */
export function entriesOf(port: ServicePort, context: NodeContext): readonly Entry[] {
  const external = writesExternalIPs(context.version, context.gates) ? port.externalIPs : [];
  return [
    {kind: 'clusterIP', address: port.clusterIP, port: port.port},
    ...(port.nodePort === 0 ? [] : [{kind: 'nodePort', address: null, port: port.nodePort} as const]),
    ...[...new Set(port.loadBalancerVIPs)].map(address => ({kind: 'loadBalancerIP', address, port: port.port}) as const),
    ...[...new Set(external)].map(address => ({kind: 'externalIP', address, port: port.port}) as const),
  ];
}

/** Addresses of the node on which to try a node port: its own first, a few others after it, link-local ones if it has no other. Never loopback. */
export function probedNodePortAddresses(context: NodeContext): readonly string[] {
  const served = nodePortDestinations(context) ?? context.facts.addresses.filter(address => familyOf(address) === context.family);
  const answering = served.filter(address => !isLoopback(address));
  const routable = answering.filter(address => !address.startsWith('fe80:'));
  const usable = routable.length > 0 ? routable : answering;
  const own = usable.filter(address => context.facts.hostIPs.includes(address));
  return [...own, ...usable.filter(address => !own.includes(address))].slice(0, 4);
}
