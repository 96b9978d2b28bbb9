import {looksLikeAddress} from './addresses.ts';
import type {PathTree} from '../model/paths.ts';
import {isKnownText} from './known-words.ts';
import type {NameKind} from './names.ts';
import type {Replacements} from './replacements.ts';

/**
 * How to redact a part of a JSON document. A part without a treatment is left out, so that nothing is kept unchecked. A part of an
 * unexpected shape is replaced like a name, and so is a text that is to be kept and has an unknown word.
 */
export type Treatment = 'kept' | TextTreatment | ((value: unknown, replacements: Replacements) => unknown) | PathTree<Treatment>;

type TextTreatment = 'address' | 'hardware' | 'uid' | NameKind;

export function treat(value: unknown, treatment: Treatment, replacements: Replacements): unknown {
  if (value === null) return value;
  if (treatment === 'kept') return known(value, replacements);
  if (typeof treatment === 'function') return treatment(value, replacements);
  if (typeof treatment === 'string') return typeof value === 'string' ? treatText(value, treatment, replacements) : scalar(value);
  const {'[]': ofItems} = treatment;
  if (ofItems !== undefined)
    return Array.isArray(value) ? value.map(item => treat(item, ofItems, replacements)) : malformed(value, replacements);
  if (typeof value !== 'object' || Array.isArray(value)) return malformed(value, replacements);
  const entries = Object.entries(value).flatMap(([name, part]) => {
    const ofField = Object.hasOwn(treatment, name) ? treatment[name] : undefined;
    return ofField === undefined ? [] : [[name, treat(part, ofField, replacements)] as const];
  });
  return Object.fromEntries(entries);
}

/** An address, or a name in place of one. */
export function treatAddress(text: string, {addresses, text: inText, names}: Replacements): string {
  const trimmed = text.trim();
  if (addresses.replace(trimmed) !== null) return text.replace(trimmed, addresses.replace(trimmed) ?? '');
  const replaced = inText.replace(text);
  return replaced !== text || looksLikeAddress(text) ? replaced : names.replace(text);
}

/** Numbers and known words, also in lists and as fields. */
function known(value: unknown, replacements: Replacements): unknown {
  if (typeof value === 'string') return isKnownText(value) ? value : replacements.names.replace(value);
  if (Array.isArray(value)) return value.map(item => known(item, replacements));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).flatMap(([key, part]) => (isKnownText(key) ? [[key, known(part, replacements)]] : [])));
}

function treatText(text: string, treatment: TextTreatment, replacements: Replacements): unknown {
  if (text === '') return text;
  if (treatment === 'address') return treatAddress(text, replacements);
  if (treatment === 'hardware') return replacements.text.hardware(text);
  if (treatment === 'uid') return replacements.uid(text);
  return replacements.names.replace(text, treatment);
}

function malformed(value: unknown, {names}: Replacements): unknown {
  return typeof value === 'string' ? names.replace(value) : scalar(value);
}

function scalar(value: unknown): unknown {
  return typeof value === 'number' || typeof value === 'boolean' ? value : null;
}
