import type {ConfigOverrides} from '../expect/proxy-config.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {Finding, ServiceName} from '../model/finding.ts';

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
