import {constants} from 'node:buffer';
import http from 'node:http';
import type {IncomingHttpHeaders, IncomingMessage, RequestOptions} from 'node:http';
import https from 'node:https';
import {pipeline} from 'node:stream';
import {promisify} from 'node:util';
import {createGunzip, gunzip, type ZlibOptions} from 'node:zlib';
import {ApiError, type ListResult} from './kube-api.ts';

/** `headers`, `agent` and `auth` are set by client-node. */
export interface WireRequest extends Pick<RequestOptions, 'headers' | 'agent' | 'auth'> {
  readonly method: string;
  readonly url: URL;
  /** JSON; null for none. */
  readonly body: string | null;
  readonly signal: AbortSignal;
  /** How long the connection may be silent, in milliseconds. The default is `maxSilence`. */
  readonly silenceMs?: number;
  /** The maximum length of the decompressed body; by default that of a string, of which JSON is made. */
  readonly maxBytes?: number | undefined;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** The API server ends a request by itself after 60 s. A connection that is silent for longer than this is dead. In milliseconds. */
export const maxSilence = 75_000;

/**
 * Sends one request and resolves to its complete answer, whatever its status. Rejects if there is none or only part of one, and with the
 * signal's reason if it was aborted.
 */
export async function sendRequest(wire: WireRequest): Promise<ApiResponse> {
  const pace = new Pace(wire.silenceMs ?? maxSilence);
  const signal = AbortSignal.any([wire.signal, pace.signal]);
  try {
    return await readResponse(await responseTo({...wire, signal}), wire.maxBytes, pace);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    pace.end();
  }
}

/** An answer that arrives byte by byte is never silent, and would be waited for without a limit. */
class Pace {
  readonly #slow = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #bytes = 0;

  constructor(periodMs: number) {
    this.#timer = setInterval(() => {
      if (this.#bytes === 0) this.#slow.abort(noAnswerWithin(periodMs));
      else if (this.#bytes < minBytes)
        this.#slow.abort(new Error(`the answer comes too slowly: ${this.#bytes} bytes within ${periodMs / 1000} s`));
      this.#bytes = 0;
    }, periodMs);
  }

  get signal(): AbortSignal {
    return this.#slow.signal;
  }

  count(bytes: number): void {
    this.#bytes += bytes;
  }

  end(): void {
    clearInterval(this.#timer);
  }
}

function noAnswerWithin(milliseconds: number): Error {
  return Object.assign(new Error(`no answer within ${milliseconds / 1000} s`), {code: 'ETIMEDOUT'});
}

/** What has to arrive while a connection might be silent. */
const minBytes = 64 * 1024;

/** Resolves when an answer begins. */
export function responseTo({url, body, signal, silenceMs = maxSilence, maxBytes: _, ...options}: WireRequest): Promise<IncomingMessage> {
  const client = url.protocol === 'http:' ? http : https;
  const request = client.request(url, {...options, signal, timeout: silenceMs});
  request.once('timeout', () => request.destroy(noAnswerWithin(silenceMs)));
  return new Promise((resolve, reject) => {
    request.once('response', resolve);
    request.on('error', reject);
    request.end(body ?? undefined);
  });
}

/** Rejects if the answer is truncated or too long. */
export async function readResponse(response: IncomingMessage, maxBytes = constants.MAX_STRING_LENGTH, pace?: Pace): Promise<ApiResponse> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of response) {
    parts.push(part as Buffer);
    length += (part as Buffer).length;
    pace?.count((part as Buffer).length);
    if (length > maxBytes) throw new Error(`the answer is longer than ${maxBytes} bytes`);
  }
  const content = Buffer.concat(parts);
  const body = response.headers['content-encoding'] === 'gzip' ? await unzip(content, {maxOutputLength: maxBytes}) : content;
  return {status: response.statusCode ?? 0, headers: response.headers, body};
}

/** The body in parts as they arrive; rejects if it is truncated. */
export function bodyParts(response: IncomingMessage): AsyncIterable<Buffer> {
  if (response.headers['content-encoding'] !== 'gzip') return response;
  // An error of the answer appears at the end of the pipeline.
  return pipeline(response, createGunzip(), () => {});
}

const unzip = promisify<Buffer, ZlibOptions, Buffer>(gunzip);

/** One request to the API server. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** From the root of the API, such as `/api/v1/nodes/node-a`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>> | undefined;
  readonly body?: object | undefined;
  /** See GetOptions. */
  readonly once?: boolean;
  readonly maxBytes?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** See CreateOptions. */
  readonly isReview?: boolean;
  readonly realm?: string | undefined;
}

