import type {Family} from '../../model/address.ts';
import type {Backend, StrayLine} from '../../model/ruleset.ts';
import {type DumpHeader, parseDumpHeader} from './dump-chain.ts';
import {isPrompt, parseListingCommand, type PastedLine} from './pasted-text.ts';

/** A rule with its line number. */
export interface PastedRule {
  readonly line: number;
  readonly text: string;
}

/** The part of one chain that one section shows. */
export interface SectionChain {
  readonly name: string;
  policy: string | null;
  declared: boolean;
  /** How many rules jump to it, if a listing shows it. */
  references: number | null;
  /** Its heading stands above its rows, as `iptables -L` prints both. */
  isListed: boolean;
  /** Rules of it were left out, or a line among them could not be read. */
  hasGaps: boolean;
  readonly rules: PastedRule[];
}

/** What the command or header above a section shows about it. */
interface Origin {
  readonly family: Family | null;
  readonly backend: Backend | null;
  readonly toolVersion: string | null;
  readonly table: string | null;
  readonly chain: string | null;
  readonly filtered: boolean;
  readonly isCommand: boolean;
}

/** Rules of pasted text that one command printed of one table, as far as the text shows. */
export interface Section {
  readonly origin: Origin;
  /** The table whose header `*nat` stands above; null in a listing. */
  readonly header: string | null;
  readonly chains: Map<string, SectionChain>;
  /** One of its chains is declared. */
  declares: boolean;
  /** The line of its last rule or declaration. */
  last: number;
  /** A table was closed by COMMIT. */
  committed: boolean;
  /** Rules were left out, or a line among the rules could not be read. */
  hasGaps: boolean;
}

interface PastedSections {
  readonly sections: readonly Section[];
  readonly strays: StrayLine[];
}

const noOrigin: Origin = {family: null, backend: null, toolVersion: null, table: null, chain: null, filtered: false, isCommand: false};

/** Divides pasted text into the output of each command. Every line is part of a section or a stray line. */
export function splitSections(lines: readonly PastedLine[]): PastedSections {
  const reader = new SectionReader();
  for (const [index, line] of lines.entries()) reader.take(line, index + 1);
  return reader.result();
}

class SectionReader {
  readonly #sections: Section[] = [];
  readonly #strays: StrayLine[] = [];
  #origin = noOrigin;
  #section: Section | null = null;
  /** The index of the base chain declared last, in the order of the hooks. */
  #hook = -1;
  /** Text that is not a rule followed the last rule. */
  #isInterrupted = false;

  take(line: PastedLine, number: number): void {
    const text = line.text.trim();
    if (text === '') return;
    if (this.#isMade(line, text, number)) {
      if (this.#section !== null) this.#section.last = number;
      return;
    }
    this.#strays.push({line: number, text});
    // A line in place of rules that were left out, such as `...`.
    if (/^(?:\.{3,}|…+|⋮|\[?\(?(?:\.\.\.|…|snip|omitted|省略|中略|略)\)?\]?)$/i.test(text) || line.broken) this.#gap();
    else if (!text.startsWith('#')) this.#isInterrupted = true;
  }

  result(): PastedSections {
    return {sections: this.#sections.filter(({chains}) => chains.size > 0), strays: this.#strays};
  }

  #isMade(line: PastedLine, text: string, number: number): boolean {
    const rule = /^(?:\[\d+:\d+\] )?-A (\S+)(?:\s|$)/.exec(text);
    if (rule !== null) return this.#rule(rule[1] ?? '', {line: number, text});
    const declared = /^(?:-([NP]) |:)(\S+)(?: ([A-Z]+))?/.exec(text);
    if (declared !== null) return this.#declare(declared[2] ?? '', declared[1] === 'N' ? null : (declared[3] ?? null), line);
    const table = /^\*(nat|filter|mangle|raw|security)$/.exec(text)?.[1];
    if (table !== undefined) return this.#open(table);
    if (text === 'COMMIT') return this.#commit();
    const header = parseDumpHeader(text);
    if (header !== null) return this.#headed(header);
    if (/^# Completed/.test(text)) return true;
    this.#command(text);
    return false;
  }

  #gap(): void {
    const section = this.#current();
    section.hasGaps = true;
    const chain = [...section.chains.values()].at(-1);
    if (chain !== undefined) chain.hasGaps = true;
  }

  #command(text: string): void {
    const command = parseListingCommand(text);
    if (command !== null) this.#begin({...noOrigin, ...command, isCommand: true});
    else if (isPrompt(text)) this.#begin({...noOrigin, filtered: /\b(?:e?grep|head|tail|awk|sed)\b/.test(text)});
  }

