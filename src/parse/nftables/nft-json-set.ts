import type {NftElement} from '../../model/nft-ruleset.ts';
import {newDumpSet, type NftDumpSet} from './nft-dump-table.ts';
import {nftSeconds} from './nft-elements.ts';
import {expressionText, type ValueStyle} from './nft-json-expression.ts';
import {isJsonObject, type JsonValue, type JsonObject, listOf, onlyEntry, textOf} from './nft-json-value.ts';

/** A set or map of `nft -j` with its elements. `table` is its family and name. */
export function jsonSet(table: string, {name, type, map, flags, timeout, size, comment, elem}: JsonObject): NftDumpSet {
  const set = newDumpSet(table, textOf(name));
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
  const keyText = styles.includes('mark') ? (key: JsonValue | undefined) => expressionText(key, styles) : plainKeyText;
  for (const entry of listOf(elem)) {
    const element = elementOf(entry, keyText, set.valueTypes !== null);
    set.elements.set(element.key, element);
  }
  return set;
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

function elementOf(entry: JsonValue, keyText: (key: JsonValue | undefined) => string, isMap: boolean): NftElement {
  const [keyed, value] = isMap ? listOf(entry) : [entry];
  const [kind, content] = onlyEntry(keyed);
  const fields = kind === 'elem' && isJsonObject(content) ? content : {val: keyed};
  const {val, comment, expires} = fields as JsonObject;
  return {
    key: keyText(val),
    value: isMap ? expressionText(value) : null,
    comment: typeof comment === 'string' ? comment : null,
    expires: typeof expires === 'number' ? expires : typeof expires === 'string' ? nftSeconds(expires) : null,
  };
}

/** Nearly all keys are an address, or join an address, a protocol and a port. */
function plainKeyText(key: JsonValue | undefined): string {
  if (typeof key === 'string') return key;
  const [kind, parts] = onlyEntry(key);
  const isPlain = kind === 'concat' && Array.isArray(parts) && parts.every(part => typeof part === 'string' || typeof part === 'number');
  return isPlain ? parts.join(' . ') : expressionText(key);
}
