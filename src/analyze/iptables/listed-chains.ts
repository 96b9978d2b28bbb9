import type {Chain, ChainSource, Rule} from '../../model/ruleset.ts';

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

/** A source in which one chain is another, or removed. */
export function withChain(source: ChainSource, chain: Pick<Chain, 'table' | 'name'>, other: Chain | undefined): ChainSource {
  return {
    family: source.family,
    hasTable: table => source.hasTable(table),
    chain: (table, name) => (table === chain.table && name === chain.name ? other : source.chain(table, name)),
  };
}
