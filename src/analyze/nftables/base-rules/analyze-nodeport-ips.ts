import type {Severity} from '../../../model/finding.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import type {Symptom} from '../../symptoms/symptom.ts';
import type {NftBaseRulesCase} from '../nft-case.ts';

/**
 * The addresses on which node ports answer. kube-proxy updates them only in a full sync: a node's other addresses may change in between.
 */
export function analyzeNodePortIPs({differences, expected}: NftBaseRulesCase): readonly Symptom[] {
  const {facts, family, nodePortCIDRs} = expected.context;
  const own = differences.filter(({name, what}) => name === 'nodeport-ips' && what === 'element');
  if (nodePortCIDRs === null || own.length === 0) return [];
  const symptoms: Symptom[] = [];
  const say = (
    severity: Severity,
    detail: string,
    evidence: {readonly expected: readonly RuleText[]; readonly actual: readonly RuleText[]},
  ): void => {
    symptoms.push({kind: 'node-ports-unreachable', severity, family, port: null, detail, ...evidence});
  };
  const missing = own.filter(({kind}) => kind === 'missing');
  if (missing.length > 0) {
    const rules = missing.map(({rule}) => rule);
    const names = missing.map(({key}) => key).join(', ');
    const isOwn = missing.some(({key = ''}) => facts.hostIPs.includes(key));
    const why = isOwn ? '' : ': they may have come after the last full sync of its kube-proxy';
    say(isOwn ? 'error' : 'info', `node ports do not answer on ${names}, which is not in nodeport-ips${why}`, {
      expected: rules,
      actual: [],
    });
  }
  // An address that the node no longer has is harmless.
  const extra = own.filter(({kind, key = ''}) => kind === 'extra' && facts.addresses.includes(key));
  const detail = 'node ports answer on addresses that nodePortAddresses does not name';
  if (extra.length > 0) say(facts.allAddresses ? 'warning' : 'info', detail, {expected: [], actual: extra.map(({rule}) => rule)});
  return symptoms;
}
