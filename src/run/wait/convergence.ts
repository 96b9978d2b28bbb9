import type {NodeReport, Report, WaitReport} from '../../model/report.ts';
import {type FailOn, reaches} from '../exit-code.ts';

interface ConvergenceStart {
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly limit: number;
  readonly failOn: FailOn;
}

interface Reading {
  /** The number of the check, from 1. */
  readonly check: number;
  /** When the reading of each node began, in milliseconds since 1970. */
  readonly readAt: ReadonlyMap<string, number>;
  /** Nodes that were read in part. */
  readonly partlyRead: ReadonlySet<string>;
}

/** Which nodes are in sync, and how long each took to converge. */
export class Convergence {
  readonly #start: ConvergenceStart;
  readonly #clean = new Map<string, {readonly at: number; readonly check: number}>();
  #checks = 0;
  #nodes: readonly string[] = [];

  constructor(start: ConvergenceStart) {
    this.#start = start;
  }

  /** The nodes of the latest report that were checked and can be clean. */
  get pending(): readonly string[] {
    return this.#nodes.filter(name => !this.#clean.has(name));
  }

  /**
   * Records the result of a check. A node counts as clean from when its reading began. Returns the nodes that are clean now and were not
   * before.
   */
  note({nodes, findings}: Report, {check, readAt, partlyRead}: Reading): readonly string[] {
    this.#checks = check;
    const {failOn, startedAt} = this.#start;
    const failing = new Set(
      findings.flatMap(finding => (finding.node !== undefined && reaches(finding, failOn) && !finding.known ? [finding.node] : [])),
    );
    const isClean = ({name, status}: NodeReport): boolean => status === 'checked' && !failing.has(name) && !partlyRead.has(name);
    const reachable = nodes.filter(({status}) => status !== 'unsupported');
    this.#nodes = reachable.map(({name}) => name);
    for (const node of reachable) if (!isClean(node)) this.#clean.delete(node.name);
    const fresh = reachable.filter(node => isClean(node) && !this.#clean.has(node.name)).map(({name}) => name);
    // An agent may have checked it before the run.
    for (const name of fresh) this.#clean.set(name, {at: Math.max(startedAt, readAt.get(name) ?? startedAt), check});
    return fresh;
  }

  /** The expected rules have changed. */
  restart(): void {
    this.#clean.clear();
  }

  /** `clean`: no finding fails the run. `permanent`: nodes with permanent errors, which were not waited for. */
  report(now: number, {clean, permanent}: {readonly clean: boolean; readonly permanent: ReadonlyMap<string, unknown>}): WaitReport {
    const {startedAt, limit} = this.#start;
    return {
      ...{limitSeconds: limit / 1000, seconds: (now - startedAt) / 1000, looks: this.#checks, clean},
      nodes: this.#nodes.map(name => {
        const found = this.#clean.get(name);
        if (found === undefined) return permanent.has(name) ? {name, waitedFor: false} : {name};
        return {name, look: found.check, seconds: (found.at - startedAt) / 1000};
      }),
    };
  }
}
