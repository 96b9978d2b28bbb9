import type {NftElement, NftHook, NftRuleset, NftStray} from '../../model/nft-ruleset.ts';
import {type Fields, isObject, readJson} from '../attempt.ts';
import {chainsWithLostRules, kindOf} from '../lost-end.ts';
import {asNftRuleset, isNftFamily, newDumpSet, type NftDumpSet, NftDumpTable, tableId} from './nft-elements.ts';
import {forEachItem, type HeadBytes, objectEnd, plainNameEnd, readPlainChains, readRuns} from './nft-json-bytes.ts';
import {declaredLimit, notJson} from './nft-json-rule.ts';
import {JsonChains} from './nft-json-chains.ts';
import {expressionText, listOf, onlyEntry, asText, type ValueStyle} from './nft-json-expression.ts';

/**
 * Reads the output of `nft -j list ruleset` or `nft -j list table …`, also several documents one after another. Rules stay bytes until they
 * are needed. A truncated dump is read up to its end: see `truncation`.
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
  /** Of the last rule, and of the last chain that is no base chain. */
  #ruleHead: ObjectHead | null = null;
  #chainHead: ObjectHead | null = null;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  read(): NftRuleset {
    const truncatedAt = forEachItem(this.#bytes, start => this.#take(start));
    return asNftRuleset({
      tables: this.#tables,
      toolVersion: this.#toolVersion,
      strays: this.#strays,
      truncation: truncatedAt === null ? this.#lostEnd() : this.#truncation(truncatedAt),
    });
  }

  /** A list that lost its end, and was closed again: what the rest shows of it. */
  #lostEnd(): NftRuleset['truncation'] {
    for (const table of this.#tables.values()) {
      const seenBy = lackOf(table);
      if (seenBy !== null) return this.#lacking(table, seenBy);
    }
    const table = this.#lastTable;
    const lost = table === null || table.name !== 'kube-proxy' ? 0 : chainsWithLostRules(printed(table, this.#bytes));
    return table === null || lost === 0 ? null : this.#lacking(table, `its last ${lost} chains have no rules`);
  }

  #lacking(table: JsonTable, seenBy: string): NftRuleset['truncation'] {
    table.chains.markTruncated();
    table.complete = false;
    table.declared = table.chains.ruleCount > 0;
    return {table: table.id, line: 1, seenBy};
  }

  /** Nearly all objects of a large dump begin like the last rule or the last chain, up to the name of the chain. */
  #take(start: number): number {
    const rulesEnd = this.#ruleHead === null ? -1 : this.#rulesLikeLast(this.#ruleHead, start);
    if (rulesEnd >= 0) return rulesEnd;
    const chainsEnd = this.#chainHead === null ? -1 : this.#chainsLikeLast(this.#chainHead, start);
    if (chainsEnd >= 0) return chainsEnd;
    const end = objectEnd(this.#bytes, start, 0);
    if (end >= 0 && !this.#isRule(start, end)) this.#object(this.#bytes.toString('utf8', start, end), start);
    return end;
  }

  /** The end of the last of consecutive rules in the same table as the last one; -1 if the first is not one, or is truncated. */
  #rulesLikeLast(head: ObjectHead, start: number): number {
    const runs: number[] = [];
    const end = readRuns(this.#bytes, start, head, runs);
    if (end >= 0) {
      head.table.chains.addRuns(runs, head.length);
      this.#lastTable = head.table;
      this.#lastIsRule = true;
    }
    return end;
  }

  /** The end of the last of consecutive chains in the same table as the last one, with nothing but a handle; -1 if the first is not one. */
  #chainsLikeLast(head: ObjectHead, start: number): number {
    const names: number[] = [];
    const end = readPlainChains(this.#bytes, start, head, names);
    if (end >= 0) {
      head.table.chains.enterAll(names);
      this.#lastTable = head.table;
      this.#lastIsRule = false;
    }
    return end;
  }

  #isRule(start: number, end: number): boolean {
    const found = ruleHead.exec(this.#bytes.toString('utf8', start, Math.min(end, start + maxHeadLength)));
    if (found === null) return false;
    const [, head = '', family = '', name = '', chain = ''] = found;
    const table = this.#table(family, name);
    if (table === null) return true;
    const nameAt = start + Buffer.byteLength(head);
    const nameEnd = nameAt + Buffer.byteLength(chain);
    const {chains} = table;
    const isPlain = plainNameEnd(this.#bytes, nameAt) === nameEnd;
    chains.addRun(isPlain ? chains.enter(nameAt, nameEnd) : chains.enterName(chain), {start, end, count: 1, nameEnd});
    this.#ruleHead = {table, start, length: nameAt - start};
    this.#lastTable = table;
    this.#lastIsRule = true;
    return true;
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
      return this.#openChain(owner, isPlain ? owner.chains.enter(start + length, nameEnd) : owner.chains.enterName(chain), null);
    }
    const read = readJson(text);
    if (read === undefined) throw notJson(text);
    const [kind, content] = onlyEntry(read);
    if (!isObject(content)) return this.#stray(text);
    if (kind === 'metainfo') {
      this.#toolVersion = asText(content['version']) || null;
      return;
    }
    const table = this.#table(asText(content['family']), asText(content[kind === 'table' ? 'name' : 'table']));
    if (table === null) return this.#stray(text);
    this.#lastTable = table;
    this.#lastIsRule = false;
    this.#declare(table, {kind, content, text});
  }

  #declare(table: JsonTable, {kind, content, text}: {readonly kind: string; readonly content: Fields; readonly text: string}): void {
    if (kind === 'table') table.dormant = isDormant(listOf(content['flags']));
    else if (kind === 'chain') this.#openChain(table, table.chains.enterName(asText(content['name'])), hookOf(content));
    else if (kind === 'set' || kind === 'map') table.addSet(jsonSet(table.id, content));
    // A rule whose fields are in another order.
    else if (kind === 'rule') this.#stray(text);
    else table.others.push(kind === 'limit' || kind === 'quota' ? declaredLimit(kind, content) : text);
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
  #truncation(truncated: string): NftRuleset['truncation'] {
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

/** What a whole table has: the kernel refuses a map that refers to a chain which does not exist, and kube-proxy makes all or nothing. */
function lackOf({name, sets, chains}: JsonTable): string | null {
  for (const set of sets.values()) {
    if (set.valueTypes?.includes('verdict') !== true) continue;
    for (const {value} of set.elements.values()) {
      const chain = /^(?:goto|jump) (.+)$/.exec(value ?? '')?.[1];
      if (chain !== undefined && !chains.has(chain)) return `its map ${set.name} refers to chain ${chain}, which is missing`;
    }
  }
  if (name !== 'kube-proxy' || chains.ruleCount > 0) return null;
  if (sets.size > 0 && chains.size === 0) return 'it has sets and no chains';
  const isOfServices = [...chains.keys()].some(chain => kindOf(chain) !== null);
  return isOfServices && !sets.has('service-ips') ? 'it has chains of Services, and no map that leads to them' : null;
}

/** The base rules are printed first: where some of their chains have rules, all have. */
function printed({chains}: JsonTable, bytes: Buffer): Parameters<typeof chainsWithLostRules>[0] {
  const names = [...chains.keys()];
  return {
    chains,
    bytes,
    calls: {before: ['"target": "', '"target":"'], after: '"'},
    isEarly: last => kindOf(names[last] ?? '') === null && names.slice(last + 1).some(name => kindOf(name) === null),
  };
}

/** nft up to 1.0.6 prints other characters in place of a single flag. */
function isDormant(flags: readonly unknown[]): boolean | null {
  if (flags.includes('dormant')) return true;
  return flags.every(flag => flag === 'owner' || flag === 'persist') ? false : null;
}

/** How the objects of one kind in a table begin. */
interface ObjectHead extends HeadBytes {
  readonly table: JsonTable;
}

const maxHeadLength = 1024;
const ruleHead = /^(\{\s*"rule":\s*\{\s*"family":\s*"(\w+)",\s*"table":\s*"([^"\\]*)",\s*"chain":\s*")([^"\\]*)"/;

/** Nearly all chains of a large node. */
const plainChain = /^(\{"chain": \{"family": "(\w+)", "table": "([^"\\]*)", "name": ")([^"\\]*)", "handle": \d+\}\}$/;

function hookOf({type, hook, prio, policy, dev}: Fields): NftHook | null {
  if (typeof hook !== 'string') return null;
  const devices = (Array.isArray(dev) ? dev : [dev]).filter(name => typeof name === 'string');
  const base: NftHook = {type: asText(type), hook, priority: Number(prio ?? 0), policy: policy === 'drop' ? 'drop' : 'accept'};
  return devices.length > 0 ? {...base, devices} : base;
}

/** A set or map of `nft -j` with its elements. `table` is its family and name. */
function jsonSet(table: string, {name, type, map, flags, timeout, size, elem}: Fields): NftDumpSet {
  const set = newDumpSet(table, asText(name));
  set.keyTypes = typesOf(type);
  set.valueTypes = map === undefined ? null : typesOf(map);
  set.flags = listOf(flags)
    .map(asText)
    .filter(flag => flag !== 'dynamic')
    .sort();
  set.timeout = typeof timeout === 'number' ? timeout : null;
  set.size = typeof size === 'number' ? size : null;
  const styles = set.keyTypes.map((keyType): ValueStyle => (keyType === 'mark' ? 'mark' : 'plain'));
  const keyText = styles.includes('mark') ? (key: unknown) => expressionText(key, styles) : plainKeyText;
  for (const entry of listOf(elem)) {
    const element = elementOf(entry, keyText, set.valueTypes !== null);
    set.elements.set(element.key, element);
  }
  return set;
}

/** `"ipv4_addr"`, `["ipv4_addr", "inet_proto"]`, the `"ipv4_addr . inet_service"` of a map's data, or `{"typeof": …}`. */
function typesOf(type: unknown): readonly string[] {
  if (typeof type === 'string') return type.split(' . ');
  const [kind, content] = onlyEntry(type);
  if (kind === 'typeof')
    return expressionText(content)
      .split(' . ')
      .map(part => `typeof ${part}`);
  return listOf(type).flatMap(typesOf);
}

function elementOf(entry: unknown, keyText: (key: unknown) => string, isMap: boolean): NftElement {
  const [keyed, value] = isMap ? listOf(entry) : [entry];
  const [kind, content] = onlyEntry(keyed);
  const fields = kind === 'elem' && isObject(content) ? content : {val: keyed};
  const {val, comment} = fields as Fields;
  return {
    key: keyText(val),
    value: isMap ? expressionText(value) : null,
    comment: typeof comment === 'string' ? comment : null,
  };
}

/** Nearly all keys are an address, or join an address, a protocol and a port. */
function plainKeyText(key: unknown): string {
  if (typeof key === 'string') return key;
  const [kind, parts] = onlyEntry(key);
  const isPlain = kind === 'concat' && Array.isArray(parts) && parts.every(part => typeof part === 'string' || typeof part === 'number');
  return isPlain ? parts.join(' . ') : expressionText(key);
}
