import {once} from '../../model/once.ts';
import {append, mostCommon, partition, pushTo} from '../../model/lists.ts';
import type {StrayLine} from '../../model/ruleset.ts';
import {isStructured, type PastedRule, type Section, type SectionChain} from './pasted-sections.ts';

/** A chain as the sections of a text show it together. */
export interface MergedChain {
  readonly name: string;
  readonly policy: string | null;
  readonly rules: readonly PastedRule[];
  readonly declared: boolean;
  readonly references: number | null;
  /** A command that lists the whole chain printed it, and nothing is missing. */
  readonly isWhole: boolean;
  /** The text contains rules of the chain that the listing of the whole chain does not. */
  readonly isContradicted: boolean;
  /** Rules that the text contains repeatedly. */
  readonly repeated: readonly StrayLine[];
}

/**
 * The chain that several sections show. Consecutive rules show their order; a repeated rule is one rule. If the rules of a whole chain
 * occur together with others, it is unknown which of them are on the node.
 */
export function mergeChain(name: string, parts: readonly TableChain[]): MergedChain {
  const shown = parts.filter(({chain}) => chain.declared || chain.rules.length > 0);
  const first = shown.find(({section, chain}) => isStructured(section) && chain.rules.length > 0);
  const start = first?.chain.rules ?? [];
  const blocks = shown.filter(part => part !== first).flatMap(({chain}) => blocksOf(chain.rules));
  const {rules, repeated, added} = addBlocks(start, blocks);
  const whole = shown.find(isListedWhole);
  return {
    name,
    rules,
    repeated,
    policy: shown.find(({chain}) => chain.policy !== null)?.chain.policy ?? null,
    declared: shown.some(({chain}) => chain.declared),
    references: shown.find(({chain}) => chain.references !== null)?.chain.references ?? null,
    isContradicted: added > 0,
    isWhole: whole !== undefined && added === 0 && (first === undefined || first === whole),
  };
}

function isListedWhole({section, chain}: TableChain): boolean {
  const {origin, hasGaps, header, committed} = section;
  if (origin.filtered || !chain.declared || chain.hasGaps || isOfAnyTable(section)) return false;
  if (chain.isListed) return true;
  if (hasGaps) return false;
  return header === null ? origin.isCommand : committed;
}

/** Consecutive rules. The longest run shows most of the order. */
function blocksOf(rules: readonly PastedRule[]): readonly (readonly PastedRule[])[] {
  const blocks: PastedRule[][] = [];
  for (const rule of rules) {
    const last = blocks.at(-1);
    if (last?.at(-1)?.line === rule.line - 1) last.push(rule);
    else blocks.push([rule]);
  }
  return blocks;
}

function addBlocks(start: readonly PastedRule[], blocks: readonly (readonly PastedRule[])[]) {
  let rules = [...start];
  const texts = new Set(rules.map(textToCompare));
  const repeated: StrayLine[] = [];
  let added = 0;
  for (const block of blocks.toSorted((a, b) => b.length - a.length)) {
    // Equal lines that follow each other are equal rules; those of another place in the text repeat them.
    const [known, fresh] = partition(block, rule => texts.has(textToCompare(rule)));
    append(repeated, known);
    if (known.length === 0) addAtEnd(rules, block);
    else rules = woven(rules, block, texts);
    for (const rule of fresh) texts.add(textToCompare(rule));
    added += fresh.length;
  }
  return {rules, repeated, added};
}

/** The new rules of a block, each before the first of the known ones that follow it in the text. */
function woven(rules: readonly PastedRule[], block: readonly PastedRule[], known: ReadonlySet<string>): PastedRule[] {
  const places = new Map<string, number>();
  for (const [at, rule] of rules.entries()) if (!places.has(textToCompare(rule))) places.set(textToCompare(rule), at);
  const before = new Map<number, PastedRule[]>();
  let place = rules.length;
  for (const rule of block.toReversed()) {
    const text = textToCompare(rule);
    if (known.has(text)) place = Math.min(place, places.get(text) ?? place);
    else pushTo(before, place, rule);
  }
  const result = rules.flatMap((rule, at) => [...(before.get(at)?.toReversed() ?? []), rule]);
  addAtEnd(result, before.get(rules.length)?.toReversed() ?? []);
  return result;
}

