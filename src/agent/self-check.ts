import {lookUpService} from '../collect/watch/look-up-service.ts';
import {type NodeObjects, readNodeObjects} from '../collect/watch/node-objects.ts';
import {nodeInfos} from '../collect/cluster/node-infos.ts';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import type {Transport} from '../collect/node/transport.ts';
import type {ClusterWatch} from '../collect/watch/cluster-watch.ts';
import type {Clock} from '../run/clock.ts';
import {DumpEvaluator} from '../run/nodes/dump-evaluator.ts';
import {recheck, retract} from '../run/recheck.ts';
import {printOf} from '../run/service-history.ts';
import type {DiagnoseOptions} from '../diagnose.ts';
import {Diagnosis} from '../diagnosis/diagnosis.ts';
import {identityOf} from '../model/findings/finding-identity.ts';
import type {Finding} from '../model/finding.ts';
import type {AgentResult, SeenVersions} from '../model/node-result.ts';
import type {Report} from '../model/report.ts';
import type {ApiObjects, Problem} from '../model/snapshot.ts';
import {namespacedName} from '../model/text/namespaced-name.ts';

export interface SelfCheckOptions {
  readonly api: KubeApi;
  readonly watch: ClusterWatch;
  /** The name of the Node. */
  readonly node: string;
  readonly transport: Transport;
  /** For the reading of the node, in milliseconds. */
  readonly timeoutMs: number;
  readonly intervalMs: number;
  /** How long kube-proxy may take to follow a change, in milliseconds. */
  readonly gracePeriodMs: number;
  readonly options: Pick<DiagnoseOptions, 'toolVersion' | 'overrides'>;
  readonly clock: Clock;
}

/** What a look came to. */
export type CheckResult =
  | {readonly kind: 'result'; readonly result: AgentResult; readonly report: Report}
  /** Nothing can be said now. */
  | {readonly kind: 'trouble'; readonly message: string};

/** Judges the node it runs on by what the watches hold, and looks again before it says that something is wrong. */
export class SelfCheck {
  readonly #options: SelfCheckOptions;
  #objects: (NodeObjects & {readonly readAt: number}) | null = null;
  /** What is held to be wrong already. */
  #standing: ReadonlySet<string> = new Set();

  constructor(options: SelfCheckOptions) {
    this.#options = options;
  }

  /** Rejects with the signal's reason when that is aborted. */
  async look(signal: AbortSignal): Promise<CheckResult> {
    const {watch, clock, node, options, intervalMs, gracePeriodMs} = this.#options;
    const trouble = this.#whyNot();
    if (trouble !== null) return {kind: 'trouble', message: trouble};
    const begun = clock.now();
    await this.#readObjects(maxObjectAge);
    let view = this.#view();
    let {seen, apiCurrentAt} = view;
    const diagnosis = new Diagnosis(view.api, {...options, nodesOnly: true});
    const nodes = this.#evaluation(diagnosis, signal);
    await nodes.evaluate([node]);
    const doubtful = await recheck({
      ...{diagnosis, signal, clock, gracePeriodMs, readAt: begun, nodeReadAt: nodes.readAt},
      seenToChange: service => watch.changedAt(service),
      readAgain: async () => {
        await this.#verify(diagnosis);
        view = this.#view();
        return view.api;
      },
      readNodes: names => {
        ({seen, apiCurrentAt} = view);
        return nodes.evaluate(names);
      },
      say: () => {},
    });
    const verification = await this.#verify(diagnosis);
    if (verification.kind === 'not verified') return {kind: 'trouble', message: verification.why};
    const outdated = this.#newOn(diagnosis).filter(
      ({service}) => service !== undefined && verification.changed.has(namespacedName(service)),
    );
    retract([...doubtful, ...outdated], diagnosis);
    // Objects that cannot be used are the same for all nodes, and said by whoever gathers.
    const problems = [...nodes.problems, ...(this.#objects?.problems ?? []).map(problem => ({...problem, node}))];
    const report = diagnosis.report([...problems, ...watch.problems]);
    this.#standing = new Set(report.findings.map(identityOf));
    const times = {judgedAt: nodes.readAt.get(node) ?? begun, seconds: (clock.now() - begun) / 1000, intervalSeconds: intervalMs / 1000};
    return {kind: 'result', report, result: {...this.#resultOf(diagnosis, problems), ...times, seen, apiCurrentAt}};
  }

  /** What keeps it from looking: without the API objects as they are nothing can be expected of the node. */
  #whyNot(): string | null {
    const {watch, clock} = this.#options;
    const why = watch.trouble === null ? '' : `: ${watch.trouble}`;
    if (!watch.isListed) return `the Services and EndpointSlices have not been read yet${why}`;
    const age = Math.round((clock.now() - watch.currentAt) / 1000);
    return age * 1000 <= maxSilence ? null : `the API server has not been heard of for ${age} s${why}`;
  }

  #view(): {readonly api: ApiObjects; readonly seen: SeenVersions; readonly apiCurrentAt: number} {
    const {watch} = this.#options;
    const {nodes, pods, configMaps} = this.#objects?.objects ?? {nodes: null, pods: null, configMaps: null};
    return {api: {...watch.objects(), nodes, pods, configMaps}, seen: watch.seen, apiCurrentAt: watch.currentAt};
  }

  #evaluation(diagnosis: Diagnosis, signal: AbortSignal): DumpEvaluator {
    const {node, transport, timeoutMs, clock} = this.#options;
    const {nodes, pods} = diagnosis.api;
    const source = {transport, nodes: nodeInfos([node], nodes ?? [], {pods, problems: []}), concurrency: 1, timeoutMs, pods, problems: []};
    const find = async () => source;
    return new DumpEvaluator(source, diagnosis, {signal, clock, find, progress: {say: () => {}, note: () => {}, close: () => {}}});
  }

