import {dump} from 'js-yaml';
import {reportObject} from './json.ts';
import type {Renderer} from './renderer.ts';

/** The same data as `-o json`. */
export const yaml: Renderer = report => toYaml(reportObject(report));

/** `undefined` is left out, as JSON leaves it out. */
export function toYaml(value: object): string {
  return dump(JSON.parse(JSON.stringify(value)), {lineWidth: -1, noRefs: true}).trimEnd();
}
