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
