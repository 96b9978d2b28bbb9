import type {CollectedNode} from '../collect/collect-node.ts';
import {collectNodes} from '../collect/collect-nodes.ts';
import type {NodeInfo, Transport} from '../collect/transport.ts';
import type {Diagnosis} from '../diagnosis/diagnosis.ts';
import {nodeObject} from '../expect/api-index.ts';
import type {NodeObject} from '../model/api-objects.ts';
import {whyNoRules} from '../model/node-without-rules.ts';
import type {ApiObjects, Problem} from '../model/snapshot.ts';
import type {ClusterRun} from './diagnose-cluster.ts';
import {asUnread, takeNode} from './node-intake.ts';
import type {NodeLooks} from './node-looks.ts';
import {progressText} from './node-progress.ts';
import type {NodeSource} from './node-source.ts';

export interface JudgingRun extends Pick<ClusterRun, 'signal' | 'progress' | 'clock'> {
  /** The nodes by the ways there are now; `objects` are the Nodes, null where they could not be read. */
  readonly find: (objects: readonly NodeObject[] | null) => Promise<NodeSource>;
}

/** Reads nodes and judges each when it is there; keeps when each was read and what could not be. */
export class NodeJudging implements NodeLooks {
  readonly readAt = new Map<string, number>();
  #source: NodeSource;
  readonly #diagnosis: Diagnosis;
  readonly #run: JudgingRun;
  readonly #problems = new Map<string, readonly Problem[]>();
  readonly #judged = new Set<string>();
  readonly #lasting = new Map<string, string>();

  constructor(source: NodeSource, diagnosis: Diagnosis, run: JudgingRun) {
    this.#source = source;
    this.#diagnosis = diagnosis;
    this.#run = run;
  }

  get problems(): readonly Problem[] {
    return [...this.#problems].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, problems]) => problems);
  }

  get partlyRead(): ReadonlySet<string> {
    return new Set([...this.#problems].flatMap(([name, problems]) => (problems.every(({isMinor}) => isMinor) ? [] : [name])));
  }

  get lasting(): ReadonlyMap<string, string> {
    return this.#lasting;
  }

  get pods(): NodeSource['pods'] {
    return this.#source.pods;
  }

  async findAgain(objects: readonly NodeObject[] | null): Promise<readonly string[]> {
    this.#source = await this.#run.find(objects);
    const names = this.#source.nodes.map(({name}) => name);
    for (const gone of objects === null ? [] : [...this.#judged].filter(name => !names.includes(name))) {
      this.#diagnosis.forget(gone);
      for (const known of [this.#problems, this.#lasting, this.#judged, this.readAt]) known.delete(gone);
    }
    return names.filter(name => !this.#judged.has(name));
  }

  async judge(names: readonly string[]): Promise<void> {
    const {signal, progress} = this.#run;
    const {concurrency, timeoutMs} = this.#source;
    const wanted = new Set(names);
    const nodes = this.#source.nodes.filter(({name}) => wanted.has(name) && !this.#isNamedOnly(name));
    const onProgress = (counts: Parameters<typeof progressText>[0]) => progress.say(progressText(counts));
    for await (const node of collectNodes(nodes, this.#timed(), {signal, concurrency, timeoutMs, onProgress, wants: this.#wants})) {
      this.#problems.set(node.name, takeNode(node, this.#diagnosis));
      this.#judged.add(node.name);
      this.#noteLasting(node);
    }
  }

  #noteLasting(node: CollectedNode): void {
    const unread = asUnread(node);
    if (unread?.isLasting) this.#lasting.set(node.name, unread.reason);
    else this.#lasting.delete(node.name);
  }

  giveUp(reason: string): void {
    for (const {name} of this.#source.nodes)
      if (!this.#judged.has(name)) this.#diagnosis.addUnread({name, reason, remedy: 'Let the run come to its end.'});
  }

  /** A node that can have no rules is named in the report, and not asked for rules. */
  #isNamedOnly(name: string): boolean {
    const object = nodeObject(this.#diagnosis.api, name);
    if (object === undefined || whyNoRules(object) === null) return false;
    this.#diagnosis.add({name, files: [], read: () => null});
    this.#judged.add(name);
    return true;
  }

  /** Tracked connections tell of UDP Services alone, and are many on a busy node. */
  readonly #wants = (file: string): boolean => file !== 'conntrack' || hasUdp(this.#diagnosis.api);

  #timed(): Transport {
    const {transport} = this.#source;
    const open = (node: NodeInfo, signal: AbortSignal) => {
      this.readAt.set(node.name, this.#run.clock.now());
      return transport.open(node, signal);
    };
    return {name: transport.name, open};
  }
}

function hasUdp({services}: ApiObjects): boolean {
  return services?.some(({spec}) => spec?.ports?.some(({protocol}) => protocol === 'UDP') ?? false) ?? true;
}
