import {type NftChain, type NftFamily, type NftJsonCheck, type NftRuleset, type NftStray, unnamedTable} from '../../model/nft-ruleset.ts';
import type {Truncation} from '../../model/ruleset.ts';
import {ChainList} from '../chain-list.ts';
import {requireUndamaged} from '../lines.ts';
import {NftDumpChain, nftPriority, type RuleText} from './nft-dump-chain.ts';
import {
  asNftRuleset,
  isNftFamily,
  newDumpSet,
  type NftDumpSet,
  NftDumpTable,
  nftSeconds,
  parseNftElements,
  type TableChains,
  tableId,
} from './nft-elements.ts';
import {parseNftJson} from './nft-json.ts';
import {canonicalNftRule} from './nft-rule.ts';

/** Reads the output of nft, with `-j` or without. Throws an UnreadableText. */
export function parseNftDump(input: Buffer | string): NftRuleset {
  const content = typeof input === 'string' ? Buffer.from(input) : input;
  const ruleset = content.includes('"nftables"') ? parseNftJson(content) : new TextReader(content).read();
  if (ruleset.tables.size > 0) requireUndamaged(content);
  return ruleset;
}

type TextTable = NftDumpTable<NftChainList>;

const NEWLINE = 0x0a;

/** The current block: none, a table, a chain or a set in it, its elements, or a block that is only kept. */
type State =
  | {readonly kind: 'outside'}
  | {readonly kind: 'table'; readonly table: TextTable}
  | {readonly kind: 'chain'; readonly table: TextTable; readonly chain: NftDumpChain; open: RuleStart | null}
  | {readonly kind: 'set'; readonly table: TextTable; readonly set: NftDumpSet}
  | {readonly kind: 'elements'; readonly table: TextTable; readonly set: NftDumpSet; readonly parts: string[]}
  | {readonly kind: 'other'; readonly table: TextTable; readonly parts: string[]; depth: number; readonly known: boolean};

/** A rule whose braces are not closed on its first line. */
interface RuleStart {
  readonly start: number;
  readonly line: number;
  depth: number;
}

/**
 * Reads the output of `nft list ruleset` or `nft list table …`, with or without handles and counters, also several outputs one after
 * another. A truncated dump is read up to its end: see `truncation`.
 */
class TextReader {
  readonly #bytes: Buffer;
  readonly #tables = new Map<string, TextTable>();
  readonly #strays: NftStray[] = [];
  #state: State = {kind: 'outside'};
  #line = 0;
  #truncation: Truncation | null = null;

  /** The line of the open table is not in the text, and so its end may not be. */
  #isUnnamed = false;
  /** The first words of a table whose rest is missing. */
  #truncatedTable: string | null = null;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  read(): NftRuleset {
    for (let start = 0; start < this.#bytes.length; ) {
      const newline = this.#bytes.indexOf(NEWLINE, start);
      const end = newline < 0 ? this.#bytes.length : newline;
      this.#line++;
      const text = withoutHandle(this.#bytes.toString('utf8', start, end).trim());
      // A last line without a newline may be incomplete.
      if (newline < 0 && this.#mayBeTruncated(text)) this.#truncatedPart(text);
      else if (text !== '' && !text.startsWith('#')) this.#take(text, start, end);
      start = end + 1;
    }
    const end = this.#finish();
    return asNftRuleset({tables: this.#tables, toolVersion: null, strays: this.#strays, truncation: this.#truncation ?? end});
  }

  #take(text: string, start: number, end: number): void {
    const state = this.#state;
    switch (state.kind) {
      case 'outside':
        return this.#outside(text);
      case 'table':
        return this.#inTable(state, text);
      case 'chain':
        return this.#inChain(state, text, {start, end});
      case 'set':
        return this.#inSet(state, text);
      case 'elements':
        return this.#moreElements(state, text);
      case 'other':
        return this.#inOther(state, text);
    }
  }

  #outside(text: string): void {
    if (isPart.test(text)) return this.#inTable(this.#unnamedTable(), text);
    const [, family = 'ip', name = '', rest = ''] = /^table (?:(\S+) )?(\S+) \{(.*)$/.exec(text) ?? [];
    if (name === '' || !isNftFamily(family)) return this.#stray(text);
    this.#isUnnamed = false;
    const {table} = this.#open(family, name);
    if (rest === '') return;
    // nft prints no table on one line: somebody's file of rules, which may be any.
    this.#breakTable(table, text);
    if (depthOf(text) <= 0) this.#state = {kind: 'outside'};
  }

  #open(family: NftFamily, name: string): State & {readonly kind: 'table'} {
    const table =
      this.#tables.get(tableId(family, name)) ?? new NftDumpTable(family, name, new NftChainList(tableId(family, name), this.#textAt));
    this.#tables.set(table.id, table);
    const state = {kind: 'table', table} as const;
    this.#state = state;
    return state;
  }

  #inTable({table}: {readonly table: TextTable}, text: string): void {
    if (this.#isUnnamed && text.startsWith('table ')) {
      return this.#outside(text);
    }
    if (text === '}') {
      this.#state = {kind: 'outside'};
      return;
    }
    const [, kind = '', name = ''] = /^(chain|set|map) (\S+) \{$/.exec(text) ?? [];
    if (kind === 'chain') this.#state = {kind, table, chain: table.chains.open(name), open: null};
    else if (kind !== '') this.#openSet(table, name);
    else if (text.startsWith('comment ')) return;
    else if (/^flags .*\bdormant\b/.test(text)) table.dormant = true;
    else if (text.startsWith('flags ')) table.others.push(text);
    else this.#inOther({kind: 'other', table, parts: [], depth: 0, known: isObject.test(text)}, text);
  }

  /** The table of chains and sets that were pasted without its line. */
  #unnamedTable(): State & {readonly kind: 'table'} {
    const content = this.#bytes.toString('utf8', 0, 65_536);
    const family = /\bip6 [sd]addr |ipv6_addr/.test(content) ? 'ip6' : 'ip';
    const name = namesOfProxy.test(content) ? 'kube-proxy' : unnamedTable;
    this.#isUnnamed = true;
    return this.#open(family, name);
  }

