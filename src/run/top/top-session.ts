import pLimit from 'p-limit';
import {gracePeriod} from '../../model/state-history.ts';
import type {ClusterScope} from '../../collect/cluster/cluster-reader.ts';
import {collectNode} from '../../collect/node/collect-node.ts';
import {type CollectedNode, CommandFailed, type NodeInfo, type NodeShell, type Transport} from '../../collect/node/transport.ts';
import type {DiagnoseOptions, NodeSurroundings} from '../../diagnosis/diagnose-node.ts';
import {ClusterView} from '../../expect/cluster/cluster-view.ts';
import {families, type Family} from '../../model/address.ts';
import {iptablesFiles, type ApiObjects} from '../../model/snapshot.ts';
import {errorText} from '../../model/text.ts';
import type {TrafficReport} from '../../model/traffic/traffic-report.ts';
import {ciliumAgentOn, kubeProxyOn} from '../../collect/transports/host-agents.ts';
import {withLeavingEndpoints, type NodeSurvey, surveyNode, uncounted, unreadSurvey} from '../../traffic/node-survey.ts';
import type {NodeSample} from '../../traffic/measure-port.ts';
import {type NodeRead, trafficReport} from '../../traffic/measure-traffic.ts';
import type {Clock} from '../clock.ts';
import {unlessAborted} from '../../collect/unless-aborted.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {FollowedServices} from '../follow-services.ts';
import {asUnread, clearLeftovers} from '../nodes/node-intake.ts';
import {nodeSource} from '../nodes/node-source.ts';
import {evaluationOptions} from '../options/evaluation-options.ts';
import {readAsBefore, askedInput, askedScope, readAsked} from '../scope/requested-scope.ts';
import {printOf} from '../service-history.ts';
import {readSample} from './read-sample.ts';

export interface TopRun extends Pick<ClusterRun, 'flags' | 'names' | 'cluster' | 'signal' | 'progress' | 'clock'> {
  readonly toolVersion: string;
  /** Between two reads, in milliseconds. */
  readonly interval: number;
}

interface Top {
  readonly run: TopRun;
  readonly show: (report: TrafficReport) => void;
  /** Two reads are enough. */
  readonly once: boolean;
  /** Aborted when the user quits. */
  readonly ended: AbortSignal;
}

/**
 * Counts the connections of Services at an interval and shows the new ones of each interval. Rejects with an Interrupted when the signal is
 * aborted.
 */
export async function topCluster(top: Top): Promise<void> {
  const session = await TopSession.open(top.run);
  try {
    await showRounds(session, top);
  } finally {
    await session[Symbol.asyncDispose]();
  }
}

async function showRounds(session: TopSession, {run, show, once, ended}: Top): Promise<void> {
  const {clock, signal, interval, progress} = run;
  const both = AbortSignal.any([signal, ended]);
  for (let due = clock.now() + interval; ; due = Math.max(due + interval, clock.now())) {
    progress.say(`counting for ${interval / 1000} s`);
    await clock.sleep(Math.max(due - clock.now(), 0), both).catch(() => signal.throwIfAborted());
    if (ended.aborted) return;
    show(await unlessAborted(session.next(), signal));
    if (once) return;
  }
}

/** Opens one shell a node and keeps it, so that repeated reads need no new connection or pod. */
class KeptShells implements Transport, AsyncDisposable {
  readonly name: string;
  readonly #transport: Transport;
  readonly #kept = new Map<string, NodeShell>();

  constructor(transport: Transport) {
    this.#transport = transport;
    this.name = transport.name;
  }

  async open(node: NodeInfo, signal: AbortSignal): Promise<NodeShell> {
    const known = this.#kept.get(node.name);
    if (known !== undefined) return this.#lent(node, known);
    const shell = await this.#transport.open(node, signal);
    this.#kept.set(node.name, shell);
    return this.#lent(node, shell);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const shells = [...this.#kept.values()];
    this.#kept.clear();
    await Promise.allSettled(shells.map(shell => shell[Symbol.asyncDispose]()));
  }

  /** A borrower does not close the shell. A shell whose connection failed is not lent again. */
  #lent(node: NodeInfo, shell: NodeShell): NodeShell {
    return {
      description: shell.description,
      run: async (argv, signal, take) => {
        try {
          return await shell.run(argv, signal, take);
        } catch (error) {
          if (!(error instanceof CommandFailed && (error.notFound || error.exitCode !== null))) await this.#drop(node, shell);
          throw error;
        }
      },
      [Symbol.asyncDispose]: async () => {},
    };
  }

  async #drop(node: NodeInfo, shell: NodeShell): Promise<void> {
    if (this.#kept.get(node.name) !== shell) return;
    this.#kept.delete(node.name);
    await Promise.allSettled([shell[Symbol.asyncDispose]()]);
  }
}

