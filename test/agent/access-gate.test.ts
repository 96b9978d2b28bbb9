import {afterEach, beforeEach, describe, expect, test} from 'vitest';
import {AccessGate} from '../../src/agent/access-gate.ts';
import {createKubeApi} from '../../src/collect/kube/create-kube-api.ts';
import type {KubeApi} from '../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../src/collect/kube/load-connection.ts';
import {type ApiServer, startApiServer} from '../stand-in/api-server.ts';
import type {TokenUser} from '../stand-in/authentication.ts';
import {tokenRequest} from '../stand-in/reviews.ts';

let server: ApiServer;
let api: KubeApi;
let gate: AccessGate;
let now = 0;
/** Who may get /metrics. */
let readers = ['prometheus'];
let failures: (string | null)[] = [];

const tokens: Record<string, TokenUser> = {
  prometheus: {user: 'prometheus', groups: ['monitoring']},
  outsider: {user: 'outsider'},
  elsewhere: {user: 'prometheus', audiences: ['vault']},
};
const forAgents = tokenOf(['svc-trace-agent']);
const forOthers = tokenOf(['vault']);

/** Of the ServiceAccount `reader`, as the API server makes it. */
function tokenOf(audiences: readonly string[]): string {
  const resource = {verb: 'create', group: '', resource: 'serviceaccounts', subresource: 'token', namespace: 'svc-trace', name: 'reader'};
  const {body} = tokenRequest({spec: {audiences}}, resource as Parameters<typeof tokenRequest>[1], tokens);
  return (body as {readonly status: {readonly token: string}}).status.token;
}

beforeEach(async () => {
  [now, readers, failures] = [0, ['prometheus', 'system:serviceaccount:svc-trace:reader'], []];
  server = await startApiServer({
    tokens,
    allowUrl: ({verb, path}, {name}) => verb === 'get' && path === '/metrics' && readers.includes(name),
  });
  api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig}, {environment: {}}), {backoff: 1});
  gate = new AccessGate({api, now: () => now, onFailure: reason => failures.push(reason)});
});
afterEach(async () => {
  api.close();
  await server.close();
});

const admit = (token: string | null, {path = '/metrics', client = 'a'} = {}) => gate.admit({token, path, client});
const reviews = () => server.requests.map(({resource}) => resource?.resource);

describe('an agent admits', () => {
  test('a user whom the API server authenticates and allows to get the path', async () => {
    expect(await admit('prometheus')).toBe('allowed');
    expect(reviews()).toEqual(['tokenreviews', 'subjectaccessreviews']);
  });

  test('a token whose only audience is agents', async () => expect(await admit(forAgents)).toBe('allowed'));

  test('no request without a token, and requests no review for it', async () => {
    expect(await admit(null)).toBe('unauthenticated');
    expect(reviews()).toEqual([]);
  });

  test.each([
    ['that is unknown', 'nonsense'],
    ['for another audience', 'elsewhere'],
    ['that is a JWT for another audience', forOthers],
  ])('no request with a token %s', async (_, token) => expect(await admit(token)).toBe('unauthenticated'));

  test('no user to a path that the user may not get', async () => {
    expect(await admit('outsider')).toBe('forbidden');
    expect(await admit('prometheus', {path: '/result'})).toBe('forbidden');
  });
});

describe('a review by the API server', () => {
  test('is valid for a minute if it allows the request', async () => {
    await admit('prometheus');
    readers = [];
    now = 59_999;
    expect(await admit('prometheus')).toBe('allowed');
    now = 60_000;
    expect(await admit('prometheus')).toBe('forbidden');
  });

  test('is valid for ten seconds if it denies the request', async () => {
    expect(await admit('outsider')).toBe('forbidden');
    readers = ['outsider'];
    now = 9999;
    expect(await admit('outsider')).toBe('forbidden');
    now = 10_000;
    expect(await admit('outsider')).toBe('allowed');
  });

  test('is requested once for many concurrent requests', async () => {
    expect(new Set(await Promise.all(Array.from({length: 50}, () => admit('prometheus'))))).toEqual(new Set(['allowed']));
    expect(reviews()).toEqual(['tokenreviews', 'subjectaccessreviews']);
  });
});

