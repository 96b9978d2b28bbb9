import {append} from '../../model/append.ts';
import type {Family} from '../../model/family.ts';
import type {Backend, Ruleset, StrayLine} from '../../model/ruleset.ts';
import {type ListingCommand, parseListingCommand} from './listing-command.ts';
import {isElision, newTable, type OpenTable, tableOf} from './open-table.ts';
import {fromPastedText} from './pasted-text.ts';

/**
 * Reads what `iptables-save`, `ip6tables-save` (either backend, with or without `-c`), `iptables -S` or `iptables -L` printed, in
 * one pass over the bytes. A file may hold several dumps one after another, and foreign lines in between; each dump is one ruleset.
 * `fallback` is the family of a dump whose header does not tell. An input without any rule or chain gives no ruleset.
 */
export function parseDumps(input: Buffer | string, fallback: Family = 'IPv4'): readonly Ruleset[] {
  const bytes = typeof input === 'string' ? Buffer.from(input) : input;
  return new DumpReader(fromPastedText(bytes) ?? bytes, fallback).read();
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

/** Control lines are short; of a longer foreign line only this many bytes are kept. */
const maxControlLine = 4096;

class DumpReader {
  readonly #bytes: Buffer;
  readonly #done: OpenDump[] = [];
  #dump: OpenDump;
  #table: OpenTable | null = null;
  /** The chain of the line before: rules of a chain stand together, so it is nearly always the right one. */
  #chain = -1;
  #line = 0;
  /** The command whose output is being read, where it was pasted with it. */
  #asked: ListingCommand | null = null;

  constructor(bytes: Buffer, fallback: Family) {
    this.#bytes = bytes;
    this.#dump = newDump(fallback, null, null);
  }

  read(): readonly Ruleset[] {
    const bytes = this.#bytes;
    for (let start = 0; start < bytes.length; ) {
      const newline = bytes.indexOf(NEWLINE, start);
      const end = newline < 0 ? bytes.length : newline;
      this.#line++;
      if (newline < 0 && this.#truncatedPart(start, end)) break;
      if (bytes[start] === DASH && bytes[start + 1] === UPPER_A && bytes[start + 2] === SPACE) this.#rule(start, start + 3, end, true);
      else this.#other(start, end);
      start = end + 1;
    }
    this.#finish(this.#line);
    return this.#done.map(asRuleset);
  }

  /** Inside a table that has not been committed, a last line without a newline is half a line: it is not read as a rule. */
  #truncatedPart(start: number, end: number): boolean {
    if (this.#table === null || this.#table.name === unnamedTable) return false;
    const text = this.#bytes.toString('utf8', start, Math.min(end, start + maxControlLine));
    if (text.trim() === 'COMMIT') return false;
    this.#dump.strays.push({line: this.#line, text});
    return true;
  }

  /** `nameAt` is where the name of the chain starts; `plain` that the line is the rule and nothing else. */
  #rule(start: number, nameAt: number, end: number, plain: boolean): void {
    const {chains} = this.#currentTable();
    if (this.#chain < 0 || !chains.isAt(this.#chain, nameAt)) this.#chain = chains.enter(nameAt, this.#wordEnd(nameAt, end));
    chains.append(this.#chain, {start, nameAt, end, line: this.#line, plain});
  }

  #other(start: number, end: number): void {
    const first = this.#bytes[start];
    if (first === BRACKET && this.#countedRule(start, end)) return;
    if (first === COLON) return this.#declare(start + 1, end);
    const text = this.#bytes.toString('utf8', start, Math.min(end, start + maxControlLine)).trim();
    if (text === '') return;
    if (first === STAR) return this.#openTable(text.slice(1).trim());
    if (this.#command(text)) return;
    if (first === HASH) return this.#comment(text);
    if (text === 'COMMIT') return this.#commit();
    if (this.#listing(text, start, end)) return;
    if (isElision(text)) this.#currentTable().elided = true;
    this.#dump.strays.push({line: this.#line, text});
  }

  /** A command line above its output tells which table and family the listing is of. */
  #command(text: string): boolean {
    const command = parseListingCommand(text);
    if (command === null) return false;
    this.#closeTable(this.#line - 1);
    if (this.#dump.tables.get(unnamedTable) !== undefined) this.#nameListing();
    if (this.#dump.family !== command.family && this.#dump.tables.size > 0) this.#nextDump(command.family, this.#dump.backend, null);
    this.#dump.family = command.family;
    this.#asked = command;
    this.#dump.strays.push({line: this.#line, text});
    return true;
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
    const table = this.#currentTable();
    const stop = this.#wordEnd(nameAt, end);
    const chain = table.chains.enter(nameAt, stop);
    const policyAt = stop + 1;
    if (policyAt < end && this.#bytes[policyAt] !== DASH)
      table.chains.setPolicy(chain, this.#bytes.toString('latin1', policyAt, this.#wordEnd(policyAt, end)));
    table.declares = true;
  }

  #openTable(name: string): void {
    if (this.#dump.tables.has(name)) this.#nextDump(this.#dump.family, this.#dump.backend, this.#dump.toolVersion);
    else this.#closeTable(this.#line - 1);
    this.#table = newTable(this.#bytes, name, true);
    this.#dump.tables.set(name, this.#table);
  }

  #commit(): void {
    if (this.#table !== null) this.#table.complete = true;
    this.#closeTable(this.#line);
  }

  /**
   * The header of a dump names the program, its version and its backend. A warning is kept: it may say that there are rules
   * elsewhere. iptables 1.8.0 to 1.8.2 with the nft backend call themselves `xtables-save` for both families.
   */
  #comment(text: string): void {
    const header = /^# Generated by (x|ip6?)tables(-legacy|-nft)?-save v(\S+)(?: \(([^)]*)\))?/.exec(text);
    if (header === null) {
      if (!/^# Completed/.test(text)) this.#dump.strays.push({line: this.#line, text});
      return;
    }
    const dump = this.#dump;
    const old = header[1] === 'x';
    const family: Family = old ? dump.family : header[1] === 'ip6' ? 'IPv6' : 'IPv4';
    const backend: Backend = old || header[2] === '-nft' || header[4] === 'nf_tables' ? 'nft' : 'legacy';
    if (dump.tables.size > 0 && (dump.family !== family || dump.backend !== backend)) this.#nextDump(family, backend, header[3] ?? null);
    else Object.assign(dump, {family, backend, toolVersion: header[3] ?? null});
  }

  /** Lines of `iptables -S`, and rules that were indented when they were pasted. */
  #listing(text: string, start: number, end: number): boolean {
    const word = /^-(N|P|A) (\S+)(?: (\S+))?/.exec(text);
    if (word === null) return false;
    const [, kind, name = '', policy] = word;
    const dash = this.#bytes.indexOf(DASH, start);
    if (kind === 'A') {
      this.#rule(dash, dash + 3, end, false);
      return true;
    }
    if (kind === 'P' ? this.#isListed(name) : this.#currentTable().declared.has(name)) this.#nextListing();
    const table = this.#currentTable();
    const chain = table.chains.enter(dash + 3, this.#wordEnd(dash + 3, end));
    if (kind === 'P' && policy !== undefined) table.chains.setPolicy(chain, policy);
    table.declared.add(name);
    if (kind === 'P') table.declares = true;
    return true;
  }

  /** Policies come first in a listing, so one that comes later, or again, opens the listing of another table. */
  #isListed(name: string): boolean {
    const {chains} = this.#currentTable();
    if ((chains.get(name)?.policy ?? null) !== null) return true;
    return [...chains.values()].some(chain => chain.policy === null || chain.ruleCount > 0);
  }

  #nextListing(): void {
    this.#closeTable(this.#line - 1);
    this.#nameListing();
  }

  /**
   * A listing does not say which table it is of; the command does, or its chains. A whole one begins with the policies of base
   * chains: without them, or with rules left out, it is an excerpt, and what it does not hold may well be on the node.
   */
  #nameListing(): void {
    const table = this.#dump.tables.get(unnamedTable);
    if (table === undefined) return;
    this.#dump.tables.delete(unnamedTable);
    table.name = this.#asked?.table ?? tableOf(table.chains);
    table.complete = table.declares && !table.elided && !(this.#asked?.filtered ?? false);
    this.#asked = null;
    if (!table.complete) table.chains.markIncompleteFrom(0);
    const {tables, family, backend, toolVersion} = this.#dump;
    if (tables.has(table.name)) {
      this.#done.push(this.#dump);
      this.#dump = newDump(family, backend, toolVersion);
    }
    this.#dump.tables.set(table.name, table);
  }

  /** The open table; in a listing without table headers, one whose name is found out at the end. */
  #currentTable(): OpenTable {
    this.#table ??= this.#dump.tables.get(unnamedTable) ?? newTable(this.#bytes, unnamedTable, false);
    if (this.#table.name === unnamedTable) this.#dump.tables.set(unnamedTable, this.#table);
    return this.#table;
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
    this.#nameListing();
    if (this.#dump.tables.size > 0) this.#done.push(this.#dump);
    else append(this.#done.at(-1)?.strays ?? [], this.#dump.strays);
  }

  #closeTable(last: number): void {
    const table = this.#table;
    if (table !== null && table.name !== unnamedTable && !table.complete) {
      // Chains stand in the order of their declarations, so the dump tells nothing of the chain it ends in and of those after it.
      table.chains.markIncompleteFrom(Math.max(this.#chain, 0));
      this.#dump.cut ??= {table: table.name, line: last};
    }
    this.#table = null;
    this.#chain = -1;
  }
}

interface OpenDump {
  family: Family;
  backend: Backend | null;
  toolVersion: string | null;
  cut: {readonly table: string; readonly line: number} | null;
  readonly tables: Map<string, OpenTable>;
  readonly strays: StrayLine[];
}

const unnamedTable = '';

function newDump(family: Family, backend: Backend | null, toolVersion: string | null): OpenDump {
  return {family, backend, toolVersion, cut: null, tables: new Map(), strays: []};
}

function asRuleset(dump: OpenDump): Ruleset {
  const {tables}: {readonly tables: ReadonlyMap<string, OpenTable>} = dump;
  let ruleCount = 0;
  let chainCount = 0;
  for (const table of tables.values()) {
    chainCount += table.chains.size;
    ruleCount += table.chains.ruleCount;
  }
  const {family, backend, toolVersion, strays, cut} = dump;
  return {
    ...{family, backend, toolVersion, strays, cut, tables, ruleCount, chainCount},
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
