import {setImmediate as turn} from 'node:timers/promises';
import type {CollectedNode, Transport, NodeInfo, NodeShell} from '../../collect/node/transport.ts';
import {earlyCommands} from '../../collect/node/collect-node.ts';
import type {RequestedEntries} from '../../collect/node/read-chains.ts';
import type {OpenDiagnosis} from '../../diagnosis/diagnose-node.ts';
import type {NodeObject, ServiceObject} from '../../model/api-objects.ts';
import {fileText, type ApiObjects, type Problem} from '../../model/snapshot.ts';
import {gracePeriod, healthTimeout, type ReadTime, type StateHistory} from '../../model/state-history.ts';
import {extraSyncPeriod} from '../../expect/resolve-proxy-config.ts';
import {chainByChain} from '../../parse/iptables/dump-chain.ts';
import {parseHealthz, parseSyncMetrics} from '../../parse/kube-proxy/kube-proxy-state.ts';
import type {ClusterRun} from '../cluster-run.ts';
import {EvaluatedNodes, type NodeEvaluator} from './evaluated-nodes.ts';
import {asUnread, takeNode, collectFrom} from './node-intake.ts';
import {type NodeSource, nodeTimeout, lifetimeOf} from './node-source.ts';
import {podsByNode, type ProxyPodsReading} from '../../collect/cluster/read-agent-pods.ts';
import {execTransport} from '../../collect/transports/exec.ts';
import {agentsOn} from '../../collect/transports/host-agents.ts';

export interface EvaluationRun extends Pick<ClusterRun, 'signal' | 'progress' | 'clock'> {
  /** Also read the counters of rules. */
  readonly counters?: boolean;
  /** Finds the nodes and their transports again. `objects` are the Nodes; null if they could not be read. */
  readonly find: (objects: readonly NodeObject[] | null) => Promise<NodeSource>;
  /** Those of the Services as far as they are known, where somebody follows them. */
  readonly states?: (() => StateHistory) | undefined;
  /** A node that has a state of before this has not followed. Milliseconds since 1970; left out where the grace period alone counts. */
  readonly notBefore?: number | undefined;
  /** See `NodeReading`. */
  readonly gracePeriodMs?: number;
  /** Read only the chains that packets to these entries can reach, where that is faster. */
  readonly requested?: RequestedEntries | undefined;
  /** The Services were requested by name: what cannot concern them is not read. */
  readonly byName?: boolean;
  /** A node that may be open already. */
  readonly ahead?: NodeAhead | undefined;
}

/** Reads nodes and diagnoses each as it arrives. Records when each was read and what could not be read. */
export class DumpEvaluator implements NodeEvaluator {
  #source: NodeSource;
  readonly #diagnosis: OpenDiagnosis;
  readonly #run: EvaluationRun;
  readonly evaluated: EvaluatedNodes;
  /** Nodes with findings: their dumps, and when they were read. Some states that they may have are not known yet. */
  readonly #kept = new Map<string, {readonly node: CollectedNode; readonly time: ReadTime}>();

  /** Nodes of which only some chains were read. */
  readonly #byChain = new Set<string>();
  /** Nodes of which that was not enough. */
  readonly #readCompletely = new Set<string>();

  constructor(source: NodeSource, diagnosis: OpenDiagnosis, run: EvaluationRun) {
    this.#source = source;
    this.#diagnosis = diagnosis;
    this.#run = run;
    this.evaluated = new EvaluatedNodes(diagnosis);
  }

  get pods(): NodeSource['pods'] {
    return this.#source.pods;
  }

