import type {NodeTraffic} from '../model/traffic/traffic-report.ts';
import type {MeasuredPort, Reads} from './measure-port.ts';
import type {NodeSurvey} from './node-survey.ts';

/** One node with all its measurements. */
export interface MeasuredNode {
  readonly survey: NodeSurvey;
  readonly node: NodeTraffic;
  /** Null if nothing could be read. */
  readonly read: Reads | null;
  readonly ports: ReadonlyMap<string, MeasuredPort>;
}
