/** Two Services with an endpoint each on another node, for tests of what one of them shows of the other. */
import type {ApiObjects} from '../../src/model/snapshot.ts';
import {apiObjects, endpoint, service, slice} from '../cluster.ts';

export const names = ['shop/a', 'shop/b'] as const;

/** The API objects, with node-a. `type` is that of the Services; those of type NodePort have the node ports 30080 and 30081. */
export function twoServices(type: 'ClusterIP' | 'NodePort'): ApiObjects {
  return apiObjects({
    services: names.map((name, index) => {
      const clusterIP = `10.96.0.${10 + index}`;
      const nodePort = type === 'NodePort' ? {nodePort: 30_080 + index} : {};
      const ports = [{name: 'http', protocol: 'TCP', port: 80, ...nodePort}];
      return service(name, {...(type === 'NodePort' ? {type} : {}), clusterIP, clusterIPs: [clusterIP], ipFamilies: ['IPv4'], ports});
    }),
    endpointSlices: names.map((name, index) =>
      slice(name, [endpoint(`10.244.2.${10 + index}`)], {ports: [{name: 'http', port: 8080, protocol: 'TCP'}]}),
    ),
    nodes: [
      {
        metadata: {name: 'node-a'},
        spec: {podCIDRs: ['10.244.1.0/24']},
        status: {addresses: [{type: 'InternalIP', address: '192.168.1.10'}]},
      },
    ],
  });
}
