/** What the synthetic cluster consists of, before it is written as API objects and as rules. */

export type Family = 'IPv4' | 'IPv6';

export const FAMILIES: readonly Family[] = ['IPv4', 'IPv6'];

type Protocol = 'TCP' | 'UDP' | 'SCTP';

export interface ServicePort {
  /** Empty for the single port of a Service that does not name it. */
  name: string;
  protocol: Protocol;
  port: number;
  targetPort: number;
  /** 0 where the Service has none. */
  nodePort: number;
}

export interface Pod {
  name: string;
  uid: string;
  node: ClusterNode;
}

export interface Endpoint {
  address: string;
  /** Absent where no pod stands behind the address, as for the API server's own Service. */
  pod?: Pod;
  ready: boolean;
  serving: boolean;
  terminating: boolean;
}

export interface Ingress {
  ip?: string;
  hostname?: string;
  ipMode?: 'VIP' | 'Proxy';
}

export interface Service {
  namespace: string;
  name: string;
  uid: string;
  type: 'ClusterIP' | 'NodePort' | 'LoadBalancer' | 'ExternalName';
  families: Family[];
  /** One for each family; ["None"] for a headless Service, none for an ExternalName. */
  clusterIPs: string[];
  ports: ServicePort[];
  externalIPs: string[];
  ingress: Ingress[];
  sourceRanges: string[];
  externalLocal: boolean;
  internalLocal: boolean;
  /** 0 where the Service asks for no affinity. */
  affinitySeconds: number;
  /** 0 where the Service has none. */
  healthCheckNodePort: number;
  endpoints: Record<Family, Endpoint[]>;
}

export interface ClusterNode {
  name: string;
  zone: string;
  /** The node's own addresses. */
  address: Record<Family, string>;
  podCIDR: Record<Family, string>;
}

export interface Cluster {
  services: Service[];
  /** The nodes whose rules are written. */
  nodes: ClusterNode[];
  /** All nodes that the API has. */
  fleet: ClusterNode[];
  /** What kube-proxy takes for pod addresses: its clusterCIDR. */
  podCIDR: Record<Family, string>;
}
