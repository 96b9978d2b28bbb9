import type {Family} from './family.ts';
import type {Finding, ServiceName} from './finding.ts';
import type {Setting} from './proxy-config.ts';
import type {PortTrace} from './service-trace.ts';
import type {NodeLag} from './state-history.ts';

/** What a run found out: the data behind every output format. */
export interface Report {
  readonly tool: {readonly name: string; readonly version: string};
  readonly summary: Summary;
  readonly nodes: readonly NodeReport[];
  readonly findings: readonly Finding[];
  /** The Services in scope that kube-proxy serves, for the matrix. */
  readonly services: readonly ServiceName[];
  /** What was asked for, in words: `namespace shop`. */
  readonly scope?: string;
  /** The packet paths to each port, where they were asked for. */
  readonly traces: readonly PortTrace[];
  /** Set when there were rules and no API objects: nothing was compared. */
  readonly basis?: 'rules';
  /** Set when the run waited for the nodes, by `--wait`. */
  readonly wait?: WaitReport;
}

/** How long nodes took to converge. Seconds are counted from the start of the run. */
export interface WaitReport {
  readonly limitSeconds: number;
  readonly seconds: number;
  /** How many checks were made. */
  readonly looks: number;
  /** At the end nothing failed and nothing was unread. */
  readonly clean: boolean;
  /** Those that kube-proxy serves, in the order of their names. */
  readonly nodes: readonly NodeWait[];
}

export interface NodeWait {
  readonly name: string;
  /** The check, from 1, at which the node was in sync with the Services as they are now; left out when it never was. */
  readonly look?: number;
  /** When that read of the node began. */
  readonly seconds?: number;
  /** It was not waited for: a permanent error keeps it from being read. */
  readonly waitedFor?: false;
}

export interface Summary {
  /** `incomplete` when something could not be read and nothing that was read fails. */
  readonly verdict: 'ok' | 'findings' | 'incomplete';
  readonly errors: number;
  readonly warnings: number;
  readonly infos: number;
  readonly nodesChecked: number;
  readonly nodesUnread: number;
  /** Services in scope: the sum of the four counts below. */
  readonly services: number;
  /** Without an error or warning, on every node that was checked. */
  readonly servicesInSync: number;
  /** With an error or warning of their own, or on a node where an error affects all Services. */
  readonly servicesWithFindings: number;
  /** For which kube-proxy writes no rules, by the reason. */
  readonly servicesWithoutRules: Readonly<Partial<Record<UnservedKind, number>>>;
  readonly servicesNotChecked: number;
  readonly servicePorts: number;
  /** Set by `--sample` when only some nodes were checked: how many there were to choose from. */
  readonly sampledFrom?: number;
}

/** Why kube-proxy writes no rules for a Service. */
export type UnservedKind = 'externalName' | 'headless' | 'otherProxy' | 'noClusterIP';

export interface NodeReport {
  readonly name: string;
  readonly status: 'checked' | 'unread' | 'unsupported';
  /** Why it was not checked. */
  readonly reason?: string;
  readonly proxyMode?: string;
  readonly kubeProxyVersion?: string;
  readonly backend?: 'nft' | 'legacy';
  readonly families: readonly Family[];
  readonly rules: number;
  readonly chains: number;
  /** The settings of kube-proxy that the expectation rests on, each with its source. */
  readonly settings: Readonly<Record<string, Setting<string>>>;
  /** How it was read, in words: by exec into which pod, with the tools of which image. Left out where that is not known. */
  readonly via?: string;
  /** Files that a check can do without and that could not be read, with the reason; left out when there are none. */
  readonly notRead?: readonly {readonly file: string; readonly reason: string}[];
  /** How far its rules are behind the API; left out when no Service changed shortly before it was read, or nobody followed them. */
  readonly lag?: NodeLag;
}
