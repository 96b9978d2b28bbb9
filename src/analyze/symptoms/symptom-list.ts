import type {RuleText} from '../../model/ruleset.ts';
import {type Entry, entryText, type ServicePort} from '../../model/service-port.ts';
import type {Symptom, SymptomKind} from './symptom.ts';

/** A symptom without its Service port, which the list adds. */
export type PortSymptom = Omit<Symptom, 'family' | 'port'>;

/** The symptoms of one Service port, without duplicates. Symptoms that differ in the entry alone are merged. */
export class SymptomList {
  readonly #port: ServicePort;
  readonly #symptoms: Symptom[] = [];
  readonly #said = new Set<string>();
  readonly #entries = new Set<string>();

  constructor(port: ServicePort) {
    this.#port = port;
  }

  get all(): readonly Symptom[] {
    return this.#symptoms;
  }

  /** `key` tells apart symptoms of one kind. Rules that are not on the node are no actual evidence. */
  say(symptom: PortSymptom, key: string = symptom.kind): void {
    // Only an error explains why an entry is missing.
    if (symptom.entry !== undefined && !ofEndpoint.has(symptom.kind) && (symptom.severity === undefined || symptom.severity === 'error'))
      this.#entries.add(entryText(symptom.entry));
    if (this.#said.has(key)) return;
    this.#said.add(key);
    const actual = symptom.actual.filter(({line}) => line > 0);
    const whole: Symptom = {...symptom, actual, family: this.#port.family, port: this.#port};
    const at = this.#symptoms.findIndex(other => isSameBut(other, whole));
    if (at < 0) this.#symptoms.push(whole);
    else this.#symptoms.splice(at, 1, bothOf(this.#symptoms[at] ?? whole, whole));
  }

  /** Whether a symptom with this key was said already. */
  hasSaid(key: string): boolean {
    return this.#said.has(key);
  }

  has(...kinds: readonly SymptomKind[]): boolean {
    return this.#symptoms.some(({kind}) => kinds.includes(kind));
  }

  /** Whether there is a symptom of an entry, named as by `entryText`. */
  tellsOf(entry: string): boolean {
    return this.#entries.has(entry);
  }

  drop(kind: SymptomKind): void {
    for (let at = this.#symptoms.length - 1; at >= 0; at--) if (this.#symptoms[at]?.kind === kind) this.#symptoms.splice(at, 1);
  }
}

/** Whether two symptoms of one Service port differ in the entry alone, so that they are one finding. */
function isSameBut(a: Symptom, b: Symptom): boolean {
  if (a.kind !== b.kind || a.severity !== b.severity || a.endpoint !== b.endpoint || !isMergeable(a) || !isMergeable(b)) return false;
  return entriesOf(a).length > 0 && entriesOf(b).length > 0 && template(a) === template(b);
}

/** Both in one, which names all entries. */
function bothOf(a: Symptom, b: Symptom): Symptom {
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

/** They may be about one of many endpoints behind an entry. */
const ofEndpoint: ReadonlySet<SymptomKind> = new Set(['missing-endpoint', 'stale-endpoint', 'wrong-endpoint-address']);

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

function distinct(rules: readonly RuleText[]): readonly RuleText[] {
  return [...new Map(rules.map(rule => [`${rule.line} ${rule.text}`, rule])).values()].slice(0, 6);
}
