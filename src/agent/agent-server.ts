import {constants} from 'node:crypto';
import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http';
import https from 'node:https';
import {gzipSync} from 'node:zlib';
import {agentRealm, agentTokenHeader} from '../collect/agents/agent-tokens.ts';
import {type AccessGate, type Admission, clientName, limitConnections} from './access-gate.ts';
import type {KeyPair} from './self-signed-certificate.ts';

/** One answer of the agent. */
export interface HttpAnswer {
  readonly status: number;
  readonly type: 'application/json' | 'text/plain; version=0.0.4; charset=utf-8' | 'text/plain; charset=utf-8';
  readonly text: string;
}

/** The answers, by path. */
export type Pages = Readonly<Record<string, {readonly isOpen: boolean; readonly page: () => HttpAnswer}>>;

interface Serving {
  readonly pages: Pages;
  readonly listen: ListenAddress;
  /** Null for plain HTTP. */
  readonly certificate: KeyPair | null;
  /** Authorizes requests for pages that are not open; null for no authorization. */
  readonly gate: Pick<AccessGate, 'admit'> | null;
  /** Called with the status of each answer to a request that needs a token. */
  readonly onAnswer?: (status: number) => void;
}

/** Replaces the certificate for new connections. */
export function replaceCertificate(server: Server, pair: KeyPair): void {
  if (server instanceof https.Server) server.setSecureContext(tlsOptions(pair));
}

/** Answers GET and HEAD for these paths, and nothing else. Slow, large and frequent requests are cut off. Rejects if it cannot listen. */
export async function servePages({listen: {host, port}, ...serving}: Serving): Promise<Server> {
  const limits = {
    maxHeaderSize: 16_384,
    requestTimeout: 10_000,
    headersTimeout: 5000,
    keepAliveTimeout: 5000,
    connectionsCheckingInterval: 1000,
  };
  const answer = (request: IncomingMessage, response: ServerResponse) => void respond(request, response, serving);
  const {certificate} = serving;
  const server =
    certificate === null
      ? createServer(limits, answer)
      : https.createServer({...limits, ...tlsOptions(certificate), handshakeTimeout: 5000}, answer);
  limitConnections(server);
  server.maxRequestsPerSocket = 1000;
  server.setTimeout(maxAnswerTime);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({port, host: host ?? undefined}, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return server;
}

/** Renegotiation costs the server more than the client, so it is refused. */
function tlsOptions({cert, key}: KeyPair) {
  return {cert, key, minVersion: 'TLSv1.2' as const, secureOptions: constants.SSL_OP_NO_RENEGOTIATION};
}

async function respond(request: IncomingMessage, response: ServerResponse, serving: Omit<Serving, 'listen'>): Promise<void> {
  const {status, type, text, headers} = await answerTo(request, serving);
  // The whole answer stays in memory until the client has read it.
  const timer = setTimeout(() => response.destroy(), maxAnswerTime);
  response.once('close', () => clearTimeout(timer));
  const content = Buffer.from(text);
  const compressed = content.length > smallest && /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  const body = compressed ? gzipSync(content) : content;
  response.writeHead(status, {
    'content-type': type,
    'content-length': body.length,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(compressed ? {'content-encoding': 'gzip'} : {}),
    ...headers,
    // Requests have no body: any body is discarded.
    ...(hasBody(request) ? {connection: 'close'} : {}),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

/** In milliseconds. */
const maxAnswerTime = 30_000;

/** In bytes: an answer that fits into one packet is not compressed. */
const smallest = 1400;

interface SentAnswer extends HttpAnswer {
  readonly headers?: Readonly<Record<string, string>>;
}

async function answerTo(request: IncomingMessage, {pages, gate, onAnswer}: Omit<Serving, 'listen'>): Promise<SentAnswer> {
  const {method, url = '', socket} = request;
  const path = url.split('?', 1)[0] ?? '';
  const found = Object.hasOwn(pages, path) ? pages[path] : undefined;
  if (found === undefined) return {...plain, status: 404, text: `there is: ${Object.keys(pages).join(' ')}\n`};
  if (method !== 'GET' && method !== 'HEAD') return {...plain, status: 405, text: 'only GET and HEAD\n', headers: {allow: 'GET, HEAD'}};
  if (found.isOpen || gate === null) return found.page();
  const token = tokenOf(request);
  const admission = await gate.admit({token, path, client: clientName(socket.remoteAddress)});
  const answer = admission === 'allowed' ? found.page() : refusal(admission, path, token !== null);
  onAnswer?.(answer.status);
  return answer;
}

const plain = {type: 'text/plain; charset=utf-8'} as const;

/** The API server's proxy removes the header Authorization: requests through it have the token in this one. */
function tokenOf({headers}: IncomingMessage): string | null {
  const given = headers[agentTokenHeader] ?? headers.authorization;
  return /^Bearer +(\S+)$/i.exec(String(given ?? ''))?.[1] ?? null;
}

/** Names no users and no objects. The connection is closed, so that the limit of new connections applies to the next attempt. */
function refusal(admission: Exclude<Admission, 'allowed'>, path: string, hasToken: boolean): SentAnswer {
  const challenge = (error: string) => ({connection: 'close', 'www-authenticate': `Bearer realm="${agentRealm}"${error}`});
  switch (admission) {
    case 'unauthenticated':
      return hasToken
        ? {...plain, status: 401, text: 'the API server does not accept this token\n', headers: challenge(', error="invalid_token"')}
        : {...plain, status: 401, text: 'a token is needed: "Authorization: Bearer TOKEN"\n', headers: challenge('')};
    case 'forbidden':
      return {
        ...plain,
        status: 403,
        headers: challenge(', error="insufficient_scope"'),
        text: `the owner of this token may not get ${path}: a ClusterRole with "nonResourceURLs: [${path}]" and "verbs: [get]" is needed\n`,
      };
    case 'throttled':
      return {
        ...plain,
        status: 429,
        text: 'too many unknown tokens: try again later\n',
        headers: {connection: 'close', 'retry-after': '1'},
      };
    case 'unavailable':
      return {...plain, status: 503, text: 'the API server cannot be asked about this token\n', headers: {connection: 'close'}};
  }
}

function hasBody({headers}: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}

/** Where to listen. */
export interface ListenAddress {
  /** Null for all addresses. */
  readonly host: string | null;
  readonly port: number;
}

/**
 * Reads `ADDRESS:PORT`, `:PORT` or `[ADDRESS]:PORT`; null for anything else. An IPv6 address may have no brackets, as from the downward
 * API: the port follows the last colon.
 */
export function parseListenAddress(text: string): ListenAddress | null {
  const found = /^(.*):(\d{1,5})$/.exec(text);
  if (found === null) return null;
  const [, address = '', digits = ''] = found;
  const port = Number(digits);
  const host = address.replace(/^\[(.*)\]$/, '$1');
  return port > 65_535 || /[[\]\s/]/.test(host) ? null : {host: host === '' ? null : host, port};
}
