import type {NodeObject, PodObject} from '../../model/api-objects.ts';
import type {Problem} from '../../model/snapshot.ts';

/** A way to have nodes judged: by reading them here, or by asking their agents. */
export interface NodeEvaluator {
  /** When the reading of a node began, in milliseconds since 1970. */
  readonly readAt: ReadonlyMap<string, number>;
  /** What could not be read of nodes that were. */
  readonly problems: readonly Problem[];
  /** Nodes of which not all could be read. */
  readonly partlyRead: ReadonlySet<string>;
  /** Nodes of which nothing could be read, for a reason that time does not change, and the reason. */
  readonly permanent: ReadonlyMap<string, string>;
  /** Those by which nodes are reached, as far as they tell of kube-proxy. */
  readonly pods: readonly PodObject[] | null;
  /** Has these nodes judged. Rejects with an Interrupted when the run is; what was judged until then stays. */
  evaluate(names: readonly string[]): Promise<void>;
  /** Evaluates what was read of these nodes once more, by the API objects and states that are known now. */
  evaluateAgain(names: readonly string[]): Promise<void>;
  /**
   * Looks anew for the nodes and the ways to them: both come and go. `objects` are the Nodes as they are now; null where they could not
   * be read, and then none is gone. Nodes that are gone are forgotten. Resolves to those that were not judged yet.
   */
  findAgain(objects: readonly NodeObject[] | null): Promise<readonly string[]>;
  /** Says of all nodes that were not come to why. */
  giveUp(reason: string): void;
}
