import {type Entry, entryText} from '../../model/entry.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {Symptom, SymptomKind} from './symptom.ts';

/** Whether two symptoms of one Service port differ in the entry alone, so that they are one finding. */
export function isSameBut(a: Symptom, b: Symptom): boolean {
  if (a.kind !== b.kind || a.severity !== b.severity || a.endpoint !== b.endpoint || !isMergeable(a) || !isMergeable(b)) return false;
  return entriesOf(a).length > 0 && entriesOf(b).length > 0 && template(a) === template(b);
}

/** Both in one, which names all entries. */
export function bothOf<R extends RuleText>(a: Symptom<R>, b: Symptom<R>): Symptom<R> {
  const {entry: _, ...rest} = a;
  const entries = [...entriesOf(a), ...entriesOf(b)];
  return {
    ...rest,
    entries,
    detail: template(a).replace(placeholder, entriesText(entries)),
    expected: distinct([...a.expected, ...b.expected]),
    actual: distinct([...a.actual, ...b.actual]),
  };
}

/** Each missing entry is a finding of its own, unless one rule loses them all. */
function isMergeable({kind, actual}: Symptom): boolean {
  return mergedKinds.has(kind) || (kind === 'missing-entry' && actual.length > 0);
}

const mergedKinds: ReadonlySet<SymptomKind> = new Set([
  'traffic-policy-mismatch',
  'source-ranges-mismatch',
  'missing-reject',
  'unexpected-reject',
]);

const placeholder = '%entries%';

function template(symptom: Symptom): string {
  return symptom.detail.replace(entriesText(entriesOf(symptom)), placeholder);
}

function entriesOf({entry, entries}: Symptom): readonly Entry[] {
  return entries ?? (entry === undefined ? [] : [entry]);
}

function entriesText(entries: readonly Entry[]): string {
  const texts = entries.map(entryText);
  return texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}`;
}

function distinct<R extends RuleText>(rules: readonly R[]): readonly R[] {
  return [...new Map(rules.map(rule => [`${rule.line} ${rule.text}`, rule])).values()].slice(0, 6);
}
