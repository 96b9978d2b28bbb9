import {append} from '../../model/lists.ts';
import type {Family} from '../../model/address.ts';
import type {Backend, Chain, ChainsByName, Ruleset, StrayLine, Table} from '../../model/ruleset.ts';
import {targetsWithoutEffect} from './comparable-rule.ts';
import {familyOfRules, textChain} from './dump-chain.ts';
import {chainsByTable, mergeChain, type MergedChain, type TableChain, targetOf} from './merge-chain.ts';
import {isStructured, type Section, splitSections} from './pasted-sections.ts';
import type {PastedLine} from './pasted-text.ts';

/**
 * The rulesets in pasted text: the output of all commands for one family is one ruleset. Another ruleset only begins if a table is complete
 * for the second time. `fallback` is the family if no rule shows it.
 */
export function pastedRulesets(lines: readonly PastedLine[], fallback: Family): readonly Ruleset[] {
  const {sections, strays} = splitSections(lines);
  const found = sections.map(section => section.origin.family ?? familyIn(section));
  const family = onlyFamily(found) ?? fallback;
  const groups = new Groups();
  const parts = sections.flatMap((section, index) => placed(section, found[index] ?? family));
  const backend = otherBackend(parts);
  for (const part of parts) groups.add(part.backend === null ? {...part, backend} : part);
  const rulesets = groups.all.map(group => rulesetOf(group));
  const [first] = rulesets;
  return first === undefined ? [] : [{...first, strays: inOrder([...first.strays, ...strays])}, ...rulesets.slice(1)];
}

/** The part of one table that one section shows. */
interface Part {
  readonly family: Family;
  readonly backend: Backend | null;
  readonly table: string;
  readonly section: Section;
  readonly chains: readonly TableChain[];
}

interface BackendParts {
  readonly family: Family;
  backend: Backend | null;
  readonly parts: Part[];
  /** The tables that it shows, by how: one that is shown so again is of another ruleset. */
  readonly shown: Set<string>;
}

/**
 * The backend of tables whose tool does not name it, where the text shows one of them again as another backend names it: `iptables-save` and
 * `iptables-legacy-save` beside each other.
 */
function otherBackend(parts: readonly Part[]): Backend | null {
  const shown = (of: Backend | null): ReadonlySet<string> =>
    new Set(parts.flatMap(part => (part.backend === of ? waysOfShowing(part).map(way => `${part.family} ${way}`) : [])));
  const [unnamed, nft, legacy] = [shown(null), shown('nft'), shown('legacy')];
  const again = [nft, legacy].map(named => [...named].some(way => unnamed.has(way)));
  return again[0] === again[1] ? null : again[0] ? 'legacy' : 'nft';
}

function placed(section: Section, family: Family): readonly Part[] {
  const {backend} = section.origin;
  return [...Map.groupBy(chainsByTable(section), ({table}) => table)].map(([table, chains]) => ({family, backend, table, section, chains}));
}

function familyIn({chains}: Section): Family | null {
  for (const {rules} of chains.values()) {
    for (const {text} of rules) {
      const family = familyOfRules(text);
      if (family !== null) return family;
    }
  }
  return null;
}

/** The family of a section that does not show it is that of all others. */
function onlyFamily(found: readonly (Family | null)[]): Family | null {
  const families = new Set(found.filter(family => family !== null));
  const [only] = families;
  return families.size === 1 ? (only ?? null) : null;
}

class Groups {
  readonly all: BackendParts[] = [];
  /** By what decides it: the first group that may take such a part. Those before it never will, so that no part is tried with all. */
  readonly #next = new Map<string, number>();

  add(part: Part): void {
    const {family, backend} = part;
    const shows = waysOfShowing(part);
    const key = [family, backend, ...shows].join(' ');
    let index = this.#next.get(key) ?? 0;
    while (index < this.all.length && !takes(this.all[index], part, shows)) index++;
    this.#next.set(key, index);
    const group = this.all[index] ?? {family, backend, parts: [], shown: new Set()};
    if (index === this.all.length) this.all.push(group);
    group.backend ??= backend;
    group.parts.push(part);
    for (const way of shows) group.shown.add(way);
  }
}

function takes(group: BackendParts | undefined, {family, backend}: Part, shows: readonly string[]): boolean {
  if (group === undefined || group.family !== family) return false;
  return (group.backend === null || backend === null || group.backend === backend) && !shows.some(way => group.shown.has(way));
}

/** A table has each of its base chains once. A text that shows one of them again shows no other ruleset. */
function waysOfShowing({table, section, chains}: Part): readonly string[] {
  const base = new Set(chains.flatMap(({chain}) => (chain.declared && chain.policy !== null ? [chain.name] : [])));
  const isListing = section.origin.chain === null && hasBaseChains(table, name => base.has(name));
  return [...(section.header === null ? [] : [`header of ${table}`]), ...(isListing ? [`listing of ${table}`] : [])];
}

function rulesetOf({family, backend, parts}: BackendParts): Ruleset {
  const strays: StrayLine[] = [];
  const tables = new Map<string, Table>();
  for (const [name, ofTable] of Map.groupBy(parts, ({table}) => table)) tables.set(name, tableOf(name, ofTable, strays));
  const toolVersion = parts.find(({section}) => section.origin.toolVersion !== null)?.section.origin.toolVersion ?? null;
  return rulesetOfTables({family, backend, toolVersion, strays: inOrder(strays), truncation: truncationOf(parts)}, tables);
}

