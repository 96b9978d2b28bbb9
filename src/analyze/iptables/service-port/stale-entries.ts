import type {Rule} from '../../../model/ruleset.ts';
import {entriesOf} from '../../outcomes/entries.ts';
import {staleEntry} from '../../symptoms/stale-service.ts';
import type {SymptomList} from '../../symptoms/symptom-list.ts';
import {entryOfRule, isEntryRule} from '../entry-rule.ts';
import type {PortCase, PortDifferences} from './port-differences.ts';
import {changesOutcomes, otherClaimant} from './rule-effect.ts';

/** Rules that lead into the Service port's chains from an address or a port that is none of its entries (any more). */
export function findStaleEntries(given: PortCase, own: PortDifferences, symptoms: SymptomList<Rule>): void {
  const entries = entriesOf(given.item.port, given.expected.context);
  for (const {rule, table} of own.of('extra')) {
    const shared = rule.chain === 'KUBE-SERVICES' || rule.chain === 'KUBE-NODEPORTS';
    const leadsHere = table === 'nat' && shared && own.isOwn(rule.target?.name ?? '');
    if (leadsHere && !entries.some(entry => isEntryRule(rule, entry))) findStaleEntry(given, rule, symptoms);
  }
}

function findStaleEntry({item, expected, view}: PortCase, rule: Rule, symptoms: SymptomList<Rule>): void {
  const where = entryOfRule(rule);
  const owner = otherClaimant(rule, item, expected);
  const answers = owner === undefined && changesOutcomes(rule, {expected, actual: view});
  if (answers) return symptoms.say(staleEntry(where, {answers, rule}), `stale entry ${where}`);
  const whose =
    owner === undefined ? 'none of its entries in the API (any more): no traffic is affected' : `${owner.port.servicePortName}'s`;
  const detail = `a rule leads to it from ${where}, which is ${whose}`;
  symptoms.say({kind: 'stale-service', severity: 'info', detail, expected: [], actual: [rule]}, `stale entry ${where}`);
}
