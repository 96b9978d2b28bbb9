import type {NftSet} from '../../model/nft-ruleset.ts';
import type {NftListElement} from '../../model/nft-statement.ts';
import {isConstant} from './match-value.ts';
import type {PacketAt, PacketValue} from './packet-value.ts';

/** The result of a lookup in a set or map for a packet. */
export type ElementLookup =
  | {readonly kind: 'found'; readonly value: string | null}
  | {readonly kind: 'absent'}
  | {readonly kind: 'unknown'};

const absent: ElementLookup = {kind: 'absent'};
const unknown: ElementLookup = {kind: 'unknown'};

/** Looks up a key in a named set or map, which may have many elements. The key is a concatenation, usually of one or three values. */
export function lookUpSet(key: readonly PacketValue[], set: NftSet, at: PacketAt): ElementLookup {
  if (at.environment.knownTo.has(set.name)) return {kind: 'found', value: null};
  const text = exactText(key);
  const exact = text === null ? undefined : set.elements.get(text);
  if (exact !== undefined) return {kind: 'found', value: exact.value};
  const found =
    text !== null && !set.flags.includes('interval') && !set.elements.has('*') ? absent : lookUpList(key, set.elements.values(), at);
  return found.kind === 'absent' && !set.complete ? unknown : found;
}

/** The key in the spelling of an element; null if it has none, for example if a value is unknown. */
function exactText(key: readonly PacketValue[]): string | null {
  const parts: string[] = [];
  for (const value of key) {
    if (value.kind === 'address') parts.push(value.address.text);
    else if (value.kind === 'number') parts.push(String(value.value));
    else if (value.kind === 'word') parts.push(value.words[0] ?? '');
    else return null;
  }
  return parts.join(' . ');
}

/** Looks up a key by comparing it with the elements one by one. `*` stands for every key that no other element matches. */
export function lookUpList(key: readonly PacketValue[], elements: Iterable<NftListElement>, at: PacketAt): ElementLookup {
  let isUnsure = false;
  let others: ElementLookup = absent;
  for (const element of elements) {
    if (element.key === '*') {
      others = {kind: 'found', value: element.value};
      continue;
    }
    const matched = matchElement(key, element.key.split(' . '), at);
    if (matched) return {kind: 'found', value: element.value};
    if (matched === null) isUnsure = true;
  }
  return isUnsure ? unknown : others;
}

function matchElement(key: readonly PacketValue[], parts: readonly string[], at: PacketAt): boolean | null {
  let result: boolean | null = true;
  for (const [index, value] of key.entries()) {
    const part = isConstant(value, parts[index] ?? '', at);
    if (part === false) return false;
    if (part === null) result = null;
  }
  return result;
}
