import {gracePeriod} from '../../model/state-history.ts';
import {nodeNotRead} from '../../checks/unread.ts';
import {ClusterReader, type ClusterScope} from '../../collect/cluster/cluster-reader.ts';
import {readNodes, readServices} from '../../collect/cluster/read-cluster.ts';
import type {OpenDiagnosis} from '../../diagnosis/diagnose-node.ts';
import type {ServiceObject} from '../../model/api-objects.ts';
import type {Finding} from '../../model/finding.ts';
import {pushTo} from '../../model/lists.ts';
import type {NodeReport, Report, WaitReport} from '../../model/report.ts';
import type {ApiObjects, Problem} from '../../model/snapshot.ts';
import {namespacedName, plural} from '../../model/text.ts';
import {nodeList} from '../../render/finding-blocks.ts';
import {escapeText} from '../../render/renderer.ts';
import {secondsText} from '../../render/verdict-line.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';
import type {ClusterRun} from '../cluster-run.ts';
import type {NodeEvaluator} from '../nodes/evaluated-nodes.ts';
import {exitCode, type FailOn, reaches, type WaitLimit} from '../options/wait-limit.ts';
import {retract} from '../recheck.ts';
import {isThere, podsWithoutEndpoints} from '../scope/requested-scope.ts';
import {type SelectionInput, selectServices} from '../scope/select-services.ts';
import {printOf} from '../service-history.ts';
import {wrongUse} from '../wrong-use.ts';

interface Waiting {
  readonly run: ClusterRun;
  readonly limit: WaitLimit;
  readonly diagnosis: OpenDiagnosis;
  readonly nodes: NodeEvaluator;
  readonly scope: ClusterScope;
  readonly input: SelectionInput;
  /** Verifies findings within this time in milliseconds; resolves to those that stay undetermined. */
  readonly confirm: (gracePeriodMs: number) => Promise<readonly Finding[]>;
  /** Adds the API objects just read to the history of the Services. */
  readonly followed: (objects: ApiObjects) => Promise<void> | undefined;
  /** When the run began and read the API, in milliseconds since 1970. */
  readonly startedAt: number;
  /** What could not be read from the API at the start. */
  readonly problems: readonly Problem[];
  /** The current report, with the objects that could not be read and `more`. */
  readonly report: (more: readonly Problem[]) => Report;
}

/**
 * Repeats the check until no finding fails the run and every node was checked, or the time is up. A clean node is not read again unless a
 * requested Service or its slices have changed; then all nodes are.
 */
export class WaitUntilClean {
  readonly #waiting: Waiting;
  readonly #convergence: Convergence;
  /** The gaps in the lists of this scope. */
  readonly #part: Pick<ApiObjects, 'namespaces'>;
  #checks = 1;
  /** When the API objects that nodes are evaluated against were read. */
  #readAt: number;
  /** How long the latest check took, in milliseconds. */
  #took = 0;
  /** The requested Services at the latest check. */
  #print: string;
  /** Why the API could not be read again. */
  #problems: readonly Problem[] = [];
  /** The latest check could not read the API. */
  #isAway = false;
  #latest: Report;

  constructor(waiting: Waiting) {
    const {limit, startedAt, diagnosis} = waiting;
    const {namespaces} = diagnosis.api;
    this.#waiting = waiting;
    this.#convergence = new Convergence({startedAt, limit: limit.milliseconds, failOn: limit.failOn});
    this.#part = namespaces === undefined ? {} : {namespaces};
    this.#readAt = startedAt;
    this.#print = printOf(diagnosis.services, diagnosis.api);
    this.#latest = waiting.report([]);
  }

