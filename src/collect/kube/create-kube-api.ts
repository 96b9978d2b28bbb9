import type {RequestOptions} from 'node:https';
import {setTimeout as sleep} from 'node:timers/promises';
import {parseJson} from '../../parse/attempt.ts';
import {unlessAborted} from '../unless-aborted.ts';
import {CommandFailed} from '../node/transport.ts';
import {type FailedRequest, isStatus, noAnswer, realmOf, refusal} from './api-failure.ts';
import {type ApiRequest, describeRequest, isAnsweredByNode, listPages, requestUrl, retryDelay} from './api-request.ts';
import {
  type ApiAnswer,
  ApiError,
  type CreateOptions,
  type ExecTarget,
  type GetOptions,
  type KubeApi,
  type ListResult,
  type StreamOptions,
} from './kube-api.ts';
import type {KubectlConfig} from './kubectl-config.ts';
import {type ApiResponse, bodyParts, readResponse, responseTo, sendRequest, type WireRequest} from './send-request.ts';

export interface KubeApiOptions {
  /** Timeout of each request, in milliseconds; 0 for none, except for a dead connection. */
  readonly requestTimeout?: number;
  readonly userAgent?: string;
  /** The delay before the first retry, in milliseconds. */
  readonly backoff?: number;
}

export function createKubeApi(config: KubectlConfig, options: KubeApiOptions = {}): KubeApi {
  return new HttpKubeApi(config, options);
}

class HttpKubeApi implements KubeApi {
  readonly description: string;
  readonly #config: KubectlConfig;
  readonly #requestTimeout: number;
  readonly #userAgent: string;
  readonly #backoff: number;
  readonly #closing = new AbortController();
  /** The least that an answer has shown: all others were longer on their way. */
  #clockAheadMs: number | null = null;

  constructor(config: KubectlConfig, {requestTimeout = 0, userAgent = 'svc-trace', backoff = 250}: KubeApiOptions) {
    this.description = config.description;
    this.#config = config;
    this.#requestTimeout = requestTimeout;
    this.#userAgent = userAgent;
    this.#backoff = backoff;
  }

  get clockAheadMs(): number {
    return this.#clockAheadMs ?? 0;
  }

  get<T>(path: string, query?: Readonly<Record<string, string>>, {signal, ...options}: GetOptions = {}): Promise<T> {
    return this.#json<T>({method: 'GET', path, query, ...options}, signal);
  }

  async proxied(path: string, {signal: given, maxBytes}: Pick<GetOptions, 'signal' | 'maxBytes'>): Promise<ApiAnswer> {
    const request = {method: 'GET', path, once: true, maxBytes} as const;
    const signal = given === undefined ? this.#closing.signal : AbortSignal.any([given, this.#closing.signal]);
    let answer: ApiAnswer = begun;
    await this.#retrying(request, signal, async () => {
      const applied = await this.#applied(signal);
      const response = await sendRequest({...this.#wire(request, applied), signal, maxBytes});
      answer = response;
      // An unhealthy kube-proxy answers 503. So does the API server if it cannot reach it, but with a Status.
      return {applied, response: isStatus(response.body) ? response : begun};
    });
    return answer;
  }

  list<T>(path: string, query?: Readonly<Record<string, string>>): Promise<ListResult<T>> {
    return listPages<T>(describeRequest({method: 'GET', path, query}), more => this.get(path, {...query, ...more}));
  }

