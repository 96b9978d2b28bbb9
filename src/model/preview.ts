import type {Entry} from './entry.ts';
import type {Family} from './family.ts';
import type {ServiceName} from './finding.ts';

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
  readonly nodes: readonly PreviewNode[];
  readonly requirements: readonly Requirement[];
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

export interface Requirement {
  readonly node: string;
  readonly name: 'kernel' | 'nft' | 'mode-supported' | 'service-names' | 'settings' | 'leftovers' | 'network-plugin';
  readonly status: 'met' | 'unmet' | 'unknown';
  readonly detail: string;
}

export type PreviewEffect = 'lost' | 'gained' | 'refused' | 'unanswered' | 'source-address' | 'shares' | 'affinity' | 'undetermined';

/** A packet whose outcome changes. */
export interface PreviewChange {
  readonly node: string;
  readonly service: ServiceName;
  readonly port: {readonly name: string; readonly protocol: string; readonly port: number};
  readonly entry: Entry;
  readonly source: {readonly kind: PreviewSource; readonly address: string};
  readonly packet: {
    readonly family: Family;
    readonly source: string;
    readonly destination: string;
    readonly port: number;
    readonly protocol: string;
  };
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
}

/** Why something changes, and what to do. */
export interface Cause {
  /** The anchor of its section in docs/migrating.md. */
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
