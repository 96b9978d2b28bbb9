import {type Finding, identityOf} from '../../model/finding.ts';
import type {Report} from '../../model/report.ts';
import {namespacedName} from '../../model/text.ts';
import {causeBlocks, type FindingBlock} from '../../render/finding-blocks.ts';
import type {PassingService} from './passing-services.ts';

/** Findings with one cause. `stood`: they were there at the first check. */
export interface TimedFindingChange {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly kind: 'came' | 'went' | 'stood';
  readonly block: FindingBlock;
}

interface TimedServiceChange {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly kind: 'came' | 'went';
  /** `namespace/name`. */
  readonly service: string;
}

/** A Service that was created and deleted between two checks. */
interface TimedPassing extends PassingService {
  /** When it was deleted. */
  readonly at: number;
  readonly kind: 'passed';
}

export type TimedChange = TimedFindingChange | TimedServiceChange | TimedPassing;

/** Which findings and Services are new or gone from check to check. */
export class FindingChanges {
  readonly #isShown: (finding: Finding) => boolean;
  #findings: ReadonlyMap<string, Finding> | null = null;
  #services: ReadonlySet<string> = new Set();

  constructor(isShown: (finding: Finding) => boolean) {
    this.#isShown = isShown;
  }

  /**
   * What another report changed. A finding on a node that is not read now stays: nobody has seen it go. Of the Services that are gone, those
   * that neither this report nor the one before has were there in between.
   */
  take(report: Report, at: number, passed: readonly PassingService[] = []): readonly TimedChange[] {
    const isFirst = this.#findings === null;
    const findings = this.#takeFindings(report, at, isFirst ? 'stood' : 'came');
    const before = this.#services;
    const services = this.#takeServices(report, at);
    const between = passed.filter(({service}) => !before.has(service) && !this.#services.has(service));
    return [...between.map(each => ({...each, at: each.deletedAt, kind: 'passed' as const})), ...(isFirst ? [] : services), ...findings];
  }

  #takeFindings({findings, nodes}: Report, at: number, kind: 'stood' | 'came'): readonly TimedFindingChange[] {
    const unread = new Set(nodes.flatMap(({name, status}) => (status === 'unread' ? [name] : [])));
    const before = this.#findings ?? new Map<string, Finding>();
    const kept = [...before].filter(([, {node}]) => node !== undefined && unread.has(node));
    const now = new Map([...kept, ...findings.filter(this.#isShown).map(finding => [identityOf(finding), finding] as const)]);
    this.#findings = now;
    const only = (all: ReadonlyMap<string, Finding>, others: ReadonlyMap<string, Finding>): readonly FindingBlock[] =>
      causeBlocks([...all].flatMap(([identity, finding]) => (others.has(identity) ? [] : finding)));
    return [
      ...only(before, now).map(block => ({at, kind: 'went' as const, block})),
      ...only(now, before).map(block => ({at, kind, block})),
    ];
  }

  #takeServices({services}: Report, at: number): readonly TimedServiceChange[] {
    const before = this.#services;
    const now = new Set(services.map(namespacedName));
    this.#services = now;
    return [
      ...[...before].filter(name => !now.has(name)).map(service => ({at, kind: 'went' as const, service})),
      ...[...now].filter(name => !before.has(name)).map(service => ({at, kind: 'came' as const, service})),
    ];
  }
}
