import type {Cluster, Endpoint, Family} from './model.ts';
import {FAMILIES} from './model.ts';
import {seededRandom} from './random.ts';

/**
 * The cluster some time after: a part of the endpoints has other addresses, on the nodes that they were on. Rules that were written before
 * are those of a kube-proxy that stopped.
 */
export function withReplacedEndpoints(cluster: Cluster, part: number, seed: number): Cluster {
  const random = seededRandom(seed);
  const replaced = new Map<string, Endpoint>();
  const replace = (endpoint: Endpoint, family: Family): Endpoint => {
    // Pods without a name of their own, such as the API server's, stay where they are.
    if (endpoint.pod === undefined) return endpoint;
    const known =
      replaced.get(endpoint.address) ?? (random.chance(part) ? {...endpoint, address: unused(endpoint.address, family)} : endpoint);
    replaced.set(endpoint.address, known);
    return known;
  };
  const services = cluster.services.map(service => ({
    ...service,
    endpoints: Object.fromEntries(
      FAMILIES.map(family => [family, service.endpoints[family].map(endpoint => replace(endpoint, family))]),
    ) as Record<Family, Endpoint[]>,
  }));
  return {...cluster, services};
}

/** Of a node's 1,022 pod addresses, the upper half is not handed out. */
function unused(address: string, family: Family): string {
  if (family === 'IPv6') return address.replace(/[^:]+$/, last => (Number.parseInt(last, 16) + 512).toString(16));
  return address.replace(/\.(\d+)\.(\d+)$/, (_, third: string, last: string) => `.${Number(third) + 2}.${last}`);
}
