import type {ChainsByName} from '../../model/ruleset.ts';
import {ChainTable} from './chain-table.ts';

/** A table that is being read. */
export interface OpenTable {
  name: string;
  readonly chains: ChainTable;
  complete: boolean;
  /** Policies or chains were declared, as every whole dump or listing does; an excerpt of rules does not. */
  declares: boolean;
  /** Chains that a listing has named. */
  readonly declared: Set<string>;
  /** Somebody left rules out and wrote `...` in their place. */
  elided: boolean;
}

/** `bytes` are the dump that the table is read from. */
export function newTable(bytes: Buffer, name: string, declares: boolean): OpenTable {
  const table = {name, complete: false, declares, declared: new Set<string>(), elided: false};
  return Object.assign(table, {chains: new ChainTable(bytes, table)});
}

/** A line that stands for rules that somebody left out. */
export function isElision(text: string): boolean {
  return /^(?:\.{3,}|…+|⋮|\[?\(?(?:\.\.\.|…|snip|omitted|省略|中略|略)\)?\]?)$/i.test(text);
}

/** Which table a listing is of, going by its chains. */
export function tableOf(chains: ChainsByName): string {
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
