/** A setting with where it was found: a file of the bundle, a flag, or kube-proxy's default. */
export interface Setting<T> {
  readonly value: T;
  readonly source: string;
}

/** The source of a setting that nothing but the node's rules tells. */
export const seenInRules = "seen in the node's rules";

export type DetectLocalMode = 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix';

/** The settings of one node's kube-proxy that change its rules. */
export interface ProxyConfig {
  readonly version: Setting<KubeProxyVersion>;
  readonly mode: Setting<string>;
  readonly clusterCIDRs: Setting<readonly string[]>;
  readonly detectLocalMode: Setting<DetectLocalMode>;
  readonly bridgeInterface: Setting<string>;
  readonly interfaceNamePrefix: Setting<string>;
  readonly masqueradeAll: Setting<boolean>;
  /** 0 to 31. */
  readonly masqueradeBit: Setting<number>;
  readonly localhostNodePorts: Setting<boolean>;
  /** CIDRs, or the one word `primary`. */
  readonly nodePortAddresses: Setting<readonly string[]>;
  readonly bindAddress: Setting<string>;
  /** The name under which kube-proxy looks for local endpoints. */
  readonly nodeName: Setting<string>;
  readonly tcpBeLiberal: Setting<boolean>;
  readonly featureGates: Setting<Readonly<Record<string, boolean>>>;
  /** How IPVS mode spreads connections; empty is kube-proxy's default, `rr`. */
  readonly ipvsScheduler: Setting<string>;
  /** Without it every node answers ARP for the addresses of all Services, which announcers such as MetalLB cannot work with. */
  readonly ipvsStrictARP: Setting<boolean>;
  /** Networks in which IPVS mode touches no virtual server. */
  readonly ipvsExcludeCIDRs: Setting<readonly string[]>;
  /** Null when the Node has no zone label. */
  readonly zone: Setting<string | null>;
}

/** A version of kube-proxy. Rules are known for 1.5 to 1.37. */
export interface KubeProxyVersion {
  readonly text: string;
  readonly minor: number;
  readonly patch: number;
  /** It was not said but guessed: others may fit as well. */
  readonly guessed?: true;
}

export const oldestKnownMinor = 5;
export const newestKnownMinor = 37;
