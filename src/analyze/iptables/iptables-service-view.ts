import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {Family} from '../../model/family.ts';
import type {Chain, ChainSource, Rule, Ruleset} from '../../model/ruleset.ts';
import {listChain} from './listed-chains.ts';

/**
 * The actual per-Service rules inside the expected base rules. The base rules are evaluated separately, so that one broken hook is one
 * finding and not one for every Service.
 */
export class IptablesServiceView implements ChainSource {
  readonly family: Family;
  readonly #expected: ExpectedRuleset;
  readonly #actual: Ruleset;
  readonly #made = new Map<string, Chain | undefined>();

  constructor(expected: ExpectedRuleset, actual: Ruleset) {
    this.family = expected.family;
    this.#expected = expected;
    this.#actual = actual;
  }

  hasTable(table: string): boolean {
    return this.#expected.hasTable(table);
  }

  chain(table: string, name: string): Chain | undefined {
    if (table === 'raw' || table === 'mangle' || table === 'security') return undefined;
    // A table that a truncated dump does not show is assumed to be as expected.
    if (!this.#actual.hasTable(table)) return this.#expected.chain(table, name);
    if (!isServiceChain(name)) return this.#expected.chain(table, name) ?? this.#actual.chain(table, name);
    if (table !== 'nat' || name !== 'KUBE-SERVICES') return this.#actual.chain(table, name);
    if (!this.#made.has(name)) this.#made.set(name, this.#withTail());
    return this.#made.get(name);
  }

  /** The actual KUBE-SERVICES, with the expected node-port jump. */
  #withTail(): Chain | undefined {
    const actual = this.#actual.chain('nat', 'KUBE-SERVICES');
    const expected = this.#expected.chain('nat', 'KUBE-SERVICES');
    if (actual === undefined || expected === undefined) return actual;
    const services = actual.rules().filter(rule => !isTail(rule));
    return listChain(actual, [...services, ...expected.rules().filter(isTail)]);
  }
}

function isTail(rule: Rule): boolean {
  return rule.target?.name === 'KUBE-NODEPORTS';
}

function isServiceChain(name: string): boolean {
  return /^KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|PROXY-FIREWALL|(?:SVC|SVL|EXT|FW|XLB|SEP)-.*)$/.test(name);
}
