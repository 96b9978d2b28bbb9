import {UnreadableText} from '../../model/text.ts';
import {append} from '../../model/lists.ts';
import type {Family} from '../../model/address.ts';
import type {Backend, Truncation, Ruleset, StrayLine} from '../../model/ruleset.ts';
import {plainText, requireUndamaged} from '../lines.ts';
import {chainsWithLostRules} from '../lost-end.ts';
import {ChainTable} from './chain-table.ts';
import {chainByChain, familyOfRules, parseDumpHeader} from './dump-chain.ts';
import {pastedRulesets} from './pasted-rulesets.ts';
import {beginsPastedLine, mayBePlainDump, pastedLines} from './pasted-text.ts';

/**
 * Reads the output of `iptables-save`, `ip6tables-save` (either backend, with or without `-c`), `iptables -S` or `iptables -L`. A dump is
 * read in one pass over the bytes; other text line by line. A file may contain several dumps, with other lines between them; each dump is
 * one ruleset. `fallback` is the family if neither a header nor an address shows it. Input without any rule or chain gives no ruleset.
 * Throws an UnreadableText.
 */
export function parseDumps(input: Buffer | string, fallback: Family = 'IPv4'): readonly Ruleset[] {
  const bytes = plainText(typeof input === 'string' ? Buffer.from(input) : input);
  const dump = mayBePlainDump(bytes) ? new DumpReader(bytes, fallback).read() : null;
  const rulesets = dump ?? pastedRulesets(pastedLines(bytes), fallback);
  if (rulesets.length > 0) requireUndamaged(bytes);
  return rulesets;
}

const NEWLINE = 0x0a;
const DASH = 0x2d;
const UPPER_A = 0x41;
const SPACE = 0x20;
const COLON = 0x3a;
const STAR = 0x2a;
const HASH = 0x23;
const BRACKET = 0x5b;
const CLOSING_BRACKET = 0x5d;

/** Control lines are short: of a longer line of another kind only this many bytes are kept. */
const maxControlLine = 4096;

/** Of a line in a message. */
const maxShownLine = 120;

const maxStrays = 100_000;

class DumpReader {
  readonly #bytes: Buffer;
  readonly #done: OpenDump[] = [];
  #dump: OpenDump;
  #table: OpenTable | null = null;
  /** The chain of the previous line: rules of a chain are consecutive, so it is nearly always the right one. */
  #chain = -1;
  #line = 0;
  #strays = 0;
  /** A rule is outside all tables: the text is more than dumps. */
  #isMixed = false;

  constructor(bytes: Buffer, fallback: Family) {
    this.#bytes = bytes;
    this.#dump = newDump(fallback, null, null);
  }

