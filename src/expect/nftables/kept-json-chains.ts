import type {CategorizedEndpoints} from '../../model/endpoint.ts';
import type {NftJsonSink} from '../../model/nft-ruleset.ts';
import type {ClusterView} from '../cluster/cluster-view.ts';
import {isKept, isSameEndpoints, keptBySettings} from '../kept-rules.ts';
import type {NodeContext} from '../node-context.ts';
import type {NftPort} from './nft-port.ts';

type WriteChains = (sink: NftJsonSink) => void;

/** How the chains of a Service port on one node come to be written: by `write`, or as they were kept. */
export type KeepChains = (item: NftPort, write: WriteChains) => WriteChains;

/**
 * Most chains of Service ports are the same on every node: from the second node of a run on, they are kept, as in iptables mode
 * (`portRules`), and the next node with the same settings and endpoints gets them without writing them again.
 */
export function keptJsonChains(view: ClusterView, context: NodeContext): KeepChains {
  const kept = keptOf(view, context);
  if (kept === null) return (_, write) => write;
  return (item, write) => {
    if (!isKept(item)) return write;
    const known = kept.get(item.port);
    if (known !== undefined && isSameEndpoints(known.endpoints, item.endpoints)) return known.chains.writeTo;
    const chains = new RecordedChains();
    write(chains);
    kept.set(item.port, {endpoints: item.endpoints, chains});
    return chains.writeTo;
  };
}

const keptOf = keptBySettings<{readonly endpoints: CategorizedEndpoints; readonly chains: RecordedChains}>();

/** Chains as they were written, with each rule in one piece. */
export class RecordedChains implements NftJsonSink {
  readonly chains = new Map<string, (readonly [rule: string])[]>();
  #rules: (readonly [rule: string])[] = [];

  chain(name: string): void {
    this.#rules = [];
    this.chains.set(name, this.#rules);
  }

  rule(pieces: readonly string[], count: number): void {
    this.#rules.push([pieces.slice(0, count).join('')]);
  }

  readonly writeTo = (sink: NftJsonSink): void => {
    for (const [name, rules] of this.chains) {
      sink.chain(name);
      for (const rule of rules) sink.rule(rule, 1);
    }
  };
}
