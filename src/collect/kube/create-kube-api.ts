import type {Agent, OutgoingHttpHeaders} from 'node:http';
import {setTimeout as sleep} from 'node:timers/promises';
import {CommandFailed} from '../node/transport.ts';
import {apiAgent} from './api-agent.ts';
import {type Asked, noAnswer, refusal} from './api-failure.ts';
import {type ApiRequest, describeRequest, requestUrl} from './api-request.ts';
import type {ApiConnection} from './connection.ts';
import type {Credential} from './credentials/credentials.ts';
import {ApiError, type ExecTarget, type GetOptions, type KubeApi, type ListResult, type StreamOptions} from './kube-api.ts';
import {listPages} from './list-pages.ts';
import {retryDelay} from './retry-delay.ts';
import {type ApiResponse, bodyParts, readResponse, responseTo, sendRequest, type WireRequest} from './send-request.ts';

export interface KubeApiOptions {
  /** For each single request, in milliseconds; 0 for no limit but that of a dead connection. */
  readonly requestTimeout?: number;
  readonly userAgent?: string;
  /** The first delay before a request is made again, in milliseconds. */
  readonly backoff?: number;
}

export function createKubeApi(connection: ApiConnection, options: KubeApiOptions = {}): KubeApi {
  return new HttpKubeApi(connection, options);
}

class HttpKubeApi implements KubeApi {
  readonly description: string;
  readonly #connection: ApiConnection;
  readonly #requestTimeout: number;
  readonly #userAgent: string;
  readonly #backoff: number;
  readonly #closing = new AbortController();
  readonly #agents = new Map<string, Agent>();

  constructor(connection: ApiConnection, {requestTimeout = 0, userAgent = 'svc-trace', backoff = 250}: KubeApiOptions) {
    this.description = connection.description;
    this.#connection = connection;
    this.#requestTimeout = requestTimeout;
    this.#userAgent = userAgent;
    this.#backoff = backoff;
  }

  get<T>(path: string, query?: Readonly<Record<string, string>>, {signal, once = false, maxBytes}: GetOptions = {}): Promise<T> {
    return this.#json<T>({method: 'GET', path, query, once, maxBytes}, signal);
  }

  list<T>(path: string, query?: Readonly<Record<string, string>>): Promise<ListResult<T>> {
    return listPages<T>(more => this.get(path, {...query, ...more}));
  }

  async stream(path: string, query: Readonly<Record<string, string>>, options: StreamOptions): Promise<AsyncIterable<Buffer>> {
    const request = {method: 'GET', path, query} as const;
    const signal = AbortSignal.any([options.signal, this.#closing.signal]);
    let parts: AsyncIterable<Buffer> = none();
    await this.#retrying(request, signal, async credential => {
      const response = await responseTo({...this.#wire(request, credential), signal, silenceMs: options.silenceMs});
      if ((response.statusCode ?? 0) >= 300) return readResponse(response);
      parts = bodyParts(response);
      return {...begun, status: response.statusCode ?? 0};
    });
    return parts;
  }

  create<T>(path: string, body: object): Promise<T> {
    return this.#json<T>({method: 'POST', path, body});
  }

  async delete(path: string, query?: Readonly<Record<string, string>>): Promise<void> {
    try {
      await this.#request({method: 'DELETE', path, query});
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404)) throw error;
    }
  }

