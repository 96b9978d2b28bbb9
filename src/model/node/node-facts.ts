import type {Family} from '../family.ts';
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
