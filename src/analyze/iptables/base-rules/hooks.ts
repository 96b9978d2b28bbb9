import type {Ruleset} from '../../../model/ruleset.ts';
import {missingHook} from '../missing-hook.ts';
import type {PortDifference} from '../service-port/port-differences.ts';
import {isNeeded} from './base-rule-effect.ts';
import {baseChainNames, type BaseRuleSymptom, type LeftBaseRules} from './base-rules-case.ts';

/** Jumps that are missing from base chains, but for the one to KUBE-POSTROUTING. */
export function analyzeHooks({actual, differences, changesOutcomes}: LeftBaseRules): readonly BaseRuleSymptom[] {
  const hooks = differences.filter(
    ({kind, chain, rule}) => kind === 'missing' && baseChainNames.has(chain) && rule.target?.name !== 'KUBE-POSTROUTING',
  );
  return hooks.map(hook => {
    const {state, closest} = missingHook(actual, hook.rule);
    const needed = isNeeded(hook.rule, actual, changesOutcomes);
    const severity = needed ? severityOfLoss(hook) : closest.length === 0 ? 'warning' : 'info';
    const isHarmless = severity === 'info' || (hook.table === 'nat' && !needed);
    const loss = hook.table === 'nat' && closest.length > 0 ? unmatched : lossOf(hook, actual);
    // Another chain may lead there.
    const what = isHarmless && closest.length === 0 ? `${hook.table}/${hook.chain} has no jump to ${hook.rule.target?.name}` : state;
    const detail = `${what}: ${isHarmless ? 'no traffic is affected' : loss}`;
    return {symptom: {kind: 'services-chain-not-hooked', severity, detail, expected: [hook.rule], actual: closest}, explained: [hook]};
  });
}

// No more is lost than these: others may be served.
const unmatched = 'packets that do not meet them reach no Service';

/** Without the rules that accept health checks or protect the loopback address, no packet of a Service is lost. */
function severityOfLoss({table, rule: {target}}: PortDifference): 'warning' | 'error' {
  return table === 'filter' && (target?.name === 'KUBE-NODEPORTS' || target?.name === 'KUBE-FIREWALL') ? 'warning' : 'error';
}

function lossOf({table, chain, rule}: PortDifference, actual: Ruleset): string {
  const target = rule.target?.name ?? '';
  if (table === 'nat' && chain === 'PREROUTING') return 'no Service works for pods and for traffic that enters the node';
  if (table === 'nat') return 'no Service works for the node itself';
  if ((actual.chain(table, target)?.ruleCount ?? 0) === 0) return 'nothing is lost as long as it has no rules';
  const losses: Readonly<Record<string, string>> = {
    'KUBE-SERVICES': 'connections to Services without endpoints hang instead of being refused',
    'KUBE-EXTERNAL-SERVICES': 'external addresses and node ports of Services without endpoints are not refused or dropped',
    'KUBE-PROXY-FIREWALL': 'loadBalancerSourceRanges are not enforced',
    'KUBE-NODEPORTS': 'the health-check ports of load balancers are not accepted',
    'KUBE-FORWARD': 'masqueraded and established traffic is not accepted when FORWARD drops',
    'KUBE-FIREWALL': 'packets to 127.0.0.0/8 from other hosts are not dropped',
  };
  return losses[target] ?? 'its rules are never reached';
}
