import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import http, {type IncomingMessage, type ServerResponse} from 'node:http';
import https from 'node:https';
import type {AddressInfo, Socket} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import type {Duplex} from 'node:stream';
import {setTimeout as sleep} from 'node:timers/promises';
import {gzipSync} from 'node:zlib';
import {dump} from 'js-yaml';
import {WebSocketServer} from 'ws';
import {apiAudience, authenticate, type TokenUser, type UserInfo, userOf} from './authentication.ts';
import {certificate, certificateFile} from './certificates.ts';
import {type ExecCommand, type ExecReply, type StandInNode, streamExec} from './exec.ts';
import {discovery} from './discovery.ts';
import {type Fault, takeFault} from './faults.ts';
import {type ObjectLists, ObjectStore, type StoredObject} from './object-store.ts';
import {createPod, deletePod, type PodOptions} from './pod-lifecycle.ts';
import {type ResourceRequest, resourceRequest, type UrlRequest} from './resources.ts';
import {accessReview, type Authorizer, tokenRequest, tokenReview} from './reviews.ts';
import {answerByProxy, type PodAddress, proxiedPod} from './pod-proxy.ts';
import {type Answer, failure, forbidden, notFound} from './status.ts';
import {type OpenWatch, Watches} from './watches.ts';

export interface ApiServerOptions {
  readonly objects?: ObjectLists;
  /** By the name of the node: where the commands of its pods run. */
  readonly nodes?: Readonly<Record<string, StandInNode>>;
  /** Who has which token; `admin-token` is always there. A password is the token `user:password`. */
  readonly tokens?: Readonly<Record<string, TokenUser>>;
  /** Whether a user has a permission; by default every authenticated user has all. */
  readonly allow?: (request: ResourceRequest, user: UserInfo) => boolean;
  /** Whether a user may get a non-resource path; by default every authenticated user may. */
  readonly allowUrl?: (request: UrlRequest, user: UserInfo) => boolean;
  readonly faults?: readonly Fault[];
  /**
   * `elsewhere` is for another name than localhost and 127.0.0.1. With `none` it is as behind `kubectl proxy`: without TLS, and whoever asks
   * is the administrator.
   */
  readonly certificate?: 'server' | 'elsewhere' | 'none';
  /** The address to listen on, by default 127.0.0.1. */
  readonly host?: '127.0.0.1' | '::1';
  readonly pods?: Partial<PodOptions>;
  /** Where a port of a pod is reached, for the subresource `proxy`; null where nothing listens. */
  readonly proxy?: (pod: StoredObject, port: string) => PodAddress | null;
  /** What a node answers at a port and path, for the subresource `proxy` of nodes; null where nothing listens. */
  readonly nodePage?: (node: string, port: string, path: string) => NodePage | null;
  /** What containers print; by default nothing. */
  readonly log?: (pod: StoredObject, container: string) => string;
  /** What commands come to that are not to be run as they are. */
  readonly exec?: (command: ExecCommand) => ExecReply | null;
}

export interface NodePage {
  readonly status?: number;
  readonly body: string | Buffer;
}

/** One request as it came in. */
export interface LoggedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  /** Null where the credential was not accepted. */
  readonly user: UserInfo | null;
  /** Null where the path is of no resource. */
  readonly resource: ResourceRequest | null;
  /** `command` of an exec. */
  readonly argv: readonly string[];
}

interface RanCommand {
  readonly node: string;
  readonly argv: readonly string[];
}

export interface ApiServer extends AsyncDisposable {
  /** `https://127.0.0.1:PORT`, or `http://…` without a certificate. */
  readonly url: string;
  /** Path of a kubeconfig of the administrator, context `stand-in`, in a folder of its own. */
  readonly kubeconfig: string;
  /** Path of the authority's certificate. */
  readonly ca: string;
  readonly requests: LoggedRequest[];
  /** What ran by exec, in sessions of their own or in those of a shell. */
  readonly commands: RanCommand[];
  /** How many connections were made. */
  readonly connections: () => number;
  /** Bytes of all connections, as they were on the wire. */
  readonly traffic: () => {readonly received: number; readonly sent: number};
  readonly store: ObjectStore;
  /** May be added to and emptied at any time. */
  readonly faults: Fault[];
  /** Open watches. */
  readonly watches: readonly OpenWatch[];
  /** Open exec streams. */
  readonly streams: () => number;
  close(): Promise<void>;
}

const administrator: Readonly<Record<string, TokenUser>> = {'admin-token': {user: 'admin', groups: ['system:masters']}};

