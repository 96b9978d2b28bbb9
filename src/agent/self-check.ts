import {type CountedEndpoints, countEndpoints} from './endpoint-connections.ts';
import {nodeInfos, readCiliumSettings} from '../collect/cluster/read-agent-pods.ts';
import type {KubeApi} from '../collect/kube/kube-api.ts';
import type {NodeInfo, Transport} from '../collect/node/transport.ts';
import {ciliumShell} from '../collect/transports/exec.ts';
import type {ClusterWatch} from '../collect/watch/cluster-watch.ts';
import type {Clock} from '../run/clock.ts';
import {DumpEvaluator} from '../run/nodes/dump-evaluator.ts';
import {recheck, retract} from '../run/recheck.ts';
import {ServiceHistory} from '../run/service-history.ts';
import type {DiagnoseOptions} from '../diagnose.ts';
import {Diagnosis} from '../diagnosis/diagnosis.ts';
import {type Finding, identityOf, type ServiceName} from '../model/finding.ts';
import {namespacedName} from '../model/text.ts';
import type {AgentResult, SeenVersions} from '../model/node-result.ts';
import type {Report} from '../model/report.ts';
import type {ApiObjects, Problem} from '../model/snapshot.ts';
import type {NodeObject, PodObject} from '../model/api-objects.ts';
import {ClusterReader} from '../collect/cluster/cluster-reader.ts';
import {readServiceCIDRs, type ServiceObjects, readConfigMaps} from '../collect/cluster/read-cluster.ts';

export interface SelfCheckOptions {
  readonly api: KubeApi;
  readonly watch: ClusterWatch;
  /** The name of the Node. */
  readonly node: string;
  readonly transport: Transport;
  /** Timeout for reading the node, in milliseconds. */
  readonly timeoutMs: number;
  readonly intervalMs: number;
  /** How long kube-proxy may take to apply a change, in milliseconds. */
  readonly gracePeriodMs: number;
  /** Count the connections of endpoints, too. */
  readonly countsConnections?: boolean | undefined;
  readonly options: Pick<DiagnoseOptions, 'toolVersion' | 'overrides'>;
  readonly clock: Clock;
}

/** The result of one check. */
export type CheckResult =
  | {readonly kind: 'result'; readonly result: AgentResult; readonly report: Report; readonly connections?: CountedEndpoints}
  /** The node cannot be checked now. */
  | {readonly kind: 'trouble'; readonly message: string};

/** Checks its own node against all states that the watches delivered, and verifies findings before it reports them. */
export class SelfCheck {
  readonly #options: SelfCheckOptions;
  #history: ServiceHistory | null = null;
  #objects: (NodeObjects & {readonly readAt: number}) | null = null;
  /** The previously reported findings. */
  #reported: ReadonlySet<string> = new Set();

  constructor(options: SelfCheckOptions) {
    this.#options = options;
  }

