import type {PodObject} from '../model/api-objects.ts';
import type {Problem} from '../model/snapshot.ts';

/** A way to have nodes judged: by reading them here, or by asking their agents. */
export interface NodeLooks {
  /** When the reading of a node began, in milliseconds since 1970. */
  readonly readAt: ReadonlyMap<string, number>;
  /** What could not be read of nodes that were. */
  readonly problems: readonly Problem[];
  /** Nodes of which not all could be read. */
  readonly partlyRead: ReadonlySet<string>;
  /** Those by which nodes are reached, as far as they tell of kube-proxy. */
  readonly pods: readonly PodObject[] | null;
  /** Has these nodes judged. Rejects with an Interrupted when the run is; what was judged until then stays. */
  judge(names: readonly string[]): Promise<void>;
  /** Looks anew for the ways to the nodes: pods come and go. */
  findAgain(): Promise<void>;
  /** Says of all nodes that were not come to why. */
  giveUp(reason: string): void;
}
