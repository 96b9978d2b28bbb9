import {entryText} from '../../model/entry.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {bothOf, isSameBut} from './merge-symptoms.ts';
import type {Symptom, SymptomKind} from './symptom.ts';

/** A symptom without its Service port, which the list adds. */
export type PortSymptom<R extends RuleText> = Omit<Symptom<R>, 'family' | 'port'>;

/** The symptoms of one Service port, without duplicates. Symptoms that differ in the entry alone are merged. */
export class SymptomList<R extends RuleText> {
  readonly #port: ServicePort;
  readonly #symptoms: Symptom<R>[] = [];
  readonly #said = new Set<string>();
  readonly #entries = new Set<string>();

  constructor(port: ServicePort) {
    this.#port = port;
  }

  get all(): readonly Symptom<R>[] {
    return this.#symptoms;
  }

  /** `key` tells apart symptoms of one kind. Rules that are not on the node are no actual evidence. */
  say(symptom: PortSymptom<R>, key: string = symptom.kind): void {
    // Only an error explains why an entry is missing.
    if (symptom.entry !== undefined && (symptom.severity === undefined || symptom.severity === 'error'))
      this.#entries.add(entryText(symptom.entry));
    if (this.#said.has(key)) return;
    this.#said.add(key);
    const actual = symptom.actual.filter(({line}) => line > 0);
    const whole: Symptom<R> = {...symptom, actual, family: this.#port.family, port: this.#port};
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
