import type {RequestOptions} from 'node:https';
import {setTimeout as sleep} from 'node:timers/promises';
import {isObject, parseJson, readJson} from '../../parse/attempt.ts';
import {unlessAborted} from '../unless-aborted.ts';
import {CommandFailed} from '../node/transport.ts';
import {
  type ApiRequest,
  describeRequest,
  isAnsweredByNode,
  listPages,
  requestUrl,
  retryDelay,
  type ApiResponse,
  bodyParts,
  readResponse,
  responseTo,
  sendRequest,
  type WireRequest,
} from './send-request.ts';
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
import {type Connection, KubectlConfig} from './kubectl-config.ts';
import {X509Certificate} from 'node:crypto';
import {STATUS_CODES} from 'node:http';
import type {Credential} from './credentials/credentials.ts';
import {ProxyError} from './tunnel.ts';

export interface KubeApiOptions {
  /** Timeout of each request, in milliseconds; 0 for none, except for a dead connection. */
  readonly requestTimeout?: number;
  readonly userAgent?: string;
  /** The delay before the first retry, in milliseconds. */
  readonly backoff?: number;
}

export function createKubeApi(connection: Connection, options: KubeApiOptions = {}): KubeApi {
  return new HttpKubeApi(connection, options);
}

class HttpKubeApi implements KubeApi {
  readonly #config: KubectlConfig;
  readonly #options: Required<KubeApiOptions>;
  readonly #closing = new AbortController();
  /** The least that an answer has shown: all others were longer on their way. */
  #clockAheadMs: number | null = null;

  constructor(connection: Connection, options: KubeApiOptions) {
    this.#config = new KubectlConfig(connection);
    this.#options = {requestTimeout: 0, userAgent: 'svc-trace', backoff: 250, ...options};
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
      timeout: this.#options.requestTimeout,
      userAgent: this.#options.userAgent,
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
    const {inPod, credentials} = this.#config.connection;
    if (inPod !== true) return null;
    const {authorization} = await credentials.current();
    return authorization?.replace(/^Bearer /, '') ?? null;
  }

  close(): void {
    this.#closing.abort();
    this.#config.close();
  }

