import type {ClusterNode, Family} from './model.ts';

/**
 * Which address belongs to what. Every kind of address has a block of its own,
 * so nothing can be handed out twice. Load-balancer and external addresses come
 * from 198.18.0.0/15, the block set aside for benchmarks (RFC 2544).
 *
 * IPv6 addresses are built so that the text is already the canonical one: no
 * group is zero except those that "::" stands for.
 */
export const POD_CIDR: Record<Family, string> = {IPv4: '10.128.0.0/9', IPv6: 'fd00:10:128::/48'};

/** A node has a /22 of the pods' block: 1,022 pods, in 8,192 nodes. */
export const PODS_PER_NODE = 1022;
export const MAX_NODES = 8192;

const SERVICE_BASE = ipv4(10, 96, 0, 0);
const POD_BASE = ipv4(10, 128, 0, 0);
const NODE_BASE = ipv4(172, 18, 16, 0);
const LOAD_BALANCER_BASE = ipv4(198, 18, 0, 0);
const EXTERNAL_BASE = ipv4(198, 19, 0, 0);

function ipv4(a: number, b: number, c: number, d: number): number {
  return ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
}

function ipv4Text(value: number): string {
  return `${value >>> 24}.${(value >>> 16) & 255}.${(value >>> 8) & 255}.${value & 255}`;
}

function within(what: string, index: number, limit: number): number {
  if (index >= limit) {
    throw new RangeError(`no more ${what} addresses: ${limit} are all there are`);
  }
  return index;
}

/** The Service addresses start at .1, as the API server gives .1 to the Service of its own. */
export function serviceAddress(family: Family, index: number): string {
  return family === 'IPv4'
    ? ipv4Text(SERVICE_BASE + 1 + within('Service', index, 0x0f_fffd))
    : `fd00:96::${(1 + within('Service', index, 0xfffe)).toString(16)}`;
}

export function podAddress(family: Family, node: number, index: number): string {
  within('pod', index, PODS_PER_NODE);
  return family === 'IPv4'
    ? ipv4Text(POD_BASE + node * 1024 + 1 + index)
    : `fd00:10:128:${(node + 1).toString(16)}::${(1 + index).toString(16)}`;
}

export function clusterNode(index: number): ClusterNode {
  within('node', index, MAX_NODES);
  return {
    name: `worker-${String(index).padStart(5, '0')}`,
    zone: `zone-${'abc'.charAt(index % 3)}`,
    address: {
      IPv4: ipv4Text(NODE_BASE + 1 + index),
      IPv6: `fd00:172:18::${(1 + index).toString(16)}`,
    },
    podCIDR: {
      IPv4: `${ipv4Text(POD_BASE + index * 1024)}/22`,
      IPv6: `fd00:10:128:${(index + 1).toString(16)}::/64`,
    },
  };
}

export function loadBalancerAddress(family: Family, index: number): string {
  return family === 'IPv4'
    ? ipv4Text(LOAD_BALANCER_BASE + 1 + within('load-balancer', index, 0xfffe))
    : `2001:2::${(1 + within('load-balancer', index, 0xfffe)).toString(16)}`;
}

export function externalAddress(index: number): string {
  return ipv4Text(EXTERNAL_BASE + 1 + within('external', index, 0xfffe));
}
