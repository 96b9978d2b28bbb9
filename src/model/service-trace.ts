import type {Entry, EntryKind} from './service-port.ts';
import type {Family} from './address.ts';
import type {ServiceName} from './finding.ts';
import type {RuleText} from './ruleset.ts';

/** The state of a step. `shown` is one of rules without API objects, or one whose outcome is undetermined: there is nothing to compare. */
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
  /** Left out if kube-proxy serves every address of the Service. */
  readonly unserved?: readonly UnservedAddress[];
}

/** An address of a Service port for which kube-proxy writes no rules on the node. */
export interface UnservedAddress {
  readonly kind: EntryKind;
  /** A DNS name if a load balancer has no address; null for a node port, and for a load balancer that has no address yet. */
  readonly address: string | null;
  /** 0 for a node port that was not allocated. */
  readonly port: number;
  readonly reason: string;
}

export interface EntryTrace {
  readonly entry: Entry;
  /** The client, as text. */
  readonly from: string;
  readonly mark: Mark;
  /** From the entry to the chain that picks the endpoint, jumps only. */
  readonly steps: readonly TraceStep[];
  readonly endpoints: readonly EndpointTrace[];
  /** The rule that ends the path without an endpoint, and the expected outcome. */
  readonly end: {
    readonly verdict: 'rejected' | 'dropped' | 'undecided' | 'passed';
    readonly rule: CountedRule | null;
    readonly reason?: string | undefined;
  } | null;
}

/** A rule with the kernel's counters, if the dump has them. */
export interface CountedRule extends RuleText {
  readonly packets?: number;
  readonly bytes?: number;
  /** In place of packets: new connections, which IPVS counts by real server. */
  readonly connections?: number;
  /** The numbers were rounded by the tool that printed them: `12K`. */
  readonly rounded?: true;
}

/** A rule that jumps, and the chain that it jumps to. */
export interface TraceStep extends CountedRule {
  readonly to: string;
}

export interface EndpointTrace {
  /** `ip:port`. */
  readonly hostPort: string;
  readonly mark: Mark;
  /** 0 to 1: the actual share of the packets; null if pasted rules do not show it. */
  readonly share: number | null;
  /** The expected share; null if nothing is expected. */
  readonly expectedShare: number | null;
  readonly masquerade: boolean;
  readonly pod: string | null;
  readonly nodeName: string | null;
  /** `ready`, `terminating`, `not ready`; null for an address that is no endpoint of the Service. */
  readonly state: string | null;
  /** The rule that picks it and the rule that rewrites the packet; null for a missing endpoint. */
  readonly pick: CountedRule | null;
  readonly rewrite: CountedRule | null;
}
