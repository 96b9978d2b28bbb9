import {type Chain, type ChainSource, type Rule, ruleAt} from '../../model/ruleset.ts';
import {onceAsked} from '../once-asked.ts';

/** A chain with these rules, and all else as in another. */
export function listChain(like: Pick<Chain, 'table' | 'name' | 'policy' | 'complete'>, rules: readonly Rule[]): Chain {
  return {
    table: like.table,
    name: like.name,
    policy: like.policy,
    complete: like.complete,
    ruleCount: rules.length,
    rules: () => rules,
    text: () => rules.map(rule => rule.text).join('\n'),
  };
}

/** The rules of one chain with these indexes, then those of another. They are parsed on demand: a walk needs few of them. */
export function joinChains(first: Chain, firstRules: readonly number[], second: Chain, secondRules: readonly number[]): Chain {
  const ruleCount = firstRules.length + secondRules.length;
  const at = (index: number): Rule | undefined =>
    index < firstRules.length ? ruleAt(first, firstRules[index] ?? -1) : ruleAt(second, secondRules[index - firstRules.length] ?? -1);
  const linesOf = (chain: Chain, rules: readonly number[]): readonly string[] => {
    const lines = chain.text().split('\n');
    return rules.map(index => lines[index] ?? '');
  };
  const rules = onceAsked(() => Array.from({length: ruleCount}, (_, index) => at(index)).filter(rule => rule !== undefined));
  return {
    ...{table: first.table, name: first.name, policy: first.policy, complete: first.complete, ruleCount, rules, ruleAt: at},
    text: () => [...linesOf(first, firstRules), ...linesOf(second, secondRules)].join('\n'),
  };
}

/** A source in which one chain is another, or removed. */
export function withChain(source: ChainSource, chain: Pick<Chain, 'table' | 'name'>, other: Chain | undefined): ChainSource {
  return {
    family: source.family,
    hasTable: table => source.hasTable(table),
    chain: (table, name) => (table === chain.table && name === chain.name ? other : source.chain(table, name)),
  };
}
