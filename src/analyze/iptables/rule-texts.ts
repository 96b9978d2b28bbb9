import type {ChainSource, Rule} from '../../model/ruleset.ts';
import {isHookedChain, isKubeProxyChain} from '../third-party/iptables-rules.ts';

/** The texts of rules, and of those in third-party chains that they lead to. */
export function textsOf(rules: readonly Rule[], source: ChainSource): readonly string[] {
  const seen = new Set<string>();
  const texts: string[] = [];
  const visit = ({table, text, target}: Rule): void => {
    texts.push(text);
    const name = target?.name ?? '';
    if (isHookedChain(name) || isKubeProxyChain(name) || seen.has(`${table}/${name}`)) return;
    seen.add(`${table}/${name}`);
    source.chain(table, name)?.rules().forEach(visit);
  };
  rules.forEach(visit);
  return texts;
}
