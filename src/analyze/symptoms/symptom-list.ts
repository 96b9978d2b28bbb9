import {type Client, distinctClients} from '../../model/finding.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {type Entry, entryText, type ServicePort} from '../../model/service-port.ts';
import {allOf} from '../../model/text.ts';
import type {Symptom, SymptomKind} from './symptom.ts';

/** A symptom without its Service port, which the list adds. */
export type PortSymptom<R extends RuleText> = Omit<Symptom<R>, 'family' | 'port'>;

/** A symptom, and the clients whose packets showed it. */
interface Told<R extends RuleText> {
  symptom: Symptom<R>;
  readonly clients: Client[];
}

/** The symptoms of one Service port, without duplicates. Symptoms that differ in the entry alone are merged. */
export class SymptomList<R extends RuleText> {
  readonly #port: ServicePort;
  readonly #told = new Set<Told<R>>();
  readonly #byKey = new Map<string, Told<R>>();
  readonly #entries = new Set<string>();
  #clients: readonly Client[] = [];

  constructor(port: ServicePort) {
    this.#port = port;
  }

  get all(): readonly Symptom<R>[] {
    return [...this.#told].map(({symptom, clients}) => (clients.length === 0 ? symptom : {...symptom, clients: distinctClients(clients)}));
  }

  /** What is said, or asked for, meanwhile is what packets of these clients show. */
  ofClients<T>(clients: readonly Client[], work: () => T): T {
    this.#clients = clients;
    const result = work();
    this.#clients = [];
    return result;
  }

  /** `key` tells apart symptoms of one kind. Rules that are not on the node are no actual evidence. */
  say(symptom: PortSymptom<R>, key: string = symptom.kind): void {
    // Only an error explains why an entry is missing.
    if (symptom.entry !== undefined && (symptom.severity === undefined || symptom.severity === 'error'))
      this.#entries.add(entryText(symptom.entry));
    if (this.hasSaid(key)) return;
    const actual = symptom.actual.filter(({line}) => line > 0);
    const whole: Symptom<R> = {...symptom, actual, family: this.#port.family, port: this.#port};
    const other = [...this.#told].find(told => isSameBut(told.symptom, whole));
    const told = other ?? {symptom: whole, clients: []};
    if (other !== undefined) other.symptom = bothOf(other.symptom, whole);
    told.clients.push(...this.#clients);
    this.#told.add(told);
    this.#byKey.set(key, told);
  }

  /** Whether a symptom with this key was said already. */
  hasSaid(key: string): boolean {
    const told = this.#byKey.get(key);
    told?.clients.push(...this.#clients);
    return told !== undefined;
  }

  has(...kinds: readonly SymptomKind[]): boolean {
    return [...this.#told].some(({symptom: {kind}}) => kinds.includes(kind));
  }

  /** Whether there is a symptom of an entry, named as by `entryText`. */
  tellsOf(entry: string): boolean {
    return this.#entries.has(entry);
  }

  drop(kind: SymptomKind): void {
    for (const told of this.#told) if (told.symptom.kind === kind) this.#told.delete(told);
  }
}

/** Whether two symptoms of one Service port differ in the entry alone, so that they are one finding. */
function isSameBut(a: Symptom, b: Symptom): boolean {
  if (a.kind !== b.kind || a.severity !== b.severity || a.endpoint !== b.endpoint || !isMergeable(a) || !isMergeable(b)) return false;
  return entriesOf(a).length > 0 && entriesOf(b).length > 0 && template(a) === template(b);
}

/** Both in one, which names all entries. */
function bothOf<R extends RuleText>(a: Symptom<R>, b: Symptom<R>): Symptom<R> {
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
  return allOf(entries.map(entryText));
}

function distinct<R extends RuleText>(rules: readonly R[]): readonly R[] {
  return [...new Map(rules.map(rule => [`${rule.line} ${rule.text}`, rule])).values()].slice(0, 6);
}
