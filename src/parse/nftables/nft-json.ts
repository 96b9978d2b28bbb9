import type {NftHook, NftRuleset, NftStray} from '../../model/nft-ruleset.ts';
import {readJson} from '../json-text.ts';
import {asNftRuleset, isNftFamily, NftDumpTable, tableId} from './nft-dump-table.ts';
import {JsonChains, type RuleAt} from './nft-json-chains.ts';
import {endOfHandle} from './nft-json-check.ts';
import {forEachItem, objectEnd} from './nft-json-items.ts';
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
  readonly #tables = new Map<string, JsonTable>();
  readonly #strays: NftStray[] = [];
  #toolVersion: string | null = null;
  /** The table that the last object belonged to, and whether it was a rule. */
  #lastTable: JsonTable | null = null;
  #lastIsRule = false;
  /** The first of the last run of rules, and the end of the last. */
  #rule: RunStart | null = null;
  #ruleEnd = 0;
  /** Of the last chain that is no base chain. */
  #chainHead: ObjectHead | null = null;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  read(): NftRuleset {
    const cutAt = forEachItem(this.#bytes, start => this.#take(start));
    return asNftRuleset({
      tables: this.#tables,
      toolVersion: this.#toolVersion,
      strays: this.#strays,
      cut: cutAt === null ? null : this.#cut(cutAt),
    });
  }

  /**
   * Nearly all objects of a large dump begin like the last rule or the last chain: up to the name of the chain, or including it. Their ends
   * are sought from there.
   */
  #take(start: number): number {
    const known = this.#rule === null ? -1 : this.#ruleLikeLast(this.#rule, start);
    if (known >= 0) return known;
    const chainEnd = this.#chainHead === null ? -1 : this.#chainLikeLast(this.#chainHead, start);
    if (chainEnd >= 0) return chainEnd;
    const end = objectEnd(this.#bytes, start, 0);
    if (end >= 0 && !this.#isRule(start, end)) this.#object(this.#bytes.toString('utf8', start, end), start);
    return end;
  }

  /** The end of a rule in the same table as the last one; -1 if it is not, or if it is truncated. */
  #ruleLikeLast({place, start: before, length, head}: RunStart, start: number): number {
    const bytes = this.#bytes;
    const {chains} = head.table;
    if (this.#isNext(start) && isSame(bytes, {start, before, length})) {
      const end = objectEnd(bytes, start + length, bracesBeforeName);
      if (end >= 0) {
        chains.extend(place, end);
        this.#ruleEnd = end;
      }
      return end;
    }
    const nameAt = start + head.length;
    const nameEnd = isSame(bytes, {start, before: head.start, length: head.length}) ? plainNameEnd(bytes, nameAt) : -1;
    const end = nameEnd < 0 ? -1 : objectEnd(bytes, nameEnd + 1, bracesBeforeName);
    if (end < 0) return -1;
    this.#begin(head, chains.enter(nameAt, nameEnd), {start, end, nameAt, nameEnd});
    return end;
  }

  /** Whether nothing but a comma is between the last rule and this object. */
  #isNext(start: number): boolean {
    return start - this.#ruleEnd <= ', '.length && this.#bytes[this.#ruleEnd] === COMMA;
  }

  /** The end of a chain in the same table as the last one, with nothing but a handle; -1 if it is not. */
  #chainLikeLast(head: ObjectHead, start: number): number {
    const bytes = this.#bytes;
    const nameAt = start + head.length;
    const nameEnd = isSame(bytes, {start, before: head.start, length: head.length}) ? plainNameEnd(bytes, nameAt) : -1;
    const handleEnd = nameEnd < 0 ? -1 : endOfHandle(bytes, nameEnd);
    if (handleEnd < 0 || bytes[handleEnd] !== CLOSE || bytes[handleEnd + 1] !== CLOSE) return -1;
    this.#openChain(head.table, head.table.chains.enter(nameAt, nameEnd), null);
    return handleEnd + 2;
  }

  #isRule(start: number, end: number): boolean {
    const found = ruleHead.exec(this.#bytes.toString('utf8', start, Math.min(end, start + maxHeadLength)));
    if (found === null) return false;
    const [, head = '', family = '', name = '', chain = ''] = found;
    const table = this.#table(family, name);
    if (table === null) return true;
    const nameAt = start + Buffer.byteLength(head);
    const nameEnd = nameAt + Buffer.byteLength(chain);
    const place =
      plainNameEnd(this.#bytes, nameAt) === nameEnd ? table.chains.enter(nameAt, nameEnd) : table.chains.enterName(chain, start);
    this.#begin({table, start, length: nameAt - start}, place, {start, end, nameAt, nameEnd});
    return true;
  }

  /** The first rule of a run of rules that begin with the same bytes. */
  #begin(head: ObjectHead, place: number, at: RuleAt): void {
    head.table.chains.begin(place, at);
    this.#rule = {place, start: at.start, length: at.nameEnd + 1 - at.start, head};
    this.#ruleEnd = at.end;
    this.#lastTable = head.table;
    this.#lastIsRule = true;
  }

  #openChain(table: JsonTable, place: number, hook: NftHook | null): void {
    table.chains.setHook(place, hook);
    this.#lastTable = table;
    this.#lastIsRule = false;
  }

  #object(text: string, start: number): void {
    const [, head = '', family = '', tableName = '', chain = ''] = plainChain.exec(text) ?? [];
    const owner = this.#table(family, tableName);
    if (owner !== null) {
      const length = Buffer.byteLength(head);
      this.#chainHead = {table: owner, start, length};
      const nameEnd = start + length + Buffer.byteLength(chain);
      const isPlain = plainNameEnd(this.#bytes, start + length) === nameEnd;
      return this.#openChain(owner, isPlain ? owner.chains.enter(start + length, nameEnd) : owner.chains.enterName(chain, start), null);
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
    this.#declare(table, {kind, content, text, start});
  }

  #declare(table: JsonTable, {kind, content, text, start}: JsonDeclaration): void {
    if (kind === 'table') table.dormant = listOf(content['flags']).includes('dormant');
    else if (kind === 'chain') this.#openChain(table, table.chains.enterName(textOf(content['name']), start), hookOf(content));
    else if (kind === 'set' || kind === 'map') table.sets.set(textOf(content['name']), jsonSet(table.id, content));
    // A rule whose fields are in another order.
    else if (kind === 'rule') this.#stray(text);
    else table.others.push(text);
  }

  #table(family: string, name: string): JsonTable | null {
    if (!isNftFamily(family) || name === '') return null;
    const id = tableId(family, name);
    const table = this.#tables.get(id) ?? new NftDumpTable(family, name, new JsonChains(this.#bytes, id));
    this.#tables.set(id, table);
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
    table.chains.markTruncated();
    table.complete = false;
    if (!this.#lastIsRule) {
      table.declared = false;
      for (const set of [...table.sets.values()].slice(-1)) set.complete = set.complete && table.chains.size > 0;
    }
    return {table: table.id, line: 1};
  }
}

