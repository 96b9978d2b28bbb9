import {parseNftName} from '../../expect/nftables/nft-names.ts';
import type {NftChain} from '../../model/nft-ruleset.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import type {NftCase} from './nft-case.ts';
import {targetsOf} from './nft-outcome.ts';
import {plural} from '../../model/text/plural.ts';

/** Chains of Service ports and endpoints that are not expected and hold rules: one symptom for those that no rule jumps to. */
export function leftoverNftChains({expected, actual}: NftCase, unexpectedChains: readonly NftChain[]): readonly Symptom[] {
  const leftovers = unexpectedChains.filter(({name}) => parseNftName(name) !== null);
  if (leftovers.length === 0) return [];
  const names = new Map(leftovers.map(chain => [chain.name, chain]));
  const reached = new Set<string>();
  const reach = (target: string): void => {
    const chain = names.get(target);
    if (chain === undefined || reached.has(target)) return;
    reached.add(target);
    targetsOfChain(chain).forEach(reach);
  };
  for (const {elements} of actual.sets.values())
    for (const {value} of elements.values()) reach(value?.replace(/^(?:goto|jump) /, '') ?? '');
  for (const chain of actual.chains.values()) if (!names.has(chain.name)) targetsOfChain(chain).forEach(reach);
  const orphans = leftovers.filter(({name}) => !reached.has(name));
  if (orphans.length === 0) return [];
  const detail = `${plural(orphans.length, 'chain')} of kube-proxy that no rule jumps to (such as ${orphans[0]?.name}): no traffic is affected, and the next full sync removes them`;
  const rules = orphans.slice(0, 3).flatMap(chain => chain.rules().slice(0, 1));
  const chains = orphans.map(({name}) => name);
  return [{kind: 'orphan-chain', family: expected.context.family, port: null, detail, expected: [], actual: rules, chains}];
}

function targetsOfChain(chain: NftChain): readonly string[] {
  return targetsOf({table: chain.table, chain: chain.name, line: 0, text: chain.text()});
}
