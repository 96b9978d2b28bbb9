import {constants} from 'node:buffer';
import type {PodObject} from '../../model/api-objects.ts';
import type {NodeDump, Problem} from '../../model/snapshot.ts';
import type {KubeProxyPage} from './kube-proxy-pages.ts';

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

/** What a transport needs to know about a node to reach it. */
export interface NodeInfo {
  readonly name: string;
  readonly addresses: readonly {readonly type: string; readonly address: string}[];
  /** Running pods in the node's host network, kube-proxy's first. Empty if pods were not listed. */
  readonly pods: readonly PodObject[];
  /** Why not all pods that were looked for could be listed. */
  readonly unlisted?: string;
  /** Pods may not be listed: that does not change by itself. */
  readonly isUnlisted?: true;
}

/** A way to reach nodes. A new one is one file and one line in the registry. */
export interface Transport {
  readonly name: string;
  /**
   * Rejects with an Unreachable if the node cannot be reached; everything created on the way has been removed then. `early`: the commands
   * that will be run first, which may be started at once.
   */
  open(node: NodeInfo, signal: AbortSignal, early?: readonly (readonly string[])[]): Promise<NodeShell>;
}

/** Receives output while it arrives, for output that is too large to keep. */
export type TakeOutput = (part: Buffer) => void;

/** Runs commands on one node, as root, in its network namespace. Disposing of it removes everything it created on the node. */
export interface NodeShell extends AsyncDisposable {
  /** A description for messages: `exec into kube-system/kube-proxy-x7k2p`. */
  readonly description: string;
  /**
   * Resolves to the command's stdout; rejects with a CommandFailed. `argv` is never passed to a shell unquoted. With `take`, output may be
   * passed on in parts while it arrives: the promise resolves to the rest.
   */
  run(argv: readonly string[], signal: AbortSignal, take?: TakeOutput): Promise<Buffer>;
  /** Each command is a connection of its own, which costs more than most commands. */
  readonly opensSessions?: true;
  /** Reads a page of kube-proxy without a program on the node. Rejects with an Error with the reason if there is none. */
  readonly readPage?: (page: KubeProxyPage, signal: AbortSignal) => Promise<Buffer>;
}

/** The container of a node's Cilium agent, which is reached through the API server, whatever the transport; null if it has none. */
export type OpenCilium = (node: NodeInfo) => NodeShell | null;

/** Reads the end of the log of a node's kube-proxy, whether the node can be reached or not; null if it has no pod. */
export type ReadLog = (node: NodeInfo, signal: AbortSignal) => Promise<Buffer | null>;

/** A node that cannot be reached: what was tried, the result, what to do. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
  /** A permanent error: further attempts fail too, whatever the cause. */
  readonly isPermanent: boolean;

  constructor(message: string, {cause, isPermanent = false}: {readonly cause?: unknown; readonly isPermanent?: boolean} = {}) {
    super(message, {cause});
    this.isPermanent = isPermanent;
  }
}

/** A command that failed, or could not be started. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
  readonly argv: readonly string[];
  /** Null if it did not end by itself, or was never started. */
  readonly exitCode: number | null;
  readonly stderr: string;
  /** The program does not exist. */
  readonly notFound: boolean;

  constructor(
    argv: readonly string[],
    result: {readonly exitCode: number | null; readonly stderr: string; readonly notFound?: boolean; readonly cause?: unknown},
  ) {
    const how = result.notFound
      ? 'not found'
      : result.exitCode === null
        ? 'did not end by itself'
        : `ended with exit code ${result.exitCode}`;
    const said = result.stderr.trim().split('\n', 1)[0] ?? '';
    super(`${argv[0] ?? ''} ${how}${said === '' ? '' : `: ${said}`}`, {cause: result.cause});
    this.argv = argv;
    this.exitCode = result.exitCode;
    this.stderr = result.stderr;
    this.notFound = result.notFound ?? false;
  }
}

/** A command that printed more than is read, and was ended. Another way to the node would not help. */
export class TooMuchOutput extends CommandFailed {
  constructor(argv: readonly string[], maxBytes: number, what = '') {
    super(argv, {exitCode: 0, stderr: ''});
    this.message = `${argv[0] ?? ''} printed more than ${maxBytes < 2 ** 20 ? `${maxBytes / 1024} KiB` : `${Math.ceil(maxBytes / 2 ** 20)} MiB`}${what}`;
  }
}

/** What one command may print, in bytes: no text is longer than this. */
export const maxOutput = constants.MAX_STRING_LENGTH;

/** Messages of one command, and the status at its end, in bytes. */
export const maxMessages = 64 * 1024;

/** Counts what arrives in parts; throws a TooMuchOutput when it is more than may. */
export function outputLimit(argv: readonly string[], max: number, what = ''): (part: Buffer) => void {
  let size = 0;
  return part => {
    size += part.length;
    if (size > max) throw new TooMuchOutput(argv, max, what);
  };
}
