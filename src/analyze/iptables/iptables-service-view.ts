import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {Family} from '../../model/family.ts';
import {type Chain, type ChainSource, type Ruleset, ruleAt} from '../../model/ruleset.ts';
import {joinChains} from './listed-chains.ts';

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
    const tail = tailOf(actual);
    const rest = Array.from({length: actual.ruleCount}, (_, index) => index).filter(index => !tail.includes(index));
    // A rule of somebody else that was appended behind the jump stays behind it.
    const behind = rest.filter(index => index > (tail.at(-1) ?? Infinity));
    const areOthers = behind.every(index => !ruleAt(actual, index)?.target?.name.startsWith('KUBE-'));
    const last = areOthers ? behind : [];
    return joinChains(actual, [
      {chain: actual, indexes: rest.slice(0, rest.length - last.length)},
      {chain: expected, indexes: tailOf(expected)},
      {chain: actual, indexes: last},
    ]);
  }
}

/** The indexes of the rules that jump to the node ports. */
function tailOf(chain: Chain): readonly number[] {
  const lines = chain.text().split('\n');
  return lines.flatMap((line, index) =>
    line.includes('KUBE-NODEPORTS') && ruleAt(chain, index)?.target?.name === 'KUBE-NODEPORTS' ? index : [],
  );
}

function isServiceChain(name: string): boolean {
  return /^KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|PROXY-FIREWALL|(?:SVC|SVL|EXT|FW|XLB|SEP)-.*)$/.test(name);
}
