import type {Severity} from '../model/finding.ts';
import type {Report} from '../model/report.ts';

export interface RenderOptions {
  readonly color: boolean;
  /** Columns of the terminal; infinite for output that goes elsewhere, where lines may be as long as they need. */
  readonly width: number;
  /** No more than what asks for attention. */
  readonly quiet: boolean;
  /** Settings and harmless findings too. */
  readonly verbose: boolean;
  /** From which severity on a run fails, for formats that tell failures from other findings. */
  readonly failOn: Severity | 'never';
  /** When the run was, in seconds since 1970, for formats that have a place for it. */
  readonly unixTime?: number;
  /** Where the report comes from, for formats that have a place for it. */
  readonly provenance?: Provenance;
}

export interface Provenance {
  /** Without secrets. */
  readonly command: string;
  /** In words: the context and the server, or the bundle. */
  readonly source: string;
  /** Of the API server, where it was asked. */
  readonly serverVersion?: string;
  /** When a bundle was taken (RFC 3339), where that is known. */
  readonly takenAt?: string;
}

/** Turns a Report into the text of one output format, without a newline at its end. */
export type Renderer = (report: Report, options: RenderOptions) => string;
