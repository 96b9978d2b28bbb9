import type {Family} from './family.ts';
import type {Finding, ServiceName} from './finding.ts';
import type {Setting} from './proxy-config.ts';
import type {PortTrace} from './service-trace.ts';

/** What a run found out: the data behind every output format. */
export interface Report {
  readonly tool: {readonly name: string; readonly version: string};
  readonly summary: Summary;
  readonly nodes: readonly NodeReport[];
  readonly findings: readonly Finding[];
  /** The Services that were looked at, for the matrix. */
  readonly services: readonly ServiceName[];
  /** The way of packets to each port, where it was asked for. */
  readonly traces: readonly PortTrace[];
  /** Set when it was waited for the nodes, by `--wait`. */
  readonly wait?: WaitReport;
}

/** How long nodes took to be as they should be. Seconds are counted from the start of the run. */
export interface WaitReport {
  readonly limitSeconds: number;
  readonly seconds: number;
  /** How often was looked. */
  readonly looks: number;
  /** Nothing that fails was left, and nothing unread. */
  readonly clean: boolean;
  /** Those that kube-proxy serves, in the order of their names. */
  readonly nodes: readonly NodeWait[];
}

export interface NodeWait {
  readonly name: string;
  /** At which look the node was as it should be for the Services as they are now, from 1; left out when it never was. */
  readonly look?: number;
  /** When that look at the node began. */
  readonly seconds?: number;
  /** It could not be read, for a reason that time does not change: it was not waited for. */
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
  readonly services: number;
  readonly servicePorts: number;
  /** Set when only some of the nodes were looked at, by `--sample`: how many there were to choose from. */
  readonly sampledFrom?: number;
}

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
}
