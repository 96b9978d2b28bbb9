import {externalAddress, loadBalancerAddress, serviceAddress} from './address-plan.ts';
import type {Family} from './model.ts';
import type {Random} from './random.ts';

const FIRST_NODE_PORT = 30_000;
const NODE_PORTS = 2_768;

/** Hands out what a cluster has only once: Service addresses, node ports, outside addresses. */
export interface AddressDraw {
  clusterIP(family: Family): string;
  loadBalancerIP(family: Family): string;
  externalIP(): string;
  nodePort(): number;
  nodePortsLeft(): number;
}

export function addressDraw(random: Random): AddressDraw {
  // .1 is the API server's Service and .10 the DNS Service, everywhere.
  const nextClusterIP: Record<Family, number> = {IPv4: 10, IPv6: 10};
  const nextLoadBalancer: Record<Family, number> = {IPv4: 0, IPv6: 0};
  let nextExternal = 0;
  const nodePorts = random.shuffle(Array.from({length: NODE_PORTS}, (_, index) => FIRST_NODE_PORT + index));
  return {
    clusterIP: family => serviceAddress(family, nextClusterIP[family]++),
    loadBalancerIP: family => loadBalancerAddress(family, nextLoadBalancer[family]++),
    externalIP: () => externalAddress(nextExternal++),
    nodePort: () => nodePorts.pop() ?? 0,
    nodePortsLeft: () => nodePorts.length,
  };
}