  /** Rejects with the signal's reason when that is aborted. */
  async check(signal: AbortSignal): Promise<CheckResult> {
    const {watch, clock, node, options, intervalMs, gracePeriodMs} = this.#options;
    const trouble = this.#whyNot();
    if (trouble !== null) return {kind: 'trouble', message: trouble};
    const begun = clock.now();
    const history = this.#follow();
    await this.#readObjects(maxObjectAge);
    let view = this.#view();
    let {seen, apiCurrentAt} = view;
    const diagnosis = new Diagnosis(view.api, {...options, nodesOnly: true});
    const nodes = this.#evaluation(diagnosis, history, signal);
    await nodes.evaluate([node]);
    let unverified: string | null = null;
    const doubtful = await recheck({
      diagnosis,
      signal,
      clock,
      gracePeriodMs,
      history,
      nodeReadAt: nodes.evaluated.readAt,
      readAgain: async () => {
        unverified = await this.#verify(diagnosis, history);
        view = this.#view();
        return view.api;
      },
      // The watches have delivered it by now.
      take: async () => {},
      evaluateAgain: names => nodes.evaluateAgain(names),
      readNodes: names => {
        ({seen, apiCurrentAt} = view);
        return nodes.evaluate(names);
      },
      say: () => {},
    });
    if (unverified !== null && this.#newOn(diagnosis).length > 0) return {kind: 'trouble', message: unverified};
    retract(doubtful, diagnosis);
    // Unusable objects are the same for all nodes; the command that collects results reports them.
    const problems = [...nodes.evaluated.problems, ...(this.#objects?.problems ?? []).map(problem => ({...problem, node}))];
    const report = diagnosis.report([...problems, ...watch.problems]);
    this.#reported = new Set(report.findings.map(identityOf));
    const times = {
      judgedAt: nodes.evaluated.readAt.get(node) ?? begun,
      seconds: (clock.now() - begun) / 1000,
      intervalSeconds: intervalMs / 1000,
    };
    const connections = await this.#count(diagnosis, report, signal);
    return {kind: 'result', report, result: {...this.#resultOf(diagnosis, problems), ...times, seen, apiCurrentAt}, ...connections};
  }

  async #count({api}: Diagnosis, report: Report, signal: AbortSignal): Promise<{readonly connections?: CountedEndpoints}> {
    const {node: name, transport, timeoutMs, clock, countsConnections} = this.#options;
    if (!countsConnections) return {};
    const [node] = nodeInfos([name], api.nodes ?? [], {pods: api.pods, problems: []});
    const mode = report.nodes.find(one => one.name === name)?.proxyMode;
    if (node === undefined || mode === undefined) return {connections: {counts: [], problem: 'the node was not checked'}};
    return {connections: await countEndpoints({transport, node, api, mode, timeoutMs, signal, clock})};
  }

  /** Why the node cannot be checked: without current API objects nothing can be expected of it. */
  #whyNot(): string | null {
    const {watch, clock} = this.#options;
    const why = watch.trouble === null ? '' : `: ${watch.trouble}`;
    if (!watch.isListed) return `the Services and EndpointSlices have not been read yet${why}`;
    const age = Math.round((clock.now() - watch.currentAt) / 1000);
    return age * 1000 <= maxSilence ? null : `the API server has not been heard of for ${age} s${why}`;
  }

  #view(): {readonly api: ApiObjects; readonly seen: SeenVersions; readonly apiCurrentAt: number} {
    const {watch} = this.#options;
    const known = this.#objects?.objects ?? {nodes: null, pods: null, configMaps: null};
    // Of the pods, only those of kube-system on this node are read.
    return {api: {...watch.objects(), ...known, podsOf: new Set()}, seen: watch.seen, apiCurrentAt: watch.currentAt};
  }

  /** From the first check on, every change is kept for as long as kube-proxy may lag. */
  #follow(): ServiceHistory {
    const {api, watch, clock} = this.#options;
    if (this.#history === null) {
      const objects = {...watch.objects(), nodes: null, pods: null, configMaps: null};
      // Objects bear times of the API server's clock, and the clock of the node can differ.
      const history = new ServiceHistory(objects, clock.now(), api.clockAheadMs);
      this.#history = history;
      let heardAt = clock.now();
      watch.onSeen = ({isListed, ...seen}) => {
        const now = clock.now();
        history.note(seen, now, isListed ? heardAt : undefined);
        if (!isListed) heardAt = now;
      };
    }
    this.#history.forgetBefore(clock.now() - remembered);
    return this.#history;
  }

  #evaluation(diagnosis: Diagnosis, history: ServiceHistory, signal: AbortSignal): DumpEvaluator {
    const {api, node, transport, timeoutMs, clock, gracePeriodMs} = this.#options;
    const {nodes, pods} = diagnosis.api;
    const infos = nodeInfos([node], nodes ?? [], {pods, problems: []});
    const cilium = this.#objects?.readsCilium ? (info: NodeInfo) => ciliumShell(api, info) : undefined;
    const source = {transport, cilium, nodes: infos, concurrency: 1, timeoutMs, pods, problems: []};
    const find = async () => source;
    const progress = {say: () => {}, note: () => {}, close: () => {}};
    return new DumpEvaluator(source, diagnosis, {signal, clock, find, progress, gracePeriodMs, states: () => history.states});
  }