  #begin(origin: Origin): void {
    this.#origin = origin;
    this.#section = null;
  }

  #headed({family, backend, version}: DumpHeader): boolean {
    const {filtered, isCommand} = this.#origin;
    // iptables-legacy-save calls itself iptables-save.
    const own = {family: family ?? this.#origin.family, backend: backend ?? this.#origin.backend};
    this.#begin({...noOrigin, ...own, toolVersion: version, filtered, isCommand});
    return true;
  }

  #open(table: string): boolean {
    this.#section = this.#new(table);
    return true;
  }

  #commit(): boolean {
    if (this.#section?.header != null) this.#section.committed = true;
    this.#section = null;
    return true;
  }

  #rule(chain: string, rule: PastedRule): boolean {
    // Rules that an author repeats after a listing do not belong to it.
    if (this.#isInterrupted && this.#section !== null && this.#section.header === null && isStructured(this.#section)) {
      this.#section = null;
      this.#origin = {...this.#origin, filtered: true, isCommand: false, chain: null};
    }
    this.#isInterrupted = false;
    chainOf(this.#current(), chain).rules.push(rule);
    return true;
  }

  #declare(name: string, policy: string | null, {heading, references, text}: PastedLine): boolean {
    if (this.#section?.header == null && this.#startsListing(name, policy !== null, heading)) this.#section = null;
    this.#isInterrupted = false;
    const section = this.#current();
    const chain = chainOf(section, name);
    chain.declared = true;
    section.declares = true;
    chain.policy ??= policy === '-' ? null : policy;
    chain.references = references;
    chain.isListed ||= heading;
    if (policy !== null) this.#hook = hooks.indexOf(name);
    return text !== '';
  }

  /** Base chains come first in a listing, in the order of their hooks, and a chain comes once. */
  #startsListing(name: string, isBase: boolean, heading: boolean): boolean {
    if (this.#section === null) return false;
    const {chains} = this.#section;
    const known = chains.get(name);
    if (known?.declared === true) return true;
    if (!isBase) return false;
    if (hooks.indexOf(name) <= this.#hook) return true;
    return [...chains.values()].some(chain => (chain.declared ? chain.policy === null : true) || (!heading && chain.rules.length > 0));
  }

  #current(): Section {
    this.#section ??= this.#new(null);
    return this.#section;
  }

  #new(header: string | null): Section {
    this.#hook = -1;
    this.#isInterrupted = false;
    const section: Section = {origin: this.#origin, header, chains: new Map(), declares: false, last: 0, committed: false, hasGaps: false};
    this.#sections.push(section);
    return section;
  }
}

const hooks: readonly string[] = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'];

/** A section that declares its chains, like whole listings and dumps. Rules alone are quotes or the output of grep. */
export function isStructured({header, declares}: Section): boolean {
  return header !== null || declares;
}

function chainOf(section: Section, name: string): SectionChain {
  const known = section.chains.get(name);
  if (known !== undefined) return known;
  const chain: SectionChain = {name, policy: null, declared: false, references: null, isListed: false, hasGaps: false, rules: []};
  section.chains.set(name, chain);
  return chain;
}
