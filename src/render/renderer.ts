import type {Severity} from '../model/finding.ts';
import type {Report} from '../model/report.ts';
import {escapeText} from './terminal-text.ts';

export interface RenderOptions {
  readonly color: boolean;
  /** Columns of the terminal; infinite for other output, whose lines can have any length. */
  readonly width: number;
  /** Codes of findings are links (OSC 8). */
  readonly links?: boolean;
  /** Only what needs attention. */
  readonly quiet: boolean;
  /** Also settings and harmless findings. */
  readonly verbose: boolean;
  /** The lowest severity that fails a run, for formats with failures. */
  readonly failOn: Severity | 'never';
  /** When the run was, in seconds since 1970, for formats that contain it. */
  readonly unixTime?: number;
  /** The source of the report, for formats that contain it. */
  readonly provenance?: Provenance;
}

export interface Provenance {
  /** Without secrets. */
  readonly command: string;
  /** The context and the server, or the bundle, as text; left out if the report has it. */
  readonly source?: string;
  /** The API server's version, if it was requested. */
  readonly serverVersion?: string | undefined;
  /** When a bundle was captured (RFC 3339), if known. */
  readonly takenAt?: string | undefined;
  /** When the reading of a cluster began (RFC 3339). */
  readonly readAt?: string;
}

/** When the nodes were read (RFC 3339), if known. */
export function readTime(provenance: Provenance | undefined): string | undefined {
  const time = provenance?.readAt ?? provenance?.takenAt;
  return time === undefined || Number.isNaN(Date.parse(time)) ? undefined : time;
}

/** Turns a Report into the text of one output format, without a newline at its end. */
export type Renderer = (report: Report, options: RenderOptions) => string;

/** The same text in pieces, so that it is never in memory as a whole. */
export type PieceRenderer = (report: Report, options: RenderOptions) => Iterable<string>;

/** Where a report comes from, as JSON has it: when the cluster was read, from which, in which scope, by which command. */
interface ReportOrigin extends Omit<Provenance, 'takenAt'> {
  readonly scope?: string;
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
