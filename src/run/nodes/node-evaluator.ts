import type {NodeObject, PodObject} from '../../model/api-objects.ts';
import type {NodeRecords} from './evaluated-nodes.ts';

/** A way to evaluate nodes: by reading them, or by asking their agents. */
export interface NodeEvaluator {
  /** What is known of the nodes so far. */
  readonly evaluated: NodeRecords;
  /** The pods by which nodes are reached, as far as they identify kube-proxy. */
  readonly pods: readonly PodObject[] | null;
  /** Evaluates these nodes. Rejects with an Interrupted when the run is interrupted; the nodes evaluated before stay in the diagnosis. */
  evaluate(names: readonly string[]): Promise<void>;
  /** Evaluates the dumps of these nodes once more, with the API objects and states that are known now. */
  evaluateAgain(names: readonly string[]): Promise<void>;
  /**
   * Finds the nodes and their transports again: both change. `objects` are the current Nodes; null if they could not be read, and then no
   * node is removed. Removed nodes are forgotten. Resolves to the nodes that were not evaluated yet.
   */
  findAgain(objects: readonly NodeObject[] | null): Promise<readonly string[]>;
  /** Reports why nodes that were not read are missing. */
  giveUp(reason: string): void;
}
