import {parseNftName} from '../../expect/nftables/nft-names.ts';
import type {NftTable} from '../../model/nft-ruleset.ts';
import {staleService} from '../symptoms/stale-service.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import type {NftCase, NftPortDifference} from './nft-case.ts';
import {targetsOf} from './nft-outcome.ts';
import {isEntryMap} from './service-port/nft-rule-roles.ts';
import {pushTo} from '../../model/lists.ts';

/** Service ports that the API does not have and the node still answers for: one symptom each, with all their elements. */
export function staleNftServices(given: NftCase, elements: readonly NftPortDifference[]): readonly Symptom[] {
  const groups = new Map<string, NftPortDifference[]>();
  for (const element of elements) {
    const name = nameOf(element);
    pushTo(groups, name, element);
  }
  const {family} = given.expected.context;
  return [...groups].map(([name, group]) => {
    if (name === '') return unexpectedElements(given, group);
    const served = group.some(element => leadsOn(element, given.actual));
    return staleService({name, served, rules: group.map(({rule}) => rule)}, {family, ports: given.expected.ports});
  });
}

function nameOf({rule, comment}: NftPortDifference): string {
  const named = targetsOf(rule).map(chain => parseNftName(chain)?.servicePortName);
  return named.find(name => name !== undefined) ?? comment ?? '';
}

function leadsOn({name, rule}: NftPortDifference, actual: NftTable): boolean {
  return isEntryMap(name) && targetsOf(rule).some(chain => (actual.chain(chain)?.ruleCount ?? 0) > 0);
}

/** Unattributed elements, at addresses of no Service. */
function unexpectedElements({expected}: NftCase, elements: readonly NftPortDifference[]): Symptom {
  const takes = elements.some(({name}) => isEntryMap(name));
  const count = elements.length === 1 ? 'an element' : `${elements.length} elements`;
  const detail = `${count} of ${elements[0]?.name} that kube-proxy would not have written: ${takes ? 'they intercept packets to addresses of no Service' : 'no packet of a Service matches them'}`;
  return {
    kind: 'unexpected-rule',
    severity: takes ? 'warning' : 'info',
    family: expected.context.family,
    port: null,
    detail,
    expected: [],
    actual: elements.map(({rule}) => rule).slice(0, 6),
  };
}
