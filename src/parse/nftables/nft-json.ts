import type {NftHook, NftRuleset, NftStray} from '../../model/nft-ruleset.ts';
import {readJson} from '../json-text.ts';
import type {NftDumpChain, RuleSource} from './nft-dump-chain.ts';
import {asNftRuleset, isNftFamily, NftDumpTable} from './nft-dump-table.ts';
import {jsonRuleText} from './nft-json-rule.ts';
import {forEachItem} from './nft-json-items.ts';
import {jsonSet} from './nft-json-set.ts';
import {isJsonObject, type JsonValue, type JsonObject, listOf, onlyEntry, textOf} from './nft-json-value.ts';

/**
 * Reads the output of `nft -j list ruleset` or `nft -j list table …`, also several documents one after another. Rules stay bytes until they
 * are needed. A truncated dump is read up to its end: see `cut`.
 */
export function parseNftJson(input: Buffer | string): NftRuleset {
  return new JsonReader(typeof input === 'string' ? Buffer.from(input) : input).read();
}

class JsonReader {
  readonly #bytes: Buffer;
  readonly #tables = new Map<string, NftDumpTable>();
  readonly #strays: NftStray[] = [];
  #toolVersion: string | null = null;
  /** The table that the last object belonged to, and whether it was a rule. */
  #lastTable: NftDumpTable | null = null;
  #lastIsRule = false;
  /** The chain of the last rule. Its bytes up to the end of the chain's name begin at `start`; the name begins after `head`. */
  #rule: {readonly chain: NftDumpChain; readonly start: number; readonly length: number; readonly head: ObjectHead} | null = null;
  /** Of the last chain that is no base chain. */
  #chainHead: ObjectHead | null = null;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  read(): NftRuleset {
    const cutAt = forEachItem(this.#bytes, (start, end) => {
      if (!this.#isLikeLast(start, end) && !this.#isRule(start, end)) this.#object(this.#bytes.toString('utf8', start, end), start);
    });
    return asNftRuleset({
      tables: this.#tables,
      toolVersion: this.#toolVersion,
      strays: this.#strays,
      cut: cutAt === null ? null : this.#cut(cutAt),
    });
  }

  /** Nearly all objects of a large dump begin like the last rule or the last chain: up to the name of the chain, or including it. */
  #isLikeLast(start: number, end: number): boolean {
    return this.#isInLastChain(start, end) || this.#isRuleLikeLast(start, end) || this.#isChainLikeLast(start, end);
  }

  #isInLastChain(start: number, end: number): boolean {
    if (this.#rule === null) return false;
    const {start: before, length} = this.#rule;
    // From the end, as names differ there.
    for (let at = length - 1; at >= 0; at--) if (this.#bytes[start + at] !== this.#bytes[before + at]) return false;
    if (start + length > end) return false;
    this.#append(this.#rule, start, end);
    return true;
  }

  #isRuleLikeLast(start: number, end: number): boolean {
    if (this.#rule === null) return false;
    const chain = this.#nameAfter(this.#rule.head, start, end);
    if (chain !== null) this.#openRule(this.#rule.head, chain, {start, end});
    return chain !== null;
  }

  #isChainLikeLast(start: number, end: number): boolean {
    if (this.#chainHead === null) return false;
    const name = this.#nameAfter(this.#chainHead, start, end);
    // Two braces are left to close, so the last two bytes are these.
    if (name === null || !this.#isHandle(start + this.#chainHead.length + name.length, end - 2)) return false;
    this.#openChain(this.#chainHead.table, name);
    return true;
  }

  #isRule(start: number, end: number): boolean {
    const found = ruleHead.exec(this.#bytes.toString('utf8', start, Math.min(end, start + maxHeadLength)));
    if (found === null) return false;
    const [, head = '', family = '', name = '', chain = ''] = found;
    const table = this.#table(family, name);
    if (table !== null) this.#openRule({table, start, length: Buffer.byteLength(head)}, chain, {start, end});
    return true;
  }

  #openRule(head: ObjectHead, name: string, {start, end}: {readonly start: number; readonly end: number}): void {
    const chain = head.table.openChain(name, this.#source);
    this.#rule = {chain, start, length: head.length + Buffer.byteLength(name) + 1, head};
    this.#append(this.#rule, start, end);
  }

  /** The name in an object that begins like another one; null if it begins otherwise, or the name is not plain ASCII. */
  #nameAfter({start: before, length}: ObjectHead, start: number, end: number): string | null {
    for (let at = 0; at < length; at++) if (this.#bytes[start + at] !== this.#bytes[before + at]) return null;
    for (let at = start + length; at < end; at++) {
      const byte = this.#bytes[at] ?? 0;
      if (byte === QUOTE) return this.#bytes.toString('latin1', start + length, at);
      if (byte === BACKSLASH || byte >= 0x80) return null;
    }
    return null;
  }

  #append({chain, head: {table}}: {readonly chain: NftDumpChain; readonly head: ObjectHead}, start: number, end: number): void {
    chain.append(start, end, chain.ruleCount + 1);
    this.#lastTable = table;
    this.#lastIsRule = true;
  }

  #openChain(table: NftDumpTable, name: string): void {
    table.openChain(name, this.#source).base = null;
    this.#lastTable = table;
    this.#lastIsRule = false;
  }

  readonly #source: RuleSource = {
    isOrdinal: true,
    textAt: (start, end) => {
      const text = this.#bytes.toString('utf8', start, end);
      const [, rule] = onlyEntry(readJson(text) as JsonValue | undefined);
      return isJsonObject(rule) ? jsonRuleText(rule['expr'], rule['comment']) : text;
    },
    ends: ({table, name}, {start, end}, text) => {
      // The names of family and table have a blank between them in `table`.
      const key = start + headLength + table.length - 1 + name.length;
      const rest = end - text.length;
      return this.#isHandle(key, rest) && this.#bytes.toString('latin1', rest, end) === text;
    },
  };

  /** Whether the name of the chain ends here, and its handle is all that follows it. */
  #isHandle(start: number, end: number): boolean {
    const digits = start + handleKey.length;
    if (digits >= end) return false;
    for (let at = start; at < digits; at++) if (this.#bytes[at] !== handleKey.charCodeAt(at - start)) return false;
    for (let at = digits; at < end; at++) if (!isDigit(this.#bytes[at])) return false;
    return true;
  }

  #object(text: string, start: number): void {
    const [, head = '', family = '', tableName = '', chain = ''] = plainChain.exec(text) ?? [];
    const owner = this.#table(family, tableName);
    if (owner !== null) {
      this.#chainHead = {table: owner, start, length: Buffer.byteLength(head)};
      return this.#openChain(owner, chain);
    }
    const [kind, content] = onlyEntry(readJson(text) as JsonValue | undefined);
    if (!isJsonObject(content)) return this.#stray(text);
    if (kind === 'metainfo') {
      this.#toolVersion = textOf(content['version']) || null;
      return;
    }
    const table = this.#table(textOf(content['family']), textOf(content[kind === 'table' ? 'name' : 'table']));
    if (table === null) return this.#stray(text);
    this.#lastTable = table;
    this.#lastIsRule = false;
    this.#declare(table, {kind, content, text});
  }

  #declare(table: NftDumpTable, {kind, content, text}: {readonly kind: string; readonly content: JsonObject; readonly text: string}): void {
    if (kind === 'table') table.dormant = listOf(content['flags']).includes('dormant');
    else if (kind === 'chain') table.openChain(textOf(content['name']), this.#source).base = hookOf(content);
    else if (kind === 'set' || kind === 'map') table.sets.set(textOf(content['name']), jsonSet(table.id, content));
    // A rule whose fields are in another order.
    else if (kind === 'rule') this.#stray(text);
    else table.others.push(text);
  }

  #table(family: string, name: string): NftDumpTable | null {
    if (!isNftFamily(family) || name === '') return null;
    const table = this.#tables.get(`${family} ${name}`) ?? new NftDumpTable(family, name, {isJson: true});
    this.#tables.set(table.id, table);
    return table;
  }

  #stray(text: string): void {
    this.#strays.push({line: 1, text: text.slice(0, maxHeadLength)});
  }

  /**
   * A table is printed as: sets, then all chains, then the rules chain by chain. A dump that is truncated among rules does not show the
   * rest of the last rule's chain or of the later ones.
   */
  #cut(truncated: string): NftRuleset['cut'] {
    if (truncated.trim() !== '') this.#stray(truncated);
    const table = this.#lastTable;
    if (table === null) return {table: '', line: 1};
    const chains = [...table.chains.values()];
    const lastWithRules = chains.findLastIndex(({ruleCount}) => ruleCount > 0);
    for (const chain of chains.slice(Math.max(0, lastWithRules))) chain.complete = false;
    table.complete = false;
    if (!this.#lastIsRule) {
      table.declared = false;
      for (const set of [...table.sets.values()].slice(-1)) set.complete = set.complete && chains.length > 0;
    }
    return {table: table.id, line: 1};
  }
}

/** How the objects of one kind in a table begin: the bytes before the name of the chain. */
interface ObjectHead {
  readonly table: NftDumpTable;
  readonly start: number;
  readonly length: number;
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const maxHeadLength = 1024;
const ruleHead = /^(\{\s*"rule":\s*\{\s*"family":\s*"(\w+)",\s*"table":\s*"([^"\\]*)",\s*"chain":\s*")([^"\\]*)"/;

/** Nearly all chains of a large node. */
const plainChain = /^(\{"chain": \{"family": "(\w+)", "table": "([^"\\]*)", "name": ")([^"\\]*)", "handle": \d+\}\}$/;

/** What stands before the quote after the chain of a rule, without the names of its family, table and chain. */
const headLength = '{"rule": {"family": "", "table": "", "chain": "'.length;
const handleKey = '", "handle": ';

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

function hookOf({type, hook, prio, policy}: JsonObject): NftHook | null {
  if (typeof hook !== 'string') return null;
  return {type: textOf(type), hook, priority: Number(prio ?? 0), policy: policy === 'drop' ? 'drop' : 'accept'};
}