  /** If the settings cannot be read now, the previous ones stay. */
  async #readObjects(oldest: number): Promise<void> {
    const {api, node, clock} = this.#options;
    const now = clock.now();
    if (this.#objects !== null && now - this.#objects.readAt < oldest) return;
    const read = await readNodeObjects(api, node);
    const {nodes, pods, configMaps, serviceCIDRs} = read.objects;
    const before = this.#objects?.objects;
    const readsCilium = read.readsCilium ?? this.#objects?.readsCilium ?? false;
    const objects = {
      nodes: nodes ?? before?.nodes ?? null,
      pods: pods ?? before?.pods ?? null,
      configMaps: configMaps ?? before?.configMaps ?? null,
      serviceCIDRs: serviceCIDRs ?? before?.serviceCIDRs ?? null,
    };
    const gone: readonly Problem[] =
      objects.nodes?.length === 0
        ? [{node, message: `there is no Node ${node} in the API`, remedy: 'Start the agent with --node NAME, the name of its Node.'}]
        : [];
    this.#objects = {objects, problems: [...read.problems, ...gone], readsCilium, readAt: now};
  }

  /**
   * A new finding may only be an event that a watch has not delivered: the API server is asked directly. Null if the watches have delivered
   * everything, otherwise why the finding is not verified.
   */
  async #verify(diagnosis: Diagnosis, history: ServiceHistory): Promise<string | null> {
    const {api, watch} = this.#options;
    const found = this.#newOn(diagnosis);
    if (found.length === 0) return null;
    await this.#readObjects(maxObjectAgeInDoubt);
    const names = new Map(
      found.flatMap(({service, affects = []}) => [service ?? [], affects].flat().map(one => [namespacedName(one), one] as const)),
    );
    const asked = [...names].slice(0, maxVerified);
    const objects = await lookUpServices(
      api,
      asked.map(([, service]) => service),
    );
    if (typeof objects === 'string') return `what was found cannot be verified: ${objects}`;
    for (const [key] of asked) {
      for (let waited = 0; waited < maxWatchDelay && !history.hasSeen(key, objects); waited += step)
        await new Promise(resolve => setTimeout(resolve, step));
      if (history.hasSeen(key, objects)) continue;
      watch.doubt();
      return `the API server has another state of ${key} than its watch, which is restarted`;
    }
    return null;
  }

  #newOn(diagnosis: Diagnosis): readonly Finding[] {
    return diagnosis.findingsOn(this.#options.node).filter(finding => !this.#reported.has(identityOf(finding)));
  }

  #resultOf(diagnosis: Diagnosis, problems: readonly Problem[]) {
    const {node, options} = this.#options;
    const result = diagnosis.resultOf(node);
    if (result === undefined) throw new Error(`${node} was not evaluated`);
    const {report, findings, proxy} = result;
    return {tool: {name: 'svc-trace', version: options.toolVersion}, report, findings, proxy, problems};
  }
}

/** The longest lag of kube-proxy that is followed. In milliseconds. */
const remembered = 180_000;

/** A watch lags a list by no more than this. In milliseconds. */
const [step, maxWatchDelay] = [50, 2000];

/** How many Services with new findings are looked up: a watch that withholds the change of one may have delivered those of others before. */
const maxVerified = 100;

/** In milliseconds: the maximum age of the Node, its pods and kube-proxy's ConfigMaps, and the maximum age if there are new findings. */
const maxObjectAge = 300_000;
const maxObjectAgeInDoubt = 30_000;

/** Bookmarks arrive about once a minute. A watch that is silent for two and a half minutes is restarted. In milliseconds. */
const maxSilence = 180_000;

interface NodeObjects {
  readonly objects: Pick<ApiObjects, 'nodes' | 'pods' | 'configMaps' | 'serviceCIDRs'>;
  readonly problems: readonly Problem[];
  /** Whether the agent may read the settings of Cilium, and so its tables; null if that is not known. */
  readonly readsCilium: boolean | null;
}

