import type {CategorizedEndpoints} from '../../model/endpoint.ts';
import type {Family} from '../../model/family.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {ClusterView} from '../cluster/cluster-view.ts';
import {isKept, isSameList, settingsOf} from '../iptables/port-rules.ts';
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
    if (known !== undefined && isSame(known.endpoints, item.endpoints)) return known.chains;
    const chains = render();
    kept.set(item.port, {endpoints: item.endpoints, chains});
    return chains;
  };
}

type Kept = Map<ServicePort, {readonly endpoints: CategorizedEndpoints; readonly chains: JsonChains}>;

/** With the last settings of each family only. */
interface KeptOfView {
  readonly firstNode: string;
  readonly byFamily: Map<Family, {readonly settings: string; readonly chains: Kept}>;
}

const keptByView = new WeakMap<ClusterView, KeptOfView>();

/** Null for the first node, which may be the only one. */
function keptOf(view: ClusterView, context: NodeContext): Kept | null {
  const ofView = keptByView.get(view) ?? {firstNode: context.facts.name, byFamily: new Map()};
  keptByView.set(view, ofView);
  if (ofView.firstNode === context.facts.name) return null;
  const settings = settingsOf(context);
  const known = ofView.byFamily.get(context.family);
  if (known?.settings === settings) return known.chains;
  const chains: Kept = new Map();
  ofView.byFamily.set(context.family, {settings, chains});
  return chains;
}

function isSame(a: CategorizedEndpoints, b: CategorizedEndpoints): boolean {
  const isSameUse = a.hasAny === b.hasAny && isSameList(a.cluster, b.cluster);
  return isSameUse && isSameList(a.local, b.local) && isSameList(a.reachable, b.reachable);
}
