import type {PortEntry} from '../expect/cluster/cluster-view.ts';

/** What is known of a node before its counters are read: its mode, and the shares that its rules give to endpoints. */
export interface NodeSurvey {
  readonly name: string;
  readonly status: 'checked' | 'unread' | 'unsupported';
  readonly reason?: string;
  readonly mode: string | null;
  /** The 36 of kube-proxy 1.36; left out where the node was not checked. */
  readonly kubeProxyMinor?: number;
  /** The addresses that the node answers on: node ports. */
  readonly addresses: readonly string[];
  readonly ports: readonly SurveyedPort[];
}

export interface SurveyedPort extends PortEntry {
  /** Of one Service port in one family, the same on every node. */
  readonly key: string;
  /** The share of new connections to the cluster IP that the node's rules give an endpoint, by `ip:port`; null if unknown. */
  readonly shares: ReadonlyMap<string, number> | null;
  /** Each new connection is assigned to an endpoint at random, independently of earlier ones. */
  readonly isRandom: boolean;
}
