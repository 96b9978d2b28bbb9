import type {Finding} from '../../model/finding.ts';
import {identityOf} from '../../model/findings/finding-identity.ts';
import type {Report} from '../../model/report.ts';

export interface TimedFindingChange {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly kind: 'came' | 'went';
  readonly finding: Finding;
}

/** Tells the new and resolved findings of each check. */
export class FindingChanges {
  readonly #isShown: (finding: Finding) => boolean;
  #state: ReadonlyMap<string, Finding> = new Map();

  constructor(isShown: (finding: Finding) => boolean) {
    this.#isShown = isShown;
  }

  /** The differences of another report. A finding on a node that was not read now stays: nothing shows that it is resolved. */
  take({findings, nodes}: Report, at: number): readonly TimedFindingChange[] {
    const unread = new Set(nodes.flatMap(({name, status}) => (status === 'unread' ? [name] : [])));
    const before = this.#state;
    const kept = [...before].filter(([, {node}]) => node !== undefined && unread.has(node));
    const now = new Map([...kept, ...findings.filter(this.#isShown).map(finding => [identityOf(finding), finding] as const)]);
    this.#state = now;
    return [
      ...[...before].filter(([identity]) => !now.has(identity)).map(([, finding]) => ({at, kind: 'went' as const, finding})),
      ...[...now].filter(([identity]) => !before.has(identity)).map(([, finding]) => ({at, kind: 'came' as const, finding})),
    ];
  }
}
