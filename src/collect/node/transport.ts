import type {PodObject} from '../../model/api-objects.ts';
import type {KubeProxyPage} from './kube-proxy-pages.ts';

/** What a transport needs to know of a node to reach it. */
export interface NodeInfo {
  readonly name: string;
  readonly addresses: readonly {readonly type: string; readonly address: string}[];
  readonly labels: Readonly<Record<string, string>>;
  /** Pods of the host network that run on it, kube-proxy's first. Empty where pods were not listed. */
  readonly pods: readonly PodObject[];
  /** Why not all pods that were looked for could be listed. */
  readonly unlisted?: string;
  /** Pods may not be listed: that does not change by itself. */
  readonly isUnlisted?: true;
}

/** A way to reach nodes. A new one is one file and one line in the registry. */
export interface Transport {
  readonly name: string;
  /** Rejects with an Unreachable when the node cannot be reached; what was made on the way is gone then. */
  open(node: NodeInfo, signal: AbortSignal): Promise<NodeShell>;
}

/** Takes output as it comes. Output too big to be kept is counted this way. */
export type TakeOutput = (part: Buffer) => void;

/** Runs commands on one node, as root, in its network namespace. Disposing of it leaves nothing behind on the node. */
export interface NodeShell extends AsyncDisposable {
  /** In words, for messages: `exec into kube-system/kube-proxy-x7k2p`. */
  readonly description: string;
  /**
   * Resolves to what the command printed on stdout; rejects with a CommandFailed. `argv` is never given to a shell unquoted. With
   * `take`, output may go there part by part in place of being kept: what was not handed over is what it resolves to.
   */
  run(argv: readonly string[], signal: AbortSignal, take?: TakeOutput): Promise<Buffer>;
  /** Reads a page of kube-proxy without a program on the node. Rejects with an Error that says why there is none. */
  readonly readPage?: (page: KubeProxyPage, signal: AbortSignal) => Promise<Buffer>;
}

/** A node that cannot be reached: what was tried, what came back, what to do. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable';
  /** A permanent error: further attempts fail too, whatever the cause is. */
  readonly isPermanent: boolean;

  constructor(message: string, {cause, isPermanent = false}: {readonly cause?: unknown; readonly isPermanent?: boolean} = {}) {
    super(message, {cause});
    this.isPermanent = isPermanent;
  }
}

/** A command that ended with an error, or could not be started at all. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed';
  readonly argv: readonly string[];
  /** Null when it did not end by itself, or was never started. */
  readonly exitCode: number | null;
  readonly stderr: string;
  /** The program is not there. */
  readonly notFound: boolean;

  constructor(
    argv: readonly string[],
    result: {readonly exitCode: number | null; readonly stderr: string; readonly notFound?: boolean; readonly cause?: unknown},
  ) {
    const how = result.notFound
      ? 'is not there'
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
