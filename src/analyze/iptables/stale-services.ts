import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {ServiceName} from '../../model/finding.ts';
import type {Rule, Ruleset} from '../../model/ruleset.ts';
import {servicePortName} from './entry-rule.ts';
import type {IptablesServiceView} from './iptables-service-view.ts';
import {analyzeUnexpectedRules} from './unexpected-rules.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {pushTo} from '../../model/lists.ts';

export interface StaleInput {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  readonly view: IptablesServiceView;
  /** Rules of shared Service chains that belong to no expected Service port. */
  readonly rules: readonly Rule[];
}

/** Service ports that the API does not have and the node still answers for: one symptom each, with all their rules. */
export function staleServices({expected, actual, view, rules}: StaleInput): readonly Symptom[] {
  const groups = new Map<string, Rule[]>();
  for (const rule of rules) {
    const key = servicePortName(rule) ?? parseChainName(rule.target?.name ?? '')?.hash ?? '';
    pushTo(groups, key, rule);
  }
  return [...groups].map(([name, group]) =>
    name === '' ? analyzeUnexpectedRules({expected, view, rules: group}) : staleService(expected, actual, name, group),
  );
}

function staleService(expected: ExpectedRuleset, actual: Ruleset, name: string, rules: readonly Rule[]): Symptom {
  const served = rules.some(rule => rule.table === 'nat' && (actual.chain('nat', rule.target?.name ?? '')?.ruleCount ?? 0) > 0);
  const service = serviceOf(name);
  const live = service !== null && expected.ports.some(({port}) => port.namespace === service.namespace && port.service === service.name);
  const state = live ? 'no such port of the Service is in the API (any more)' : 'the API has no such Service (any more)';
  const detail = served ? `still answers for ${name}: ${state}` : `still refuses packets for ${name}: ${state}`;
  const base = {kind: 'stale-service', family: expected.family, port: null, detail, expected: [], actual: rules.slice(0, 6)} as const;
  return {...base, severity: served ? 'error' : 'info', ...(service === null ? {} : {service})};
}

function serviceOf(name: string): ServiceName | null {
  const found = /^([^/]+)\/([^:]+)/.exec(name);
  return found === null ? null : {namespace: found[1] ?? '', name: found[2] ?? ''};
}
