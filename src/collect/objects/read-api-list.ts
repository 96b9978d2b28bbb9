import {dropGarbage} from './drop-garbage.ts';
import type {Problem} from '../../model/snapshot.ts';
import {type Gaps, noGaps} from './gaps.ts';
import type {Shape} from './object-shape.ts';
import {usableItems} from './usable-items.ts';

export interface ApiList<T> {
  /** Null if the file does not exist or cannot be read at all. */
  readonly items: readonly T[] | null;
  readonly problems: readonly Problem[];
  readonly gaps: Gaps;
}

/**
 * Reads a list as `kubectl get -o json` prints it. Items without a name or of another shape are left out and reported. `read` returns the
 * content of the file, which is not kept, because it can be larger than the objects.
 */
export function readApiList<T extends {readonly metadata: {readonly name: string}}>(
  file: string,
  read: () => string | null,
  shape: Shape,
): ApiList<T> {
  const {parsed, size} = parsedContent(read());
  if (size >= largeSize) dropGarbage();
  if (parsed === null) return {items: null, problems: [], gaps: noGaps};
  if (parsed instanceof Error)
    return {
      items: null,
      gaps: noGaps,
      problems: [
        {message: `${file} is not valid JSON: ${parsed.message}. Was the file truncated? Write it again with: kubectl get … -A -o json`},
      ],
    };
  const list = itemsOf(parsed);
  if (list === null)
    return {
      items: null,
      gaps: noGaps,
      problems: [{message: `${file} holds no list: it has no "items". Write it with: kubectl get … -A -o json`}],
    };
  const usable = usableItems<T>(file, list, shape);
  const problems = [...usable.problems];
  const more = continuation(parsed);
  if (more)
    problems.push({
      message: `${file} is only the first page of a longer list (metadata.continue is set): what is missing here may be on the next page`,
    });
  return {items: usable.items, problems, gaps: {leftOut: usable.leftOut, isTruncated: more}};
}

/** In characters. Collecting garbage visits all objects that were read before: this takes 0.1 s after 250,000 endpoints. */
const largeSize = 16 << 20;

/** Null if there is no file; `size` is in characters. */
function parsedContent(text: string | null): {readonly parsed: NonNullable<unknown> | null; readonly size: number} {
  if (text === null) return {parsed: null, size: 0};
  // The word null is valid JSON, but not a list.
  return {parsed: parseJson(text) ?? {}, size: text.length};
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
  // Some tools print an empty list as null.
  return 'items' in value && value.items === null ? [] : null;
}

function continuation(value: unknown): boolean {
  const metadata = (value as {metadata?: {continue?: unknown}}).metadata;
  return typeof metadata?.continue === 'string' && metadata.continue !== '';
}