/** A description for messages: `list services in namespace shop`, `get nodes/node-a`, `exec into kube-system/kube-proxy-x7k2p`. */
export function describeRequest({method, path, query = {}}: ApiRequest): string {
  const resource = /^\/(?:api|apis\/[^/]+)\/[^/]+\/(?:namespaces\/([^/]+)\/)?([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/.exec(path);
  if (resource === null) return `${method} ${path}`;
  const [, namespace, plural = '', name, subresource] = resource.map(part => (part === undefined ? undefined : decodeURIComponent(part)));
  if (subresource === 'exec') return `exec into ${namespace}/${name}`;
  if (method === 'POST' && subresource !== undefined) return `create ${plural}/${subresource} of ${name} in namespace ${namespace}`;
  const where = namespace === undefined ? '' : ` in namespace ${namespace}`;
  if (method === 'POST') return `create ${plural}${where}`;
  if (method === 'DELETE') return `delete ${plural}/${name}${where}`;
  if (name !== undefined) return `get ${plural}/${name}${where}`;
  const selector = query['labelSelector'] ?? query['fieldSelector'];
  return `list ${plural}${where}${selector === undefined ? '' : ` with ${selector}`}`;
}

/** Whether a node or pod answers, and the API server passes the answer on with the node's `Date`: by its proxy, or a refused exec. */
export function isAnsweredByNode({path}: Pick<ApiRequest, 'path'>): boolean {
  return /^\/api\/v1\/(?:nodes\/[^/]+|namespaces\/[^/]+\/(?:pods|services)\/[^/]+)\/(?:proxy|exec)(?:\/|$)/.test(path);
}

/** The URL of a request: the server's path is a prefix of all paths. */
export function requestUrl(server: URL, path: string, query: Iterable<readonly [string, string]>): URL {
  // A URL resolves them, percent-encoded or not: a namespace ".." would ask for all namespaces.
  if (path.split('/').some(name => name === '.' || name === '..')) throw new ApiError(`there is no object at ${path}`, {status: 404});
  const url = new URL(server);
  url.pathname = `${server.pathname.replace(/\/$/, '')}${path}`;
  for (const [name, value] of query) url.searchParams.append(name, value);
  return url;
}

/** The result of one attempt. */
type RequestOutcome = {readonly kind: 'answer'; readonly response: ApiResponse} | {readonly kind: 'failure'; readonly error: unknown};

/**
 * The delay before a retry, in milliseconds; null for no retry. 429 means that nothing was done yet. After any other result, only a request
 * that is safe to repeat is repeated. `retries`: the number of retries so far. `waited`: the delays so far, in milliseconds. `backoff`: the
 * first delay, in milliseconds.
 */
export function retryDelay(
  outcome: RequestOutcome,
  {method, once, isReview}: Pick<ApiRequest, 'method' | 'once' | 'isReview'>,
  {retries, backoff, waited}: {readonly retries: number; readonly waited: number; readonly backoff: number},
): number | null {
  const idempotent = (method !== 'POST' || isReview === true) && once !== true;
  if (outcome.kind === 'failure') return idempotent && retries < maxRetries && isBroken(outcome.error) ? backoff * 2 ** retries : null;
  const {status, headers} = outcome.response;
  const throttled = status === 429 && retries < maxThrottled;
  if (!throttled && !(idempotent && status >= 500 && retries < maxRetries)) return null;
  const delay = retryAfter(headers['retry-after']) ?? backoff * 2 ** retries;
  return waited + delay > maxWait ? null : delay;
}

const maxRetries = 4;
const maxThrottled = 8;
/** A server that asks for more has too much to do for this run. In milliseconds. */
const maxWait = 60_000;

/** A connection that broke during the request, as keep-alive connections do when the API server restarts; or a truncated answer. */
function isBroken(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | null)?.code ?? '';
  return ['ECONNRESET', 'EPIPE', 'Z_BUF_ERROR'].includes(code);
}

/** In milliseconds; null without the header. */
function retryAfter(header: string | undefined): number | null {
  if (header === undefined) return null;
  const seconds = /^\d+$/.test(header) ? Number(header) : (Date.parse(header) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? null : Math.max(seconds, 0) * 1000;
}

interface ListPage<T> {
  readonly kind?: unknown;
  readonly metadata?: {readonly resourceVersion?: string; readonly continue?: string};
  /** Null for an empty list of some API servers. */
  readonly items?: readonly T[] | null;
}

type ReadPage<T> = (query: Readonly<Record<string, string>>) => Promise<ListPage<T>>;

const pageSize = '500';
const maxStarts = 4;
/** More objects than an API server can hold. */
const maxPages = 20_000;

/**
 * Reads a list page by page; `what` is as `describeRequest` describes it. If the next page has expired (410), the list is read again from
 * the start, so that it is consistent. A list without an end is an error.
 */
export async function listPages<T>(what: string, readPage: ReadPage<T>): Promise<ListResult<T>> {
  for (let start = 1; ; start++) {
    try {
      return await readAll(what, readPage);
    } catch (error) {
      if (start === maxStarts || !(error instanceof ApiError && error.status === 410)) throw error;
    }
  }
}

async function readAll<T>(what: string, readPage: ReadPage<T>): Promise<ListResult<T>> {
  const pages: (readonly T[])[] = [];
  const asked = new Set<string>();
  for (let next = ''; ; ) {
    if (asked.has(next) || asked.size === maxPages)
      throw new ApiError(`cannot ${what}: the API server sends pages without an end.`, {status: null});
    asked.add(next);
    const {kind, metadata, items} = await readPage({limit: pageSize, ...(next === '' ? {} : {continue: next})});
    if (!isItems(items)) throw new ApiError(`cannot ${what}: the answer is no list${kindText(kind)}`, {status: 200});
    pages.push(items ?? []);
    next = metadata?.continue ?? '';
    if (next === '') return {items: pages.flat(), resourceVersion: metadata?.resourceVersion ?? ''};
  }
}

/** The items of a list; an empty one can be null. A Status or a Table has none. */
export function isItems(items: unknown): items is readonly unknown[] | null {
  return Array.isArray(items) || items === null;
}

function kindText(kind: unknown): string {
  return typeof kind === 'string' ? `, but of kind ${JSON.stringify(kind.slice(0, 40))}` : '';
}