/** A node whose counters are read repeatedly. */
class CountedNode {
  readonly #info: NodeInfo;
  readonly #options: CountingOptions;
  #survey: NodeSurvey;
  /** What the last read of the counters went by. */
  #sampledBy: NodeSurvey | null = null;
  #programs: ReadonlyMap<Family, string> = new Map();
  #before: NodeSample | null = null;
  #after: NodeSample | null = null;
  #failure: string | undefined;

  constructor(info: NodeInfo, options: CountingOptions) {
    this.#info = info;
    this.#options = options;
    this.#survey = unreadSurvey(info.name, 'it was not read yet');
  }

  get isRead(): boolean {
    return this.#survey.status !== 'unread';
  }

  /** kube-proxy's rules are no longer where they were: it may run in another mode. */
  get isOutdated(): boolean {
    const families = [...(this.#after?.nat.values() ?? [])];
    return this.#sampledBy?.mode === 'iptables' && families.length > 0 && families.every(({hasRules}) => !hasRules);
  }

  /** The difference between the last two reads. Counters of a node whose mode has changed since are those of its mode before. */
  get read(): NodeRead {
    const survey = this.#sampledBy === null || this.#sampledBy.mode === this.#survey.mode ? this.#survey : this.#sampledBy;
    return {survey, before: this.#before, after: this.#after, failure: this.#failure};
  }

  /** Reads the rules that determine the expected shares. Never rejects. If the node cannot be read now, the previous result stays. */
  async survey(surroundings: NodeSurroundings): Promise<void> {
    const {transport, signal, surveyTimeoutMs} = this.#options;
    const node = await collectNode(this.#info, transport, {
      signal,
      timeoutMs: surveyTimeoutMs,
      wants: file => !file.startsWith('conntrack'),
    });
    const unread = asUnread(node);
    if (unread !== null) {
      const isOfCilium = ciliumAgentOn(this.#info) !== null && kubeProxyOn(this.#info) === null;
      if (!this.isRead) this.#survey = unreadSurvey(node.name, isOfCilium ? uncounted : unread.reason);
      return;
    }
    this.#survey = surveyNode(node, surroundings);
    this.#programs = new Map(families.map(family => [family, programOf(node, family)]));
  }

  /** Reads the counters. Never rejects, unless the run is interrupted. */
  async sample(): Promise<void> {
    this.#sampledBy = this.#survey;
    if (this.#survey.status !== 'checked') return;
    const {signal, sampleTimeoutMs, clock, transport} = this.#options;
    const late = new AbortController();
    // Cleared at the end: a shell that is opened here is kept, and would end when it fires.
    const timer = setTimeout(() => late.abort(), sampleTimeoutMs);
    const both = AbortSignal.any([signal, late.signal]);
    this.#before = this.#after;
    this.#after = null;
    this.#failure = undefined;
    try {
      const shell = await transport.open(this.#info, both);
      this.#after = await unlessAborted(readSample({shell, survey: this.#survey, programs: this.#programs, signal: both, clock}), both);
    } catch (error) {
      signal.throwIfAborted();
      this.#failure = late.signal.aborted ? `no answer within ${sampleTimeoutMs / 1000} s` : errorText(error);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Counts the connections of a cluster's Services repeatedly. Disposing of it removes everything it created on nodes. */
class TopSession implements AsyncDisposable {
  readonly #run: TopRun;
  readonly #parts: TopSessionParts;
  #api: ApiObjects;
  /** For how many more rounds the rules are read again: kube-proxy applies a change with a delay. */
  #roundsToSurvey = 0;
  #round = 0;

  private constructor(run: TopRun, parts: TopSessionParts) {
    this.#run = run;
    this.#parts = parts;
    this.#api = parts.api;
  }

  /** Reads the API and every node once. Throws a CLIError, a KubeconfigError or an ApiError, and an Interrupted. */
  static async open(run: TopRun): Promise<TopSession> {
    const {flags, cluster, signal, progress, clock, interval} = run;
    const {api} = cluster;
    const input = askedInput(run);
    progress.say('reading the API');
    const scope = askedScope(input);
    const asked = await unlessAborted(readAsked(api, scope, {...input, configMaps: true}), signal);
    const source = await unlessAborted(nodeSource(flags, {api, objects: asked.api.nodes}), signal);
    await clearLeftovers(source.transport, run);
    const shells = new KeptShells(source.transport);
    const sampleTimeoutMs = Math.min(Math.max(interval, minSampleMs), source.timeoutMs);
    const counting = {transport: shells, signal, clock, surveyTimeoutMs: source.timeoutMs, sampleTimeoutMs};
    const nodes = source.nodes.map(info => new CountedNode(info, counting));
    const options = {...asked.selection, ...evaluationOptions(flags), toolVersion: run.toolVersion, trace: true};
    const objects = {...asked.api, pods: source.pods};
    const followed = new FollowedServices({api, scope, objects, versions: asked.versions, clock});
    const session = new TopSession(run, {scope, shells, nodes, options, followed, api: objects});
    try {
      progress.say(`reading ${nodes.length} nodes`);
      // An endpoint may have gone just before.
      await Promise.all([unlessAborted(followed.recall(clock.now() - graceMs), signal), session.#survey(nodes)]);
      await session.#sample();
    } catch (error) {
      await session[Symbol.asyncDispose]();
      throw error;
    }
    return session;
  }

  /** Reads the counters of every node again and reports the difference to the previous read. */
  async next(): Promise<TrafficReport> {
    this.#round++;
    await this.#sample();
    await this.#followChanges();
    const since = this.#run.clock.now() - graceMs;
    this.#parts.followed.history.forgetBefore(since);
    const {states} = this.#parts.followed.history;
    return trafficReport(
      this.#parts.nodes.map(({read}) => ({...read, survey: withLeavingEndpoints(read.survey, states, since)})),
      {toolVersion: this.#run.toolVersion, isRate: true},
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#parts.followed.close();
    await this.#parts.shells[Symbol.asyncDispose]();
  }

  async #followChanges(): Promise<void> {
    const {cluster, signal} = this.#run;
    const before = this.#api;
    this.#api = await unlessAborted(readAsBefore({api: cluster.api, scope: this.#parts.scope, before, signal}), signal);
    await this.#parts.followed.take(this.#api);
    if (printOf(this.#services(before), before) !== printOf(this.#services(), this.#api)) this.#roundsToSurvey = roundsAfterChange;
    const isDue = this.#roundsToSurvey-- > 0;
    // Not all nodes in one round.
    const isTheirTurn = (index: number): boolean => (this.#round + index) % roundsToRetry === 0;
    await this.#survey(this.#parts.nodes.filter(({isRead, isOutdated}, index) => isOutdated || (isRead && isDue) || isTheirTurn(index)));
  }

  #services(api: ApiObjects = this.#api) {
    return (api.services ?? []).filter(this.#parts.options.selects ?? (() => true));
  }

  async #survey(nodes: readonly CountedNode[]): Promise<void> {
    const api = this.#api;
    const surroundings: NodeSurroundings = {api, view: new ClusterView(api), services: this.#services(), options: this.#parts.options};
    await this.#each(nodes, node => node.survey(surroundings));
  }

  async #sample(): Promise<void> {
    await this.#each(this.#parts.nodes, node => node.sample());
  }

  async #each(nodes: readonly CountedNode[], work: (node: CountedNode) => Promise<void>): Promise<void> {
    const limit = pLimit(this.#run.flags.concurrency);
    await unlessAborted(Promise.all(nodes.map(node => limit(work, node))), this.#run.signal);
  }
}

interface TopSessionParts {
  readonly scope: ClusterScope;
  readonly shells: KeptShells;
  readonly nodes: readonly CountedNode[];
  readonly options: DiagnoseOptions;
  readonly api: ApiObjects;
  readonly followed: FollowedServices;
}

/** How long kube-proxy may take to follow. In milliseconds. */
const graceMs = gracePeriod * 1000;

/** In milliseconds. */
const minSampleMs = 5000;
const roundsAfterChange = 3;
const roundsToRetry = 15;

interface CountingOptions {
  readonly transport: Transport;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Timeout to read everything that shows the expected shares, in milliseconds. */
  readonly surveyTimeoutMs: number;
  /** Timeout to read the counters once, in milliseconds. */
  readonly sampleTimeoutMs: number;
}

/** The program that prints kube-proxy's rules: the default one, or that of the backend that contains them. */
function programOf({read}: CollectedNode, family: Family): string {
  const programs = iptablesFiles(family);
  return programs.find(program => read(program)?.includes('KUBE-SEP-')) ?? programs[0] ?? '';
}
