import type {OpenDiagnosis} from '../../diagnosis/diagnose-node.ts';
import {nodeObject} from '../../expect/api-index.ts';
import type {NodeObject, PodObject} from '../../model/api-objects.ts';
import {whyWithoutKubeProxy} from '../../model/node/node-facts.ts';
import type {Problem} from '../../model/snapshot.ts';

/** A way to evaluate nodes: by reading them, or by asking their agents. */
export interface NodeEvaluator {
  /** What is known of the nodes so far. */
  readonly evaluated: NodeRecords;
  /** The pods by which nodes are reached, as far as they identify kube-proxy. */
  readonly pods: readonly PodObject[] | null;
  /** Evaluates these nodes. Rejects with an Interrupted when the run is interrupted; the nodes evaluated before stay in the diagnosis. */
  evaluate(names: readonly string[]): Promise<void>;
  /** Evaluates the dumps of these nodes once more, with the API objects and states that are known now. */
  evaluateAgain(names: readonly string[]): Promise<void>;
  /**
   * Finds the nodes and their transports again: both change. `objects` are the current Nodes; null if they could not be read, and then no
   * node is removed. Removed nodes are forgotten. Resolves to the nodes that were not evaluated yet.
   */
  findAgain(objects: readonly NodeObject[] | null): Promise<readonly string[]>;
  /** Reports why nodes that were not read are missing. */
  giveUp(reason: string): void;
}

/** What is known of nodes beside their findings. */
interface NodeRecords {
  /** When the reading of a node began, in milliseconds since 1970. */
  readonly readAt: ReadonlyMap<string, number>;
  /** How long the kube-proxy of a node may take to apply a change, in milliseconds. */
  readonly periods: ReadonlyMap<string, number>;
  /** What could not be read of nodes that were read. */
  readonly problems: readonly Problem[];
  /** Nodes that were read in part. */
  readonly partlyRead: ReadonlySet<string>;
  /** Nodes that could not be read at all, for a permanent reason, and the reason. */
  readonly permanent: ReadonlyMap<string, string>;
}

/** The nodes that a diagnosis contains, and what is known of them beside their findings. The same for every way to evaluate nodes. */
export class EvaluatedNodes implements NodeRecords {
  readonly readAt = new Map<string, number>();
  readonly periods = new Map<string, number>();
  /** What could not be read, by node. */
  readonly problemsOf = new Map<string, readonly Problem[]>();
  readonly permanent = new Map<string, string>();
  readonly #names = new Set<string>();
  readonly #diagnosis: OpenDiagnosis;

  constructor(diagnosis: OpenDiagnosis) {
    this.#diagnosis = diagnosis;
  }

  note(name: string): void {
    this.#names.add(name);
  }

  get problems(): readonly Problem[] {
    return [...this.problemsOf].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, problems]) => problems);
  }

  get partlyRead(): ReadonlySet<string> {
    return new Set([...this.problemsOf].flatMap(([name, problems]) => (problems.every(({isMinor}) => isMinor) ? [] : [name])));
  }

  /**
   * `names` are the current nodes, according to these Nodes of the API; if the Nodes are null, no node is removed. Forgets removed nodes
   * and returns those that were not evaluated yet.
   */
  follow(names: readonly string[], objects: readonly NodeObject[] | null): readonly string[] {
    const there = new Set(names);
    for (const gone of objects === null ? [] : [...this.#names].filter(name => !there.has(name))) {
      this.#diagnosis.forget(gone);
      for (const known of [this.problemsOf, this.permanent, this.#names, this.readAt]) known.delete(gone);
    }
    return names.filter(name => !this.#names.has(name));
  }

  /** Reports a node that cannot have rules, which needs no reading. False for every other node. */
  isNamedOnly(name: string): boolean {
    const object = nodeObject(this.#diagnosis.api, name);
    if (object === undefined || whyWithoutKubeProxy(object) === null) return false;
    this.#diagnosis.add({name, files: [], read: () => null});
    this.note(name);
    return true;
  }

  /** Reports why nodes that were not read are missing. */
  giveUp(names: readonly string[], reason: string): void {
    for (const name of names)
      if (!this.#names.has(name))
        this.#diagnosis.addUnread({name, reason, remedy: 'Let the run come to its end; with --wait, give it more time.'});
  }
}
