import type {NodeDump, Problem} from '../../model/snapshot.ts';

/** The files of one node, in memory. */
export interface CollectedNode extends NodeDump {
  /** `read`: everything required was read; `partial`: see the problems; `unread`: it has no dump of rules. */
  readonly status: 'read' | 'partial' | 'unread';
  /** How the node was reached, as text; null if it was not. */
  readonly via: string | null;
  /** Required files that could not be read. */
  readonly problems: readonly Problem[];
  /** Optional files that are missing, with the reason. */
  readonly missing: readonly MissingFile[];
}

export interface MissingFile {
  readonly file: string;
  readonly reason: string;
}
