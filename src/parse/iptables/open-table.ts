import type {Table} from '../../model/ruleset.ts';
import {ChainTable} from './chain-table.ts';
import {TableBefore} from './table-before.ts';

/** A table of a dump that is being read. */
export interface OpenTable {
  name: string;
  readonly chains: ChainTable;
  complete: boolean;
  /** The same table in the dump of another node, until the table is closed. */
  before: TableBefore | null;
}

interface TableToRead {
  /** The dump that the table is read from. */
  readonly bytes: Buffer;
  readonly name: string;
  /** Its lines are not those of the node's dump. */
  readonly isByChain: boolean;
  /** The table of this name in the dump of another node. */
  readonly before: Table | undefined;
}

export function newTable({bytes, name, isByChain, before}: TableToRead): OpenTable {
  const table = {name, complete: false, ...(isByChain ? ({isByChain} as const) : {})};
  const other = before?.chains instanceof ChainTable ? before.chains : null;
  const chains = new ChainTable(bytes, table, other);
  return Object.assign(table, {chains, before: other === null ? null : new TableBefore(other, chains)});
}

/** A line in place of rules that were left out, such as `...`. */
export function isElision(text: string): boolean {
  return /^(?:\.{3,}|…+|⋮|\[?\(?(?:\.\.\.|…|snip|omitted|省略|中略|略)\)?\]?)$/i.test(text);
}
