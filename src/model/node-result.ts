import type {Finding} from './finding.ts';
import type {NodeReport} from './report.ts';
import type {Problem} from './snapshot.ts';

/** The version of the JSON of an agent's answer. Fields may be added within a version. */
export const nodeResultVersion = 1;

/** The result of an agent: what remains of its node's check after the dumps are dropped. */
export interface AgentResult {
  readonly tool: {readonly name: string; readonly version: string};
  readonly report: NodeReport;
  /** The findings of the node, without those that need only the API objects. */
  readonly findings: readonly Finding[];
  /** What could not be read. */
  readonly problems: readonly Problem[];
  /** Null if nothing is known of the node's kube-proxy. */
  readonly proxy: ResultProxy | null;
  /** When the reading of the node began, by the agent's clock, in milliseconds since 1970. */
  readonly judgedAt: number;
  /** How long the check took, including verification. */
  readonly seconds: number;
  /** The longest time between two checks if nothing changes. */
  readonly intervalSeconds: number;
  /** The API objects that the node was checked against. */
  readonly seen: SeenVersions;
  /** When the API server had last sent something; like `judgedAt`. */
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

/** How long a result is valid, in seconds: the next one may be late by two intervals, and by the duration of a check on this node. */
export function maxAge({intervalSeconds, seconds}: Pick<AgentResult, 'intervalSeconds' | 'seconds'>): number {
  return 3 * (intervalSeconds + seconds) + 60;
}
