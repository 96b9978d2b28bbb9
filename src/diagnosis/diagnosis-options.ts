import type {ConfigOverrides} from '../expect/proxy-config.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {Finding, ServiceName} from '../model/finding.ts';

/** What to check, and settings that the user overrides. */
export interface DiagnoseOptions {
  readonly toolVersion: string;
  /** Which Services; all of them when it is left out. */
  readonly selects?: (service: ServiceObject) => boolean;
  /** Whether a Service that the API does not have is of interest, going by its name alone; all are when it is left out. */
  readonly concerns?: (service: ServiceName) => boolean;
  /** What was asked for, in words. */
  readonly scope?: string;
  /** The Services were asked for by name. */
  readonly byName?: boolean;
  readonly overrides?: ConfigOverrides;
  /** Which nodes; all of them when it is left out. */
  readonly nodes?: (name: string) => boolean;
  /** Set when the nodes are a sample of this many. */
  readonly sample?: {readonly of: number};
  /** Trace packet paths to the selected Services; `faulty`: on each node only to those with findings there. */
  readonly trace?: boolean | 'faulty';
  /** Leaves out the checks of the API objects. */
  readonly nodesOnly?: boolean;
  /** Only these codes, when there are any. */
  readonly only?: ReadonlySet<string>;
  readonly skip?: ReadonlySet<string>;
  /** The findings of the baseline: a finding that recurs, and is no worse, is marked and not counted. */
  readonly known?: readonly Finding[];
}
