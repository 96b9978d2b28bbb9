import {parseNftName} from '../../../expect/nftables/nft-names.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import {staleEntry} from '../../symptoms/stale-service.ts';
import type {SymptomList} from '../../symptoms/symptom-list.ts';
import type {NftPortCase} from '../nft-case.ts';
import type {NftPortDifference} from '../nft-case.ts';
import {isRefusal, isEntryMap} from './nft-rule-roles.ts';
import {targetsOf} from '../nft-outcome.ts';

/** Elements that lead into the Service port's chains, or refuse for it, at an address or port that is none of its entries (any more). */
export function findStaleNftEntries({item, differences, expected, view}: NftPortCase, symptoms: SymptomList<RuleText>): void {
  const own = new Set(expected.objectsOf(item).elements.map(({key}) => key));
  for (const difference of differences) {
    const {kind, what, name, rule, key = ''} = difference;
    if (kind !== 'extra' || what !== 'element' || own.has(key) || !(isEntryMap(name) || isRefusal(difference))) continue;
    const answers =
      isEntryMap(name) &&
      isOwnTarget(difference, item.names.base) &&
      targetsOf(rule).some(chain => (view.chain(chain)?.ruleCount ?? 0) > 0);
    const where = key.replaceAll(' . ', ' ');
    symptoms.say(staleEntry(where, {answers, rule}), `stale entry ${where}`);
  }
}

function isOwnTarget({rule}: NftPortDifference, base: string): boolean {
  return targetsOf(rule).some(chain => parseNftName(chain)?.base === base);
}
