import type {Report} from '../../model/report.ts';
import {blockSentence} from '../../render/block-texts.ts';
import {nodeList, causeBlocks, type FindingBlock} from '../../render/finding-blocks.ts';
import {bySeverity, escapeText, type Style, styleOf} from '../../render/renderer.ts';
import {secondsText, verdictLine} from '../../render/verdict-line.ts';
import {type Finding, identityOf} from '../../model/finding.ts';
import {namespacedName} from '../../model/text.ts';
import type {PassingService} from './watch-cluster.ts';

/** Where `watch` shows its results. */
export interface WatchView {
  /** Another report, and its changes. `at` is when the check ended, in milliseconds since 1970. */
  show(report: Report, changes: readonly TimedChange[], at: number): void;
  /** A check failed. */
  trouble(message: string): void;
  /** The current activity. */
  say(text: string): void;
  /** Restores the terminal. */
  close(): void;
}

/** Without a terminal: one line for each new or resolved cause, and one whenever the verdict changes. */
export function watchLines(color: boolean, out: (text: string) => void, error: (text: string) => void): WatchView {
  const style = styleOf(color);
  let verdict = '';
  let trouble = '';
  return {
    show: (report: Report, changes: readonly TimedChange[], at: number) => {
      trouble = '';
      for (const change of changes) out(`${timeOf(change.at)} ${changeLine(change, style)}\n`);
      const line = verdictLine(report, style);
      if (line !== verdict) out(`${timeOf(at)} ${line}\n`);
      verdict = line;
    },
    trouble: message => {
      if (message !== trouble) error(`${message}\n`);
      trouble = message;
    },
    say: () => {},
    close: () => {},
  };
}

function timeOf(at: number): string {
  return new Date(at).toISOString().replace(/\.\d+Z$/, 'Z');
}

/** A change in one line, without its time: `new ST202 node-a shop/web:http: endpoint …`. */
export function changeLine(change: TimedChange, style: Style): string {
  if (change.kind === 'passed') {
    const seconds = secondsText((change.deletedAt - change.createdAt) / 1000);
    return `new and deleted Service ${escapeText(change.service)} (existed for ${seconds})`;
  }
  if (!('block' in change)) return `${change.kind === 'came' ? 'new' : 'deleted'} Service ${escapeText(change.service)}`;
  const {kind, block} = change;
  const {code, severity, known} = block.finding;
  const color = kind === 'went' ? style.green : bySeverity(style, severity);
  const where = block.nodes.length === 0 ? '-' : nodeList(block.nodes);
  return `${color(`${words[kind]} ${code}`)}${known ? ' (known)' : ''} ${where} ${escapeText(blockSentence(block))}`;
}

const words = {came: 'new', went: 'resolved', stood: 'present'} as const;

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
