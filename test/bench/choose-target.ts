import {PODS_PER_NODE, podAddress} from './address-plan.ts';
import type {Cluster, Service} from './model.ts';
import type {Target} from './written-bundles.ts';

/** The last plain Service of the cluster, asked from a pod of the first node. Throws where there is none. */
export function chooseTarget({services, nodes}: Cluster): Target {
  const service = services.findLast(isPlain);
  const [node] = nodes;
  const [port] = service?.ports ?? [];
  if (service === undefined || node === undefined || port === undefined)
    throw new RangeError('the cluster is too small to have a plain Service');
  return {
    node: node.name,
    service: `${service.namespace}/${service.name}`,
    // The first node's pods have its first addresses; the last one is no endpoint.
    source: podAddress('IPv4', 0, PODS_PER_NODE - 1),
    clusterIP: service.clusterIPs[0] ?? '',
    port: port.port,
    endpoints: service.endpoints.IPv4.map(({address}) => `${address}:${port.targetPort}`).sort(),
  };
}

function isPlain({type, name, families, ports, clusterIPs, externalIPs, affinitySeconds, internalLocal, endpoints}: Service): boolean {
  return (
    type === 'ClusterIP' &&
    // The two that every cluster has are not like others.
    !['kubernetes', 'kube-dns'].includes(name) &&
    families.join() === 'IPv4' &&
    ports.length === 1 &&
    ports[0]?.protocol === 'TCP' &&
    clusterIPs[0] !== 'None' &&
    externalIPs.length === 0 &&
    affinitySeconds === 0 &&
    !internalLocal &&
    endpoints.IPv4.length > 0 &&
    endpoints.IPv4.every(({ready}) => ready)
  );
}
