import type {NftPortDifference} from '../nft-case.ts';

/** A map that leads into the chains of Services. */
export function isEntryMap(map: string): boolean {
  return map === 'service-ips' || map === 'service-nodeports';
}

/** An element that refuses packets. */
export function isRefusal({name}: NftPortDifference): boolean {
  return name === 'no-endpoint-services' || name === 'no-endpoint-nodeports';
}

const endpointChecks: ReadonlySet<string> = new Set(['service-endpoints-check', 'nodeport-endpoints-check', 'endpoints-check']);

/** A chain that checks the packets that no Service matches. */
export function isCheck(chain: string): boolean {
  return endpointChecks.has(chain) || chain === 'cluster-ips-check' || chain === 'reject-chain';
}

/** A chain that drops packets of Services whose policy leaves them no endpoint on the node. */
export function isEndpointCheck(chain: string): boolean {
  return endpointChecks.has(chain);
}
