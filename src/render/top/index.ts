import type {TrafficReport} from '../../model/traffic/traffic-report.ts';
import type {RenderOptions} from '../renderer.ts';
import {topJson} from './top-json.ts';
import {topTable} from './top-table.ts';

type TopRenderer = (report: TrafficReport, options: RenderOptions) => string;

/** The output formats of `top`. */
export const topRenderers = {
  table: (report, options) => topTable(report, {...options, wide: false}),
  wide: (report, options) => topTable(report, {...options, wide: true}),
  json: report => topJson(report),
} as const satisfies Readonly<Record<string, TopRenderer>>;
