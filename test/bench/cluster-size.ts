export interface ClusterSize {
  services: number;
  /** Endpoints of each Service. */
  endpoints: number;
  /** Nodes whose rules are written; the pods are spread over more nodes than these. */
  nodes: number;
  seed: number;
}
