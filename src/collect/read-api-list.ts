import type {Problem} from '../model/snapshot.ts';
import {type Shape, whyMisshapen} from './object-shape.ts';

export interface ApiList<T> {
  /** Null when the file is not there or cannot be read at all. */
  readonly items: readonly T[] | null;
  readonly problems: readonly Problem[];
}

/** Reads a list as `kubectl get -o json` prints it. Items that have no name or not the shape are left out and said. */
export function readApiList<T extends {readonly metadata: {readonly name: string}}>(
  file: string,
  content: Buffer | null,
  shape: Shape,
): ApiList<T> {
  if (content === null) return {items: null, problems: []};
  const parsed = parseJson(content.toString('utf8'));
  if (parsed instanceof Error)
    return {
      items: null,
      problems: [
        {message: `${file} is not valid JSON: ${parsed.message}. Was the file cut off? Write it again with: kubectl get … -A -o json`},
      ],
    };
  const list = itemsOf(parsed);
  if (list === null)
    return {items: null, problems: [{message: `${file} holds no list: it has no "items". Write it with: kubectl get … -A -o json`}]};
  const problems: Problem[] = [];
  const items = list.filter((item, index): item is T => {
    const wrong = whyUnusable(item, shape);
    if (wrong !== null) problems.push({message: `${file}: item ${index} is left out: ${wrong}`});
    return wrong === null;
  });
  const more = continuation(parsed);
  if (more)
    problems.push({
      message: `${file} is only the first page of a longer list (metadata.continue is set): what is missing here may be on the next page`,
    });
  return {items, problems};
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}

function itemsOf(value: unknown): readonly unknown[] | null {
  if (typeof value !== 'object' || value === null) return null;
  if ('items' in value && Array.isArray(value.items)) return value.items;
  // A list of no items is printed by some tools as null.
  return 'items' in value && value.items === null ? [] : null;
}

function continuation(value: unknown): boolean {
  const metadata = (value as {metadata?: {continue?: unknown}}).metadata;
  return typeof metadata?.continue === 'string' && metadata.continue !== '';
}

/** Checks what the rest of the program takes for granted: that the fields it reads are of the right kind. */
function whyUnusable(item: unknown, shape: Shape): string | null {
  if (typeof item !== 'object' || item === null) return 'it is no object';
  const {metadata} = item as {readonly metadata?: unknown};
  if (typeof metadata !== 'object' || metadata === null) return 'it has no metadata';
  if (typeof (metadata as {readonly name?: unknown}).name !== 'string') return 'it has no metadata.name';
  const wrong = whyMisshapen(item, shape, '');
  return wrong === null ? null : `its ${wrong}`;
}
