import type {Report} from '../model/report.ts';
import {escapeText} from './escape.ts';
import type {RenderOptions} from './renderer.ts';

/** Where a report comes from, as JSON has it: when the cluster was read, from which, in which scope, by which command. */
export interface ReportOrigin {
  /** RFC 3339; of a bundle when it was taken. Left out where that is not known. */
  readonly readAt?: string;
  readonly source?: string;
  readonly serverVersion?: string;
  readonly scope?: string;
  readonly command: string;
}

/** Null where nobody asked from a command line. */
export function originOf({scope}: Report, {provenance}: Pick<RenderOptions, 'provenance'>): ReportOrigin | null {
  if (provenance === undefined) return null;
  const {command, source, serverVersion, takenAt, readAt = takenAt} = provenance;
  return {
    ...(readAt === undefined ? {} : {readAt}),
    ...(source === undefined ? {} : {source}),
    ...(serverVersion === undefined ? {} : {serverVersion}),
    ...(scope === undefined ? {} : {scope}),
    command,
  };
}

/** The same as names and texts, for formats that list them. Escaped; the command comes last. */
export function provenanceRows(report: Report, options: Pick<RenderOptions, 'provenance'>): readonly (readonly [string, string])[] {
  const origin = originOf(report, options);
  if (origin === null) return [];
  const {readAt, source, serverVersion, scope, command} = origin;
  const rows = [
    ['read at', readAt],
    ['from', source],
    ['Kubernetes', serverVersion],
    ['scope', scope],
    ['command', command],
  ] as const;
  return rows.flatMap(([name, text]) => (text === undefined ? [] : [[name, escapeText(text)] as const]));
}