describe('while the API server does not answer', () => {
  test('earlier reviews stay valid until they expire, and new clients are refused', async () => {
    await admit('prometheus');
    server.faults.push({kind: 'status', status: 503, match: /reviews/, times: 100});
    expect(await admit('prometheus')).toBe('allowed');
    expect(await admit(forAgents)).toBe('unavailable');
    now = 60_000;
    expect(await admit('prometheus')).toBe('unavailable');
  });

  test('a review is requested again, as after the API server closed a kept-alive connection', async () => {
    server.faults.push({kind: 'reset', match: /tokenreviews/, times: 1}, {kind: 'status', status: 500, match: /subjectaccess/, times: 2});
    expect(await admit('prometheus')).toBe('allowed');
  });

  test('the failure is reported once, and its end is reported once', async () => {
    server.faults.push({kind: 'status', status: 503, match: /tokenreviews/});
    for (let tries = 0; tries < 3; tries++) await admit(`token ${tries}`);
    server.faults.length = 0;
    for (let tries = 3; tries < 5; tries++) await admit(`token ${tries}`);
    expect(failures).toEqual([expect.stringMatching(/^cannot create tokenreviews: \S+ answered 503 /), null]);
    expect(gate.reviews).toEqual({answered: 2, failed: 3});
  });

  test('a review is given up at its timeout', async () => {
    server.faults.push({kind: 'hang', match: /tokenreviews/});
    gate = new AccessGate({api, now: () => now, timeoutMs: 300, onFailure: () => {}});
    expect(await admit('prometheus')).toBe('unavailable');
  });

  test.each([
    ['may not create reviews', {...tokens, weak: {user: 'agent'}}, /^not allowed to create tokenreviews/],
    ['is itself unknown', tokens, /does not accept/],
  ])('no request is admitted because the agent %s', async (_, known, reason) => {
    await server.close();
    server = await startApiServer({allow: () => false, tokens: known});
    api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig, token: 'weak'}, {environment: {}}), {backoff: 1});
    gate = new AccessGate({api, now: () => now, onFailure: text => failures.push(text)});
    expect(await admit('prometheus')).toBe('unavailable');
    expect(failures).toEqual([expect.stringMatching(reason)]);
  });

  test.each(['{}', '{"status":{"authenticated":true}}', '{"status":{"authenticated":"true","user":{"username":"x"}}}'])(
    'an invalid review admits no request: %s',
    async answer => {
      const invalid = {...api, create: async () => JSON.parse(answer)} as unknown as KubeApi;
      const other = new AccessGate({api: invalid, now: () => 0, onFailure: () => {}});
      expect(['unavailable', 'unauthenticated']).toContain(await other.admit({token: 'x', path: '/metrics', client: 'a'}));
    },
  );
});

describe('a flood of invalid tokens', () => {
  const flood = (count: number, client = 'a') =>
    Promise.all(Array.from({length: count}, (_, index) => admit(`wrong ${index} ${now}`, {client})));

  test('is not passed on to the API server', async () => {
    const all = [];
    for (now = 0; now < 1000; now += 10) all.push(...(await flood(10)));
    expect(all.filter(one => one === 'throttled').length).toBeGreaterThan(950);
    expect(reviews().length).toBeLessThan(40);
  });

  test('blocks neither a token that was admitted before, nor the token of another client', async () => {
    await admit('prometheus');
    for (now = 50_000; now <= 61_000; now += 100) await flood(20);
    now = 61_000;
    expect(await admit('prometheus')).toBe('allowed');
    expect(await admit(forAgents, {client: 'b'})).toBe('allowed');
    expect(await admit('outsider')).toBe('throttled');
  });
});