  /** Null if rules are outside of tables, or a line is not one of a dump: then the text is more than dumps. */
  read(): readonly Ruleset[] | null {
    const bytes = this.#bytes;
    let next = 0;
    for (let start = 0; start < bytes.length && !this.#isMixed; start = next) {
      const newline = bytes.indexOf(NEWLINE, start);
      const end = newline < 0 ? bytes.length : newline;
      this.#line++;
      next = end + 1;
      const isRule = bytes[start] === DASH && bytes[start + 1] === UPPER_A && bytes[start + 2] === SPACE;
      if (!isRule && bytes[start] !== COLON && start > 0 && beginsPastedLine(bytes, start)) return null;
      if (newline < 0 && this.#truncatedPart(start, end)) break;
      if (isRule) this.#rule(start, start + 3, end, true);
      else this.#other(start, end);
    }
    if (this.#isMixed) return null;
    this.#lostEnd();
    this.#finish(this.#line);
    return this.#done.map(asRuleset);
  }

  /** The end of the text was lost, and a COMMIT was added. */
  #lostEnd(): void {
    const [name, table] = [...this.#dump.tables].at(-1) ?? [];
    if (name !== 'nat' || table?.complete !== true) return;
    const {chains} = table;
    const lost = chainsWithLostRules({
      chains,
      bytes: this.#bytes,
      calls: {before: [' -j ', ' -g '], after: '\n'},
      isEarly: last => chains.nameOf(last) === 'KUBE-SERVICES' && !/-j KUBE-NODEPORTS$/.test(chains.textAt(last)),
    });
    if (lost === 0) return;
    table.complete = false;
    chains.markIncompleteFrom(chains.size - 1 - lost);
    this.#dump.truncation ??= {table: name, line: this.#line, seenBy: `its last ${lost} chains have no rules`};
  }

  /** Inside an uncommitted table, a last line without a newline is incomplete and is not read as a rule. */
  #truncatedPart(start: number, end: number): boolean {
    if (this.#table === null) return false;
    const text = this.#bytes.toString('utf8', start, Math.min(end, start + maxControlLine));
    if (text.trim() === 'COMMIT') return false;
    this.#dump.strays.push({line: this.#line, text});
    return true;
  }

  /** `nameAt` is where the name of the chain starts; `plain` means that the line is only the rule. */
  #rule(start: number, nameAt: number, end: number, plain: boolean): void {
    if (this.#table === null) {
      this.#isMixed = true;
      return;
    }
    const {chains} = this.#table;
    if (this.#chain < 0 || !chains.isAt(this.#chain, nameAt)) this.#chain = chains.enter(nameAt, this.#wordEnd(nameAt, end));
    chains.append(this.#chain, {start, nameAt, end, line: this.#line, plain});
  }

  #other(start: number, end: number): void {
    const first = this.#bytes[start];
    if (first === BRACKET && this.#countedRule(start, end)) return;
    if (first === COLON) return this.#declare(start + 1, end);
    const text = this.#bytes.toString('utf8', start, Math.min(end, start + maxControlLine)).trim();
    if (text === '') return;
    if (first === STAR && /^\*(?:nat|filter|mangle|raw|security)$/.test(text)) return this.#openTable(text.slice(1));
    if (first === HASH) return this.#comment(text);
    if (text === 'COMMIT') return this.#commit();
    if (/^-[AP] \S/.test(text) || /^-N \S+$/.test(text)) return this.#pasted(text, start, end);
    this.#stray(text);
    if (this.#table !== null) this.#breakTable(this.#table, text);
  }

  /** What another program printed into a table, such as the error of a connection, may stand for rules. The rules after it are read. */
  #breakTable(table: OpenTable, text: string): void {
    table.chains.markIncompleteFrom(Math.max(this.#chain, 0));
    table.isBroken = true;
    this.#dump.truncation ??= {table: table.name, line: this.#line, by: text.slice(0, maxShownLine)};
  }

  /** Lines that are none of a dump are kept, unless it is made of them. */
  #stray(text: string): void {
    if (++this.#strays > maxStrays)
      throw new UnreadableText(`the dump was not read: more than ${maxStrays} of its lines are none of iptables-save`);
    this.#dump.strays.push({line: this.#line, text});
  }

  /** A rule that was indented when it was pasted. Declarations of `iptables -S` do not occur in dumps. */
  #pasted(text: string, start: number, end: number): void {
    const dash = this.#bytes.indexOf(DASH, start);
    if (text.startsWith('-A')) this.#rule(dash, dash + 3, end, false);
    else this.#isMixed = true;
  }

  /** `[12:720] -A CHAIN …`, as `iptables-save -c` prints a rule. */
  #countedRule(start: number, end: number): boolean {
    const close = this.#bytes.indexOf(CLOSING_BRACKET, start);
    if (close < 0 || close > end || this.#bytes.toString('latin1', close + 1, close + 5) !== ' -A ') return false;
    this.#rule(start, close + 5, end, false);
    return true;
  }

  /** `:NAME POLICY [packets:bytes]`; a user chain has `-` for its policy. */
  #declare(nameAt: number, end: number): void {
    const table = this.#table;
    if (table === null) {
      this.#isMixed = true;
      return;
    }
    const stop = this.#wordEnd(nameAt, end);
    const chain = table.chains.enter(nameAt, stop);
    const policyAt = stop + 1;
    if (policyAt < end && this.#bytes[policyAt] !== DASH)
      table.chains.setPolicy(chain, this.#bytes.toString('latin1', policyAt, this.#wordEnd(policyAt, end)));
  }

  #openTable(name: string): void {
    if (this.#dump.tables.has(name)) this.#nextDump(this.#dump.family, this.#dump.backend, this.#dump.toolVersion);
    else this.#closeTable(this.#line - 1);
    const table = {name, complete: false, isBroken: false, ...(this.#dump.isByChain ? ({isByChain: true} as const) : {})};
    this.#table = Object.assign(table, {chains: new ChainTable(this.#bytes, table)});
    this.#dump.tables.set(name, this.#table);
  }

  #commit(): void {
    if (this.#table !== null) this.#table.complete = !this.#table.isBroken;
    this.#closeTable(this.#line);
  }

  /** The header of a dump shows the program, its version and its backend. A warning is kept: the other backend may have rules. */
  #comment(text: string): void {
    const header = parseDumpHeader(text);
    if (header === null) {
      if (text === chainByChain) this.#dump.isByChain = true;
      else if (!/^# Completed/.test(text)) this.#stray(text);
      return;
    }
    const dump = this.#dump;
    const {backend, version: toolVersion} = header;
    const family = header.family ?? dump.family;
    if (dump.tables.size > 0 && (dump.family !== family || dump.backend !== backend)) this.#nextDump(family, backend, toolVersion);
    else Object.assign(dump, {family, backend, toolVersion});
    this.#dump.isNamed = header.family !== null;
  }

  #wordEnd(start: number, end: number): number {
    let stop = start;
    while (stop < end && (this.#bytes[stop] ?? SPACE) > SPACE) stop++;
    return stop;
  }

  #nextDump(family: Family, backend: Backend | null, toolVersion: string | null): void {
    this.#finish(this.#line - 1);
    this.#dump = newDump(family, backend, toolVersion);
  }

  /** `last` is the last line of the dump. */
  #finish(last: number): void {
    this.#closeTable(last);
    if (this.#dump.tables.size > 0) this.#done.push(this.#dump);
    else append(this.#done.at(-1)?.strays ?? [], this.#dump.strays);
  }

  #closeTable(last: number): void {
    const table = this.#table;
    if (table !== null && !table.complete && !table.isBroken) {
      // Chains are in the order of their declarations, so a truncated dump does not show the rest of its last chain or the later ones.
      table.chains.markIncompleteFrom(Math.max(this.#chain, 0));
      this.#dump.truncation ??= {table: table.name, line: last};
    }
    this.#table = null;
    this.#chain = -1;
  }
}

/** A table of a dump that is being read. */
interface OpenTable {
  readonly name: string;
  readonly chains: ChainTable;
  complete: boolean;
  /** Another program printed into it. */
  isBroken: boolean;
}

interface OpenDump {
  family: Family;
  /** The header names the family. */
  isNamed: boolean;
  backend: Backend | null;
  toolVersion: string | null;
  truncation: Truncation | null;
  isByChain: boolean;
  readonly tables: Map<string, OpenTable>;
  readonly strays: StrayLine[];
}

function newDump(family: Family, backend: Backend | null, toolVersion: string | null): OpenDump {
  return {family, isNamed: false, backend, toolVersion, truncation: null, isByChain: false, tables: new Map(), strays: []};
}

function asRuleset(dump: OpenDump): Ruleset {
  const {tables}: {readonly tables: ReadonlyMap<string, OpenTable>} = dump;
  let ruleCount = 0;
  let chainCount = 0;
  for (const table of tables.values()) {
    chainCount += table.chains.size;
    ruleCount += table.chains.ruleCount;
  }
  const {backend, toolVersion, strays, truncation} = dump;
  const family = dump.isNamed || familyIn(tables) !== 'IPv6' ? dump.family : 'IPv6';
  return {
    family,
    backend,
    toolVersion,
    strays,
    truncation,
    tables,
    ruleCount,
    chainCount,
    ...(dump.isByChain ? {isByChain: true} : {}),
    ...(toolVersion !== null && !dump.isByChain && [...tables.values()].every(({chains}) => chains.isPlain) ? {isUncounted: true} : {}),
    hasTable: name => tables.has(name),
    forgetting: (mayForget, work) => {
      const before = [...tables.values()].map(({chains}) => ({chains, asked: chains.asked}));
      const result = work();
      for (const {chains, asked} of before) chains.forgetAfter(asked, mayForget);
      return result;
    },
    chain: (table, name) => tables.get(table)?.chains.get(name),
  };
}

/** The family that addresses show, if the header does not. */
function familyIn(tables: ReadonlyMap<string, OpenTable>): Family | null {
  for (const {chains} of tables.values()) {
    for (let place = 0; place < chains.size; place++) {
      const family = familyOfRules(chains.textAt(place));
      if (family !== null) return family;
    }
  }
  return null;
}
