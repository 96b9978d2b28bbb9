/** What `write-cluster.ts` leaves in its folder: two bundles of one cluster, and what can be asked of them. */
export interface WrittenBundles {
  /** For a node in sync. */
  readonly before: string;
  /** The same, but rules are missing on the first node. Files that do not differ are the same ones. */
  readonly after: string;
  /** The rules of `before`, while 30 % of the endpoints have other addresses since: a kube-proxy that stopped. */
  readonly stopped: string;
  /** The nodes whose rules are there; the API objects have more. */
  readonly nodes: readonly string[];
  readonly target: Target;
  /** Endpoints, as `address:port`, whose DNAT rule is missing in `after`. */
  readonly broken: readonly string[];
}

/** One Service with a packet to it: all its endpoints take it, with the same chance. */
export interface Target {
  readonly node: string;
  readonly service: string;
  readonly source: string;
  readonly clusterIP: string;
  readonly port: number;
  /** As `address:port`. */
  readonly endpoints: readonly string[];
}
