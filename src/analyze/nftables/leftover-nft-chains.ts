import {parseNftName} from '../../expect/nftables/nft-names.ts';
import type {NftChain} from '../../model/nft-ruleset.ts';
import {orphanChains} from '../symptoms/orphan-chains.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import type {NftCase} from './nft-case.ts';
import {targetsOf} from './nft-outcome.ts';

interface ComparedChains {
  readonly unexpectedChains: readonly NftChain[];
  isAsExpected(place: number): boolean;
}

/** Chains of Service ports and endpoints that are not expected and hold rules: one symptom for those that no rule jumps to. */
export function leftoverNftChains({expected, actual}: NftCase, {unexpectedChains, isAsExpected}: ComparedChains): readonly Symptom[] {
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
  for (let place = 0; place < actual.chains.size; place++) {
    const chain = actual.chains.at(place);
    // The rules that kube-proxy writes for an endpoint lead to no chain of a Service.
    if (chain === undefined || names.has(chain.name) || (isAsExpected(place) && chain.name.startsWith('endpoint-'))) continue;
    targetsOfChain(chain).forEach(reach);
  }
  return orphanChains(
    leftovers.filter(({name}) => !reached.has(name)),
    expected.context.family,
  );
}

function targetsOfChain(chain: NftChain): readonly string[] {
  return targetsOf({table: chain.table, chain: chain.name, line: 0, text: chain.text()});
}
