/** The part of the Kubernetes API that is used here, over keep-alive connections. */
export interface KubeApi {
  /** How far this machine's clock is ahead of the API server's, by the dates of its answers: in milliseconds, good to a second. */
  readonly clockAheadMs: number;
  /** Reads one object or any other JSON. Rejects with an ApiError. `path` is for example `/api/v1/nodes/node-a`. */
  get<T>(path: string, query?: Readonly<Record<string, string>>, options?: GetOptions): Promise<T>;
  /** Reads a complete list in pages of 500. A list that expires while it is read (410) is read again from the start. */
  list<T>(path: string, query?: Readonly<Record<string, string>>): Promise<ListResult<T>>;
  /**
   * An answer in parts as they arrive: a list that is too large for one string, or a watch. Resolves when the answer begins; rejects with
   * an ApiError. Iteration rejects if the connection breaks, if nothing arrives for `silenceMs`, and when the signal is aborted.
   */
  stream(path: string, query: Readonly<Record<string, string>>, options: StreamOptions): Promise<AsyncIterable<Buffer>>;
  /**
   * The answer of a node or pod through the API server's proxy, whatever its status. Requested once. Rejects with an ApiError if the API
   * server refuses or cannot connect.
   */
  proxied(path: string, options: Pick<GetOptions, 'signal' | 'maxBytes'>): Promise<ApiAnswer>;
  create<T>(path: string, body: object, options?: CreateOptions): Promise<T>;
  /** Resolves when the API server has accepted the request, even if the object does not exist. */
  delete(path: string, query?: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<void>;
  /**
   * Runs a command in a container of a running pod (WebSocket exec) and resolves to its stdout. Rejects with a CommandFailed or an
   * ApiError. With `take`, stdout is passed on while it arrives. With `begin`, the command has an input: `begin` gets what sends to it.
   */
  exec(
    target: ExecTarget,
    argv: readonly string[],
    signal: AbortSignal,
    take?: (part: Buffer) => void,
    begin?: (send: (text: string) => void) => void,
  ): Promise<Buffer>;
  /** The token of the pod that this runs in, read each time; null outside of a cluster. Rejects with an ApiError if it cannot be read. */
  podToken(): Promise<string | null>;
  /** Closes keep-alive connections. */
  close(): void;
}

export interface ApiAnswer {
  /** HTTP status. */
  readonly status: number;
  readonly body: Buffer;
}

export interface GetOptions {
  readonly signal?: AbortSignal;
  /** A failed request is not repeated, unless the API server is overloaded (429). */
  readonly once?: boolean;
  /** The maximum length of the answer, for one that is not from the API server itself. */
  readonly maxBytes?: number;
  /** Additional headers. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The realm of a pod behind the API server's proxy: a 401 with this realm is the pod's, not the API server's. */
  readonly realm?: string;
}

export interface CreateOptions {
  readonly signal?: AbortSignal;
  /** Nothing is stored, as by a review: the request is repeated like a GET. */
  readonly isReview?: boolean;
}

export interface StreamOptions {
  readonly signal: AbortSignal;
  /** A connection that is silent for longer is considered dead. In milliseconds. */
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

/** The API server's error, or why it did not answer. The message contains the request, the result and what to do. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** HTTP status; null if there was no answer. */
  readonly status: number | null;
  /** `reason` of the Status object, such as `Forbidden`. */
  readonly reason: string;
  /** `realm` of WWW-Authenticate, if a pod behind the API server's proxy refused; otherwise empty. */
  readonly realm: string;
  /** The message of the answer alone. */
  readonly details: string;

  constructor(message: string, {status, reason = '', realm = '', details = '', cause}: ApiErrorParts) {
    super(message, {cause});
    this.status = status;
    this.reason = reason;
    this.realm = realm;
    this.details = details;
  }
}

interface ApiErrorParts {
  readonly status: number | null;
  readonly reason?: string;
  readonly realm?: string;
  readonly details?: string;
  readonly cause?: unknown;
}
