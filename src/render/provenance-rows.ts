import {escapeText} from './escape.ts';
import type {RenderOptions} from './renderer.ts';

/** Where a report comes from, as JSON has it: when the cluster was read, from which, in which scope, by which command. */
interface ReportOrigin {
  /** RFC 3339; of a bundle when it was taken. Left out where that is not known. */
  readonly readAt?: string;
  readonly source?: string;
  readonly serverVersion?: string;
  readonly scope?: string;
  readonly command: string;
}

/** Null where nobody asked from a command line. */
export function originOf(scope: string | undefined, {provenance}: Pick<RenderOptions, 'provenance'>): ReportOrigin | null {
  if (provenance === undefined) return null;
  const {command, source, serverVersion, takenAt, readAt = takenAt} = provenance;
  // Versions and times come from a server or a bundle, and a context may have any name.
  return {
    ...(readAt === undefined ? {} : {readAt: escapeText(readAt)}),
    ...(source === undefined ? {} : {source: escapeText(source)}),
    ...(serverVersion === undefined ? {} : {serverVersion: escapeText(serverVersion)}),
    ...(scope === undefined ? {} : {scope: escapeText(scope)}),
    command: escapeText(command),
  };
}

interface ProvenanceRow {
  readonly field: keyof ReportOrigin;
  readonly label: string;
  /** Not escaped. */
  readonly text: string;
}

/** The same for formats that list it for people. The command comes last. */
export function provenanceRows(scope: string | undefined, options: Pick<RenderOptions, 'provenance'>): readonly ProvenanceRow[] {
  const origin = originOf(scope, options);
  if (origin === null) return [];
  return labels.flatMap(([field, label]) => {
    const text = origin[field];
    return text === undefined ? [] : [{field, label, text}];
  });
}

const labels: readonly (readonly [field: keyof ReportOrigin, label: string])[] = [
  ['readAt', 'read at'],
  ['source', 'from'],
  ['serverVersion', 'Kubernetes'],
  ['scope', 'scope'],
  ['command', 'command'],
];
