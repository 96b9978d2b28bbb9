import type {DumpChain} from './dump-chain.ts';

/** A table that is being read. */
export interface OpenTable {
  name: string;
  readonly chains: Map<string, DumpChain>;
  complete: boolean;
  /** Policies or chains were declared, as every whole dump or listing does; an excerpt of rules does not. */
  declares: boolean;
  /** Chains that a listing has named. */
  readonly declared: Set<string>;
  /** Somebody left rules out and wrote `...` in their place. */
  elided: boolean;
}

export function newTable(name: string, declares: boolean): OpenTable {
  return {name, chains: new Map(), complete: false, declares, declared: new Set(), elided: false};
}

/** A line that stands for rules that somebody left out. */
export function isElision(text: string): boolean {
  return /^(?:\.{3,}|…+|⋮|\[?\(?(?:\.\.\.|…|snip|omitted|省略|中略|略)\)?\]?)$/i.test(text);
}

/** Chains stand in the order of their declarations, so the dump tells nothing of the chain it ends in and of those after it. */
export function markCut(table: OpenTable, last: DumpChain | null): void {
  let reached = last === null;
  for (const chain of table.chains.values()) {
    if (chain === last) reached = true;
    if (reached) chain.complete = false;
  }
}

/** Which table a listing is of, going by its chains. */
export function tableOf(chains: ReadonlyMap<string, unknown>): string {
  const names = [...chains.keys()];
  if (names.includes('PREROUTING') && names.includes('FORWARD')) return 'mangle';
  if (
    names.some(name =>
      /^(?:PREROUTING|POSTROUTING|KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-.*|KUBE-POSTROUTING|KUBE-MARK-\w+|KUBE-(?:PORTALS|NODEPORT)-(?:CONTAINER|HOST))$/.test(
        name,
      ),
    )
  )
    return 'nat';
  if (names.some(name => /^(?:FORWARD|INPUT|KUBE-(?:FORWARD|FIREWALL|EXTERNAL-SERVICES|PROXY-FIREWALL))$/.test(name))) return 'filter';
  return 'nat';
}
