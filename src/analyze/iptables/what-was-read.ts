import type {Family} from '../../model/family.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {NodeDump} from '../../model/snapshot.ts';

/** Why nothing can be reported about a family's Services in its iptables; null if the dump contains the tables of Services. */
export function whyNoTables(family: Family, ruleset: Ruleset | null): string | null {
  if (ruleset === null) return `there is no ${dumpOf(family)} of it`;
  const missing = ['nat', 'filter'].filter(table => !ruleset.hasTable(table));
  if (missing.length === 0) return null;
  return `the dump holds no table ${missing.join(' and no table ')}: it is of other tables only, or everything was flushed`;
}

/** Why the node's dump of a family gave no ruleset: there is none, or the file holds no rule and no chain, as when the command failed. */
export function whyNoRules(node: NodeDump, family: Family): string {
  const name = dumpOf(family);
  const content = node.files.includes(name) ? node.read(name) : null;
  if (content === null) return `there is no ${name} of it`;
  const line = content
    .toString('utf8', 0, 4096)
    .split('\n')
    .find(text => text.trim() !== '');
  if (line === undefined) return `its ${name} is empty: the command failed, or everything was flushed`;
  return `its ${name} holds no rules, and begins with: ${line.slice(0, 160)}`;
}

function dumpOf(family: Family): string {
  return family === 'IPv4' ? 'iptables-save' : 'ip6tables-save';
}

/** Whether rules of a chain may be on the node that a truncated dump does not show: none of them is reported as missing. */
export function isBeyondTheCut(ruleset: Ruleset, table: string, chain: string): boolean {
  if (ruleset.cut === null) return false;
  const read = ruleset.tables.get(table);
  if (read === undefined) return true;
  return !read.complete && ruleset.chain(table, chain)?.complete !== true;
}