  /** What was read before stays where it cannot be read now. */
  async #readObjects(oldest: number): Promise<void> {
    const {api, node, clock} = this.#options;
    const now = clock.now();
    if (this.#objects !== null && now - this.#objects.readAt < oldest) return;
    const read = await readNodeObjects(api, node);
    const {nodes, pods, configMaps} = read.objects;
    const before = this.#objects?.objects;
    const objects = {
      nodes: nodes ?? before?.nodes ?? null,
      pods: pods ?? before?.pods ?? null,
      configMaps: configMaps ?? before?.configMaps ?? null,
    };
    const gone: readonly Problem[] =
      objects.nodes?.length === 0
        ? [{node, message: `there is no Node ${node} in the API`, remedy: 'Start the agent with --node NAME, the name of its Node.'}]
        : [];
    this.#objects = {objects, problems: [...read.problems, ...gone], readAt: now};
  }

  /**
   * Something that is found wrong for the first time may be only what a watch kept back: the API server is asked in another way.
   */
  async #verify(diagnosis: Diagnosis): Promise<Verification> {
    const {api, watch} = this.#options;
    const found = this.#newOn(diagnosis);
    if (found.length === 0) return {kind: 'verified', changed: new Set()};
    await this.#readObjects(maxObjectAgeInDoubt);
    const names = new Map(found.flatMap(({service}) => (service === undefined ? [] : [[namespacedName(service), service] as const])));
    const changed = new Set<string>();
    for (const metadata of [...names.values()].slice(0, maxVerified)) {
      const objects = await lookUpService(api, metadata);
      if (typeof objects === 'string') return {kind: 'not verified', why: `what was found cannot be verified: ${objects}`};
      const print = printOf([{metadata}], objects);
      if (print === printOf([{metadata}], diagnosis.api)) continue;
      if (print === printOf([{metadata}], watch.objects())) changed.add(namespacedName(metadata));
      else {
        watch.doubt(namespacedName(metadata));
        return {
          kind: 'not verified',
          why: `the API server says otherwise of ${namespacedName(metadata)} than its watch, which is begun anew`,
        };
      }
    }
    return {kind: 'verified', changed};
  }

  #newOn(diagnosis: Diagnosis): readonly Finding[] {
    return diagnosis.findingsOn(this.#options.node).filter(finding => !this.#standing.has(identityOf(finding)));
  }

  #resultOf(diagnosis: Diagnosis, problems: readonly Problem[]) {
    const {node, options} = this.#options;
    const result = diagnosis.resultOf(node);
    if (result === undefined) throw new Error(`${node} was not judged`);
    const {report, findings, proxy} = result;
    return {tool: {name: 'svc-trace', version: options.toolVersion}, report, findings, proxy, problems};
  }
}

/** What the API server says of what was found for the first time. */
type Verification =
  | {
      readonly kind: 'verified';
      /** Services that are others by now than those that the node was judged by. */
      readonly changed: ReadonlySet<string>;
    }
  | {readonly kind: 'not verified'; readonly why: string};

/** Of the Services for which something new was found so many are looked up: a watch that keeps one back keeps all back. */
const maxVerified = 5;

/** In milliseconds: how old the Node, its pods and kube-proxy's ConfigMaps may be, and where something new was found. */
const maxObjectAge = 300_000;
const maxObjectAgeInDoubt = 30_000;

/** Bookmarks come about once a minute, and a watch that is silent for two and a half is begun anew. In milliseconds. */
const maxSilence = 180_000;