type JsonTable = NftDumpTable<JsonChains>;

/** The first of consecutive rules of one chain: they begin with the same bytes, up to the quote after the chain's name. */
interface RunStart {
  readonly place: number;
  readonly start: number;
  readonly length: number;
  readonly head: ObjectHead;
}

/** An object by its only key, with its text and position. */
interface JsonDeclaration {
  readonly kind: string;
  readonly content: JsonObject;
  readonly text: string;
  readonly start: number;
}

/** How the objects of one kind in a table begin: the bytes before the name of the chain. */
interface ObjectHead {
  readonly table: JsonTable;
  readonly start: number;
  readonly length: number;
}

/** The bytes from `start` and from `before`, so many. */
interface TwoPlaces {
  readonly start: number;
  readonly before: number;
  readonly length: number;
}

const [QUOTE, COMMA, BACKSLASH, CLOSE] = [0x22, 0x2c, 0x5c, 0x7d];
const maxHeadLength = 1024;
const ruleHead = /^(\{\s*"rule":\s*\{\s*"family":\s*"(\w+)",\s*"table":\s*"([^"\\]*)",\s*"chain":\s*")([^"\\]*)"/;

/** Those of the object and of the rule in it. */
const bracesBeforeName = 2;

/** Nearly all chains of a large node. */
const plainChain = /^(\{"chain": \{"family": "(\w+)", "table": "([^"\\]*)", "name": ")([^"\\]*)", "handle": \d+\}\}$/;

/** From the end, as the names of chains differ there. */
function isSame(bytes: Buffer, {start, before, length}: TwoPlaces): boolean {
  for (let at = length - 1; at >= 0; at--) if (bytes[start + at] !== bytes[before + at]) return false;
  return true;
}

/** The position of the quote after a name; -1 if the name is not plain ASCII. */
function plainNameEnd(bytes: Buffer, from: number): number {
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH || byte >= 0x80) return -1;
  }
  return -1;
}

function hookOf({type, hook, prio, policy}: JsonObject): NftHook | null {
  if (typeof hook !== 'string') return null;
  return {type: textOf(type), hook, priority: Number(prio ?? 0), policy: policy === 'drop' ? 'drop' : 'accept'};
}
