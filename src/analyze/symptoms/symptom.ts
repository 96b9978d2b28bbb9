import type {Entry, ServicePort} from '../../model/service-port.ts';
import type {Family} from '../../model/address.ts';
import type {Observation} from '../../model/finding.ts';
import type {RuleText} from '../../model/ruleset.ts';

/** What is wrong with a node's rules, named as the finding that reports it. */
export type SymptomKind =
  | 'service-not-programmed'
  | 'missing-endpoint'
  | 'stale-endpoint'
  | 'wrong-endpoint-address'
  | 'stale-service'
  | 'missing-entry'
  | 'traffic-policy-mismatch'
  | 'uneven-balance'
  | 'session-affinity-mismatch'
  | 'source-ranges-mismatch'
  | 'masquerade-mismatch'
  | 'missing-reject'
  | 'unexpected-reject'
  | 'broken-jump'
  | 'orphan-chain'
  | 'unexpected-rule'
  | 'missing-rule'
  | 'duplicate-rule'
  | 'health-check-port-blocked'
  | 'services-chain-not-hooked'
  | 'postrouting-broken'
  | 'forward-blocked'
  | 'node-ports-unreachable'
  | 'no-service-rules'
  | 'canary-missing'
  | 'entry-taken-by-other-rule'
  | 'dropped-by-other-rule'
  | 'undecided-path'
  | 'cluster-cidr-mismatch'
  | 'node-name-mismatch'
  | 'zone-unknown-to-kube-proxy'
  | CiliumKind;

/** What only a node of Cilium shows. */
type CiliumKind =
  | 'map-differs'
  | 'agent-lost-api'
  | 'wildcard-on-node-address'
  | 'slot-without-backend'
  | 'service-refused'
  | 'out-of-rotation'
  | 'not-compared';

export interface Symptom
  extends Pick<
    Observation,
    'severity' | 'service' | 'entry' | 'endpoint' | 'variant' | 'gist' | 'remedy' | 'senders' | 'hitSenders' | 'isShareOfOne' | 'policyOf'
  > {
  readonly kind: SymptomKind;
  readonly family: Family;
  /** Null when it concerns the node as a whole, or a Service that the API does not have. */
  readonly port: ServicePort | null;
  /** For a symptom of several entries, in place of `entry`. */
  readonly entries?: readonly Entry[];
  /** One sentence without the names of node and Service. */
  readonly detail: string;
  /** Symptoms of several Services with the same cause are one finding for the node. A setting is also known without rules. */
  readonly cause?: 'scheduler' | 'setting';
  /** Set if Cilium serves the Service, and not kube-proxy. */
  readonly by?: 'cilium';
  /** Packets are refused that should get in: not the usual of its kind. */
  readonly refuses?: true;
  readonly expected: readonly RuleText[];
  readonly actual: readonly RuleText[];
  /** The Service ports that a symptom of the node concerns. */
  readonly affects?: readonly ServicePort[];
  /** The share of connections from pods of the node (of `senders`, if these are a part) to `entry`, or to the cluster IP, that reaches no usable endpoint because of it. */
  readonly share?: number | undefined;
  /** All chains that a symptom of unreached chains is about. */
  readonly chains?: readonly string[];
}