  readonly #textAt = (start: number, end: number): string => canonicalNftRule(this.#bytes.toString('utf8', start, end));

  #openSet(table: TextTable, name: string): void {
    const set = newDumpSet(table.id, name);
    set.dynamic = false;
    table.addSet(set);
    this.#state = {kind: 'set', table, set};
  }

  #inOther(state: State & {readonly kind: 'other'}, text: string): void {
    state.parts.push(text);
    state.depth += depthOf(text);
    if (state.depth > 0) {
      this.#state = state;
      return;
    }
    const whole = state.parts.join(' ');
    if (state.known) state.table.others.push(whole);
    else this.#breakTable(state.table, whole);
    this.#state = {kind: 'table', table: state.table};
  }

  #inChain(state: State & {readonly kind: 'chain'}, text: string, {start, end}: {readonly start: number; readonly end: number}): void {
    const {table, chain, open} = state;
    const depth = depthOf(text);
    if (open !== null) {
      open.depth += depth;
      if (open.depth > 0) return;
      chain.append(open.start, end, open.line);
      state.open = null;
    } else if (text === '}') this.#state = {kind: 'table', table};
    else if (isOtherProgram.test(text)) {
      chain.complete = false;
      this.#breakTable(table, text);
    } else if (/^type \S+ hook /.test(text)) this.#hook(table, chain, text);
    else if (/^comment "[^"]*"$/.test(text)) return;
    else if (depth > 0) state.open = {start, line: this.#line, depth};
    else chain.append(start, end, this.#line);
  }

  #hook(table: TextTable, chain: NftDumpChain, text: string): void {
    const found = /^type (\S+) hook (\S+) (?:devices? (.*) )?priority ([^;]+);(?: policy (accept|drop);)?/.exec(text);
    const [, type = '', hook = '', interfaces, word = '', policy = 'accept'] = found ?? [];
    const devices = interfaces?.match(/[^\s"{},=]+/g);
    const priority = nftPriority(word, table.family);
    if (priority === null) this.#stray(text);
    else chain.base = {type, hook, priority, policy: policy === 'drop' ? 'drop' : 'accept', ...(devices ? {devices} : {})};
  }

  #inSet({table, set}: {readonly table: TextTable; readonly set: NftDumpSet}, text: string): void {
    const [word = ''] = text.split(' ', 1);
    const rest = text.slice(word.length + 1);
    if (text === '}') this.#state = {kind: 'table', table};
    else if (word === 'elements') this.#moreElements({kind: 'elements', table, set, parts: []}, rest.replace(/^=\s*\{/, ''));
    else if (word === 'type' || word === 'typeof') setTypes(set, rest, word === 'typeof' ? 'typeof ' : '');
    else if (word === 'flags') setFlags(set, rest);
    else if (word === 'timeout') set.timeout = nftSeconds(rest);
    else if (word === 'size') set.size = Number.parseInt(rest, 10);
    else if (!setProperties.has(word)) {
      set.complete = false;
      this.#breakTable(table, text);
    }
  }

  #moreElements(state: State & {readonly kind: 'elements'}, text: string): void {
    const {table, set, parts} = state;
    this.#state = state;
    if (!endsElements(text)) {
      parts.push(text);
      return;
    }
    parts.push(text.slice(0, -1));
    addElements(set, parts.join(' '));
    this.#state = {kind: 'set', table, set};
  }

  /** What another program printed into a table may stand for rules. What follows is read. */
  #breakTable(table: TextTable, text: string): void {
    this.#stray(text);
    table.complete = false;
    table.declared = false;
    this.#truncation ??= {table: table.id, line: this.#line, by: text.slice(0, maxShownLine)};
  }

  #stray(text: string): void {
    this.#strays.push({line: this.#line, text});
  }

  #mayBeTruncated(text: string): boolean {
    return this.#state.kind === 'outside' ? /^table .*[^{]$/.test(text) : text !== '}';
  }

  #truncatedPart(text: string): void {
    if (text === '') return;
    this.#stray(text);
    if (this.#state.kind === 'outside') this.#truncatedTable = text.slice('table '.length);
  }

  /** A block that is still open is truncated. */
  #finish(): NftRuleset['truncation'] {
    const state = this.#state;
    if (state.kind === 'table' && this.#isUnnamed) return null;
    if (state.kind === 'outside') return this.#truncatedTable === null ? null : {table: this.#truncatedTable, line: this.#line};
    Object.assign(state.table, {complete: false, declared: false});
    if (state.kind === 'chain') state.chain.complete = false;
    if (state.kind === 'set' || state.kind === 'elements') state.set.complete = false;
    // The last element may be incomplete.
    if (state.kind === 'elements') addElements(state.set, state.parts.join(' ').replace(/,[^,]*$/, ''));
    return {table: state.table.id, line: this.#line};
  }
}