  /**
   * Call it when all nodes have been checked once. Rejects with an Interrupted when the signal is aborted, and with a CLIError when a
   * Service that was named is deleted.
   */
  async run(): Promise<void> {
    this.#took = this.#waiting.run.clock.now() - this.#readAt;
    this.#note();
    for (let pauses = 0; ; pauses++) {
      if (this.#isSettled() || this.#left() <= 0) await this.#confirm();
      if (this.#isSettled() || this.#left() <= 0) return;
      await this.#pause(pauses);
      await this.#checkAgain();
      this.#note();
    }
  }

  /** Of all findings so far. */
  report(): Report & {readonly wait: WaitReport} {
    const {run, nodes} = this.#waiting;
    this.#update();
    return {
      ...this.#latest,
      wait: this.#convergence.report(run.clock.now(), {clean: this.#isClean(), permanent: nodes.evaluated.permanent}),
    };
  }

  /** Returns the nodes that have become clean. */
  #update(): readonly string[] {
    const {report, nodes} = this.#waiting;
    this.#latest = report(this.#problems);
    return this.#convergence.note(this.#latest, {
      check: this.#checks,
      readAt: nodes.evaluated.readAt,
      partlyRead: nodes.evaluated.partlyRead,
    });
  }

  #note(): void {
    const {run, startedAt, nodes} = this.#waiting;
    const fresh = this.#update();
    const seconds = (run.clock.now() - startedAt) / 1000;
    if (this.#checks === 1) {
      run.progress.note(firstCheckText(fresh, this.#convergence.pending));
      for (const text of permanentTexts(nodes.evaluated.permanent)) run.progress.note(text);
    } else for (const text of cleanTexts(fresh, seconds)) run.progress.note(text);
  }

  #isClean(): boolean {
    return exitCode(this.#latest, this.#waiting.limit.failOn) === 0;
  }

  /** Clean, or blocked by a permanent error: a missing permission. */
  #isSettled(): boolean {
    const {diagnosis, limit} = this.#waiting;
    if (!isThere(diagnosis.api)) return true;
    const fails = this.#latest.findings.some(finding => reaches(finding, limit.failOn) && !finding.known && !this.#isPermanent(finding));
    return this.#isClean() || (this.#waitedFor().length === 0 && !fails && this.#problems.length === 0);
  }

  /** Nodes that may still become clean. */
  #waitedFor(): readonly string[] {
    const {permanent} = this.#waiting.nodes.evaluated;
    return this.#convergence.pending.filter(name => !permanent.has(name));
  }

  /** The error is a missing permission. */
  #isPermanent({code, node, message}: Finding): boolean {
    const {nodes, problems} = this.#waiting;
    if (code !== unreadCode) return false;
    if (node === undefined) return problems.some(problem => problem.isPermanent && problem.message === message);
    return nodes.evaluated.permanent.has(node);
  }

  #left(): number {
    const {run, startedAt, limit} = this.#waiting;
    return startedAt + limit.milliseconds - run.clock.now();
  }

  /** Verifies the findings as a run without --wait does, within the remaining time. */
  async #confirm(): Promise<void> {
    const {diagnosis, nodes, run, limit} = this.#waiting;
    const {signal} = run;
    // The agents would be asked once more, with a long timeout.
    if (this.#isAway) return;
    // New nodes may not have been checked yet.
    if (this.#checks > 1) await nodes.evaluate(await unlessAborted(this.#findNodes(), signal));
    const doubtful = await this.#waiting.confirm(Math.max(1, Math.min(this.#left(), gracePeriod * 1000)));
    // A Service that keeps changing has not converged: its findings stand.
    retract(
      doubtful.filter(finding => !reaches(finding, limit.failOn)),
      diagnosis,
    );
    this.#update();
  }

  /** Leaves the API server and the nodes alone for at least half of the time. */
  async #pause(pauses: number): Promise<void> {
    const {clock, signal, progress} = this.#waiting.run;
    progress.say(`waiting for ${plural(this.#waitedFor().length, 'node')}`);
    const pace = Math.min((pauses + 1) * 1000, maxPause);
    await unlessAborted(clock.sleep(Math.min(Math.max(pace, Math.min(this.#took, maxRest)), this.#left()), signal), signal);
  }

  async #checkAgain(): Promise<void> {
    const {diagnosis, nodes, run} = this.#waiting;
    const began = run.clock.now();
    this.#checks++;
    if (await unlessAborted(this.#readServices(), run.signal)) {
      const isUnread = this.#latest.nodes.some(({name, status}) => status === 'unread' && !nodes.evaluated.permanent.has(name));
      const come = isUnread ? await unlessAborted(this.#findNodes(), run.signal) : [];
      this.#readAt = began;
      const print = printOf(diagnosis.services, diagnosis.api);
      if (print !== this.#print) this.#convergence.restart();
      this.#print = print;
      await nodes.evaluate([...this.#waitedFor(), ...come]);
    }
    this.#took = run.clock.now() - began;
  }

  /** Resolves to whether the API could be read; nodes are not evaluated against a part of it. */
  async #readServices(): Promise<boolean> {
    const {diagnosis, scope, input, run} = this.#waiting;
    const {api} = run.cluster;
    run.progress.say('reading the API again');
    const reader = new ClusterReader(api, {anyFailure: true});
    const objects = await readServices(scope, reader);
    this.#problems = reader.problems;
    this.#isAway = !isThere(objects);
    if (this.#isAway) return false;
    await this.#waiting.followed({...diagnosis.api, ...objects});
    if (input.names.length > 0) refuseGone(diagnosis.services, objects.services ?? []);
    const {selects} = selectServices(input, objects);
    const {namespaces: _, ...rest} = diagnosis.api;
    const services = (objects.services ?? []).filter(selects);
    const own = await podsWithoutEndpoints(api, services, objects);
    diagnosis.renew({...rest, ...objects, ...this.#part, pods: [...(this.#waiting.nodes.pods ?? []), ...own.pods], podsOf: own.podsOf});
    return true;
  }

  /** Nodes and the pods by which they are reached change. Returns the new nodes. */
  async #findNodes(): Promise<readonly string[]> {
    const {diagnosis, nodes, run} = this.#waiting;
    const objects = await readNodes(new ClusterReader(run.cluster.api, {anyFailure: true}));
    if (objects !== null) diagnosis.renew({...diagnosis.api, nodes: objects});
    return nodes.findAgain(objects);
  }
}

/** A named Service that was deleted is an error. */
function refuseGone(services: readonly ServiceObject[], now: readonly ServiceObject[]): void {
  const there = new Set(now.map(nameOf));
  const gone = services.map(nameOf).find(name => !there.has(name));
  if (gone !== undefined) throw wrongUse(`the Service ${gone} was deleted while it was waited for`);
}

function nameOf({metadata}: ServiceObject): string {
  return namespacedName(metadata);
}

const unreadCode: string = nodeNotRead.code;

/** In milliseconds: the pause between checks, and the longest pause after a slow one. */
const maxPause = 5000;
const maxRest = 15_000;

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
class Convergence {
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
      limitSeconds: limit / 1000,
      seconds: (now - startedAt) / 1000,
      looks: this.#checks,
      clean,
      nodes: this.#nodes.map(name => {
        const found = this.#clean.get(name);
        if (found === undefined) return permanent.has(name) ? {name, waitedFor: false} : {name};
        return {name, look: found.check, seconds: (found.at - startedAt) / 1000};
      }),
    };
  }
}

/** After the first check of all nodes. */
function firstCheckText(clean: readonly string[], pending: readonly string[]): string {
  if (clean.length + pending.length === 0) return 'no node to wait for';
  const first = `converged: ${clean.length} of ${plural(clean.length + pending.length, 'node')}`;
  return pending.length === 0 ? first : `${first}; waiting for ${nodeList(pending)}`;
}

/** A line for each node that has become clean; one line for all if they are many. */
function cleanTexts(nodes: readonly string[], seconds: number): readonly string[] {
  const after = `converged in ${secondsText(seconds)}`;
  return nodes.length > maxLines ? [`${nodes.length} nodes ${after}`] : nodes.map(name => `${escapeText(name)} ${after}`);
}

const maxLines = 10;

/** A line for each reason why nodes are not waited for. */
function permanentTexts(reasons: ReadonlyMap<string, string>): readonly string[] {
  const byReason = new Map<string, string[]>();
  // Reasons that differ only in the node's name are one reason.
  for (const [name, reason] of reasons) {
    const key = reason.replaceAll(name, '\0');
    pushTo(byReason, key, name);
  }
  return [...byReason.values()].slice(0, maxLines).map(names => {
    const reason = escapeText(reasons.get(names[0] ?? '') ?? '');
    return `not waited for (permanent error): ${nodeList(names)}: ${reason}`;
  });
}
