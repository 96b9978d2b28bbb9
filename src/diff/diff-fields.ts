import type {FieldChange} from '../model/findings/bundle-diff.ts';

export type ComparedFields = Readonly<Record<string, string | undefined>>;

/** The fields that differ, in the order in which they are first named. Empty text equals a missing field. */
export function diffFields(before: ComparedFields, after: ComparedFields): readonly FieldChange[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .map(field => ({field, before: before[field] || null, after: after[field] || null}))
    .filter(change => change.before !== change.after);
}
