import type {PodObject} from './api-objects.ts';
/** A setting with its source: a file of the bundle, a flag, or kube-proxy's default. */
export interface Setting<T> {
  readonly value: T;
  readonly source: string;
}

/** The source of a setting that only the node's rules show, and of one that nothing shows. */
export const seenInRules = "seen in the node's rules";
export const defaultOfKubeProxy = 'kube-proxy default';

export type DetectLocalMode = 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix';

/** The settings of one node's kube-proxy that affect its rules. */
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
  /** The node name by which kube-proxy finds local endpoints. */
  readonly nodeName: Setting<string>;
  readonly tcpBeLiberal: Setting<boolean>;
  readonly featureGates: Setting<Readonly<Record<string, boolean>>>;
  /** The scheduler of IPVS mode; empty is kube-proxy's default, `rr`. */
  readonly ipvsScheduler: Setting<string>;
  /** Without it every node answers ARP for the addresses of all Services, which conflicts with announcers such as MetalLB. */
  readonly ipvsStrictARP: Setting<boolean>;
  /** Networks in which IPVS mode does not change virtual servers. */
  readonly ipvsExcludeCIDRs: Setting<readonly string[]>;
  /** Null if the Node has no zone label. */
  readonly zone: Setting<string | null>;
}

/** A version of kube-proxy. Rules are known for 1.5 to 1.37. */
export interface KubeProxyVersion {
  readonly text: string;
  readonly minor: number;
  /** Null if the text names none: `v1.33` is not 1.33.0. */
  readonly patch: number | null;
  /** It comes before the version that it names, such as `v1.34.0-rc.1`, and may lack any change of that version. */
  readonly isPreRelease?: true;
  /** It was guessed from the rules: others may match as well. */
  readonly guessed?: true;
}

export const oldestKnownMinor = 5;
export const newestKnownMinor = 37;

/** Null if the rules of this version are known. */
export function standInFor({text, minor}: KubeProxyVersion): string | null {
  return minor > newestKnownMinor
    ? `the rules of kube-proxy ${text} are not known, and those of 1.${newestKnownMinor} stand in for them`
    : null;
}

/** A ConfigMap in which platforms store kube-proxy's configuration. For the source of each see docs/platforms.md. */
export interface ConfigMapPlace {
  readonly namespace: string;
  readonly name: string;
  readonly key: string;
}

export const configMapPlaces: readonly ConfigMapPlace[] = [
  // kubeadm, kind, minikube. On EKS a ConfigMap of this name contains only a kubeconfig.
  {namespace: 'kube-system', name: 'kube-proxy', key: 'config.conf'},
  {namespace: 'kube-system', name: 'kube-proxy', key: 'config'},
  // EKS
  {namespace: 'kube-system', name: 'kube-proxy-config', key: 'config'},
  // OpenShift with kube-proxy beside another network, and with OpenShift SDN
  {namespace: 'openshift-kube-proxy', name: 'proxy-config', key: 'kube-proxy-config.yaml'},
  {namespace: 'openshift-sdn', name: 'sdn-config', key: 'kube-proxy-config.yaml'},
];

/** Those of kube-system, which are read from a live cluster. OpenShift's are not: its nodes' rules show the settings. */
export const systemConfigMaps: readonly string[] = [
  ...new Set(configMapPlaces.filter(({namespace}) => namespace === 'kube-system').map(({name}) => name)),
];

export interface ProxyVersion {
  readonly version: KubeProxyVersion;
  readonly gates: Readonly<Record<string, boolean>>;
}

/** As which Services are read where no kube-proxy is known. */
export const newestProxy: ProxyVersion = {version: {text: `1.${newestKnownMinor}`, minor: newestKnownMinor, patch: null}, gates: {}};

/** What the API promises is what it promises in its newest version. */
export const newestApi: ProxyVersion = {version: {text: `v1.${newestKnownMinor}.0`, minor: newestKnownMinor, patch: 0}, gates: {}};

// What differs between versions of kube-proxy in every mode: which Services and endpoints it serves. One function for each difference,
// each naming what upstream changed.

/** The feature gates that kube-proxy was started with, by name. */
export type FeatureGates = Readonly<Record<string, boolean>>;

/** Whether a gate is on; `byDefault` is its default in this version. */
export function isGateOn(gates: FeatureGates, name: string, byDefault: boolean): boolean {
  return gates[name] ?? byDefault;
}

/** The agent's table of Services. Without it nothing of Cilium is compared; it is missing, with the reason, where an agent could not be read. */
export const ciliumAgentTable = 'service-list.json';

/** The settings of all agents, in their namespace. */
export const ciliumConfigMap = 'cilium-config';

export function isCiliumAgent({metadata}: PodObject): boolean {
  return metadata.labels?.['k8s-app'] === 'cilium';
}
