import type {CategorizedEndpoints} from '../../model/endpoint.ts';
import type {ClusterView} from '../cluster/cluster-view.ts';
import {isKept, isSameEndpoints, keptBySettings} from '../kept-rules.ts';
import type {NodeContext} from '../node-context.ts';
import type {NftPort} from './nft-port.ts';

/** The rules of a Service port's chains by name, in JSON; null if they are not spelled. */
export type JsonChains = ReadonlyMap<string, readonly string[]> | null;

/**
 * A function that renders the chains of a Service port on one node. Most are the same on every node: from the second node of a run on, they
 * are kept, as in iptables mode (`portRules`), and the next node with the same settings and endpoints gets them without rendering.
 */
export function keptJsonChains(view: ClusterView, context: NodeContext): (item: NftPort, render: () => JsonChains) => JsonChains {
  const kept = keptOf(view, context);
  if (kept === null) return (_, render) => render();
  return (item, render) => {
    if (!isKept(item)) return render();
    const known = kept.get(item.port);
    if (known !== undefined && isSameEndpoints(known.endpoints, item.endpoints)) return known.chains;
    const chains = render();
    kept.set(item.port, {endpoints: item.endpoints, chains});
    return chains;
  };
}

const keptOf = keptBySettings<{readonly endpoints: CategorizedEndpoints; readonly chains: JsonChains}>();
