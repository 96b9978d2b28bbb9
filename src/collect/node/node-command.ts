import type {Buffer} from 'node:buffer';

/** How one file of a bundle is read off a node. */
export interface NodeCommand {
  /** As in a bundle, such as `iptables-save`. */
  readonly file: string;
  /** The ways to read it, the best first: the next is tried where the program of one is not there. */
  readonly variants: readonly CommandVariant[];
  /** A dump of rules, which ends with COMMIT unless it was truncated. */
  readonly isDump?: boolean;
  /** A failure to read it is a problem, unless the node does without the program or the family and another dump is there. */
  readonly isRequired?: boolean;
}

export interface CommandVariant {
  /** Run one after another. It is enough when one of them works. */
  readonly commands: readonly (readonly string[])[];
  /** What to keep of it; null for "nothing to see". By default all, one after another. */
  readonly join?: (outputs: readonly Buffer[]) => Buffer | null;
}
