import type {NftElement, NftHook, NftRuleset, NftStray} from '../../model/nft-ruleset.ts';
import {readJson} from '../json-text.ts';
import type {NftDumpChain, RuleSource} from './nft-dump-chain.ts';
import {asNftRuleset, isNftFamily, newDumpSet, NftDumpTable} from './nft-dump-table.ts';
import {nftSeconds} from './nft-elements.ts';
import {expressionText, type ValueStyle} from './nft-json-expression.ts';
import {jsonRuleText} from './nft-json-rule.ts';
import {jsonSpelling} from './nft-json-spelling.ts';
import {forEachItem} from './nft-json-items.ts';
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
  /** The last table that an object belonged to, and whether the object was a rule. */
  #last: {readonly table: NftDumpTable; readonly isRule: boolean} | null = null;
  /** The last rule whose chain was read: where it begins, and how long it is up to the end of the chain's name. */
  #rule: {readonly table: NftDumpTable; readonly chain: NftDumpChain; readonly start: number; readonly length: number} | null = null;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  read(): NftRuleset {
    const cutAt = forEachItem(this.#bytes, (start, end) => {
      if (!this.#isRule(start, end)) this.#object(this.#bytes.toString('utf8', start, end));
    });
    return asNftRuleset({
      tables: this.#tables,
      toolVersion: this.#toolVersion,
      strays: this.#strays,
      cut: cutAt === null ? null : this.#cut(cutAt),
    });
  }

  /** Most of a dump are rules, and of these only the chain is needed here. */
  #isRule(start: number, end: number): boolean {
    if (this.#isInSameChain(start, end)) this.#append(start, end);
    else {
      const found = ruleHead.exec(this.#bytes.toString('utf8', start, Math.min(end, start + maxHeadLength)));
      if (found === null) return false;
      const [head, family = '', name = '', chain = ''] = found;
      const table = this.#table(family, name);
      if (table === null) return true;
      this.#rule = {table, chain: table.openChain(chain, this.#source), start, length: Buffer.byteLength(head)};
      this.#append(start, end);
    }
    return true;
  }

  /** Whether a rule begins as the previous one, up to the name of its chain. */
  #isInSameChain(start: number, end: number): boolean {
    if (this.#rule === null) return false;
    const {start: before, length} = this.#rule;
    // From the end, as names differ there.
    for (let at = length - 1; at >= 0; at--) if (this.#bytes[start + at] !== this.#bytes[before + at]) return false;
    return start + length <= end;
  }

  #append(start: number, end: number): void {
    if (this.#rule === null) return;
    const {table, chain} = this.#rule;
    chain.append(start, end, chain.ruleCount + 1);
    this.#last = {table, isRule: true};
  }

  readonly #source: RuleSource = {
    isOrdinal: true,
    textAt: (start, end) => {
      const text = this.#bytes.toString('utf8', start, end);
      const [, rule] = onlyEntry(readJson(text) as JsonValue | undefined);
      return isJsonObject(rule) ? jsonRuleText(rule['expr'], rule['comment']) : text;
    },
    isSpelled: ({table, name}, {start, end, text}) => {
      // The names of family and table have a blank between them in `table`.
      const handle = start + headLength + table.length - 1 + name.length;
      if (this.#bytes.toString('latin1', handle - handleKey.length, handle) !== handleKey) return false;
      let at = handle;
      while (isDigit(this.#bytes[at])) at++;
      const spelling = jsonSpelling(text);
      return at > handle && spelling !== null && this.#bytes.toString('latin1', at, end) === spelling;
    },
  };

  #object(text: string): void {
    const plain = plainChain.exec(text);
    const owner = plain === null ? null : this.#table(plain[1] ?? '', plain[2] ?? '');
    if (owner !== null) {
      owner.openChain(plain?.[3] ?? '', this.#source).base = null;
      this.#last = {table: owner, isRule: false};
      return;
    }
    const [kind, content] = onlyEntry(readJson(text) as JsonValue | undefined);
    if (!isJsonObject(content)) return this.#stray(text);
    if (kind === 'metainfo') {
      this.#toolVersion = textOf(content['version']) || null;
      return;
    }
    const table = this.#table(textOf(content['family']), textOf(content[kind === 'table' ? 'name' : 'table']));
    if (table === null) return this.#stray(text);
    this.#last = {table, isRule: false};
    this.#declare(table, {kind, content, text});
  }

  #declare(table: NftDumpTable, {kind, content, text}: {readonly kind: string; readonly content: JsonObject; readonly text: string}): void {
    if (kind === 'table') table.dormant = listOf(content['flags']).includes('dormant');
    else if (kind === 'chain') table.openChain(textOf(content['name']), this.#source).base = hookOf(content);
    else if (kind === 'set' || kind === 'map') addSet(table, content);
    // A rule whose fields are in another order.
    else if (kind === 'rule') this.#stray(text);
    else table.others.push(text);
  }

  #table(family: string, name: string): NftDumpTable | null {
    if (!isNftFamily(family) || name === '') return null;
    const table = this.#tables.get(`${family} ${name}`) ?? new NftDumpTable(family, name);
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
    if (this.#last === null) return {table: '', line: 1};
    const {table, isRule} = this.#last;
    const chains = [...table.chains.values()];
    const lastWithRules = chains.findLastIndex(({ruleCount}) => ruleCount > 0);
    for (const chain of chains.slice(Math.max(0, lastWithRules))) chain.complete = false;
    table.complete = false;
    if (!isRule) {
      table.declared = false;
      for (const set of [...table.sets.values()].slice(-1)) set.complete = set.complete && chains.length > 0;
    }
    return {table: table.id, line: 1};
  }
}

const maxHeadLength = 1024;
const ruleHead = /^\{\s*"rule":\s*\{\s*"family":\s*"(\w+)",\s*"table":\s*"([^"\\]*)",\s*"chain":\s*"([^"\\]*)"/;

/** Nearly all chains of a large node. */
const plainChain = /^\{"chain": \{"family": "(\w+)", "table": "([^"\\]*)", "name": "([^"\\]*)", "handle": \d+\}\}$/;

/** What stands before the handle of a rule, without the names of its family, table and chain. */
const headLength = '{"rule": {"family": "", "table": "", "chain": "", "handle": '.length;
const handleKey = '", "handle": ';

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39;
}

function hookOf({type, hook, prio, policy}: JsonObject): NftHook | null {
  if (typeof hook !== 'string') return null;
  return {type: textOf(type), hook, priority: Number(prio ?? 0), policy: policy === 'drop' ? 'drop' : 'accept'};
}

function addSet(table: NftDumpTable, {name, type, map, flags, timeout, size, comment, elem}: JsonObject): void {
  const set = newDumpSet(table.id, textOf(name));
  set.keyTypes = typesOf(type);
  set.valueTypes = map === undefined ? null : typesOf(map);
  set.flags = listOf(flags)
    .map(textOf)
    .filter(flag => flag !== 'dynamic')
    .sort();
  set.timeout = typeof timeout === 'number' ? timeout : null;
  set.size = typeof size === 'number' ? size : null;
  set.comment = typeof comment === 'string' ? comment : null;
  const styles = set.keyTypes.map((keyType): ValueStyle => (keyType === 'mark' ? 'mark' : 'plain'));
  for (const entry of listOf(elem)) {
    const element = elementOf(entry, styles, set.valueTypes !== null);
    set.elements.set(element.key, element);
  }
  table.sets.set(set.name, set);
}

/** `"ipv4_addr"`, `["ipv4_addr", "inet_proto"]`, the `"ipv4_addr . inet_service"` of a map's data, or `{"typeof": …}`. */
function typesOf(type: JsonValue | undefined): readonly string[] {
  if (typeof type === 'string') return type.split(' . ');
  const [kind, content] = onlyEntry(type);
  if (kind === 'typeof')
    return expressionText(content)
      .split(' . ')
      .map(part => `typeof ${part}`);
  return listOf(type).flatMap(typesOf);
}

function elementOf(entry: JsonValue, styles: readonly ValueStyle[], isMap: boolean): NftElement {
  const [keyed, value] = isMap ? listOf(entry) : [entry];
  const [kind, content] = onlyEntry(keyed);
  const fields = kind === 'elem' && isJsonObject(content) ? content : {val: keyed};
  const {val, comment, expires} = fields as JsonObject;
  return {
    key: expressionText(val, styles),
    value: isMap ? expressionText(value) : null,
    comment: typeof comment === 'string' ? comment : null,
    expires: typeof expires === 'number' ? expires : typeof expires === 'string' ? nftSeconds(expires) : null,
  };
}