/** A stand-in for an API server and its kubelets that answers as the recordings in the project's reference do. */
export async function startApiServer(options: ApiServerOptions = {}): Promise<ApiServer> {
  const standIn = new StandIn(options);
  const name = options.certificate ?? 'server';
  // A client that goes away while it is answered is no fault of the stand-in.
  const answer: http.RequestListener = (request, response) => void standIn.answer(request, response).catch(() => request.socket.destroy());
  const server = name === 'none' ? http.createServer(answer) : https.createServer(tlsOf(name), answer);
  const sockets = new Set<Socket>();
  let connections = 0;
  const closed = {received: 0, sent: 0};
  server.on('connection', (socket: Socket) => {
    connections++;
    sockets.add(socket);
    socket.on('close', () => {
      sockets.delete(socket);
      closed.received += socket.bytesRead;
      closed.sent += socket.bytesWritten;
    });
  });
  const traffic = () => {
    const open = [...sockets];
    const sum = (start: number, bytes: (socket: Socket) => number) => open.reduce((total, socket) => total + bytes(socket), start);
    return {received: sum(closed.received, socket => socket.bytesRead), sent: sum(closed.sent, socket => socket.bytesWritten)};
  };
  server.on('tlsClientError', () => {});
  server.on(
    'upgrade',
    (request: IncomingMessage, socket: Duplex, head: Buffer) => void standIn.upgrade(request, socket, head).catch(() => socket.destroy()),
  );
  const {host = '127.0.0.1'} = options;
  await new Promise<void>(resolve => server.listen(0, host, resolve));
  const url = `${name === 'none' ? 'http' : 'https'}://${host === '::1' ? '[::1]' : host}:${(server.address() as AddressInfo).port}`;
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-api-'));
  const kubeconfig = join(folder, 'kubeconfig');
  writeFileSync(kubeconfig, kubeconfigFor(url));
  const close = async () => {
    const ended = new Promise(resolve => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await ended;
    rmSync(folder, {recursive: true, force: true});
  };
  return {
    url,
    kubeconfig,
    ca: certificateFile('ca.crt'),
    requests: standIn.requests,
    commands: standIn.commands,
    connections: () => connections,
    traffic,
    store: standIn.store,
    faults: standIn.faults,
    watches: standIn.watches.open,
    streams: () => standIn.streams.clients.size,
    close,
    [Symbol.asyncDispose]: close,
  };
}

function tlsOf(name: string): https.ServerOptions {
  return {
    cert: certificate(`${name}.crt`),
    key: certificate(`${name}.key`),
    ca: certificate('ca.crt'),
    requestCert: true,
    rejectUnauthorized: false,
  };
}

function kubeconfigFor(url: string): string {
  return dump({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'stand-in',
    clusters: [{name: 'stand-in', cluster: {server: url, 'certificate-authority': certificateFile('ca.crt')}}],
    users: [{name: 'admin', user: {token: 'admin-token'}}],
    contexts: [{name: 'stand-in', context: {cluster: 'stand-in', user: 'admin'}}],
  });
}

class StandIn {
  readonly requests: LoggedRequest[] = [];
  readonly commands: RanCommand[] = [];
  readonly store: ObjectStore;
  readonly faults: Fault[];
  readonly watches: Watches;
  readonly streams = new WebSocketServer({
    noServer: true,
    handleProtocols: offered => ['v5.channel.k8s.io', 'v4.channel.k8s.io'].find(protocol => offered.has(protocol)) ?? false,
  });
  readonly #options: ApiServerOptions;
  readonly #pods: PodOptions;
  readonly #tokens: Record<string, TokenUser>;

  constructor(options: ApiServerOptions) {
    this.#options = options;
    this.#tokens = {...administrator, ...options.tokens};
    this.store = new ObjectStore(options.objects ?? {});
    this.faults = [...(options.faults ?? [])];
    this.watches = new Watches(this.store);
    this.#pods = {startDelay: 30, stopDelay: 30, statusOf: () => null, ...options.pods};
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const logged = this.#log(request);
    const fault = takeFault(this.faults, `${request.method} ${request.url}`, ['slow', 'wait', 'hang', 'reset', 'status', 'truncate']);
    const body = await bodyOf(request);
    if (fault?.kind === 'hang') return;
    if (fault?.kind === 'reset') {
      request.socket.destroy();
      return;
    }
    if (fault?.kind === 'slow') await sleep(fault.delay, undefined, {ref: false});
    if (fault?.kind === 'wait') await fault.until;
    const refused = this.#refusal(logged, fault);
    const answer = refused ?? (isStreamed(logged) ? this.#stream(logged, request, response) : this.#resourceAnswer(logged, body));
    if (answer !== null) write(request, response, answer, fault?.kind === 'truncate');
  }

  /** A watch, or what a pod answers; the answer is an error where there is none. */
  #stream({resource, query}: LoggedRequest, request: IncomingMessage, response: ServerResponse): Answer | null {
    if (resource === null) return failure(404, 'the server could not find the requested resource');
    if (resource.verb === 'watch') return this.watches.answer(resource, query, response);
    if (resource.subresource === 'log') return this.#podLog(resource, query.get('container') ?? '', response);
    const {name, port, scheme} = proxiedPod(resource.name);
    if (resource.resource === 'nodes') return this.#nodePage(name, port, request, response);
    const pod = this.store.find('pods', resource.namespace, name);
    if (pod === undefined) return notFound({...resource, name});
    const address = this.#options.proxy?.(pod, port) ?? null;
    if (address === null) return failure(503, 'error trying to reach service: dial tcp: connect: connection refused');
    const url = new URL(request.url ?? '/', 'https://localhost');
    answerByProxy(pod, request, {response, address, scheme, path: `${url.pathname.replace(/^.*?\/proxy/, '') || '/'}${url.search}`});
    return null;
  }

  #podLog(resource: ResourceRequest, container: string, response: ServerResponse): Answer | null {
    const pod = this.store.find('pods', resource.namespace, resource.name);
    if (pod === undefined) return notFound(resource);
    response.writeHead(200, {'content-type': 'text/plain'}).end(this.#options.log?.(pod, container) ?? '');
    return null;
  }

  /** Where no port is named, or that of the kubelet, it would be the kubelet that answers: nothing here asks it. */
  #nodePage(name: string, port: string, request: IncomingMessage, response: ServerResponse): Answer | null {
    const {pathname} = new URL(request.url ?? '/', 'https://localhost');
    const page = this.#options.nodePage?.(name, port, pathname.replace(/^.*?\/proxy/, '')) ?? null;
    if (page === null) return failure(503, `error trying to reach service: dial tcp 172.18.0.11:${port}: connect: connection refused`);
    response.writeHead(page.status ?? 200, {'content-type': 'text/plain; charset=utf-8'}).end(page.body);
    return null;
  }

  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const logged = this.#log(request);
    const fault = takeFault(this.faults, `${request.method} ${request.url}`, [
      'slow',
      'wait',
      'hang',
      'reset',
      'status',
      'cut-exec',
    ] as const);
    socket.on('error', () => {});
    if (fault?.kind === 'reset') {
      socket.destroy();
      return;
    }
    if (fault?.kind === 'slow') await sleep(fault.delay, undefined, {ref: false});
    if (fault?.kind === 'wait') await fault.until;
    const pod = logged.resource === null ? undefined : this.store.find('pods', logged.resource.namespace, logged.resource.name);
    const refused = this.#refusal(logged, fault) ?? execRefusal(logged, pod);
    if (refused !== null || logged.resource === null || pod === undefined) {
      writeRaw(socket, refused ?? failure(404, 'page not found'));
      return;
    }
    const command = {
      namespace: logged.resource.namespace,
      pod: logged.resource.name,
      container: logged.query.get('container') ?? '',
      node: nodeOf(pod),
      argv: logged.argv,
      stdin: logged.query.get('stdin') === '1',
    };
    this.streams.handleUpgrade(request, socket, head, stream => {
      const node = this.#options.nodes?.[command.node] ?? {};
      const onCommand = (argv: readonly string[], isOfShell: boolean): Fault | null => {
        this.commands.push({node: command.node, argv});
        return !isOfShell ? null : takeFault(this.faults, `${request.url} ${argv.join(' ')}`, ['hang', 'reset']);
      };
      streamExec(stream, command, {node, reply: this.#options.exec?.(command) ?? null, fault, onCommand});
    });
  }

  #log(request: IncomingMessage): LoggedRequest {
    const url = new URL(request.url ?? '/', 'https://localhost');
    const logged = {
      method: request.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      user: this.#options.certificate === 'none' ? userOf('admin-token', [apiAudience], this.#tokens) : authenticate(request, this.#tokens),
      resource: resourceRequest(request.method ?? '', url.pathname, url.searchParams),
      argv: url.searchParams.getAll('command'),
    };
    this.requests.push(logged);
    return logged;
  }

  #refusal({user, resource}: LoggedRequest, fault: Fault | null): Answer | null {
    if (fault?.kind === 'status') return faultAnswer(fault);
    if (user === null) return failure(401, 'Unauthorized');
    if (resource === null || resource.resource === 'selfsubjectaccessreviews') return null;
    return this.#allowed(resource, user) ? null : forbidden(resource, user.name);
  }

  #allowed(request: ResourceRequest, user: UserInfo): boolean {
    if (user.name === 'system:anonymous') return false;
    return this.#options.allow?.(request, user) ?? true;
  }

  readonly #authorizer: Authorizer = {
    resource: (request, user) => this.#allowed(request, user),
    url: (request, user) => user.name !== 'system:anonymous' && (this.#options.allowUrl?.(request, user) ?? true),
  };

  #resourceAnswer(logged: LoggedRequest, body: object | null): Answer {
    const {resource, query, method, path, user} = logged;
    if (path === '/version') return {status: 200, body: {major: '1', minor: '36', gitVersion: 'v1.36.2', platform: 'linux/amd64'}};
    const found = discovery(path);
    if (found !== null) return {status: 200, body: found};
    if (resource === null || user === null) return failure(404, 'the server could not find the requested resource', {details: {}});
    if (resource.resource === 'selfsubjectaccessreviews') return accessReview(body, user, this.#authorizer);
    if (resource.resource === 'subjectaccessreviews') return accessReview(body, null, this.#authorizer);
    if (resource.resource === 'tokenreviews') return tokenReview(body, this.#tokens);
    if (resource.verb === 'create' && resource.subresource === 'token') return this.#token(resource, body);
    if (resource.verb === 'create' && resource.resource === 'pods') return createPod(this.store, resource, body ?? {}, this.#pods);
    if (resource.verb === 'delete' && resource.resource === 'pods') return deletePod(this.store, resource, query, this.#pods);
    if (resource.verb === 'get') return this.store.get(resource);
    if (resource.verb !== 'list') return failure(405, `the server does not allow ${method} on the requested resource`);
    if (query.has('continue') && takeFault(this.faults, `${method} ${path}`, ['expire-continue'])) return this.store.expired(query);
    return this.store.list(resource, query);
  }

  #token(resource: ResourceRequest, body: object | null): Answer {
    const account = this.store.find('serviceaccounts', resource.namespace, resource.name);
    return account === undefined ? notFound(resource) : tokenRequest(body, resource, this.#tokens);
  }
}

function isStreamed({resource}: LoggedRequest): boolean {
  return resource?.verb === 'watch' || resource?.subresource === 'proxy' || resource?.subresource === 'log';
}

function nodeOf(pod: StoredObject): string {
  return (pod['spec'] as {nodeName?: string} | undefined)?.nodeName ?? '';
}

function execRefusal({resource, query}: LoggedRequest, pod: StoredObject | undefined): Answer | null {
  if (resource?.subresource !== 'exec') return failure(404, 'the server could not find the requested resource');
  if (pod === undefined) return notFound(resource);
  const {containers = []} = (pod['spec'] ?? {}) as {containers?: readonly {name: string}[]};
  const container = query.get('container') ?? '';
  if (container !== '' && containers.length > 0 && !containers.some(({name}) => name === container)) {
    return failure(400, `container ${container} is not valid for pod ${resource.name}`);
  }
  if (nodeOf(pod) === '') return failure(400, `pod ${resource.name} does not have a host assigned`);
  const {phase = 'Running'} = (pod['status'] ?? {}) as {phase?: string};
  return phase === 'Running' ? null : failure(500, 'unable to upgrade connection: container not found ("debug")');
}

function faultAnswer({status, message, retryAfter}: Extract<Fault, {kind: 'status'}>): Answer {
  const text =
    message ?? (status === 429 ? 'Too many requests, please try again later.' : 'the server is currently unable to handle the request');
  return failure(status, text, {headers: retryAfter === undefined ? {} : {'retry-after': String(retryAfter)}});
}

async function bodyOf(request: IncomingMessage): Promise<object | null> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return parts.length === 0 ? null : (JSON.parse(Buffer.concat(parts).toString('utf8')) as object);
}

const common = {
  'content-type': 'application/json',
  'cache-control': 'no-cache, private',
  'audit-id': 'fc5e8a01-8fdf-48b5-a940-415b697655e4',
};

/** Up to this many bytes a response has a Content-Length; a longer one is chunked, and only its end shows that it is complete. */
const longestMatch = 2048;

/** Long answers are compressed where the client takes that, as the API server does from 128 KiB on. */
function write(request: IncomingMessage, response: ServerResponse, {status, body, headers}: Answer, truncated: boolean): void {
  const text = Buffer.from(JSON.stringify(body));
  const compressed = text.length > 131_072 && /\bgzip\b/.test(request.headers['accept-encoding'] ?? '');
  const content = compressed ? gzipSync(text, {level: 1}) : text;
  response.writeHead(status, {
    ...common,
    ...headers,
    ...(compressed ? {'content-encoding': 'gzip'} : {}),
    ...(content.length > longestMatch ? {} : {'content-length': content.length}),
  });
  if (!truncated) {
    response.end(content);
    return;
  }
  response.write(content.subarray(0, content.length / 2), () => request.socket.destroy());
}

function writeRaw(socket: Duplex, {status, body, headers}: Answer): void {
  const text = JSON.stringify(body);
  const lines = Object.entries({...common, ...headers, 'content-length': String(Buffer.byteLength(text)), connection: 'close'});
  socket.end(`HTTP/1.1 ${status} ${status}\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${text}`);
}
