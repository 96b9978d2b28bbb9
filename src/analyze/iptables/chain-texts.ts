import {type Chain, type ChainsByName, type ChainSource, type Rule, ruleAt, type Ruleset} from '../../model/ruleset.ts';
import {onceAsked} from '../../model/once.ts';
import {isHookedChain, isKubeProxyChain} from '../third-party/iptables-rules.ts';

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

/** Rules of a chain, by their indexes. */
interface ChainPart {
  readonly chain: Chain;
  readonly indexes: readonly number[];
}

/** A chain like the first, of the rules of several. They are parsed on demand: a walk needs few of them. */
export function joinChains(like: Chain, parts: readonly ChainPart[]): Chain {
  const ruleCount = parts.reduce((sum, {indexes}) => sum + indexes.length, 0);
  const at = (position: number): Rule | undefined => {
    let offset = position;
    for (const {chain, indexes} of parts) {
      if (offset < indexes.length) return ruleAt(chain, indexes[offset] ?? -1);
      offset -= indexes.length;
    }
    return undefined;
  };
  const linesOf = ({chain, indexes}: ChainPart): readonly string[] => {
    const lines = chain.text().split('\n');
    return indexes.map(index => lines[index] ?? '');
  };
  const rules = onceAsked(() => Array.from({length: ruleCount}, (_, index) => at(index)).filter(rule => rule !== undefined));
  return {...listChain(like, []), ruleCount, rules, ruleAt: at, text: () => parts.flatMap(linesOf).join('\n')};
}

/** A source with other chains. */
export function replaced(source: ChainSource, chain: ChainSource['chain']): ChainSource {
  return {family: source.family, hasTable: table => source.hasTable(table), chain};
}

/** A source in which one chain has other rules. */
export function withRules(source: ChainSource, chain: Chain, rules: readonly Rule[]): ChainSource {
  const other = listChain(chain, rules);
  return replaced(source, (table, name) => (table === chain.table && name === chain.name ? other : source.chain(table, name)));
}

/** The texts of rules, and of those in third-party chains that they lead to. */
export function textsOf(rules: readonly Rule[], source: ChainSource): readonly string[] {
  const seen = new Set<string>();
  const texts: string[] = [];
  const visit = ({table, text, target}: Rule): void => {
    texts.push(text);
    const name = target?.name ?? '';
    if (isHookedChain(name) || isKubeProxyChain(name, table) || seen.has(`${table}/${name}`)) return;
    seen.add(`${table}/${name}`);
    source.chain(table, name)?.rules().forEach(visit);
  };
  rules.forEach(visit);
  return texts;
}

/** A jump that is missing from a base chain, in words; and the jumps that lead to the same chain under other conditions. */
export function missingHook(actual: Ruleset, {table, chain, target}: Rule): {readonly state: string; readonly closest: readonly Rule[]} {
  const name = target?.name ?? '';
  const rules = actual.chain(table, chain)?.rules() ?? [];
  const closest = rules.filter(rule => rule.target?.name === name);
  const state =
    closest.length === 0
      ? `${name} is not reached from ${table}/${chain}`
      : `the jump from ${table}/${chain} to ${name} has other conditions`;
  return {state, closest: closest.slice(0, 3)};
}

/** Null if there is no such chain. Creates no object for the chain. */
export function chainText(chains: ChainsByName, name: string): string | null {
  const place = chains.placeOf(name);
  return place < 0 ? null : chains.textAt(place);
}
