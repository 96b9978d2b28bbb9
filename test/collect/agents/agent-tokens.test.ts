import {mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {describe, expect, onTestFinished, test} from 'vitest';
import {AgentTokens} from '../../../src/collect/agents/agent-tokens.ts';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import type {KubeApi} from '../../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../../stand-in/api-server.ts';
import {certificate} from '../../stand-in/certificates.ts';

const account = {metadata: {namespace: 'svc-trace', name: 'svc-trace-reader'}};

async function cluster(options: ApiServerOptions = {}): Promise<ApiServer> {
  const server = await startApiServer({objects: {serviceaccounts: [account]}, ...options});
  onTestFinished(() => server.close());
  return server;
}

function opened(connection: Parameters<typeof createKubeApi>[0]): KubeApi {
  const api = createKubeApi(connection, {backoff: 1});
  onTestFinished(() => api.close());
  return api;
}

const outside = ({kubeconfig}: ApiServer) => opened(loadConnection({kubeconfig}, {environment: {}}));

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'svc-trace-tokens-'));
  onTestFinished(() => rmSync(made, {recursive: true}));
  return made;
}

describe('outside of the cluster, agents get a token', () => {
  test('of the ServiceAccount svc-trace-reader, valid for ten minutes and for agents alone', async () => {
    const server = await cluster();
    const tokens = new AgentTokens({api: outside(server), namespace: 'svc-trace', file: undefined, now: () => 0});
    const current = await tokens.current();
    const [, claims = ''] = (current.kind === 'token' ? current.token : '').split('.');
    const {aud, sub, exp} = JSON.parse(Buffer.from(claims, 'base64url').toString());
    expect({aud, sub}).toEqual({aud: ['svc-trace-agent'], sub: 'system:serviceaccount:svc-trace:svc-trace-reader'});
    expect(exp - Date.now() / 1000).toBeGreaterThan(590);
    expect(exp - Date.now() / 1000).toBeLessThanOrEqual(600);
  });

  test('that is requested once for all agents, and again after eight minutes or after a refusal', async () => {
    const server = await cluster();
    let now = 0;
    const tokens = new AgentTokens({api: outside(server), namespace: 'svc-trace', file: undefined, now: () => now});
    const [first] = await Promise.all(Array.from({length: 100}, () => tokens.current()));
    expect(server.requests).toHaveLength(1);
    now = 479_999;
    expect(await tokens.current()).toEqual(first);
    now = 480_000;
    expect(await tokens.current()).not.toEqual(first);
    tokens.forget();
    await tokens.current();
    expect(server.requests).toHaveLength(3);
  });

  test.each<[string, ApiServerOptions, RegExp, RegExp]>([
    [
      'may not be requested',
      {allow: () => false},
      /^no token for its agent: not allowed to create serviceaccounts\/token/,
      /access --agents/,
    ],
    [
      'has no ServiceAccount',
      {objects: {}},
      /^no token for its agent: ServiceAccount svc-trace\/svc-trace-reader not found$/,
      /deploy\/agents/,
    ],
    ['cannot be created', {faults: [{kind: 'status', status: 500}]}, /^no token for its agent: .* 500 /, /^Try again/],
  ])('or the reason if the token %s, with one request for all agents', async (_, options, reason, remedy) => {
    const server = await cluster(options);
    const tokens = new AgentTokens({api: outside(server), namespace: 'svc-trace', file: undefined, now: () => 0});
    const answers = await Promise.all(Array.from({length: 10}, () => tokens.current()));
    await tokens.current();
    expect(answers[0]).toEqual({kind: 'none', reason: expect.stringMatching(reason), remedy: expect.stringMatching(remedy)});
    // A failure of the API server is tried again four times.
    expect(server.requests).toHaveLength(options.faults === undefined ? 1 : 5);
  });

  test('and credentials that the API server does not accept are an error', async () => {
    const server = await cluster();
    const api = opened(loadConnection({kubeconfig: server.kubeconfig, token: 'nonsense'}, {environment: {}}));
    const tokens = new AgentTokens({api, namespace: 'svc-trace', file: undefined, now: () => 0});
    await expect(tokens.current()).rejects.toMatchObject({status: 401});
  });
});

describe('in a pod, agents get', () => {
  test('the current token of the pod, and no token is requested', async () => {
    const server = await cluster();
    const mounted = folder();
    writeFileSync(join(mounted, 'ca.crt'), certificate('ca.crt'));
    writeFileSync(join(mounted, 'token'), 'first\n');
    const {hostname, port} = new URL(server.url);
    const environment = {KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port, HOME: mounted};
    const api = opened(loadConnection({}, {environment, serviceAccountFolder: mounted}));
    const tokens = new AgentTokens({api, namespace: 'svc-trace', file: undefined, now: () => 0});
    expect(await tokens.current()).toMatchObject({kind: 'token', token: 'first', owner: 'the ServiceAccount of this pod'});
    writeFileSync(join(mounted, 'token'), 'second\n');
    expect(await tokens.current()).toMatchObject({token: 'second'});
    expect(server.requests).toEqual([]);
  });
});

describe('a token file', () => {
  test('has precedence over all others, and is read for each request', async () => {
    const file = join(folder(), 'token');
    writeFileSync(file, ' abc\n');
    const tokens = new AgentTokens({api: outside(await cluster()), namespace: 'svc-trace', file, now: () => 0});
    expect(await tokens.current()).toMatchObject({kind: 'token', token: 'abc', what: `the token in ${file}`});
    writeFileSync(file, 'def');
    expect(await tokens.current()).toMatchObject({token: 'def'});
    writeFileSync(file, '\n');
    expect(await tokens.current()).toMatchObject({kind: 'none', reason: `no token for its agent: ${file} is empty`});
    rmSync(file);
    expect(await tokens.current()).toMatchObject({kind: 'none', reason: expect.stringContaining('no such file')});
  });
});
