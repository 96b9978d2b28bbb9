import type {ServicePort} from '../../model/service-port.ts';
import type {IpvsContext} from './ipvs-context.ts';
import {sparesOtherInterfaces} from './ipvs-versions.ts';
import {externalIPsOf} from './virtual-servers.ts';

/** The addresses that kube-proxy binds to kube-ipvs0 for a Service port, so that the node accepts packets for them. */
export function boundAddressesOf(port: ServicePort, context: IpvsContext): readonly string[] {
  const external = [...externalIPsOf(port, context), ...port.loadBalancerVIPs];
  const elsewhere = new Set(sparesOtherInterfaces(context.version) ? context.facts.addresses : []);
  return [...new Set([port.clusterIP, ...external.filter(address => !elsewhere.has(address))])];
}