/**
 * The API objects about one node and its kube-proxy: the Node, the pods of kube-system on it, kube-proxy's ConfigMaps and the few
 * ServiceCIDRs. Who may get ConfigMap cilium-config is given the right to exec with it. All are read by name or node and, but for that one,
 * from the watch cache (`resourceVersion=0`), so that many agents cost the API server little.
 */
async function readNodeObjects(api: KubeApi, node: string): Promise<NodeObjects> {
  const reader = new ClusterReader(api, {anyFailure: true});
  const [own, pods, configMaps, serviceCIDRs] = await Promise.all([
    reader.get({of: 'nodes', path: `/api/v1/nodes/${encodeURIComponent(node)}`, query: fromCache, remedy}),
    readPods(reader, node),
    readConfigMaps(reader, {remedy, query: fromCache}),
    readServiceCIDRs(reader, fromCache),
  ]);
  const servers = own?.some(isOfK3s) ? await readServers(reader) : [];
  const others = servers.filter(({metadata}) => metadata.name !== node);
  const settings = await readCiliumSettings(api, pods ?? []);
  const isRefused = settings.problems.some(({isPermanent}) => isPermanent);
  const isUnknown = !isRefused && settings.problems.length > 0;
  const all = configMaps === null || isUnknown ? null : [...configMaps, ...settings.configMaps];
  return {
    objects: {nodes: own === null ? null : [...own, ...others], pods, configMaps: all, serviceCIDRs},
    problems: isRefused ? reader.problems : [...reader.problems, ...settings.problems],
    readsCilium: isUnknown ? null : !isRefused,
  };
}

const fromCache = {resourceVersion: '0'};
const remedy = 'Give the agent the rights of docs/rbac/agent.yaml.';

/** On k3s and RKE2, the servers pass kube-proxy's settings to the agents: see `kube-proxy-pod.ts`. */
function isOfK3s({metadata: {annotations = {}}}: NodeObject): boolean {
  return 'k3s.io/node-args' in annotations || 'rke2.io/node-args' in annotations;
}

async function readServers(reader: ClusterReader): Promise<readonly NodeObject[]> {
  const query = {...fromCache, labelSelector: 'node-role.kubernetes.io/control-plane'};
  return (await reader.list({of: 'nodes', path: '/api/v1/nodes', query, remedy})) ?? [];
}

function readPods(reader: ClusterReader, node: string): Promise<readonly PodObject[] | null> {
  const query = {...fromCache, fieldSelector: `spec.nodeName=${node}`};
  return reader.list({of: 'pods', path: '/api/v1/namespaces/kube-system/pods', query, remedy, isMinor: true});
}

/**
 * Services and their slices as stored in etcd, whatever the watches delivered; a text says why they could not be read. Uses lists only: this
 * needs no more permissions than a watch. One of each kind for a namespace, with the other Services there if several are looked up.
 */
async function lookUpServices(api: KubeApi, services: readonly ServiceName[]): Promise<ServiceObjects | string> {
  const reader = new ClusterReader(api, {anyFailure: true});
  const lists = [...Map.groupBy(services, ({namespace}) => namespace)].map(([namespace, own]) => {
    const [place, names] = [`namespaces/${encodeURIComponent(namespace)}`, own.map(({name}) => name)];
    return Promise.all([
      reader.list({
        of: 'services',
        path: `/api/v1/${place}/services`,
        query: names.length === 1 ? {fieldSelector: `metadata.name=${names.join()}`} : {},
        remedy: '',
      }),
      reader.list({
        of: 'endpointSlices',
        path: `/apis/discovery.k8s.io/v1/${place}/endpointslices`,
        remedy: '',
        query: {labelSelector: `kubernetes.io/service-name in (${names.join()})`},
      }),
    ]);
  });
  const found = await Promise.all(lists);
  if (reader.problems.length > 0 || found.flat().includes(null)) return reader.problems[0]?.message ?? 'it could not be asked';
  return {services: found.flatMap(([own]) => own ?? []), endpointSlices: found.flatMap(([, own]) => own ?? []), endpoints: null};
}
