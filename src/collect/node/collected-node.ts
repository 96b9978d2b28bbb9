import type {NodeDump, Problem} from '../../model/snapshot.ts';

/** What was read of one node, in memory. */
export interface CollectedNode extends NodeDump {
  /** `read`: all that is needed is there; `partial`: see the problems; `unread`: not one dump of rules is there. */
  readonly status: 'read' | 'partial' | 'unread';
  /** How the node was reached, in words; null when it was not. */
  readonly via: string | null;
  /** What is needed and could not be read. */
  readonly problems: readonly Problem[];
  /** Files that are not there and need not be, with the reason. */
  readonly missing: readonly MissingFile[];
}

export interface MissingFile {
  readonly file: string;
  readonly reason: string;
}
