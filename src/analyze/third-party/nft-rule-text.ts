import type {NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import {constantsIn, type RuleConstants} from '../outcomes/rule-constants.ts';

/** The addresses, ports and networks in tables of other programs. Null when no other table of the family is on the path of packets. */
export function thirdPartyConstants(ruleset: NftRuleset, own: NftTable): RuleConstants | null {
  const tables = [...ruleset.tables.values()].filter(
    ({id, family, baseChains, dormant}) =>
      id !== own.id && (family === own.family || family === 'inet') && baseChains.length > 0 && !dormant,
  );
  return tables.length === 0 ? null : constantsIn(tables.flatMap(textsIn));
}

function textsIn({chains, sets}: NftTable): readonly string[] {
  const rules = [...chains.values()].flatMap(chain => chain.rules().map(({body}) => body));
  return [...rules, ...[...sets.values()].flatMap(({elements}) => [...elements.values()].map(({key}) => key))];
}
