import type {Buffer} from 'node:buffer';

/** How many commands run on a node at a time. */
export const parallel = 6;

/** Runs a command on the node and resolves to its stdout; rejects with a CommandFailed. */
export type Run = (argv: readonly string[]) => Promise<Buffer>;

/** How one file of a bundle is read from a node. */
export interface NodeCommand {
  /** The name in a bundle, such as `iptables-save`. */
  readonly file: string;
  /** The file that commands after it make of it: no file of a bundle itself. */
  readonly partOf?: string;
  /** The ways to read it, the best first: the next is tried if the program of one does not exist. */
  readonly variants: readonly CommandVariant[];
  /** Tried before the variants: null if they should be. `lacks` notes why something is not in it. */
  readonly inParts?: (run: Run, lacks: (reason: string) => void) => Promise<Buffer | null>;
  /** A dump of rules, which ends with COMMIT unless it is truncated. */
  readonly isDump?: boolean;
  /** A failure to read it is a problem, unless the node lacks the program or the family and has another dump. */
  readonly isRequired?: boolean;
  /** The file is missing if the output is longer, and the command is stopped. */
  readonly maxBytes?: number;
}

export interface CommandVariant {
  /** Run one after another. It is enough if one of them succeeds. */
  readonly commands: readonly (readonly string[])[];
  /** The part of the output to keep; null for none. By default all, concatenated. */
  readonly join?: (outputs: readonly Buffer[]) => Buffer | null;
  /** What it printed before it failed is kept; the next variant is tried if that is nothing. */
  readonly keepsPart?: boolean;
}