  async exec(
    {namespace, pod, container}: ExecTarget,
    argv: readonly string[],
    signal: AbortSignal,
    take?: (part: Buffer) => void,
  ): Promise<Buffer> {
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(pod)}/exec`;
    const query = [['container', container], ['stdout', '1'], ['stderr', '1'], ...argv.map(word => ['command', word] as const)] as const;
    const url = requestUrl(this.#connection.server, path, query);
    const anySignal = AbortSignal.any([signal, this.#closing.signal]);
    let stdout = Buffer.alloc(0) as Buffer;
    await this.#retrying({method: 'POST', path}, anySignal, async credential => {
      const {execOverWebSocket} = await import('./exec-stream.ts');
      const outcome = await execOverWebSocket({
        url,
        argv,
        signal: anySignal,
        take,
        timeout: this.#requestTimeout,
        ...this.#via(credential),
      });
      if (outcome.kind === 'answer') return outcome.response;
      stdout = outcome.stdout;
      return switchedProtocols;
    });
    return stdout;
  }

  close(): void {
    this.#closing.abort();
    for (const agent of this.#agents.values()) agent.destroy();
  }

  async #json<T>(request: ApiRequest, signal?: AbortSignal): Promise<T> {
    const {body} = await this.#request(request, signal);
    try {
      return JSON.parse(body.toString('utf8')) as T;
    } catch (error) {
      throw new ApiError(
        `cannot ${describeRequest(request)}: the answer of ${this.#connection.server.host} is no JSON. Is it an API server?`,
        {
          status: null,
          cause: error,
        },
      );
    }
  }

  #request(request: ApiRequest, given?: AbortSignal): Promise<ApiResponse> {
    const outer = given === undefined ? this.#closing.signal : AbortSignal.any([given, this.#closing.signal]);
    return this.#retrying(request, outer, async credential => {
      const signal = this.#requestTimeout > 0 ? AbortSignal.any([outer, AbortSignal.timeout(this.#requestTimeout)]) : outer;
      return sendRequest({...this.#wire(request, credential), signal, maxBytes: request.maxBytes});
    });
  }

  #wire(request: ApiRequest, credential: Credential): Omit<WireRequest, 'signal'> {
    const {headers, agent} = this.#via(credential);
    const body = request.body === undefined ? null : JSON.stringify(request.body);
    const compressed = this.#connection.compression ? {'accept-encoding': 'gzip'} : {};
    const typed = body === null ? {} : {'content-type': 'application/json', 'content-length': Buffer.byteLength(body)};
    return {
      method: request.method,
      url: requestUrl(this.#connection.server, request.path, Object.entries(request.query ?? {})),
      body,
      agent,
      headers: {...headers, ...compressed, ...typed, accept: 'application/json'},
    };
  }

  /** Makes a request until it is answered or not worth making again. Rejects with a CommandFailed or an ApiError. */
  async #retrying(
    request: ApiRequest,
    signal: AbortSignal,
    attempt: (credential: Credential) => Promise<ApiResponse>,
  ): Promise<ApiResponse> {
    const asked: Asked = {what: describeRequest(request), connection: this.#connection};
    let renewed = false;
    for (let retries = 0; ; ) {
      const credential = await this.#connection.credentials.current();
      const outcome = await attempt(credential).then(
        response => ({kind: 'answer', response}) as const,
        (error: unknown) => ({kind: 'failure', error}) as const,
      );
      if (outcome.kind === 'answer' && outcome.response.status < 300) return outcome.response;
      if (
        outcome.kind === 'answer' &&
        outcome.response.status === 401 &&
        !renewed &&
        (await this.#connection.credentials.renew(credential))
      ) {
        renewed = true;
        continue;
      }
      const delay = retryDelay(outcome, request, {retries, backoff: this.#backoff});
      if (delay === null) throw outcome.kind === 'answer' ? refusal(outcome.response, asked, credential) : failed(outcome.error, asked);
      retries++;
      await sleep(delay, undefined, {signal}).catch((error: unknown) => {
        throw noAnswer(error, asked);
      });
    }
  }

  #via(credential: Credential): {readonly headers: OutgoingHttpHeaders; readonly agent: Agent} {
    const {authorization, certificate} = credential;
    const headers = {
      'user-agent': this.#userAgent,
      ...(authorization === null ? {} : {authorization}),
      ...this.#connection.impersonation,
    } as OutgoingHttpHeaders;
    const key = certificate?.cert ?? '';
    const agent = this.#agents.get(key) ?? apiAgent(this.#connection, certificate);
    this.#agents.set(key, agent);
    return {headers, agent};
  }
}

function failed(error: unknown, asked: Asked): CommandFailed | ApiError {
  return error instanceof CommandFailed ? error : noAnswer(error, asked);
}

/** What an exec comes to that had its stream. */
const switchedProtocols: ApiResponse = {status: 101, headers: {}, body: Buffer.alloc(0)};

/** What an answer comes to that is read elsewhere. */
const begun: ApiResponse = {status: 200, headers: {}, body: Buffer.alloc(0)};

async function* none(): AsyncGenerator<Buffer> {}
