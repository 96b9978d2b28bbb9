import pLimit from 'p-limit';
import {gracePeriod} from '../../checks/st904-changed-while-looking.ts';
import type {ClusterScope} from '../../collect/cluster/cluster-scope.ts';
import type {DiagnoseOptions} from '../../diagnosis/diagnosis-options.ts';
import type {NodeSurroundings} from '../../diagnosis/diagnose-node.ts';
import {ClusterView} from '../../expect/cluster/cluster-view.ts';
import type {ApiObjects} from '../../model/snapshot.ts';
import type {TrafficReport} from '../../model/traffic/traffic-report.ts';
import {withLeavingEndpoints} from '../../traffic/leaving-endpoints.ts';
import {trafficReport} from '../../traffic/traffic-report.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {unlessInterrupted} from '../interruption.ts';
import {FollowedServices} from '../follow-services.ts';
import {clearLeftovers} from '../nodes/clear-leftovers.ts';
import {nodeSource} from '../nodes/node-source.ts';
import {evaluationOptions} from '../options/evaluation-options.ts';
import {readAsked} from '../read-requested.ts';
import {readAsBefore} from '../reread.ts';
import {askedInput, askedScope} from '../scope/requested-scope.ts';
import {printOf} from '../service-history.ts';
import {CountedNode} from './counted-node.ts';
import {KeptShells} from './kept-shells.ts';

export interface TopRun extends Pick<ClusterRun, 'flags' | 'names' | 'cluster' | 'signal' | 'progress' | 'clock'> {
  readonly toolVersion: string;
  /** Between two reads, in milliseconds. */
  readonly interval: number;
}

/** Counts the connections of a cluster's Services repeatedly. Disposing of it removes everything it created on nodes. */
export class TopSession implements AsyncDisposable {
  readonly #run: TopRun;
  readonly #scope: ClusterScope;
  readonly #shells: KeptShells;
  readonly #nodes: readonly CountedNode[];
  readonly #options: DiagnoseOptions;
  readonly #concurrency: number;
  #api: ApiObjects;
  readonly #followed: FollowedServices;
  /** For how many more rounds the rules are read again: kube-proxy applies a change with a delay. */
  #roundsToSurvey = 0;
  #round = 0;

  private constructor(run: TopRun, parts: TopSessionParts) {
    this.#run = run;
    this.#scope = parts.scope;
    this.#shells = parts.shells;
    this.#nodes = parts.nodes;
    this.#options = parts.options;
    this.#api = parts.api;
    this.#followed = parts.followed;
    this.#concurrency = run.flags.concurrency;
  }

  /** Reads the API and every node once. Throws a CLIError, a KubeconfigError or an ApiError, and an Interrupted. */
  static async open(run: TopRun): Promise<TopSession> {
    const {flags, cluster, signal, progress, clock, interval} = run;
    const {api} = cluster;
    const input = askedInput(run);
    progress.say('reading the API');
    const scope = askedScope(input);
    const asked = await unlessInterrupted(readAsked(api, scope, {...input, configMaps: true}), signal);
    const source = await unlessInterrupted(nodeSource(flags, {api, objects: asked.api.nodes}), signal);
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
      await Promise.all([unlessInterrupted(followed.recall(clock.now() - graceMs), signal), session.#survey(nodes)]);
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
    this.#followed.history.forgetBefore(since);
    const {states} = this.#followed.history;
    return trafficReport(
      this.#nodes.map(({read}) => ({...read, survey: withLeavingEndpoints(read.survey, states, since)})),
      {toolVersion: this.#run.toolVersion, isRate: true},
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#followed.close();
    await this.#shells[Symbol.asyncDispose]();
  }

  async #followChanges(): Promise<void> {
    const {cluster, signal} = this.#run;
    const before = this.#api;
    this.#api = await unlessInterrupted(readAsBefore({api: cluster.api, scope: this.#scope, before, signal}), signal);
    await this.#followed.take(this.#api);
    if (printOf(this.#services(before), before) !== printOf(this.#services(), this.#api)) this.#roundsToSurvey = roundsAfterChange;
    const isDue = this.#roundsToSurvey-- > 0;
    const retry = this.#round % roundsToRetry === 0;
    await this.#survey(this.#nodes.filter(({isRead}) => (isRead ? isDue : retry)));
  }

  #services(api: ApiObjects = this.#api) {
    return (api.services ?? []).filter(this.#options.selects ?? (() => true));
  }

  async #survey(nodes: readonly CountedNode[]): Promise<void> {
    const api = this.#api;
    const surroundings: NodeSurroundings = {api, view: new ClusterView(api), services: this.#services(), options: this.#options};
    await this.#each(nodes, node => node.survey(surroundings));
  }

  async #sample(): Promise<void> {
    await this.#each(this.#nodes, node => node.sample());
  }

  async #each(nodes: readonly CountedNode[], work: (node: CountedNode) => Promise<void>): Promise<void> {
    const limit = pLimit(this.#concurrency);
    await unlessInterrupted(Promise.all(nodes.map(node => limit(work, node))), this.#run.signal);
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
