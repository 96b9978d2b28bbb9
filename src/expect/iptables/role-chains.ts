import type {Chain, Ruleset} from '../../model/ruleset.ts';
import {type ChainRole, chainName, parseChainName} from './chain-names.ts';

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
