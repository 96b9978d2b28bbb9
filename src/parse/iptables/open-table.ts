import {ChainTable} from './chain-table.ts';

/** A table of a dump that is being read. */
export interface OpenTable {
  name: string;
  readonly chains: ChainTable;
  complete: boolean;
}

/** `bytes` are the dump that the table is read from; `isByChain` says that its lines are not those of the node's dump. */
export function newTable(bytes: Buffer, name: string, isByChain: boolean): OpenTable {
  const table = {name, complete: false, ...(isByChain ? ({isByChain} as const) : {})};
  return Object.assign(table, {chains: new ChainTable(bytes, table)});
}

/** A line in place of rules that were left out, such as `...`. */
export function isElision(text: string): boolean {
  return /^(?:\.{3,}|…+|⋮|\[?\(?(?:\.\.\.|…|snip|omitted|省略|中略|略)\)?\]?)$/i.test(text);
}
