import type {Family} from '../../model/family.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {plural} from '../../model/text/plural.ts';
import type {Symptom} from './symptom.ts';

/** A chain of iptables or nftables. */
interface AnyChain {
  readonly name: string;
  rules(): readonly RuleText[];
}

/** One symptom for all of kube-proxy's chains that no rule jumps to; none if there are no such chains. */
export function orphanChains(orphans: readonly AnyChain[], family: Family): readonly Symptom[] {
  if (orphans.length === 0) return [];
  const detail = `${plural(orphans.length, 'chain')} of kube-proxy that no rule jumps to (such as ${orphans[0]?.name}): no traffic is affected, and the next full sync removes them`;
  const rules = orphans.slice(0, 3).flatMap(chain => chain.rules().slice(0, 1));
  const chains = orphans.map(({name}) => name);
  return [{kind: 'orphan-chain', family, port: null, detail, expected: [], actual: rules, chains}];
}
