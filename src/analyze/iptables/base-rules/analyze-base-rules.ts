import {canaryChain, canaryTables} from '../../../expect/iptables/base-rules.ts';
import {hasCanary} from '../../../expect/iptables/iptables-versions.ts';
import type {Rule} from '../../../model/ruleset.ts';
import type {PortDifference} from '../service-port/port-differences.ts';
import {residualGroups} from '../../symptoms/residual-differences.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import {outcomesWithout} from './base-rule-effect.ts';
import {baseChainNames, type BaseRulesCase, type BaseRuleSymptom, isKubeletsOwn} from './base-rules-case.ts';
import {analyzeFilterChains, analyzeForward} from './filter-chains.ts';
import {analyzeHooks} from './hooks.ts';
import {analyzeMarkDrop} from './mark-drop.ts';
import {analyzeMasquerade} from './masquerade.ts';
import {analyzeNodePortJump} from './node-port-jump.ts';

/** What is wrong with the base rules: hooks, masquerade, forwarding, the node-port jump, canaries. */
export function analyzeBaseRules(given: BaseRulesCase): readonly Symptom[] {
  let left = given.differences.filter(isOfBaseRules);
  const unexpected = left.flatMap(({kind, rule}) => (kind === 'extra' ? [rule] : []));
  const changesOutcomes = outcomesWithout({...given, unexpected});
  const symptoms: BaseRuleSymptom['symptom'][] = [];
  for (const analyze of analyses) {
    for (const {symptom, explained} of analyze({...given, differences: left, changesOutcomes})) {
      const done = new Set(explained);
      symptoms.push(symptom);
      left = left.filter(difference => !done.has(difference));
    }
  }
  return [...symptoms, ...residualSymptoms(left), ...missingCanaries(given)].map(symptom => ({
    ...symptom,
    family: given.expected.family,
    port: null,
  }));
}

/** In this order: each is given the differences that those before it do not explain. */
const analyses = [analyzeHooks, analyzeMasquerade, analyzeNodePortJump, analyzeForward, analyzeMarkDrop, analyzeFilterChains];

const baseRuleChainNames = new Set(['KUBE-POSTROUTING', 'KUBE-MARK-MASQ', 'KUBE-FORWARD', 'KUBE-FIREWALL']);

/** Extra rules of base chains are third-party rules, which are evaluated by walking packets through them. */
function isOfBaseRules({kind, chain, rule}: PortDifference): boolean {
  if (kind === 'extra' && baseChainNames.has(chain)) return false;
  if (isKubeletsOwn(rule)) return false;
  // The second of two equal rules has no effect. It is reported here if no Service port owns it.
  if (kind === 'duplicate') return true;
  return baseRuleChainNames.has(chain) || baseChainNames.has(chain) || rule.target?.name === 'KUBE-NODEPORTS';
}

function residualSymptoms(left: readonly PortDifference[]): readonly BaseRuleSymptom['symptom'][] {
  return residualGroups<Rule, PortDifference>(left).map(({kind, symptom, evidence, differences}) => {
    const [first] = differences;
    const detail =
      differences.length === 1
        ? `a rule of ${first?.table}/${first?.chain} ${states[kind]}`
        : `${differences.length} base rules ${states[kind].replace('is', 'are')}`;
    return {kind: symptom, severity: 'info', detail, ...evidence};
  });
}

const states: Readonly<Record<PortDifference['kind'], string>> = {
  missing: 'is missing',
  extra: 'is not one that kube-proxy would have written',
  duplicate: 'is there twice',
  reordered: 'stands in another place',
};

/** Tables that are in the dump and lack the canary. A table that was not dumped is left out. */
function missingCanaries({expected, actual}: BaseRulesCase): readonly BaseRuleSymptom['symptom'][] {
  if (!hasCanary(expected.context.version)) return [];
  const tables = canaryTables.filter(name => {
    const table = actual.tables.get(name);
    return table?.complete === true && !table.chains.has(canaryChain);
  });
  if (tables.length === 0) return [];
  const detail = `${canaryChain} is missing from ${tables.join(', ')}: something flushed the table, and kube-proxy has not noticed yet`;
  return [{kind: 'canary-missing', detail, expected: [], actual: []}];
}
