import type {DiagnoseOptions} from '../diagnosis/diagnose-node.ts';
import type {Clock} from './clock.ts';
import type {ProgressLine} from './nodes/node-intake.ts';
import type {ConnectionFlags} from '../collect/kube/kubeconfig.ts';
import type {OpenCluster, ParsedAgentsFlags} from './open-cluster.ts';
import type {ParsedTransportFlags} from './nodes/node-source.ts';
import type {WaitLimit} from './options/wait-limit.ts';
import type {ScopeFlags} from './scope/choose-nodes.ts';

export type ClusterFlags = ScopeFlags &
  ConnectionFlags &
  ParsedTransportFlags &
  ParsedAgentsFlags &
  ParsedEvaluationFlags & {
    /** Also read the counters of rules. */
    readonly counters?: boolean;
    /** Read all rules of each node, also for a few Services; left out by commands that always do. */
    readonly full?: boolean;
  };

export interface ClusterRun {
  readonly flags: ClusterFlags;
  /** The Services that were named on the command line. */
  readonly names: readonly string[];
  readonly cluster: OpenCluster;
  readonly options: Pick<DiagnoseOptions, 'toolVersion' | 'known' | 'trace'>;
  readonly signal: AbortSignal;
  readonly progress: ProgressLine;
  readonly clock: Clock;
  /** Check until no finding fails the run, or the time is up. */
  readonly wait?: WaitLimit | undefined;
}

/** The parsed values of the flags that control evaluation. */
export interface ParsedEvaluationFlags {
  readonly only?: readonly string[] | undefined;
  readonly skip?: readonly string[] | undefined;
  readonly 'proxy-mode'?: string | undefined;
  readonly 'cluster-cidr'?: string | undefined;
  readonly 'detect-local-mode'?: string | undefined;
  readonly 'masquerade-all'?: boolean | undefined;
  readonly 'masquerade-bit'?: number | undefined;
  readonly 'nodeport-addresses'?: string | undefined;
  readonly 'kube-proxy-version'?: string | undefined;
  readonly zone?: string | undefined;
}
