import type {Family} from '../address.ts';
import type {NodeObject} from '../api-objects.ts';
import type {NetworkFacts} from './network-facts.ts';

/** The facts about a node, apart from its rules. */
export interface NodeFacts {
  readonly name: string;
  /** Addresses of all interfaces, or only those of the Node object if the interfaces were not read. */
  readonly addresses: readonly string[];
  /** True if `addresses` are those of the interfaces, so that every other address is external. */
  readonly allAddresses: boolean;
  /** The Node's own addresses, InternalIP first then ExternalIP, as `GetNodeHostIPs` orders them. */
  readonly hostIPs: readonly string[];
  readonly podCIDRs: readonly string[];
  readonly zone: string | null;
  /** Labels of the Node, by which `topologyKeys` of Services pick endpoints. */
  readonly labels: Readonly<Record<string, string>>;
  /** Name of the interface with the node's address; null if it was not read. */
  readonly primaryInterface: string | null;
  /** The networks of interfaces, where they were read. */
  readonly onLink?: readonly {readonly name: string; readonly network: string}[];
  /** Left out for a node of which nothing but addresses is known. */
  readonly network?: NetworkFacts;
}

/** The first host address of a family; null if the Node has none. Follows `GetNodeHostIPs`. */
export function hostIP(facts: NodeFacts, family: Family): string | null {
  return facts.hostIPs.find(address => address.includes(':') === (family === 'IPv6')) ?? null;
}

/** Whether kube-proxy's nftables mode refuses to run on a kernel, which it does before 5.13; null if the version is unknown. */
export function isKernelTooOldForNftables(version: string): boolean | null {
  return isOlderKernel(version, [5, 13]);
}

/** Whether a kernel (`5.4.0-150-generic`) is older than a version; null if its version is unknown. */
export function isOlderKernel(version: string, [major, minor]: readonly [major: number, minor: number]): boolean | null {
  const found = /^(\d+)\.(\d+)/.exec(version);
  if (found === null) return null;
  const [own, ownMinor] = [Number(found[1]), Number(found[2])];
  return own < major || (own === major && ownMinor < minor);
}

/** Why a node cannot have rules of kube-proxy, by its Node object; null if it may have them. */
export function whyNoRules({metadata, status}: NodeObject): string | null {
  const labels = metadata.labels ?? {};
  if ((labels['kubernetes.io/os'] ?? status?.nodeInfo?.operatingSystem) === 'windows')
    return 'a Windows node: its Services are not served by iptables';
  if (labels['eks.amazonaws.com/compute-type'] === 'fargate')
    return 'a Fargate node: it runs one pod, and no kube-proxy that could be read';
  if (labels['type'] === 'virtual-kubelet') return 'a virtual node (virtual-kubelet): there is no machine behind it';
  return null;
}
