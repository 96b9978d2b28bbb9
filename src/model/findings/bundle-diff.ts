import type {Finding, ServiceName} from '../finding.ts';
import type {TrafficReport} from '../traffic/traffic-report.ts';

/** The changes between two bundles: `came` is only in the later one, `went` only in the earlier one. */
export interface BundleDiff {
  readonly services: readonly ServiceChange[];
  readonly endpoints: readonly EndpointChange[];
  readonly nodes: readonly NodeChange[];
  readonly rules: readonly RulesChange[];
  readonly findings: readonly FindingChange[];
  /** The connections between the two; left out where they were not counted. */
  readonly connections?: Pick<TrafficReport, 'interval' | 'ports' | 'nodes'>;
  /** What cannot be compared because one side does not contain it, as text. */
  readonly notCompared: readonly string[];
  /** The sides on which no node was checked; left out if there is none. */
  readonly uncheckedSides?: readonly ('earlier' | 'later')[];
}

export type ChangeKind = 'came' | 'went' | 'changed';

/** One field that differs; null if it is not set. */
export interface FieldChange {
  readonly field: string;
  readonly before: string | null;
  readonly after: string | null;
}

export interface ServiceChange {
  readonly kind: ChangeKind;
  readonly service: ServiceName;
  /** Empty for a new or removed Service. */
  readonly fields: readonly FieldChange[];
}

export interface EndpointChange {
  readonly kind: ChangeKind;
  readonly service: ServiceName;
  /** Name and protocol: `http/TCP`; `/TCP` for a port without a name. */
  readonly port: string;
  /** `ip:port`. */
  readonly endpoint: string;
  readonly pod: string | null;
  readonly nodeName: string | null;
  /** `ready`, `terminating`, `not ready`; null on the side without the endpoint. */
  readonly before: string | null;
  readonly after: string | null;
}

export interface NodeChange {
  readonly kind: ChangeKind;
  readonly node: string;
  readonly fields: readonly FieldChange[];
}

/** Lines of one chain, set or list of one node that only one side has. */
export interface RulesChange {
  readonly node: string;
  /** Where: `iptables nat/KUBE-SERVICES`, `ipset KUBE-CLUSTER-IP`. */
  readonly place: string;
  readonly came: readonly string[];
  readonly went: readonly string[];
}

export interface FindingChange {
  readonly kind: 'came' | 'went';
  readonly finding: Finding;
}
