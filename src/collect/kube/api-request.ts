import {ApiError, type ListResult} from './kube-api.ts';
import type {ApiResponse} from './send-request.ts';

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
 * that is safe to repeat is repeated.
 */
export function retryDelay(
  outcome: RequestOutcome,
  {method, once, isReview}: Pick<ApiRequest, 'method' | 'once' | 'isReview'>,
  {retries, backoff, waited}: RetryState,
): number | null {
  const idempotent = (method !== 'POST' || isReview === true) && once !== true;
  if (outcome.kind === 'failure') return idempotent && retries < maxRetries && isBroken(outcome.error) ? backoff * 2 ** retries : null;
  const {status, headers} = outcome.response;
  const throttled = status === 429 && retries < maxThrottled;
  if (!throttled && !(idempotent && status >= 500 && retries < maxRetries)) return null;
  const delay = retryAfter(headers['retry-after']) ?? backoff * 2 ** retries;
  return waited + delay > maxWait ? null : delay;
}

interface RetryState {
  /** The number of retries so far. */
  readonly retries: number;
  /** The delays so far, in milliseconds. */
  readonly waited: number;
  /** The first delay, in milliseconds. */
  readonly backoff: number;
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
 * Reads a list page by page; `what` is as `describeRequest` describes it. If the next page has expired (410), the list is read again from the start, so that it is consistent. A list
 * without an end is an error.
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
