import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http';
import {gzipSync} from 'node:zlib';
import type {ListenAddress} from './listen-address.ts';

/** One answer of the agent. */
interface HttpAnswer {
  readonly status: number;
  readonly type: 'application/json' | 'text/plain; version=0.0.4; charset=utf-8' | 'text/plain; charset=utf-8';
  readonly text: string;
}

/** The answers, by path. */
export type Pages = Readonly<Record<string, () => HttpAnswer>>;

/** Answers GET and HEAD for these paths, and nothing else. Slow or large requests are cut off. Rejects if it cannot listen. */
export async function servePages(pages: Pages, {host, port}: ListenAddress): Promise<Server> {
  const server = createServer(
    {maxHeaderSize: 8192, requestTimeout: 10_000, headersTimeout: 5000, keepAliveTimeout: 5000},
    (asked, answer) => respond(asked, answer, pages),
  );
  server.maxConnections = 128;
  server.maxRequestsPerSocket = 1000;
  server.setTimeout(30_000);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({port, ...(host === null ? {} : {host})}, () => {
      server.off('error', reject);
      resolve();
    });
  });
  return server;
}

function respond(asked: IncomingMessage, answer: ServerResponse, pages: Pages): void {
  const {status, type, text, ...more} = pageFor(asked, pages);
  const content = Buffer.from(text);
  const compressed = content.length > smallest && /\bgzip\b/.test(String(asked.headers['accept-encoding'] ?? ''));
  const body = compressed ? gzipSync(content) : content;
  answer.writeHead(status, {
    ...{'content-type': type, 'content-length': body.length, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff'},
    ...(compressed ? {'content-encoding': 'gzip'} : {}),
    ...(more.allow === undefined ? {} : {allow: more.allow}),
    // Requests have no body: any body is discarded.
    ...(hasBody(asked) ? {connection: 'close'} : {}),
  });
  answer.end(asked.method === 'HEAD' ? undefined : body);
}

/** In bytes: an answer that fits into one packet is not compressed. */
const smallest = 1400;

function pageFor({method, url = ''}: IncomingMessage, pages: Pages): HttpAnswer & {readonly allow?: string} {
  const plain = {type: 'text/plain; charset=utf-8'} as const;
  const page = Object.hasOwn(pages, pathOf(url)) ? pages[pathOf(url)] : undefined;
  if (page === undefined) return {...plain, status: 404, text: `there is: ${Object.keys(pages).join(' ')}\n`};
  if (method !== 'GET' && method !== 'HEAD') return {...plain, status: 405, text: 'only GET and HEAD\n', allow: 'GET, HEAD'};
  return page();
}

function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? '';
}

function hasBody({headers}: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}
