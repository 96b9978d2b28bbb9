/** What kube-proxy runs in, and what is written of a node. */
export type ProxyMode = 'iptables' | 'nftables';

export interface ClusterSize {
  services: number;
  /** Endpoints of each Service. */
  endpoints: number;
  /** Nodes whose rules are written; the pods are spread over more nodes than these. */
  nodes: number;
  seed: number;
  /** `iptables` unless said otherwise. */
  proxyMode?: ProxyMode;
}