/** kube-proxy writes no rule after one that matches all packets. */
function addAtEnd(rules: PastedRule[], block: readonly PastedRule[]): void {
  // Lines of several chains in turns are a block each: not all rules are searched for each of them.
  let last = block.some(isPick) ? rules.findIndex(isLastPick) : -1;
  for (const rule of block) {
    if (last >= 0 && isPick(rule)) rules.splice(last++, 0, rule);
    else {
      if (last < 0 && isLastPick(rule)) last = rules.length;
      rules.push(rule);
    }
  }
}

function isPick({text}: PastedRule): boolean {
  return text.includes('--probability');
}

function isLastPick(rule: PastedRule): boolean {
  return !isPick(rule) && / -j KUBE-SEP-/.test(rule.text);
}

/** Without counters, and without the comment, which people leave out when they repeat a rule. */
function textToCompare({text}: PastedRule): string {
  return text
    .replace(/^\[\d+:\d+\] /, '')
    .replace(/ -c \d+ \d+(?= |$)/, '')
    .replace(/ -m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)/, '');
}

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
  // The table of a third-party chain is that of the chains that jump to it, and so on along the jumps.
  for (const chain of all) for (const rule of chain.rules) noteJump(tables, rule, tableOfRule(chain.name, rule.text));
  for (const [name, table] of tables)
    for (const rule of chains.get(name)?.rules ?? []) noteJump(tables, rule, tableOfRule(name, rule.text) ?? table);
  return all.flatMap(chain => splitChain(section, chain, tables));
}

function noteJump(tables: Map<string, string>, {text}: PastedRule, table: string | null): void {
  const target = targetOf(text);
  if (table !== null && !tables.has(target)) tables.set(target, table);
}

function splitChain(section: Section, chain: SectionChain, tables: ReadonlyMap<string, string>): readonly TableChain[] {
  const own =
    tableOfChain(chain.name) ??
    tables.get(chain.name) ??
    mostCommon(chain.rules.flatMap(({text}) => tableOfRule(chain.name, text) ?? [])) ??
    'nat';
  const byTable = Map.groupBy(chain.rules, ({text}) => tableOfRule(chain.name, text) ?? own);
  return [...byTable].map(([table, rules]) => ({table, section, chain: {...chain, rules}}));
}

/** A listing of PREROUTING or POSTROUTING that no command names, and that holds nothing of nat alone, may as well be of mangle or raw. */
const isOfAnyTable = once(({header, origin, chains}: Section): boolean => {
  if (header !== null || origin.table !== null) return false;
  const all = [...chains.values()];
  const base = all.filter(({policy}) => policy !== null).map(({name}) => name);
  if (base.length !== 1 || !/^P(?:RE|OST)ROUTING$/.test(base[0] ?? '')) return false;
  const shownBy = [
    ...all.map(({name}) => name).filter(name => !base.includes(name)),
    ...all.flatMap(({rules}) => rules.map(({text}) => targetOf(text))),
  ];
  return !shownBy.some(name => natTargets.test(name) || natChains.test(name) || /^(?:KUBE-(?:SERVICES|NODEPORTS)|DOCKER)$/.test(name));
});

/** Rules of a certain table outweigh the table that the command names. */
function tableOfListing({origin, chains}: Section): string {
  const all = [...chains.values()];
  const base = new Set(all.filter(({policy}) => policy !== null).map(({name}) => name));
  if (base.has('FORWARD') && (base.has('PREROUTING') || base.has('POSTROUTING'))) return 'mangle';
  if (base.size === 2 && base.has('PREROUTING') && base.has('OUTPUT') && !all.some(({name}) => name.startsWith('KUBE-'))) return 'raw';
  const votes = all.flatMap(chain => [tableOfChain(chain.name), ...chain.rules.map(({text}) => tableOfRule(chain.name, text))]);
  const voted = mostCommon(votes.filter(table => table !== null)) ?? null;
  if (origin.table !== null && (voted === null || votes.includes(origin.table) || !['nat', 'filter'].includes(origin.table)))
    return origin.table;
  return voted ?? 'nat';
}

const natTargets = /^(?:DNAT|SNAT|MASQUERADE|REDIRECT|NETMAP)$/;
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
  if (natTargets.test(target)) return 'nat';
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
