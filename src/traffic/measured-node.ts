import type {NodeTraffic} from '../model/traffic/traffic-report.ts';
import type {MeasuredPort, Reads} from './measure-port.ts';
import type {NodeSurvey} from './node-survey.ts';

/** One node with all that it says. */
export interface MeasuredNode {
  readonly survey: NodeSurvey;
  readonly node: NodeTraffic;
  /** Null where nothing could be read. */
  readonly read: Reads | null;
  readonly ports: ReadonlyMap<string, MeasuredPort>;
}
