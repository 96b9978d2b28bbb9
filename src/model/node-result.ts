import type {Finding} from './finding.ts';
import type {NodeReport} from './report.ts';
import type {Problem} from './snapshot.ts';

/** The version of the JSON that an agent answers with. Within one, fields may be added. */
export const nodeResultVersion = 1;

/** What an agent found on its node: what is left of it when the dumps are dropped. */
export interface AgentResult {
  readonly tool: {readonly name: string; readonly version: string};
  readonly report: NodeReport;
  /** Those about the node; what the API objects alone show is not among them. */
  readonly findings: readonly Finding[];
  /** What could not be read. */
  readonly problems: readonly Problem[];
  /** Null when nothing is known of the node's kube-proxy. */
  readonly proxy: ResultProxy | null;
  /** When the reading of the node began, by the agent's clock, in milliseconds since 1970. */
  readonly judgedAt: number;
  /** How long it took until it was judged for good. */
  readonly seconds: number;
  /** The longest time between two judgments while all is well. */
  readonly intervalSeconds: number;
  /** The API objects that it was judged by. */
  readonly seen: SeenVersions;
  /** When the API server had last given a sign of life by then; as `judgedAt`. */
  readonly apiCurrentAt: number;
}

/** The version and feature gates of a kube-proxy. */
interface ResultProxy {
  readonly version: {readonly text: string; readonly minor: number; readonly patch: number};
  readonly gates: Readonly<Record<string, boolean>>;
}

/** The resourceVersions up to which all changes of a kind were known. */
export interface SeenVersions {
  readonly services: string;
  readonly endpointSlices: string;
}

/** How long a result holds, in seconds: the next one may be late by two intervals, and by the time that looks take on this node. */
export function maxAge({intervalSeconds, seconds}: Pick<AgentResult, 'intervalSeconds' | 'seconds'>): number {
  return 3 * (intervalSeconds + seconds) + 60;
}
