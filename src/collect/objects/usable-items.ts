import type {Problem} from '../../model/snapshot.ts';
import {type Shape, whyMalformed} from './object-shape.ts';

interface UsableItems<T> {
  readonly items: readonly T[];
  /** Unusable items, unchanged. */
  readonly leftOut: readonly unknown[];
  readonly problems: readonly Problem[];
}

/**
 * The items of a list that have a name and the shape; the others are left out and reported. `origin` is the name of the list in messages.
 */
export function usableItems<T>(origin: string, list: readonly unknown[], shape: Shape): UsableItems<T> {
  const problems: Problem[] = [];
  const leftOut: unknown[] = [];
  const items = list.filter((item, index): item is T => {
    const wrong = whyUnusable(item, shape);
    if (wrong !== null) {
      problems.push({message: `${origin}: item ${index} is left out: ${wrong}`});
      leftOut.push(item);
    }
    return wrong === null;
  });
  return {items, leftOut, problems};
}

/** Checks the assumption of the rest of the program: that the fields it reads have the right types. */
export function whyUnusable(item: unknown, shape: Shape): string | null {
  if (typeof item !== 'object' || item === null) return 'it is not an object';
  const {metadata} = item as {readonly metadata?: unknown};
  if (typeof metadata !== 'object' || metadata === null) return 'it has no metadata';
  if (typeof (metadata as {readonly name?: unknown}).name !== 'string') return 'it has no metadata.name';
  const wrong = whyMalformed(item, shape, '');
  return wrong === null ? null : `its ${wrong}`;
}
