import type {Entry} from './service-port.ts';
import type {SentPacket, ServiceName} from './finding.ts';
import type {RuleText} from './ruleset.ts';

/** The settings of one side. */
export interface PreviewSide {
  readonly proxyMode: string;
  readonly kubeProxyVersion: string;
}

/** The effect of a change of kube-proxy on packets. */
export interface Preview {
  readonly before: PreviewSide;
  readonly after: PreviewSide;
  readonly services: number;
  /** `namespace/name` of the Services in scope, before or after the change. */
  readonly scope: readonly string[];
  readonly settings: PreviewPlan['settings'];
  readonly nodes: readonly PreviewNode[];
  readonly requirements: readonly Requirement[];
  /** The Service ports in scope on the nodes that were checked. */
  readonly ports: readonly PreviewedPort[];
  readonly changes: readonly PreviewChange[];
  /** Effects that no packet shows, once for the cluster. */
  readonly advice: readonly Advice[];
  /** Assumptions and omissions, as text. */
  readonly notes: readonly string[];
}

export interface PreviewNode {
  readonly name: string;
  /** `actual`: its rules were read; `expected`: both sides are computed; `unread`: it cannot be previewed. */
  readonly basis: 'actual' | 'expected' | 'unread';
  readonly reason?: string;
}

/** `same`: for every packet. `not-proved`: nothing that was walked differs, and not all of it could be. */
export interface PreviewedPort {
  readonly service: ServiceName;
  readonly port: PreviewChange['port'];
  readonly status: 'same' | 'differs' | 'not-proved';
  /** Why it is not proved for all packets; with `differs`, for those beside the changes. */
  readonly reason?: string;
}

export interface Requirement {
  readonly node: string;
  readonly name:
    | 'kernel'
    | 'kernel-modules'
    | 'nft'
    | 'mode-supported'
    | 'service-names'
    | 'settings'
    | 'leftovers'
    | 'network-plugin'
    | 'kube-proxy-log'
    | 'forwarding';
  readonly status: 'met' | 'unmet' | 'unknown';
  readonly detail: string;
}

/** The rules after the change are those of an older version: nothing is proved for this node. */
export function isStandIn({name, status}: Requirement): boolean {
  return name === 'mode-supported' && status === 'unknown';
}

export type PreviewEffect = 'lost' | 'gained' | 'refused' | 'unanswered' | 'source-address' | 'shares' | 'affinity' | 'undetermined';

/** A packet whose outcome changes. */
export interface PreviewChange {
  readonly node: string;
  readonly service: ServiceName;
  readonly port: {readonly name: string; readonly protocol: string; readonly port: number};
  readonly entry: Entry;
  /** `senders` says whom the address stands for, where not for its kind. */
  readonly source: {readonly kind: PreviewSource; readonly address: string; readonly senders?: string};
  readonly packet: SentPacket;
  readonly before: readonly PreviewOutcome[];
  readonly after: readonly PreviewOutcome[];
  readonly effect: PreviewEffect;
  readonly cause: Cause;
}

export type PreviewSource = 'pod' | 'remotePod' | 'node' | 'external' | 'endpoint';

export interface PreviewOutcome {
  readonly verdict: 'accept' | 'reject' | 'drop' | 'undecided';
  readonly destination: string | null;
  readonly probability: number;
  readonly masquerade: boolean;
  /** The rules on the way, in their order; absent where they were not asked for. */
  readonly path?: readonly RuleText[];
}

/** Why something changes, and what to do. */
export interface Cause {
  /** The anchor of its section in docs/checks/preview.md. */
  readonly id: string;
  readonly reason: string;
  readonly remedy: string;
}

export interface Advice extends Cause {
  /** `change`: a change in operation; `switch`: an effect at the moment of the switch; `by-hand`: to be checked by hand. */
  readonly topic: 'change' | 'switch' | 'by-hand';
  readonly effect?: PreviewEffect;
  /** The nodes concerned; empty for all. */
  readonly nodes: readonly string[];
}

/** Settings of kube-proxy by the names of `ProxyConfig`, without those that are of one node alone. */
export type PreviewSettings = Readonly<Record<string, unknown>>;

/** What a preview recorded for a comparison after the change. */
export interface PreviewPlan {
  /** The nodes whose addresses were not read: its changes are not at all of them. */
  readonly withoutAddresses: readonly string[];
  readonly scope: readonly string[];
  /** Of the nodes that were checked, grouped by equal settings. */
  readonly settings: readonly {readonly nodes: readonly string[]; readonly before: PreviewSettings; readonly after: PreviewSettings}[];
  readonly changes: readonly PreviewChange[];
}

export interface PlanNode {
  readonly name: string;
  readonly status: 'switched' | 'not-switched' | 'unread';
  readonly reason?: string;
}

/** A change that a plan has, and what the rules do with its packet now. */
export interface ForetoldChange {
  readonly change: PreviewChange;
  /** `otherwise`: neither as before nor as foretold; `not-compared`: the first packet of a connection does not show it. */
  readonly status: 'came' | 'did-not-come' | 'otherwise' | 'not-compared';
  readonly now: readonly PreviewOutcome[];
}

/** What became of a plan. */
export interface PlanCheck {
  readonly nodes: readonly PlanNode[];
  /** How many nodes of the plan were not to be checked. */
  readonly notChecked: number;
  /** Of nodes that were switched. */
  readonly foretold: readonly ForetoldChange[];
  /** Changes that the plan does not have. */
  readonly besides: readonly PreviewChange[];
}
