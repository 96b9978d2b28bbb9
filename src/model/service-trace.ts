import type {Entry, EntryKind} from './entry.ts';
import type {Family} from './family.ts';
import type {ServiceName} from './finding.ts';
import type {RuleText} from './ruleset.ts';

/** Whether a step is as it should be. `shown` is what rules alone show: there is nothing to compare it with. */
export type Mark = 'ok' | 'missing' | 'stale' | 'wrong' | 'shown';

/** Whether a step is known to be wrong. */
export function isFaulty(mark: Mark): boolean {
  return mark !== 'ok' && mark !== 'shown';
}

/** The packet path to one Service port on one node, entry by entry. */
export interface PortTrace {
  readonly node: string;
  readonly family: Family;
  readonly service: ServiceName;
  readonly port: {readonly name: string; readonly protocol: string; readonly port: number};
  readonly entries: readonly EntryTrace[];
  /** Left out when kube-proxy serves every address of the Service. */
  readonly unserved?: readonly UnservedAddress[];
}

/** An address of a Service port for which kube-proxy writes no rules on the node. */
export interface UnservedAddress {
  readonly kind: EntryKind;
  /** A DNS name where a load balancer has no address; null for a node port, and for a load balancer that has no address yet. */
  readonly address: string | null;
  /** 0 for a node port that was not allocated. */
  readonly port: number;
  readonly reason: string;
}

export interface EntryTrace {
  readonly entry: Entry;
  /** From where the packet was sent, in words. */
  readonly from: string;
  readonly mark: Mark;
  /** From the entry to the chain that picks the endpoint, jumps only. */
  readonly steps: readonly TraceStep[];
  readonly endpoints: readonly EndpointTrace[];
  /** The rule that ends the way without an endpoint, and what should have been. */
  readonly end: {
    readonly verdict: 'rejected' | 'dropped' | 'undecided' | 'passed';
    readonly rule: CountedRule | null;
    readonly reason?: string;
  } | null;
}

/** A rule with what the kernel counted at it, where the dump tells. */
export interface CountedRule extends RuleText {
  readonly packets?: number;
  readonly bytes?: number;
  /** In place of packets: new connections, which IPVS counts by real server. */
  readonly connections?: number;
  /** The numbers were rounded by the tool that printed them: `12K`. */
  readonly rounded?: true;
}

/** A rule that leads on, and the chain that it leads to. */
export interface TraceStep extends CountedRule {
  readonly to: string;
}

export interface EndpointTrace {
  /** `ip:port`. */
  readonly hostPort: string;
  readonly mark: Mark;
  /** 0 to 1: the part of the packets that really goes there; null where pasted rules do not show it. */
  readonly share: number | null;
  /** The part that should go there; null where the API gives no reason for any. */
  readonly expectedShare: number | null;
  readonly masquerade: boolean;
  readonly pod: string | null;
  readonly nodeName: string | null;
  /** `ready`, `terminating`, `not ready`; null for an address that is no endpoint of the Service. */
  readonly state: string | null;
  /** The rule that picks it and the rule that rewrites the packet; null for an endpoint that is missing. */
  readonly pick: CountedRule | null;
  readonly rewrite: CountedRule | null;
}