  async findAgain(objects: readonly NodeObject[] | null): Promise<readonly string[]> {
    this.#source = await this.#run.find(objects);
    return this.evaluated.follow(this.#names, objects);
  }

  async evaluate(names: readonly string[]): Promise<void> {
    const {requested} = this.#run;
    const inParts = requested === undefined ? [] : names.filter(name => !this.#readCompletely.has(name));
    await this.#read(names.filter(name => !inParts.includes(name)));
    await this.#read(inParts, requested);
    // Chains that were read one after another can be of different moments, and others may explain a finding.
    const suspects = inParts.filter(name => this.#byChain.has(name) && !this.#isInSync(name));
    for (const name of suspects) this.#readCompletely.add(name);
    await this.#read(suspects);
  }

  async #read(names: readonly string[], requested?: RequestedEntries): Promise<void> {
    if (names.length === 0) return;
    const {signal, progress, counters: isCounted} = this.#run;
    const counters = isCounted ? 'rules' : undefined;
    const {cilium} = this.#source;
    const wanted = new Set(names);
    const nodes = this.#source.nodes.filter(({name}) => wanted.has(name) && !this.evaluated.isNamedOnly(name));
    const leftOut = this.#leftOut;
    for await (const collected of collectFrom({...this.#source, transport: this.#timed()}, nodes, {
      signal,
      progress,
      counters,
      requested,
      cilium,
      wants: this.#wants,
      log: 'failing',
    })) {
      const node = leftOut === undefined ? collected : {...collected, leftOut};
      const to = this.#run.clock.now();
      const time = {from: this.evaluated.readAt.get(node.name) ?? to, to};
      // Events of the watches that have arrived are processed before the node is analyzed, which can take seconds.
      await turn();
      this.evaluated.problemsOf.set(node.name, this.#take(node, time));
      this.evaluated.note(node.name);
      this.#notePermanent(node);
      this.#keep(node, time);
      if (isByChain(node)) this.#byChain.add(node.name);
    }
  }

  #isInSync(name: string): boolean {
    const result = this.#diagnosis.resultOf(name);
    return result?.report.status === 'checked' && result.findings.length === 0;
  }

  async evaluateAgain(names: readonly string[]): Promise<void> {
    const keptOf = (name: string) => {
      const kept = this.#kept.get(name);
      return kept?.node.leftOut === this.#leftOut ? kept : undefined;
    };
    const dropped = names.filter(name => keptOf(name) === undefined);
    for (const name of names) {
      const kept = keptOf(name);
      if (kept === undefined) continue;
      this.#take(kept.node, kept.time);
      this.#keep(kept.node, kept.time);
    }
    if (dropped.length > 0) await this.evaluate(dropped);
  }

  #take(node: CollectedNode, time: ReadTime): readonly Problem[] {
    const {states, gracePeriodMs = gracePeriod * 1000, notBefore = 0} = this.#run;
    if (states === undefined) return takeNode(node, this.#diagnosis, undefined);
    const period = periodMs(node, {api: this.#diagnosis.api, gracePeriodMs});
    const grace = Math.max(1, Math.min(period, time.from - notBefore));
    this.evaluated.periods.set(node.name, grace);
    return takeNode(node, this.#diagnosis, {...time, gracePeriodMs: grace, history: states()});
  }

  /** Dumps take memory: those of a few nodes are kept, others are read again when needed. */
  #keep(node: CollectedNode, time: ReadTime): void {
    this.#kept.delete(node.name);
    if (this.#diagnosis.findingsOn(node.name).some(({severity}) => severity !== 'info') && this.#kept.size < maxKept)
      this.#kept.set(node.name, {node, time});
  }

  #notePermanent(node: CollectedNode): void {
    const unread = asUnread(node);
    if (unread?.isPermanent) this.evaluated.permanent.set(node.name, unread.reason);
    else this.evaluated.permanent.delete(node.name);
  }

  giveUp(reason: string): void {
    this.evaluated.giveUp(this.#names, reason);
  }

  get #names(): readonly string[] {
    return this.#source.nodes.map(({name}) => name);
  }

  /** IPv6 where no requested Service has it. */
  get #leftOut(): 'IPv6' | undefined {
    const {services} = this.#diagnosis;
    const isWithout = ({spec}: ServiceObject): boolean => (spec?.ipFamilies ?? []).join() === 'IPv4';
    return this.#run.byName === true && services.length > 0 && services.every(isWithout) ? 'IPv6' : undefined;
  }

  /** Tracked connections matter for Services of their protocol only, and a busy node has many. */
  readonly #wants = (file: string): boolean => {
    if (file.startsWith('ip6')) return this.#leftOut === undefined;
    const tracked = file === 'conntrack' ? 'UDP' : file === 'conntrack-tcp' ? 'TCP' : null;
    return tracked === null || hasPortOf(tracked, this.#diagnosis.api);
  };

  #timed(): Transport {
    const {transport} = this.#source;
    const open: Transport['open'] = (node, signal, early) => {
      const opened = this.#run.ahead?.take(node.name, signal) ?? null;
      this.evaluated.readAt.set(node.name, opened?.at ?? this.#run.clock.now());
      return opened?.shell ?? transport.open(node, signal, early);
    };
    return {name: transport.name, open};
  }
}

/** A dump of a large cluster can take a hundred megabytes. */
const maxKept = 16;

function isByChain({read}: CollectedNode): boolean {
  return ['iptables-save', 'ip6tables-save'].some(file => read(file)?.subarray(0, 200).includes(chainByChain) ?? false);
}

function hasPortOf(tracked: 'TCP' | 'UDP', {services}: ApiObjects): boolean {
  return services?.some(({spec}) => spec?.ports?.some(({protocol = 'TCP'}) => protocol === tracked) ?? false) ?? true;
}

/**
 * A change may come while a sync runs, and waits for the next: where syncs are long or, by the settings, seldom, that takes longer than the
 * grace period. One that shows that it is at work, or says without its metrics that it is well, has the time after which it says otherwise.
 */
function periodMs(node: CollectedNode, {api, gracePeriodMs}: {readonly api: ApiObjects; readonly gracePeriodMs: number}): number {
  const metrics = node.read('metrics')?.toString('utf8');
  const {syncSeconds, isPending} = parseSyncMetrics(metrics ?? '');
  const period = gracePeriodMs + 2000 * Math.min(syncSeconds, longestSync) + 1000 * extraSyncPeriod(node, api);
  const isAtWork = metrics === undefined ? parseHealthz(fileText(node, 'healthz.json'))?.healthy === true : isPending;
  return isAtWork ? Math.max(period, 1000 * healthTimeout) : period;
}

/** Seconds. What takes longer is no slow sync: they fail, or kube-proxy hangs. */
const longestSync = 30;

interface AheadInput {
  readonly proxyPods: Promise<ProxyPodsReading>;
  /** Null where all rules are read at once. */
  readonly chains: Promise<number | null>;
}

/**
 * Opens the node that `--node` names, and runs its first commands, as soon as its pod of kube-proxy is known: to list the Nodes of a large
 * cluster takes longer than to read one of them. Only by exec, which creates nothing and needs no more than the pod. Undefined for all
 * other runs, and with --wait, because a node is then read after everything else.
 */
export function openAhead(run: ClusterRun, input: AheadInput): NodeAhead | undefined {
  const {flags, wait} = run;
  const [name, ...others] = flags.node ?? [];
  const isPlain = name !== undefined && others.length === 0 && flags['node-selector'] === undefined && wait === undefined;
  if (!isPlain || !['auto', 'exec'].includes(flags.transport)) return undefined;
  return new NodeAhead(name, run, input);
}

/** A node that may be open before it is requested. */
class NodeAhead {
  readonly #name: string;
  readonly #run: ClusterRun;
  readonly #lifetimeMs: number;
  readonly #end = new AbortController();
  #opened: {readonly at: number; readonly shell: Promise<NodeShell>} | null = null;

  constructor(name: string, run: ClusterRun, {proxyPods, chains}: AheadInput) {
    this.#name = name;
    this.#run = run;
    this.#lifetimeMs = lifetimeOf(nodeTimeout(run.flags['node-timeout']));
    // A failure to read them ends the run, or is a problem of it.
    Promise.all([proxyPods, chains]).then(
      ([{pods}, chainsOfPort]) => this.#open({name, addresses: [], pods: podsByNode(pods ?? []).get(name) ?? []}, chainsOfPort !== null),
      () => {},
    );
  }

  /**
   * The shell, and when it was opened, in milliseconds since 1970; once, and null for another node or if none was opened. It is given up when
   * the signal is aborted before it is open.
   */
  take(name: string, signal: AbortSignal): {readonly at: number; readonly shell: Promise<NodeShell>} | null {
    if (name !== this.#name) return null;
    const opened = this.#opened;
    this.#opened = null;
    if (opened === null) return null;
    const giveUp = () => this.#end.abort(signal.reason);
    if (signal.aborted) giveUp();
    signal.addEventListener('abort', giveUp, {once: true});
    return opened;
  }

  #open(node: NodeInfo, byChain: boolean): void {
    const {flags, names, cluster, signal, clock} = this.#run;
    if (agentsOn(node).length === 0) return;
    const early = earlyCommands(flags.counters ? 'rules' : undefined, {byChain, byName: names.length > 0});
    const shell = execTransport(cluster.api, {lifetimeMs: this.#lifetimeMs}).open(node, AbortSignal.any([signal, this.#end.signal]), early);
    // Nobody may take it.
    shell.catch(() => {});
    this.#opened = {at: clock.now(), shell};
  }
}
