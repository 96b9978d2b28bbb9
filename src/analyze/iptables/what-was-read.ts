import type {Family} from '../../model/family.ts';
import type {Ruleset} from '../../model/ruleset.ts';

/** Why nothing can be reported about a family's Services in its iptables; null if the dump contains the tables of Services. */
export function whyNoTables(family: Family, ruleset: Ruleset | null): string | null {
  if (ruleset === null) return `there is no ${family === 'IPv4' ? 'iptables-save' : 'ip6tables-save'} of it`;
  const missing = ['nat', 'filter'].filter(table => !ruleset.hasTable(table));
  if (missing.length === 0) return null;
  return `the dump holds no table ${missing.join(' and no table ')}: it is of other tables only, or everything was flushed`;
}

/** Whether rules of a chain may be on the node that a truncated dump does not show: none of them is reported as missing. */
export function isBeyondTheCut(ruleset: Ruleset, table: string, chain: string): boolean {
  if (ruleset.cut === null) return false;
  const read = ruleset.tables.get(table);
  if (read === undefined) return true;
  return !read.complete && ruleset.chain(table, chain)?.complete !== true;
}