function withoutHandle(text: string): string {
  return text.includes('# handle ') ? text.replace(/\s*# handle \d+$/, '') : text;
}

/** Names of chains, sets and maps that kube-proxy makes. */
const namesOfProxy =
  /(?:[@ ]|^)(?:service-(?:ips|nodeports)|no-endpoint-\w+|cluster-ips|(?:service|endpoint|external|firewall)-[A-Z2-7]{8}-)/m;
const isPart = /^(?:chain|map|set) \S+ \{$/;
/** Of a line in a message. */
const maxShownLine = 120;

/** `error: unexpected EOF`, `Killed`: no rule begins with a word and a colon, or with a capital letter. */
const isOtherProgram = /^(?:[\w./-]+: |[A-Z])/;
const isObject = /^(?:counter|quota|limit|flowtable|synproxy|secmark|tunnel|ct (?:helper|timeout|expectation)) /;
const setProperties = new Set(['comment', 'gc-interval', 'auto-merge', 'policy', 'counter', 'quota', 'limit', 'last']);

/** How many more braces it opens than it closes; quoted ones do not count. */
export function depthOf(text: string): number {
  if (!text.includes('{') && !text.includes('}')) return 0;
  let depth = 0;
  for (const [brace] of text.replace(/"[^"]*"/g, '').matchAll(/[{}]/g)) depth += brace === '{' ? 1 : -1;
  return depth;
}

function setTypes(set: NftDumpSet, text: string, kind: string): void {
  const [keys = '', values] = text.split(' : ');
  set.keyTypes = keys.split(' . ').map(part => kind + part);
  set.valueTypes = values?.split(' . ').map(part => (part === 'verdict' ? part : kind + part)) ?? null;
}

function setFlags(set: NftDumpSet, text: string): void {
  const flags = text.split(/[\s,]+/);
  set.dynamic = flags.includes('dynamic');
  set.flags = flags.filter(flag => flag !== 'dynamic').sort();
}

function endsElements(text: string): boolean {
  return text.endsWith('}') && (!text.includes('"') || depthOf(text) < 0);
}

function addElements(set: NftDumpSet, text: string): void {
  for (const element of parseNftElements(text)) set.elements.set(element.key, element);
}

/** The chains of a table in a text dump. */
class NftChainList extends ChainList<NftDumpChain> implements TableChains {
  readonly #table: string;
  readonly #textAt: RuleText;

  constructor(table: string, textAt: RuleText) {
    super();
    this.#table = table;
    this.#textAt = textAt;
  }

  protected override create(place: number): NftDumpChain {
    return new NftDumpChain(this.#table, this.nameOf(place), this.#textAt);
  }

  get ruleCount(): number {
    return [...this.values()].reduce((sum, {ruleCount}) => sum + ruleCount, 0);
  }

  ruleCountAt(place: number): number {
    return this.at(place)?.ruleCount ?? 0;
  }

  baseChains(): readonly NftChain[] {
    return [...this.values()].filter(({base}) => base !== null);
  }

  checkJson(): NftJsonCheck | null {
    return null;
  }

  /** The chain of this name, which is new if it has not been declared. */
  open(name: string): NftDumpChain {
    return this.openChain(name);
  }
}
