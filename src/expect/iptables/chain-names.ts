import type {Chain, Ruleset} from '../../model/ruleset.ts';
import {hash16} from '../name-hash.ts';

/** The chains of one Service port have 16 characters in common. Follows `portProtoHash`: sha256 in base32, cut to 16. */
export function servicePortHash(servicePortName: string, protocol: string): string {
  return hash16(servicePortName + protocol.toLowerCase());
}

/** The name of an endpoint's chain. Follows `servicePortEndpointChainName`. */
export function endpointChainName(servicePortName: string, protocol: string, hostPort: string): string {
  return `KUBE-SEP-${hash16(servicePortName + protocol.toLowerCase() + hostPort)}`;
}

/** What the prefix of a kube-proxy chain means. */
type ChainRole = 'SVC' | 'SVL' | 'EXT' | 'FW' | 'XLB' | 'SEP';

export function chainName(role: ChainRole, hashText: string): string {
  return `KUBE-${role}-${hashText}`;
}

/** Reads the name of a chain that belongs to one Service port or endpoint; null for every other chain. */
export function parseChainName(name: string): {readonly role: ChainRole; readonly hash: string} | null {
  const found = /^KUBE-(SVC|SVL|EXT|FW|XLB|SEP)-([A-Z2-7]{16})$/.exec(name);
  return found === null ? null : {role: found[1] as ChainRole, hash: found[2] ?? ''};
}

/** The chains of Service ports and endpoints that have one of these roles, in the order of the dump. */
export function* chainsOfRoles({tables}: Ruleset, roles: readonly ChainRole[]): IterableIterator<Chain> {
  const prefixes = roles.map(role => chainName(role, ''));
  for (const chain of tables.get('nat')?.chains.startingWith(...prefixes) ?? []) if (parseChainName(chain.name) !== null) yield chain;
}

/** The chains with the masquerade rules for cluster IPs: those of the ports, and up to 1.23 the shared one. */
export function* masqueradingChains(ruleset: Ruleset): IterableIterator<Chain> {
  yield* chainsOfRoles(ruleset, ['SVC', 'SVL']);
  const shared = ruleset.chain('nat', 'KUBE-SERVICES');
  if (shared !== undefined) yield shared;
}
