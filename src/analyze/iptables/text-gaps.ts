import {type ExpectedRuleset, isBaseChain} from '../../expect/iptables/expected-ruleset.ts';
import type {Chain, ChainsByName, Rule, Ruleset, RuleText, Table} from '../../model/ruleset.ts';
import {once} from '../../model/once.ts';
import {hiddenInterfaces} from '../../parse/iptables/iptables-list.ts';
import {targetNames} from '../../parse/iptables/pasted-rulesets.ts';
import {listChain} from './chain-texts.ts';
import {merged} from './excerpt.ts';

/**
 * The rules of a text, in which a rule without effect stands for those that the text leaves out: a packet that passes them has it on its
 * path. Tables that kube-proxy does not use are taken as empty where the text does not show them.
 */
export function withGaps(shown: Ruleset, assumed: ExpectedRuleset | null): Ruleset {
  const made = new Map<string, Chain | undefined>();
  const chain: Ruleset['chain'] = (table, name) => {
    const place = `${table}/${name}`;
    if (!made.has(place)) made.set(place, chainOf(shown, assumed, table, name));
    return made.get(place);
  };
  return {...shown, chain, hasTable: table => shown.hasTable(table) || kubeProxyTables.has(table), forgetting: (_, work) => work()};
}

const kubeProxyTables: ReadonlySet<string> = new Set(['nat', 'filter']);

function chainOf(shown: Ruleset, assumed: ExpectedRuleset | null, table: string, name: string): Chain | undefined {
  const own = shown.chain(table, name);
  const known = shown.tables.get(table);
  const isBase = isBaseChain(name);
  // They hold more rules than those that kube-proxy always writes.
  const isOpen = isBase || name === 'KUBE-SERVICES';
  if (own === undefined && targetNames.has(name)) return undefined;
  const usual =
    assumed !== null && known !== undefined && isOfKubeProxy(known) && isKnown(table, name) ? assumed.chain(table, name) : undefined;
  // A whole table has no other chains, and a dump that ends says so itself where the walk comes to its end.
  if (own?.complete === true || (own !== undefined && shown.truncation !== null)) return own;
  const gap = gapRule(table, name);
  if (own !== undefined)
    return listChain({...placeOf(own), complete: true}, [gap, ...(isOpen && usual !== undefined ? merged(own, usual) : own.rules())]);
  if (usual !== undefined) return listChain({...placeOf(usual), complete: true}, isOpen ? [gap, ...usual.rules()] : usual.rules());
  if (isBase && !(known === undefined ? kubeProxyTables.has(table) : !isWhole(known))) return undefined;
  return listChain({table, name, policy: isBase ? 'ACCEPT' : null, complete: true}, [gap]);
}

function placeOf({table, name, policy}: Chain): Pick<Chain, 'table' | 'name' | 'policy'> {
  return {table, name, policy};
}

/** What kube-proxy writes into these chains does not depend on Services. */
function isKnown(table: string, name: string): boolean {
  return isBaseChain(name) || (table === 'nat' && /^KUBE-(?:MARK-MASQ|MARK-DROP|POSTROUTING|SERVICES)$/.test(name));
}

/** Whether rules of kube-proxy are among those of a table: a whole table without them has none. */
function isOfKubeProxy(table: Table): boolean {
  return !isWhole(table) && holdsKubeProxy(table.chains);
}

/** Where iptables-save prints a table of kube-proxy, base chains are in it: one that ends and has none was put together from a part. */
function isWhole({complete, chains}: Table): boolean {
  return complete && !(holdsKubeProxy(chains) && [...chains.keys()].every(name => !isBaseChain(name)));
}

/** Once for a table: it is asked for each chain on the path, which may be all of them. */
export const holdsKubeProxy = once((chains: ChainsByName): boolean =>
  [...chains.values()].some(chain => chain.name.startsWith('KUBE-') || / -[jg] KUBE-/.test(chain.text())),
);

const gapText = 'rules that the text does not show';

function gapRule(table: string, chain: string): Rule {
  return {table, chain, line: 0, text: gapText, options: [], matches: [], target: {name: 'LOG', goto: false, options: []}};
}

export function isGap({text}: RuleText): boolean {
  return text === gapText;
}

/** Whether a row of `iptables -L` without `-v` may name an interface. */
export function mayNameInterface(rule: RuleText | undefined): boolean {
  return rule?.text.includes(`-m ${hiddenInterfaces}`) === true;
}

/** The same rules without one of them. */
export function withoutRule(rules: Ruleset, {table, chain: name, line}: RuleText): Ruleset {
  const own = rules.chain(table, name);
  if (own === undefined) return rules;
  const left = listChain(
    own,
    own.rules().filter(rule => rule.line !== line),
  );
  return {...rules, chain: (ofTable, ofName) => (ofTable === table && ofName === name ? left : rules.chain(ofTable, ofName))};
}

/** The same rules, if none of them names an interface that the listing does not show. */
export function withoutInterfaces(rules: Ruleset): Ruleset {
  const made = new Map<Chain, Chain>();
  const plain = (chain: Chain): Chain => {
    const known = made.get(chain);
    if (known !== undefined || !chain.text().includes(hiddenInterfaces)) return known ?? chain;
    const changed = chain
      .rules()
      .map(rule => (mayNameInterface(rule) ? {...rule, matches: rule.matches.filter(({name}) => name !== hiddenInterfaces)} : rule));
    const other = listChain(chain, changed);
    made.set(chain, other);
    return other;
  };
  return {
    ...rules,
    chain: (table, name) => {
      const chain = rules.chain(table, name);
      return chain === undefined ? undefined : plain(chain);
    },
  };
}
