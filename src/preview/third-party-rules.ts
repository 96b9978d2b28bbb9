import {isShownByIptables} from '../trace/side.ts';
import type {Family} from '../model/family.ts';
import type {NftRuleset, NftTableSource} from '../model/nft-ruleset.ts';
import type {Chain, ChainSource, Rule, Ruleset} from '../model/ruleset.ts';

/**
 * The iptables rules of a node after kube-proxy removed its own and wrote those of `written`. Built-in chains contain kube-proxy's jumps in
 * their old position, or first, and all third-party rules. Without `written`, only the latter remain.
 */
export class RulesAfter implements ChainSource {
  readonly family: Family;
  readonly #actual: Ruleset;
  readonly #written: ChainSource | null;
  readonly #chains = new Map<string, Chain | undefined>();

  constructor(actual: Ruleset, written: ChainSource | null) {
    this.family = actual.family;
    this.#actual = actual;
    this.#written = written;
  }

  hasTable(table: string): boolean {
    return this.#actual.hasTable(table) || (this.#written?.hasTable(table) ?? false);
  }

  chain(table: string, name: string): Chain | undefined {
    const key = `${table}/${name}`;
    if (!this.#chains.has(key)) this.#chains.set(key, this.#make(table, name));
    return this.#chains.get(key);
  }

  #make(table: string, name: string): Chain | undefined {
    const actual = this.#actual.chain(table, name);
    const written = this.#written?.chain(table, name);
    if (!builtIn.has(name)) return written ?? actual;
    const rules = actual?.rules() ?? [];
    const jumps = written?.rules() ?? [];
    const place = Math.max(0, rules.findIndex(isProxyJump));
    const others = rules.filter(rule => !isProxyJump(rule));
    const before = rules.slice(0, place).filter(rule => !isProxyJump(rule)).length;
    return chainOf({table, name, policy: actual?.policy ?? 'ACCEPT'}, others.toSpliced(before, 0, ...jumps));
  }
}

const builtIn: ReadonlySet<string> = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);

/** kube-proxy deletes its jumps, except those to KUBE-FIREWALL, which the kubelet used as well. Others with `KUBE-` are kube-router's. */
function isProxyJump({target}: Rule): boolean {
  return target !== null && /^KUBE-(?!FIREWALL$|KUBELET|IPTABLES-HINT|ROUTER-|NWPLCY-|POD-FW-)/.test(target.name);
}

function chainOf(
  {table, name, policy}: {readonly table: string; readonly name: string; readonly policy: string},
  rules: readonly Rule[],
): Chain {
  return {
    ...{table, name, policy},
    complete: true,
    ruleCount: rules.length,
    rules: () => rules,
    text: () => rules.map(({text}) => text).join('\n'),
  };
}

/** The tables of nftables that are neither kube-proxy's nor in the dump of iptables. */
export function otherTables(nft: NftRuleset | null, iptables: readonly Ruleset[]): readonly NftTableSource[] {
  return (nft?.tableSources ?? []).filter(table => !table.id.endsWith(' kube-proxy') && !isShownByIptables(table, iptables));
}
