import type {NarrowTo} from '../narrow-to.ts';

/**
 * An `nft -j list ruleset` without what kube-proxy wrote for other Services than these; null where the text is not whole. `addresses` are
 * those of other Services alone.
 */
export function narrowNftJson(text: string, to: NarrowTo, addresses: ReadonlySet<string>): string | null {
  const list = objectsIn(text);
  if (list === null) return null;
  const kept = list.flatMap(object => {
    const {chain, rule, set, map} = object;
    if (isOfOthers(chain?.name ?? rule?.chain ?? set?.name ?? map?.name ?? '', to)) return [];
    const isOwn = (element: unknown): boolean => !isElementOfOthers(element, to, addresses);
    if (set?.elem !== undefined) return [{...object, set: {...set, elem: set.elem.filter(isOwn)}}];
    if (map?.elem !== undefined) return [{...object, map: {...map, elem: map.elem.filter(isOwn)}}];
    return [object];
  });
  return JSON.stringify({nftables: kept});
}

interface NftContainer {
  readonly name: string;
  readonly elem?: readonly unknown[];
}

interface NftObject {
  readonly chain?: {readonly name: string};
  readonly rule?: {readonly chain: string};
  readonly set?: NftContainer;
  readonly map?: NftContainer;
}

function objectsIn(text: string): readonly NftObject[] | null {
  try {
    const {nftables} = JSON.parse(text) as {readonly nftables?: readonly NftObject[]};
    return Array.isArray(nftables) ? nftables : null;
  } catch (error) {
    // A truncated dump is read as far as it goes, and not narrowed.
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** By the name of a chain or set. */
function isOfOthers(name: string, {services}: NarrowTo): boolean {
  const [, service] = /^(?:service|local|external|firewall|endpoint|affinity)-[A-Z0-9]{8}-([^/]+\/[^/]+)\//.exec(name) ?? [];
  return service !== undefined && !services.has(service);
}

function isElementOfOthers(element: unknown, to: NarrowTo, addresses: ReadonlySet<string>): boolean {
  if (typeof element === 'string') return addresses.has(element);
  const text = JSON.stringify(element);
  const [, chain] = /"target":"([^"]+)"/.exec(text) ?? [];
  if (chain?.includes('/')) return isOfOthers(chain, to);
  const [, service] = /"comment":"([^"/]+\/[^":]+)/.exec(text) ?? [];
  return service !== undefined && !to.services.has(service);
}
