/** The little of the Kubernetes API that is needed here, over one keep-alive connection. */
export interface KubeApi {
  /** In words, for messages and snapshots: the context and the server. */
  readonly description: string;
  /** Reads one object or any other JSON. Rejects with an ApiError. `path` is such as `/api/v1/nodes/node-a`. */
  get<T>(path: string, query?: Readonly<Record<string, string>>, options?: GetOptions): Promise<T>;
  /** Reads a whole list by pages of 500; a list that expires while it is read (410) is read again from the start. */
  list<T>(path: string, query?: Readonly<Record<string, string>>): Promise<ListResult<T>>;
  /**
   * An answer in parts, as they come: a list too big to be held as text, or a watch. Resolves when the answer begins; rejects with an
   * ApiError. Reading on rejects when the connection breaks, when nothing has come for `silenceMs`, and when the signal is aborted.
   */
  stream(path: string, query: Readonly<Record<string, string>>, options: StreamOptions): Promise<AsyncIterable<Buffer>>;
  /**
   * What a node or a pod answers through the API server's proxy to it, whatever its status. Asked once. Rejects with an ApiError when
   * the API server refuses or reaches nothing.
   */
  proxied(path: string, options: Pick<GetOptions, 'signal' | 'maxBytes'>): Promise<ApiAnswer>;
  create<T>(path: string, body: object): Promise<T>;
  /** Resolves when the API server has taken the request; also when the object is not there (any more). */
  delete(path: string, query?: Readonly<Record<string, string>>): Promise<void>;
  /** Runs a command in a container of a running pod (WebSocket exec) and resolves to its stdout. Rejects with a CommandFailed or an ApiError. With `take`, stdout may go there as it comes. */
  exec(target: ExecTarget, argv: readonly string[], signal: AbortSignal, take?: (part: Buffer) => void): Promise<Buffer>;
  /** Closes connections that are kept. */
  close(): void;
}

export interface ApiAnswer {
  /** HTTP status. */
  readonly status: number;
  readonly body: Buffer;
}

export interface GetOptions {
  readonly signal?: AbortSignal;
  /** What fails is not asked for again, but where the API server has too much to do (429). */
  readonly once?: boolean;
  /** How long the answer may be: for one that is not the API server's own. */
  readonly maxBytes?: number;
}

export interface StreamOptions {
  readonly signal: AbortSignal;
  /** A connection that stays silent for longer is taken to be dead. In milliseconds. */
  readonly silenceMs: number;
}

export interface ListResult<T> {
  readonly items: readonly T[];
  readonly resourceVersion: string;
}

export interface ExecTarget {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

/** What the API server answered, or why it did not. The message says what was asked, what came back and what to do. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** HTTP status; null when there was no answer. */
  readonly status: number | null;
  /** `reason` of the Status object, such as `Forbidden`. */
  readonly reason: string;

  constructor(
    message: string,
    {status, reason, cause}: {readonly status: number | null; readonly reason?: string; readonly cause?: unknown},
  ) {
    super(message, {cause});
    this.status = status;
    this.reason = reason ?? '';
  }
}
