import type {Entry} from '../../model/service-port.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {Outcome} from '../../trace/packet.ts';
import type {PortSymptom} from '../symptoms/symptom-list.ts';
import type {PathOutcome, ProbeComparison} from './path-outcome.ts';

/** What a proxy mode knows about its own rules that the outcomes of packets do not show. */
export interface ModeSemantics<R extends RuleText> {
  /** The packet ended as if this entry of the Service were not programmed. */
  isUnentered(outcome: Outcome<R>): boolean;
  /** No entry of the Service port is programmed on the node. */
  hasNoEntry(): boolean;
  /** Why a packet is dropped or rejected: its source is in no range, the policy is Local and the node has no endpoint, or another reason. */
  refusedFor(outcome: Outcome<R>): 'ranges' | 'policy' | 'other';
  /** The traffic policy by which the endpoints were picked; null if the rules do not show it. */
  policyOf(pathOutcome: PathOutcome<R>): 'Cluster' | 'Local' | null;
  /** Endpoints, by `ip:port`, whose own rules send packets elsewhere. */
  misdirected(pathOutcome: PathOutcome<R>): ReadonlyMap<string, Misdirected<R>>;
  /** Symptoms that replace all others of a comparison: a broken jump, a third-party rule. Empty if there are none. */
  special(comparison: ProbeComparison<R>): readonly KeyedSymptom<R>[];
  /** The missing rules, and the unexpected ones. */
  evidence(subject: Subject<R>): Evidence<R>;
}

export interface Misdirected<R extends RuleText> {
  readonly destination: string;
  readonly rule: R;
}

export interface KeyedSymptom<R extends RuleText> {
  readonly symptom: PortSymptom<R>;
  readonly key: string;
  /** The key of a symptom that explains this one. */
  readonly unless?: string;
}

/** The subject for which rules are wanted as evidence. */
export type Subject<R extends RuleText> =
  | {readonly kind: 'service' | 'shares' | 'affinity'}
  | {readonly kind: 'entry'; readonly entry: Entry}
  | {readonly kind: 'endpoint'; readonly endpoint: string; readonly comparison: ProbeComparison<R>}
  | {readonly kind: 'policy' | 'masquerade'; readonly comparison: ProbeComparison<R>};

export interface Evidence<R extends RuleText> {
  readonly expected: readonly R[];
  readonly actual: readonly R[];
}