/** Tables whose chains are all in memory. */
export function rulesetOfTables(
  of: Pick<Ruleset, 'family' | 'backend' | 'toolVersion' | 'strays' | 'truncation'>,
  tables: ReadonlyMap<string, Table>,
): Ruleset {
  const chains = [...tables.values()].flatMap(table => [...table.chains.values()]);
  return {
    ...of,
    tables,
    ruleCount: chains.reduce((sum, chain) => sum + chain.ruleCount, 0),
    chainCount: chains.length,
    hasTable: name => tables.has(name),
    forgetting: (_, work) => work(),
    chain: (table, name) => tables.get(table)?.chains.get(name),
  };
}

/** Where a dump ends inside a table. Null for text that holds rules beside those of dumps. */
function truncationOf(parts: readonly Part[]): Ruleset['truncation'] {
  const isDump = parts.every(
    ({section: {header, origin}, chains}) =>
      (header !== null && origin.toolVersion !== null) || chains.every(({chain}) => chain.rules.length === 0),
  );
  const open = parts.findLast(({section: {header, committed}}) => header !== null && !committed);
  if (!isDump || open === undefined) return null;
  return {table: open.table, line: open.section.last};
}

function tableOf(name: string, parts: readonly Part[], strays: StrayLine[]): Table {
  const byChain = Map.groupBy(
    parts.flatMap(({chains}) => chains),
    ({chain}) => chain.name,
  );
  const chains = [...byChain].map(([chain, shown]) => mergeChain(chain, shown));
  for (const {repeated} of chains) append(strays, repeated);
  const sections = parts.map(({section}) => section);
  const complete = isWholeTable(name, chains, sections.filter(isStructured)) && sections.some(isStructured);
  return {name, complete, chains: chainsOf(chains.map(chain => chainOf(name, chain, complete)))};
}

function chainOf(table: string, {name, policy, rules, isWhole}: MergedChain, isComplete: boolean): Chain {
  return textChain(
    {table, name, policy, complete: isComplete || isWhole},
    rules.map(({text}) => text.replace(/^\[\d+:\d+\]\s*/, '')),
    rules.map(({line}) => line),
  );
}

function inOrder(strays: readonly StrayLine[]): readonly StrayLine[] {
  return strays.toSorted((a, b) => a.line - b.line);
}

/** The chains of a table that are all in memory. */
export function chainsOf(chains: readonly Chain[]): ChainsByName {
  const places = new Map(chains.map(({name}, place) => [name, place]));
  const begins = ({name}: Chain, prefixes: readonly string[]): boolean => prefixes.some(prefix => name.startsWith(prefix));
  return {
    placeOf: name => places.get(name) ?? -1,
    at: place => chains[place],
    textAt: place => chains[place]?.text() ?? '',
    linesAt: place => chains[place]?.rules() ?? [],
    // Lines of one chain may come from several places.
    lineAt: () => null,
    size: chains.length,
    get: name => chains[places.get(name) ?? -1],
    has: name => places.has(name),
    keys: () => places.keys(),
    values: () => chains,
    startingWith: (...prefixes) => chains.filter(chain => begins(chain, prefixes)),
    notStartingWith: (...prefixes) => chains.filter(chain => !begins(chain, prefixes)),
  };
}

/**
 * Whether chains are a complete table: its base chains exist, every chain that a rule jumps to exists, and each has as many jumps as the
 * listing counts. People often leave rules out without a mark.
 */
function isWholeTable(table: string, chains: readonly MergedChain[], sections: readonly Section[]): boolean {
  if (sections.some(({hasGaps, origin}) => hasGaps || (origin.filtered && origin.isCommand))) return false;
  // A dump without COMMIT was truncated before its end.
  if (sections.some(({header, committed}) => header !== null && !committed)) return false;
  const byName = new Map(chains.map(chain => [chain.name, chain]));
  const isDump = sections.every(({header}) => header !== null);
  if (!isDump && !hasBaseChains(table, name => byName.get(name)?.policy != null)) return false;
  if (chains.some(({declared, isContradicted}) => !declared || isContradicted)) return false;
  const jumps = countJumps(chains);
  return (
    [...jumps.keys()].every(name => byName.has(name) || targetNames.has(name)) &&
    chains.every(({name, references}) => references === null || references === (jumps.get(name) ?? 0))
  );
}

/** Whether all base chains are there without which a listing is none of the whole table. */
function hasBaseChains(table: string, has: (name: string) => boolean): boolean {
  return (baseChains[table] ?? []).every(has);
}

function countJumps(chains: readonly MergedChain[]): ReadonlyMap<string, number> {
  const jumps = new Map<string, number>();
  for (const {rules} of chains) {
    for (const {text} of rules) {
      const target = targetOf(text);
      if (target !== '') jumps.set(target, (jumps.get(target) ?? 0) + 1);
    }
  }
  return jumps;
}

/** Kernels before 2.6.36 have no INPUT in nat. */
const baseChains: Readonly<Record<string, readonly string[]>> = {
  nat: ['PREROUTING', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  raw: ['PREROUTING', 'OUTPUT'],
  security: ['INPUT', 'FORWARD', 'OUTPUT'],
};

/** Targets of iptables: each other name after `-j` is one of a chain. */
export const targetNames: ReadonlySet<string> = new Set([
  ...'ACCEPT DROP RETURN QUEUE REJECT DNAT SNAT MASQUERADE REDIRECT NETMAP MARK CONNMARK TCPOPTSTRIP NOTRACK CT NFQUEUE TPROXY SYNPROXY SNPT DNPT CLUSTERIP'.split(
    ' ',
  ),
  ...targetsWithoutEffect,
]);
