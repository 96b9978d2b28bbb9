import type {Family} from './family.ts';

/** What a node is, apart from its rules. */
export interface NodeFacts {
  readonly name: string;
  /** Addresses of all interfaces, or only those in the Node object when the interfaces were not read. */
  readonly addresses: readonly string[];
  /** True when `addresses` are those of the interfaces, so that any other address is not local. */
  readonly allAddresses: boolean;
  /** The Node's own addresses, InternalIP first then ExternalIP, as `GetNodeHostIPs` orders them. */
  readonly hostIPs: readonly string[];
  readonly podCIDRs: readonly string[];
  readonly zone: string | null;
  /** Labels of the Node, by which `topologyKeys` of Services pick endpoints. */
  readonly labels: Readonly<Record<string, string>>;
  /** Name of the interface that bears the node's address; null when it was not read. */
  readonly primaryInterface: string | null;
}

/** The first host address of a family; null when the Node has none. Follows `GetNodeHostIPs`. */
export function hostIP(facts: NodeFacts, family: Family): string | null {
  return facts.hostIPs.find(address => address.includes(':') === (family === 'IPv6')) ?? null;
}
