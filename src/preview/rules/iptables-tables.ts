import {baseRuleChains, canaryChain, canaryTables} from '../../expect/iptables/base-rules.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {RuleTable} from '../../model/expected-rules.ts';
import type {ServicePort} from '../../model/service-port.ts';

/** The tables of iptables mode, with the rules of the chosen Service ports. */
export function iptablesTables(expected: ExpectedRuleset, isWanted: (port: ServicePort) => boolean): readonly RuleTable[] {
  const tables = new RuleTables();
  for (const table of canaryTables) tables.declare(table, canaryChain);
  for (const [table, chain] of baseRuleChains(expected.context)) tables.declare(table, chain);
  const ports = expected.ports.filter(({port}) => isWanted(port)).map(item => expected.rulesOf(item));
  for (const {shared} of ports) for (const {table, chain, text} of shared) tables.add(table, chain, `-A ${chain} ${text}`);
  for (const [place, texts] of expected.baseRules()) tables.addBaseRules(place, texts);
  for (const {own} of ports) for (const [chain, text] of own) tables.add('nat', chain, ...text.split('\n'));
  return tables.sorted();
}

/** Rules by table and chain as they are written. */
export class RuleTables {
  readonly #tables = new Map<string, Map<string, string[]>>();

  /** A chain that exists whether it contains rules or not. */
  declare(table: string, chain: string): void {
    this.add(table, chain);
  }

  add(table: string, chain: string, ...rules: readonly string[]): void {
    const chains = this.#tables.get(table) ?? new Map<string, string[]>();
    this.#tables.set(table, chains);
    const known = chains.get(chain) ?? [];
    chains.set(chain, known);
    for (const rule of rules) known.push(rule);
  }

  /** Rules without their `-A CHAIN`, by `table/chain`. */
  addBaseRules(place: string, texts: readonly string[]): void {
    const [table = '', chain = ''] = place.split('/');
    this.add(table, chain, ...texts.map(text => `-A ${chain} ${text}`));
  }

  /** In the order of iptables-save: built-in chains first, all others by name. */
  sorted(): readonly RuleTable[] {
    const order = ['mangle', 'filter', 'nat'];
    const tables = [...this.#tables].toSorted(([a], [b]) => order.indexOf(a) - order.indexOf(b));
    return tables.map(([name, chains]) => ({
      name,
      chains: [...chains]
        .map(([chain, rules]) => ({name: chain, rules}))
        .toSorted((a, b) => rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1)),
    }));
  }
}

const builtIn = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'];

function rank(chain: string): number {
  const at = builtIn.indexOf(chain);
  return at < 0 ? builtIn.length : at;
}