  async stream(path: string, query: Readonly<Record<string, string>>, options: StreamOptions): Promise<AsyncIterable<Buffer>> {
    const request = {method: 'GET', path, query} as const;
    const signal = AbortSignal.any([options.signal, this.#closing.signal]);
    let parts: AsyncIterable<Buffer> = none();
    await this.#retrying(request, signal, async () => {
      const applied = await this.#applied(signal);
      const response = await responseTo({...this.#wire(request, applied), signal, silenceMs: options.silenceMs});
      if ((response.statusCode ?? 0) >= 300) return {applied, response: await readResponse(response)};
      parts = bodyParts(response);
      return {applied, response: {...begun, status: response.statusCode ?? 0}};
    });
    return parts;
  }

  create<T>(path: string, body: object, {signal, ...options}: CreateOptions = {}): Promise<T> {
    return this.#json<T>({method: 'POST', path, body, ...options}, signal);
  }

  async delete(path: string, query?: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<void> {
    try {
      await this.#request({method: 'DELETE', path, query}, signal);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  }

  async exec(
    {namespace, pod, container}: ExecTarget,
    argv: readonly string[],
    signal: AbortSignal,
    take?: (part: Buffer) => void,
    begin?: (send: (text: string) => void) => void,
  ): Promise<Buffer> {
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/exec`;
    const streams = [...(begin === undefined ? [] : ['stdin']), 'stdout', 'stderr'].map(name => [name, '1']);
    const query = [['container', container], ...streams, ...argv.map(word => ['command', word])] as [string, string][];
    const request = {
      path: `${path}?${new URLSearchParams(query)}`,
      argv,
      take,
      begin,
      timeout: this.#requestTimeout,
      userAgent: this.#userAgent,
      signal: AbortSignal.any([signal, this.#closing.signal]),
    };
    let stdout = Buffer.alloc(0) as Buffer;
    await this.#retrying({method: 'POST', path}, request.signal, async () => {
      const {execOverWebSocket} = await import('./exec-stream.ts');
      const outcome = await execOverWebSocket(this.#config, request);
      if (outcome.kind === 'answer') return outcome;
      stdout = outcome.stdout;
      return {applied: {}, response: switchedProtocols};
    });
    return stdout;
  }

  async podToken(): Promise<string | null> {
    if (!this.#config.inPod) return null;
    const {authorization} = await this.#config.credentials.current();
    return authorization?.replace(/^Bearer /, '') ?? null;
  }

  close(): void {
    this.#closing.abort();
    this.#config.close();
  }

  async #json<T>(request: ApiRequest, signal?: AbortSignal): Promise<T> {
    const {body} = await this.#request(request, signal);
    try {
      const value: unknown = parseJson(body.toString('utf8'));
      if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as T;
    } catch (error) {
      throw new ApiError(`cannot ${describeRequest(request)}: the answer of ${this.#config.server.host} is no JSON. Is it an API server?`, {
        status: null,
        cause: error,
      });
    }
    throw new ApiError(`cannot ${describeRequest(request)}: the answer is no object`, {status: 200});
  }

  #request(request: ApiRequest, abortSignal?: AbortSignal): Promise<ApiResponse> {
    const outer = abortSignal === undefined ? this.#closing.signal : AbortSignal.any([abortSignal, this.#closing.signal]);
    return this.#retrying(request, outer, async () => {
      const applied = await this.#applied(outer);
      const signal = this.#requestTimeout > 0 ? AbortSignal.any([outer, AbortSignal.timeout(this.#requestTimeout)]) : outer;
      return {applied, response: await sendRequest({...this.#wire(request, applied), signal, maxBytes: request.maxBytes})};
    });
  }

  /** Credentials and connections for the next request, from client-node. */
  async #applied(signal: AbortSignal): Promise<RequestOptions> {
    const options: RequestOptions = {};
    await unlessStopped(this.#config.applyToHTTPSOptions(options), signal);
    return options;
  }

  #wire(request: ApiRequest, {headers, agent, auth}: RequestOptions): Omit<WireRequest, 'signal'> {
    const body = request.body === undefined ? null : JSON.stringify(request.body);
    const compressed = this.#config.compression ? {'accept-encoding': 'gzip'} : {};
    const typed = body === null ? {} : {'content-type': 'application/json', 'content-length': Buffer.byteLength(body)};
    return {
      method: request.method,
      url: requestUrl(this.#config.server, request.path, Object.entries(request.query ?? {})),
      body,
      agent,
      auth,
      headers: {'user-agent': this.#userAgent, ...headers, ...compressed, ...typed, accept: 'application/json', ...request.headers},
    };
  }

  /** Repeats a request until it is answered or a retry is useless. Rejects with a CommandFailed or an ApiError. */
  async #retrying(request: ApiRequest, signal: AbortSignal, attempt: () => Promise<AnsweredAttempt>): Promise<ApiResponse> {
    const asked: FailedRequest = {what: describeRequest(request), connection: this.#config};
    let renewed = false;
    let waited = 0;
    for (let retries = 0; ; ) {
      const outcome = await attempt().then(
        answer => ({kind: 'answer', ...answer}) as const,
        (error: unknown) => ({kind: 'failure', error}) as const,
      );
      if (outcome.kind === 'answer' && !isAnsweredByNode(request)) this.#noteDate(outcome.response.headers.date);
      if (outcome.kind === 'answer' && outcome.response.status < 300) return outcome.response;
      const isRefused = outcome.kind === 'answer' && outcome.response.status === 401 && !isOfPod(outcome.response, request);
      if (isRefused && !renewed && (await unlessStopped(this.#isRenewed(outcome.applied), signal))) {
        renewed = true;
        continue;
      }
      const delay = retryDelay(outcome, request, {retries, waited, backoff: this.#backoff});
      if (delay === null) throw this.#failure(outcome, asked);
      retries++;
      waited += delay;
      await sleep(delay, undefined, {signal}).catch((error: unknown) => {
        throw noAnswer(error, asked);
      });
    }
  }

  #noteDate(date: string | undefined): void {
    const ahead = Date.now() - Date.parse(date ?? '');
    if (!Number.isNaN(ahead)) this.#clockAheadMs = Math.min(this.#clockAheadMs ?? Infinity, ahead);
  }

  #isRenewed(applied: object): Promise<boolean> {
    return this.#config.credentials.renew(this.#config.credentialOf(applied));
  }

  #failure(outcome: AttemptOutcome, request: FailedRequest): CommandFailed | ApiError {
    if (outcome.kind === 'answer') return refusal(outcome.response, request, this.#config.credentialOf(outcome.applied));
    return outcome.error instanceof CommandFailed ? outcome.error : noAnswer(outcome.error, request);
  }
}

/** A request does not outlast its signal, although the credential plugin that it waits for may. */
function unlessStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return unlessAborted(work, signal, () => Object.assign(new Error('aborted', {cause: signal.reason}), {name: 'AbortError'}));
}

/** Whether a pod behind the API server's proxy refused, not the API server. */
function isOfPod(response: ApiResponse, {realm}: ApiRequest): boolean {
  return realm !== undefined && realmOf(response) === realm;
}

/** The answer of one attempt, and the options that client-node had set for it. */
interface AnsweredAttempt {
  readonly applied: object;
  readonly response: ApiResponse;
}

type AttemptOutcome = ({readonly kind: 'answer'} & AnsweredAttempt) | {readonly kind: 'failure'; readonly error: unknown};

/** Stands for the answer to an exec whose stream was opened. */
const switchedProtocols: ApiResponse = {status: 101, headers: {}, body: Buffer.alloc(0)};

/** Stands for an answer whose body is read elsewhere. */
const begun: ApiResponse = {status: 200, headers: {}, body: Buffer.alloc(0)};

async function* none(): AsyncGenerator<Buffer> {}
