import type {Rule, Ruleset} from '../../../model/ruleset.ts';
import {isNeeded} from './base-rule-effect.ts';
import type {BaseRuleSymptom, LeftBaseRules} from './base-rules-case.ts';
import {passChain} from './pass-chain.ts';

/** KUBE-MARK-MASQ must set the mark, and KUBE-POSTROUTING must masquerade marked packets, and no others. */
export function analyzeMasquerade(given: LeftBaseRules): readonly BaseRuleSymptom[] {
  const {expected, actual, differences, changesOutcomes} = given;
  const own = differences.filter(
    ({chain, rule}) => chain === 'KUBE-POSTROUTING' || chain === 'KUBE-MARK-MASQ' || rule.target?.name === 'KUBE-POSTROUTING',
  );
  if (own.length === 0) return [];
  const broken: string[] = [];
  const hook = own.find(({kind, rule}) => kind === 'missing' && rule.target?.name === 'KUBE-POSTROUTING')?.rule;
  if (hook !== undefined && (isNeeded(hook, actual, changesOutcomes) || !jumpsTo(actual, hook)))
    broken.push('nothing jumps to KUBE-POSTROUTING from nat/POSTROUTING');
  // Any mark works if both chains use the same one.
  const set = passChain(given, 'nat', 'KUBE-MARK-MASQ', 0);
  const mark = set?.mark || Number(expected.context.mark);
  if (set?.mark === 0) broken.push(`KUBE-MARK-MASQ does not set the mark ${expected.context.mark}`);
  const honored = passChain(given, 'nat', 'KUBE-POSTROUTING', mark);
  if (honored !== null && !honored.masquerade) broken.push('KUBE-POSTROUTING does not masquerade marked packets');
  const details = broken.length > 0 ? [`${broken.join('; ')}: ${unmasqueraded}`] : [];
  if (passChain(given, 'nat', 'KUBE-POSTROUTING', 0)?.masquerade) details.push(alwaysMasqueraded);
  const rulesOf = (chain: string): readonly Rule[] => actual.chain('nat', chain)?.rules() ?? [];
  const evidence = {
    expected: own.filter(({kind}) => kind === 'missing').map(({rule}) => rule),
    actual: [...rulesOf('KUBE-POSTROUTING'), ...rulesOf('KUBE-MARK-MASQ')].slice(0, 6),
  };
  const base = {kind: 'postrouting-broken', ...evidence} as const;
  if (details.length > 0) return [{symptom: {...base, detail: details.join('; ')}, explained: own}];
  const added = ['KUBE-MARK-MASQ', 'KUBE-POSTROUTING'].filter(name => holdsHarmfulRules(given, name));
  if (added.length > 0) {
    const detail = `rules of ${added.join(' and ')} were not written by kube-proxy, and traffic is affected`;
    return [{symptom: {...base, detail}, explained: own}];
  }
  if (!expected.context.clearsMark || honored === null || !honored.masquerade || (honored.mark & mark) === 0) return [];
  const detail = 'KUBE-POSTROUTING masquerades without clearing the mark: packets in tunnels are masqueraded twice';
  return [{symptom: {...base, severity: 'warning', detail}, explained: own}];
}

const unmasqueraded = 'clients outside the cluster may get no reply, and a pod that reaches itself through a Service gets none';

const alwaysMasqueraded =
  "KUBE-POSTROUTING masquerades packets that are not marked: endpoints see the address of the node, not the client's";

/** Whether a chain that lacks none of its rules has others, which change the outcomes of packets: those to some addresses, for instance. */
function holdsHarmfulRules({actual, differences, changesOutcomes}: LeftBaseRules, name: string): boolean {
  const own = differences.filter(({table, chain}) => table === 'nat' && chain === name);
  const chain = actual.chain('nat', name);
  if (own.length === 0 || chain === undefined || own.some(({kind}) => kind !== 'extra')) return false;
  const lines = new Set(own.map(({rule}) => rule.line));
  return changesOutcomes(
    chain,
    chain.rules().filter(({line}) => !lines.has(line)),
  );
}

function jumpsTo(actual: Ruleset, {table, chain, target}: Rule): boolean {
  const rules = actual.chain(table, chain)?.rules() ?? [];
  return rules.some(rule => rule.target?.name === target?.name);
}
