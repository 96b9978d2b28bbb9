import type {Examined} from './laboratory.ts';
import {type MutationKind, mutationKinds} from './mutations.ts';

type Verdict = Examined['verdict'];

/** How many mutants of each kind were found, proven harmless or missed. */
export class Tally {
  readonly #counts = new Map<string, number>();
  readonly failures: Examined[] = [];

  add(examined: Examined): void {
    const key = keyOf(examined.mutation.kind, examined.verdict);
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
    if (examined.verdict === 'missed' || examined.verdict === 'false alarm') this.failures.push(examined);
  }

  merge(other: Tally): void {
    for (const [key, count] of other.#counts) this.#counts.set(key, (this.#counts.get(key) ?? 0) + count);
    this.failures.push(...other.failures);
  }

  count(kind: MutationKind, verdict: Verdict): number {
    return this.#counts.get(keyOf(kind, verdict)) ?? 0;
  }

  /** The table kind by verdict, in plain text. */
  toString(): string {
    const verdicts: readonly Verdict[] = ['found', 'harmless', 'missed', 'false alarm'];
    const row = (name: string, cells: readonly (string | number)[]): string =>
      name.padEnd(8) + cells.map(cell => String(cell).padStart(12)).join('');
    return [
      row('', verdicts),
      ...mutationKinds.map(kind =>
        row(
          kind,
          verdicts.map(verdict => this.count(kind, verdict)),
        ),
      ),
      row(
        'all',
        verdicts.map(verdict => mutationKinds.reduce((sum, kind) => sum + this.count(kind, verdict), 0)),
      ),
    ].join('\n');
  }
}

function keyOf(kind: MutationKind, verdict: Verdict): string {
  return `${kind}/${verdict}`;
}

/** A mutant with a wrong verdict, with what is needed to debug it. */
export function describe({mutation, findings, changed, verdict}: Examined): string {
  return [
    `${verdict}: ${mutation.kind} of line ${mutation.line} in table ${mutation.table}`,
    `  - ${mutation.before}`,
    ...mutation.after.map(line => `  + ${line}`),
    ...changed.map(text => `  ~ ${text}`),
    ...findings.map(({code, severity, message}) => `  ! ${code} ${severity}: ${message}`),
  ].join('\n');
}