  async #json<T>(request: ApiRequest, signal?: AbortSignal): Promise<T> {
    const {body} = await this.#request(request, signal);
    try {
      const value = parseJson(body.toString('utf8'));
      if (isObject(value)) return value as T;
    } catch (error) {
      throw new ApiError(
        `cannot ${describeRequest(request)}: the answer of ${this.#config.connection.server.host} is no JSON. Is it an API server?`,
        {status: null, cause: error},
      );
    }
    throw new ApiError(`cannot ${describeRequest(request)}: the answer is no object`, {status: 200});
  }

  #request(request: ApiRequest, abortSignal?: AbortSignal): Promise<ApiResponse> {
    const outer = abortSignal === undefined ? this.#closing.signal : AbortSignal.any([abortSignal, this.#closing.signal]);
    return this.#retrying(request, outer, async () => {
      const applied = await this.#applied(outer);
      const signal = this.#options.requestTimeout > 0 ? AbortSignal.any([outer, AbortSignal.timeout(this.#options.requestTimeout)]) : outer;
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
    const compressed = this.#config.connection.compression ? {'accept-encoding': 'gzip'} : {};
    const typed = body === null ? {} : {'content-type': 'application/json', 'content-length': Buffer.byteLength(body)};
    return {
      method: request.method,
      url: requestUrl(this.#config.connection.server, request.path, Object.entries(request.query ?? {})),
      body,
      agent,
      auth,
      headers: {'user-agent': this.#options.userAgent, ...headers, ...compressed, ...typed, accept: 'application/json', ...request.headers},
    };
  }

  /** Repeats a request until it is answered or a retry is useless. Rejects with a CommandFailed or an ApiError. */
  async #retrying(request: ApiRequest, signal: AbortSignal, attempt: () => Promise<AnsweredAttempt>): Promise<ApiResponse> {
    const asked: FailedRequest = {what: describeRequest(request), connection: this.#config.connection};
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
      const delay = retryDelay(outcome, request, {retries, waited, backoff: this.#options.backoff});
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
    return this.#config.connection.credentials.renew(this.#config.credentialOf(applied));
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

/** The request that failed. */
interface FailedRequest {
  /** As `describeRequest` describes it. */
  readonly what: string;
  readonly connection: Connection;
}

/** The error for an answer with another status than 2xx. */
function refusal(response: ApiResponse, {what, connection}: FailedRequest, credential: Credential): ApiError {
  const {status} = response;
  const {message, reason} = statusOf(response.body);
  const said = `${status} ${STATUS_CODES[status] ?? ''}`.trim();
  const details = message === '' || message === STATUS_CODES[status] ? '' : `: ${message}`;
  const text = () => {
    if (status === 401)
      return `cannot ${what}: ${connection.server.host} does not accept ${connection.credentials.description} (${said}${details}). ${whyUnauthorized(credential)}`;
    if (status === 403) return `not allowed to ${what}${details}. ${isNobody(credential) ? noCredentials : whereToSeeWhatIsNeeded}`;
    if (status === 404) return `cannot ${what}: not found${details}.`;
    if (status === 429)
      return `cannot ${what}: the API server has too much to do (${said}${details}${toldToWait(response)}). Try again later, or with a smaller --concurrency.`;
    if (status >= 300 && status < 400)
      return `cannot ${what}: ${connection.server.host} answered ${said}${redirectTo(response)}. Is the server's address in the kubeconfig right?`;
    if (/error dialing backend|dial tcp/.test(message))
      return `cannot ${what}: the API server does not reach the kubelet of that node${details}.`;
    return `cannot ${what}: ${connection.server.host} answered ${said}${details}.`;
  };
  return new ApiError(text(), {status, reason, realm: realmOf(response), details: message});
}

function toldToWait({headers}: ApiResponse): string {
  const after = headers['retry-after'];
  return after === undefined ? '' : `; Retry-After: ${after}`;
}

/** Redirects are not followed: the token would go to another server. */
function redirectTo({headers}: ApiResponse): string {
  const {location = ''} = headers;
  return URL.canParse(location) ? ` and redirects to ${new URL(location).host}` : '';
}

/** The realm of WWW-Authenticate for bearer tokens; empty if there is none. */
function realmOf({headers}: Pick<ApiResponse, 'headers'>): string {
  return /^Bearer .*?realm="([^"]*)"/i.exec(headers['www-authenticate'] ?? '')?.[1] ?? '';
}

const whereToSeeWhatIsNeeded = '"kubectl svc-trace access" says what is needed and prints the Role for it.';

function isNobody({authorization, certificate}: Credential): boolean {
  return authorization === null && certificate === null;
}

function whyUnauthorized(credential: Credential): string {
  const {authorization, certificate} = credential;
  if (isNobody(credential)) return noCredentials;
  const expired = certificate === null ? null : expiredSince(certificate.cert);
  if (expired !== null) return `The client certificate expired on ${expired}.`;
  const what = authorization === null ? 'The certificate' : authorization.startsWith('Basic') ? 'The password' : 'The token';
  return `${what} has expired, was revoked, or is of another cluster. Log in again.`;
}

const noCredentials = 'Nothing in the kubeconfig says who you are: log in, or choose another context or user.';

function expiredSince(cert: string): string | null {
  try {
    const {validTo} = new X509Certificate(cert);
    return Date.parse(validTo) < Date.now() ? validTo : null;
  } catch {
    return null;
  }
}

/** A Status object, or the first line of what a proxy in front of the API server sent instead. */
function statusOf(body: Buffer): {readonly message: string; readonly reason: string} {
  const text = body.toString('utf8');
  const value = readJson(text) ?? null;
  if (value === null) return {message: /^\s*</.test(text) ? '' : (text.trim().split('\n', 1)[0] ?? '').slice(0, 200), reason: ''};
  const {message, reason} = value as {message?: unknown; reason?: unknown};
  return {message: typeof message === 'string' ? message : '', reason: typeof reason === 'string' ? reason : ''};
}

/** Whether an answer is from the API server itself, not from a backend: a Status object, or the plain text of old versions. */
function isStatus(body: Buffer): boolean {
  return /^\s*(?:\{\s*"kind":\s*"Status"|error trying to reach service)/i.test(body.toString('latin1', 0, 100));
}

/** The error for a request without an answer. */
function noAnswer(error: unknown, {what, connection}: FailedRequest): ApiError {
  if (error instanceof ApiError) return error;
  const why = explain(error, connection);
  return new ApiError(`cannot ${what}: ${why}`, {status: null, cause: error});
}

function explain(error: unknown, {server, description, trust}: Connection): string {
  const {code = '', name = '', message = String(error)} = error as NodeJS.ErrnoException;
  if (error instanceof ProxyError) return `${message}. Is proxy-url or HTTPS_PROXY right? NO_PROXY makes an exception.`;
  if (name === 'TimeoutError') return `${server.host} did not answer in time. --request-timeout says how long to wait.`;
  if (name === 'AbortError') return 'stopped.';
  if (code in tlsProblems) return `${tlsProblems[code]} (${code})`;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const {subjectaltname: names} = (error as {readonly cert?: {readonly subjectaltname?: string}}).cert ?? {};
    const other = names === undefined || names === '' ? 'another name than' : `${names}, and not for`;
    return `the certificate of ${server.host} is for ${other} ${trust.serverName ?? server.hostname}. If it is the right server, name it with --tls-server-name.`;
  }
  if (/^ERR_SSL_.*ALERT/.test(code)) return `${server.host} does not accept the client certificate, or asks for one (${code}).`;
  if (code === 'EPROTO' || /^ERR_SSL_(?:WRONG|PACKET)/.test(code))
    return `${server.host} does not speak TLS. Is the server's port right, and https://?`;
  if (code === 'ECONNREFUSED')
    return `nothing listens at ${server.host} (ECONNREFUSED). Is the cluster running, and is this the right one: ${description}?`;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return `the name ${server.hostname} cannot be resolved (${code}). Is this the right cluster: ${description}? Is a VPN needed?`;
  if (['ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH'].includes(code))
    return `${server.host} does not answer (${code}). Is a VPN or a proxy needed?`;
  if (code === 'ECONNRESET' || code === 'EPIPE') return `${server.host} broke off the connection (${code}).`;
  return `${message}${code === '' ? '' : ` (${code})`}.`;
}

const untrusted =
  'the certificate of the API server is from an authority that the kubeconfig does not trust. Is the kubeconfig of this cluster, or of one that had this address before?';

const tlsProblems: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted,
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  UNABLE_TO_GET_ISSUER_CERT: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
  CERT_SIGNATURE_FAILURE: untrusted,
  CERT_HAS_EXPIRED: 'the certificate of the API server has expired. Is the clock of this machine right?',
  CERT_NOT_YET_VALID: 'the certificate of the API server is not valid yet. Is the clock of this machine right?',
};
