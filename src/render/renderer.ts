import type {Severity} from '../model/finding.ts';
import type {Report} from '../model/report.ts';

export interface RenderOptions {
  readonly color: boolean;
  /** Columns of the terminal; infinite for other output, whose lines can have any length. */
  readonly width: number;
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
  readonly serverVersion?: string;
  /** When a bundle was captured (RFC 3339), if known. */
  readonly takenAt?: string;
  /** When the reading of a cluster began (RFC 3339). */
  readonly readAt?: string;
}

/** Turns a Report into the text of one output format, without a newline at its end. */
export type Renderer = (report: Report, options: RenderOptions) => string;

/** The same text in pieces, so that it is never in memory as a whole. */
export type PieceRenderer = (report: Report, options: RenderOptions) => Iterable<string>;
