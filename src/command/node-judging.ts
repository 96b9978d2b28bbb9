import {collectNodes} from '../collect/collect-nodes.ts';
import type {NodeInfo, Transport} from '../collect/transport.ts';
import type {Diagnosis} from '../diagnosis/diagnosis.ts';
import {nodeObject} from '../expect/api-index.ts';
import {whyNoRules} from '../model/node-without-rules.ts';
import type {Problem} from '../model/snapshot.ts';
import type {ClusterRun} from './diagnose-cluster.ts';
import {takeNode} from './node-intake.ts';
import type {NodeLooks} from './node-looks.ts';
import {progressText} from './node-progress.ts';
import type {NodeSource} from './node-source.ts';

export interface JudgingRun extends Pick<ClusterRun, 'signal' | 'progress' | 'clock'> {
  /** The same nodes, by the ways there are now. */
  readonly find: () => Promise<NodeSource>;
}

/** Reads nodes and judges each when it is there; keeps when each was read and what could not be. */
export class NodeJudging implements NodeLooks {
  readonly readAt = new Map<string, number>();
  #source: NodeSource;
  readonly #diagnosis: Diagnosis;
  readonly #run: JudgingRun;
  readonly #problems = new Map<string, readonly Problem[]>();
  readonly #judged = new Set<string>();

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

  get pods(): NodeSource['pods'] {
    return this.#source.pods;
  }

  async findAgain(): Promise<void> {
    this.#source = await this.#run.find();
  }

  async judge(names: readonly string[]): Promise<void> {
    const {signal, progress} = this.#run;
    const {concurrency, timeoutMs} = this.#source;
    const wanted = new Set(names);
    const nodes = this.#source.nodes.filter(({name}) => wanted.has(name) && !this.#isNamedOnly(name));
    const onProgress = (counts: Parameters<typeof progressText>[0]) => progress.say(progressText(counts));
    for await (const node of collectNodes(nodes, this.#timed(), {signal, concurrency, timeoutMs, onProgress})) {
      this.#problems.set(node.name, takeNode(node, this.#diagnosis));
      this.#judged.add(node.name);
    }
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

  #timed(): Transport {
    const {transport} = this.#source;
    const open = (node: NodeInfo, signal: AbortSignal) => {
      this.readAt.set(node.name, this.#run.clock.now());
      return transport.open(node, signal);
    };
    return {name: transport.name, open};
  }
}
