import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import type {IncomingMessage, ServerResponse} from 'node:http';
import https from 'node:https';
import type {AddressInfo} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {load} from 'js-yaml';
import {certificate, certificateFile} from '../stand-in/certificates.ts';

export interface AppliedKind {
  /** `v1`, or `group/version`. */
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
}

export interface AppliedObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {readonly name: string; readonly namespace?: string};
}

export interface ApplyServer extends AsyncDisposable {
  readonly kubeconfig: string;
  /** What was applied, by path, in its order; the last of each path. */
  readonly applied: ReadonlyMap<string, AppliedObject>;
  /** `METHOD path` of all that was asked. */
  readonly requests: readonly string[];
}

/** An API server that knows a few kinds, and takes them by server-side apply: enough for a real `kubectl apply --server-side`. */
export async function startApplyServer(kinds: readonly AppliedKind[]): Promise<ApplyServer> {
  const applied = new Map<string, AppliedObject>();
  const requests: string[] = [];
  const server = https.createServer({cert: certificate('server.crt'), key: certificate('server.key')}, async (request, response) => {
    const {pathname} = new URL(request.url ?? '/', 'https://localhost');
    requests.push(`${request.method} ${pathname}`);
    if (request.method === 'PATCH') {
      const object = load(await bodyOf(request)) as AppliedObject;
      const isNew = !applied.has(pathname);
      applied.set(pathname, object);
      send(response, isNew ? 201 : 200, object);
      return;
    }
    const found = discovery(pathname, kinds);
    if (found === null) send(response, 404, {kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404});
    else send(response, 200, found);
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-apply-'));
  const kubeconfig = join(folder, 'kubeconfig');
  writeFileSync(kubeconfig, kubeconfigFor(`https://127.0.0.1:${(server.address() as AddressInfo).port}`));
  return {
    ...{kubeconfig, applied, requests},
    async [Symbol.asyncDispose]() {
      const closed = new Promise(resolve => server.close(resolve));
      server.closeAllConnections();
      await closed;
      rmSync(folder, {recursive: true});
    },
  };
}

function kubeconfigFor(url: string): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'apply',
    clusters: [{name: 'apply', cluster: {server: url, 'certificate-authority': certificateFile('ca.crt')}}],
    users: [{name: 'admin', user: {token: 'any'}}],
    contexts: [{name: 'apply', context: {cluster: 'apply', user: 'admin'}}],
  });
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString('utf8');
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, {'content-type': 'application/json'});
  response.end(JSON.stringify(body));
}

function discovery(path: string, kinds: readonly AppliedKind[]): object | null {
  if (path === '/version') return {major: '1', minor: '36', gitVersion: 'v1.36.2'};
  if (path === '/api') return {kind: 'APIVersions', versions: ['v1']};
  if (path === '/apis') return {kind: 'APIGroupList', apiVersion: 'v1', groups: groups(kinds)};
  const groupVersion = /^\/(?:api|apis)\/(.+)$/.exec(path)?.[1];
  const own = kinds.filter(({apiVersion}) => apiVersion === groupVersion);
  if (own.length === 0) return null;
  const resources = own.map(({kind, plural, namespaced}) => ({
    ...{name: plural, singularName: kind.toLowerCase(), namespaced, kind},
    verbs: ['create', 'delete', 'get', 'list', 'patch'],
  }));
  return {kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources};
}

function groups(kinds: readonly AppliedKind[]): readonly object[] {
  const named = new Set(kinds.flatMap(({apiVersion}) => (apiVersion.includes('/') ? [apiVersion] : [])));
  return [...named].map(groupVersion => {
    const [name = '', version = ''] = groupVersion.split('/');
    return {name, versions: [{groupVersion, version}], preferredVersion: {groupVersion, version}};
  });
}
