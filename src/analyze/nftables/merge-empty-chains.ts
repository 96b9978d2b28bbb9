import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import {mayKeepEmptyChains} from '../../expect/nftables/nft-versions.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {Symptom} from '../symptoms/symptom.ts';

/** From this number of Service ports on, all have one cause. */
const minPorts = 5;

/**
 * If many Services lead to empty chains of endpoints, there is one cause: a kube-proxy that took over the chains, already flushed,
 * from its predecessor.
 */
export function mergeEmptyChains({context, ports}: ExpectedTable, symptoms: readonly Symptom<RuleText>[]): readonly Symptom<RuleText>[] {
  const broken = symptoms.filter(({kind, endpoint}) => kind === 'broken-jump' && endpoint !== undefined);
  const concerned = new Set(broken.map(({port}) => port));
  const many = concerned.size >= minPorts || (concerned.size === ports.length && ports.length > 1);
  if (!many || !mayKeepEmptyChains(context.version)) return symptoms;
  const names = [...concerned].slice(0, 3).map(port => port?.servicePortName ?? '');
  const detail = `${broken.length} chains of endpoints are empty, though rules lead to them, and connections sent there are not translated: ${concerned.size} of ${ports.length} Service ports are broken, such as ${names.join(', ')}. kube-proxy ${context.version.text} may leave them so for an hour after it took over from another one`;
  const whole: Symptom<RuleText> = {
    kind: 'broken-jump',
    family: context.family,
    port: null,
    detail,
    expected: broken.flatMap(({expected}) => expected).slice(0, 2),
    actual: broken.flatMap(({actual}) => actual).slice(0, 2),
  };
  return [whole, ...symptoms.filter(symptom => !broken.includes(symptom))];
}
