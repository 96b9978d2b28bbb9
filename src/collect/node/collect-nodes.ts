import {type CollectOptions, collectNode} from './collect-node.ts';
import type {CollectedNode} from './collected-node.ts';
import type {NodeInfo, Transport} from './transport.ts';

interface CollectNodesOptions extends CollectOptions {
  /** How many nodes may be in progress at a time: being read, or read and not consumed yet. */
  readonly concurrency?: number;
  /** Called whenever a number changes. */
  readonly onProgress?: (progress: CollectProgress) => void;
}

export interface CollectProgress {
  readonly total: number;
  /** Nodes that were read, including failed ones. */
  readonly done: number;
  /** Nodes that were read in part or not at all. */
  readonly failed: number;
  readonly inProgress: number;
}

/**
 * Reads many nodes and yields each when it is done, in no particular order. A node is in progress until the next one is requested, so at
 * most `concurrency` dumps are in memory if the caller drops each after use. Rejects with the signal's reason when it is aborted. When it
 * ends, also by `break`, all shells have been disposed of.
 */
export async function* collectNodes(
  nodes: readonly NodeInfo[],
  transport: Transport,
  options: CollectNodesOptions,
): AsyncGenerator<CollectedNode, void, void> {
  const {concurrency = 16, onProgress} = options;
  const stop = new AbortController();
  const signal = AbortSignal.any([options.signal, stop.signal]);
  const waiting = nodes.values();
  const inProgress = new Map<NodeInfo, Promise<readonly [NodeInfo, CollectedNode]>>();
  let done = 0;
  let failed = 0;
  const report = () => onProgress?.({total: nodes.length, done, failed, inProgress: inProgress.size});
  const fill = () => {
    while (inProgress.size < concurrency && !signal.aborted) {
      const {value: node} = waiting.next();
      if (node === undefined) return;
      inProgress.set(
        node,
        collectNode(node, transport, {...options, signal}).then(collected => [node, collected]),
      );
      report();
    }
  };
  try {
    for (fill(); inProgress.size > 0; fill()) {
      const [node, collected] = await Promise.race(inProgress.values());
      options.signal.throwIfAborted();
      inProgress.delete(node);
      done++;
      if (collected.status !== 'read') failed++;
      report();
      yield collected;
    }
    options.signal.throwIfAborted();
  } finally {
    stop.abort(new Error('stopped'));
    await Promise.all(inProgress.values());
  }
}
