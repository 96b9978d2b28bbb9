import type {ConfigOverrides} from '../expect/proxy-config.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {Finding, ServiceName} from '../model/finding.ts';
import type {ServiceDifferences} from '../analyze/proxy-mode.ts';
import type {NarrowTo} from '../analyze/nftables/nft-rules.ts';
import type {ClusterView} from '../expect/cluster/cluster-view.ts';
import type {Family} from '../model/address.ts';
import type {ApiObjects, NodeDump, UnreadNode} from '../model/snapshot.ts';
import type {NodeLag, NodeReading} from '../model/state-history.ts';
import type {NodeResult} from '../model/node-result.ts';

/** What to check, and settings that the user overrides. */
export interface DiagnoseOptions {
  readonly toolVersion: string;
  /** Selects Services; all of them if left out. */
  readonly selects?: (service: ServiceObject) => boolean;
  /** Whether a Service that is not in the API is in scope, by its name alone; all are if left out. */
  readonly concerns?: (service: ServiceName) => boolean;
  /** The requested scope, as text. */
  readonly scope?: string;
  /** The Services were requested by name. */
  readonly byName?: boolean;
  readonly overrides?: ConfigOverrides;
  /** Selects nodes; all of them if left out. */
  readonly nodes?: (name: string) => boolean;
  /** Set if the nodes are a sample of this many. */
  readonly sample?: {readonly of: number};
  /** Trace packet paths to the selected Services; `faulty`: on each node only to those with findings there. */
  readonly trace?: boolean | 'faulty';
  /** Leaves out the checks of the API objects. */
  readonly nodesOnly?: boolean;
  /** Only these codes, if there are any. */
  readonly only?: ReadonlySet<string>;
  /** Not these codes; `ST101=shop/empty`: not this code for this Service. */
  readonly skip?: ReadonlySet<string>;
  /** The findings of the baseline: a recurring finding of no higher severity is marked and not counted. */
  readonly known?: readonly Finding[];
}

export interface NodeSurroundings {
  readonly api: ApiObjects;
  readonly view: ClusterView;
  /** The requested Services. */
  readonly services: readonly ServiceObject[];
  readonly options: DiagnoseOptions;
}

/** The input of one of several analyses of the same dumps. */
export interface StateToTest {
  readonly view: ClusterView;
  /** Report each Service by itself, without findings that stand for many. */
  readonly eachService?: boolean;
  /** How far the node lags behind the API, once that is known. */
  readonly lag?: NodeLag;
}

export interface TestedState {
  readonly result: NodeResult;
  /** Chains of Services that no rule reaches. */
  readonly unreached: readonly {readonly family: Family; readonly chain: string}[];
  /** See `ModeAnalysis`. */
  readonly differing: ReadonlyMap<string, ServiceDifferences>;
  /** See `ModeAnalysis`. */
  readonly isReadPiecemeal: boolean;
}

export type EvaluateState = (state: StateToTest) => TestedState;

export interface PreparedNode {
  readonly evaluate: EvaluateState;
  /** The same by the rules of some Services alone, which is less work; null where the dumps cannot be narrowed. */
  readonly narrowTo: (to: NarrowTo) => EvaluateState | null;
}

/** A diagnosis in progress, for those that read the nodes. The results of a node replace earlier ones. */
export interface OpenDiagnosis {
  /** The requested Services. */
  readonly services: readonly ServiceObject[];
  /** The API objects that nodes are compared with now. */
  readonly api: ApiObjects;
  /** Compares nodes with these API objects from now on; earlier results stay. */
  renew(api: ApiObjects): void;
  /** Diagnoses a node and drops its dumps; against all states of the Services if they were followed. */
  add(node: NodeDump, reading?: NodeReading): void;
  /** Adds a node that was diagnosed elsewhere. */
  addResult(result: NodeResult): void;
  /** Adds a node that was not read. */
  addUnread(node: UnreadNode, dump?: NodeDump): void;
  /** Removes a node that no longer exists. */
  forget(node: string): void;
  /** The result of a node so far. */
  resultOf(node: string): NodeResult | undefined;
  /** The findings of a node so far that would be reported. */
  findingsOn(node: string): readonly Finding[];
  /** Replaces the findings of a node. */
  revise(node: string, change: (findings: readonly Finding[]) => readonly Finding[]): void;
}
