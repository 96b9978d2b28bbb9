import type {PastedRule, Section, SectionChain} from './pasted-sections.ts';
import {isStructured} from './pasted-sections.ts';

/** The part of a chain that a section shows, with the chain's table. */
export interface TableChain {
  readonly table: string;
  readonly section: Section;
  readonly chain: SectionChain;
}

/**
 * Finds the tables of the chains of a section. A dump names them, and so does the command above a listing; otherwise chains and rules show
 * them. Rules without declarations, as grep prints them, may be from several tables.
 */
export function chainsByTable(section: Section): readonly TableChain[] {
  const {header, origin, chains} = section;
  const all = [...chains.values()];
  const one = header ?? (isStructured(section) ? tableOfListing(section) : origin.table);
  if (one !== null) return all.map(chain => ({table: one, section, chain}));
  const tables = new Map<string, string>();
  // The table of a third-party chain is that of the chains that jump to it.
  for (const chain of all) for (const rule of chain.rules) noteJump(tables, rule, tableOfRule(chain.name, rule.text));
  return all.flatMap(chain => splitChain(section, chain, tables));
}

function noteJump(tables: Map<string, string>, {text}: PastedRule, table: string | null): void {
  const target = targetOf(text);
  if (table !== null && !/^[A-Z]+$/.test(target) && !tables.has(target)) tables.set(target, table);
}

function splitChain(section: Section, chain: SectionChain, tables: ReadonlyMap<string, string>): readonly TableChain[] {
  const own =
    tableOfChain(chain.name) ?? tables.get(chain.name) ?? majority(chain.rules.map(({text}) => tableOfRule(chain.name, text))) ?? 'nat';
  const byTable = Map.groupBy(chain.rules, ({text}) => tableOfRule(chain.name, text) ?? own);
  return [...byTable].map(([table, rules]) => ({table, section, chain: {...chain, rules}}));
}

/** Rules of a certain table outweigh the table that the command names. */
function tableOfListing({origin, chains}: Section): string {
  const all = [...chains.values()];
  const base = new Set(all.filter(({policy}) => policy !== null).map(({name}) => name));
  if (base.has('FORWARD') && (base.has('PREROUTING') || base.has('POSTROUTING'))) return 'mangle';
  if (base.size === 2 && base.has('PREROUTING') && base.has('OUTPUT') && !all.some(({name}) => name.startsWith('KUBE-'))) return 'raw';
  const votes = all.flatMap(chain => [tableOfChain(chain.name), ...chain.rules.map(({text}) => tableOfRule(chain.name, text))]);
  const voted = majority(votes);
  if (origin.table !== null && (voted === null || votes.includes(origin.table) || !['nat', 'filter'].includes(origin.table)))
    return origin.table;
  return voted ?? 'nat';
}

function majority(tables: readonly (string | null)[]): string | null {
  const counts = new Map<string, number>();
  for (const table of tables) if (table !== null) counts.set(table, (counts.get(table) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? null;
}

const natChains =
  /^(?:PREROUTING|POSTROUTING|KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-.*|KUBE-POSTROUTING|KUBE-MARK-\w+|KUBE-LOAD-BALANCER|KUBE-(?:PORTALS|NODEPORT)-(?:CONTAINER|HOST))$/;
const filterChains =
  /^(?:FORWARD|INPUT|KUBE-(?:FORWARD|FIREWALL|EXTERNAL-SERVICES|PROXY-FIREWALL|SOURCE-RANGES-FIREWALL|IPVS-FILTER|IPVS-OUT-FILTER))$/;

/** The table that contains a chain of this name; null if several can. */
function tableOfChain(name: string): string | null {
  if (natChains.test(name)) return 'nat';
  return filterChains.test(name) ? 'filter' : null;
}

/** The table of a rule, by matches and targets that only one table allows; null if nothing shows it. */
function tableOfRule(chain: string, text: string): string | null {
  const target = targetOf(text);
  if (/^(?:DNAT|SNAT|MASQUERADE|REDIRECT|NETMAP)$/.test(target)) return 'nat';
  if (/^(?:REJECT|DROP)$/.test(target)) return 'filter';
  const named = tableOfChain(chain) ?? (/^(?:INPUT|FORWARD|PREROUTING|POSTROUTING)$/.test(target) ? null : tableOfChain(target));
  if (named !== null) return named;
  if (chain === 'KUBE-NODEPORTS') return target === 'ACCEPT' ? 'filter' : 'nat';
  if (target === 'KUBE-NODEPORTS') return 'nat';
  return target === 'KUBE-SERVICES' && chain === 'OUTPUT' ? (text.includes('--ctstate NEW') ? 'filter' : 'nat') : null;
}

export function targetOf(text: string): string {
  return / -[jg] (\S+)/.exec(text.replace(/"(?:[^"\\]|\\.)*"/g, '""'))?.[1] ?? '';
}
