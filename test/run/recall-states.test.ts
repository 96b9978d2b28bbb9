import {afterEach, expect, onTestFinished, test} from 'vitest';
import {createKubeApi} from '../../src/collect/kube/create-kube-api.ts';
import type {KubeApi} from '../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../src/collect/kube/load-connection.ts';
import type {EndpointSliceObject, ServiceObject} from '../../src/model/api-objects.ts';
import {watchServices} from '../../src/collect/watch/service-watches.ts';
import {earlierVersions, recallStates} from '../../src/run/follow-services.ts';
import {type ApiServer, startApiServer} from '../stand-in/api-server.ts';
import type {StoredObject} from '../stand-in/object-store.ts';

const opened: {close(): void | Promise<void>}[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

const trueListedAt = Date.parse('2026-06-01T12:00:00Z');
const secondsBefore = (seconds: number) => new Date(trueListedAt - seconds * 1000).toISOString().replace('.000', '');

async function start(): Promise<{readonly server: ApiServer; readonly api: KubeApi}> {
  const server = await startApiServer();
  const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig}, {environment: {}}), {backoff: 1});
  opened.push(api, server);
  return {server, api};
}

/** Writes the slice of a Service as the API server notes it: to the second. */
function write({store}: ApiServer, name: string, secondsAgo: number): void {
  const metadata = {
    namespace: 'shop',
    name,
    labels: {'kubernetes.io/service-name': name},
    managedFields: [{time: secondsBefore(secondsAgo)}],
  };
  store.put('endpointslices', {metadata, addressType: 'IPv4', endpoints: [{addresses: [`10.0.0.${secondsAgo}`]}]} as StoredObject);
}

/** In this order, each so many seconds ago. */
function writeAll(server: ApiServer, slices: readonly (readonly [name: string, secondsAgo: number])[]): void {
  for (const [name, secondsAgo] of slices) write(server, name, secondsAgo);
}

/** Other objects are written as well, which the tests do not read. */
function others({store}: ApiServer, count: number): void {
  for (let index = 0; index < count; index++) store.put('leases', {metadata: {namespace: 'kube-node-lease', name: 'node-a'}});
}

/** The states since 15 s before the list, by a clock here that is ahead of the API server's by so much. */
async function recall({server, api}: {readonly server: ApiServer; readonly api: KubeApi}, clockAheadMs = 0) {
  const {store} = server;
  const version = String(store.revision);
  const listedAt = trueListedAt + clockAheadMs;
  const since = listedAt - 15_000;
  const objects = {
    services: structuredClone(store.all('services')) as unknown as ServiceObject[],
    endpointSlices: structuredClone(store.all('endpointslices')) as unknown as EndpointSliceObject[],
    ...{endpoints: null, nodes: null, pods: null, configMaps: null},
  };
  const versions = new Map([
    ['/api/v1/services', version],
    ['/apis/discovery.k8s.io/v1/endpointslices', version],
  ]);
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const {signal} = end;
  const from = earlierVersions({objects, versions, listedAt, clockAheadMs}, since);
  const {past} = watchServices(api, {...cluster, objects, versions, from, onChange: () => {}, onRefused: () => {}}, signal);
  const ahead = new Proxy(api, {get: (target, key) => (key === 'clockAheadMs' ? clockAheadMs : Reflect.get(target, key).bind?.(target))});
  return past === null ? null : recallStates({api: ahead, past, listedAt, signal}, since);
}

const cluster = {scope: {kind: 'cluster'}} as const;

test('the changes of the last seconds are recovered with their times', async () => {
  const {server, api} = await start();
  writeAll(server, [
    ['old', 600],
    ['web', 300],
    ['web', 12],
    ['web', 4],
    ['web', 1],
  ]);
  const history = await recall({server, api});
  expect(history?.since).toBe(trueListedAt - 15_000);
  expect(history?.changes.map(({at, before}) => [at - trueListedAt, (before as EndpointSliceObject).endpoints?.[0]?.addresses])).toEqual([
    [-11_500, ['10.0.0.300']],
    [-3500, ['10.0.0.12']],
    [-500, ['10.0.0.4']],
  ]);
});

test('the latest version that is early enough by later changes is requested', async () => {
  const {server, api} = await start();
  write(server, 'old', 600);
  others(server, 600);
  for (const ago of [40, 20, 10, 3]) {
    write(server, 'web', ago);
    others(server, 10);
  }
  const history = await recall({server, api});
  expect(history?.changes.length).toBeLessThan(5);
  const asked = server.requests
    .filter(({query}) => query.get('resourceVersionMatch') === 'Exact')
    .map(({query}) => query.get('resourceVersion'));
  expect(Number(asked.at(-1))).toBeGreaterThan(1001 + 500);
});

test('no state is recovered if no object shows that a version is early enough', async () => {
  const {server, api} = await start();
  for (const ago of [9, 5, 2]) write(server, 'web', ago);
  expect(await recall({server, api})).toBeNull();
});

test('an object whose time was not updated with its version does not count as old', async () => {
  const {server, api} = await start();
  write(server, 'web', 9);
  write(server, 'backdated', 600);
  write(server, 'web', 2);
  write(server, 'other', 8);
  write(server, 'backdated', 600);
  expect(await recall({server, api})).toBeNull();
});

test('times are those of the local clock, although that of the API server differs', async () => {
  const {server, api} = await start();
  writeAll(server, [
    ['old', 600],
    ['web', 300],
    ['web', 4],
  ]);
  const history = await recall({server, api}, 90_000);
  expect(history?.changes.map(({at}) => at - trueListedAt)).toEqual([90_000 - 3500]);
});

test('is null if the resourceVersion has expired', async () => {
  const {server, api} = await start();
  writeAll(server, [
    ['old', 600],
    ['web', 300],
    ['web', 4],
  ]);
  server.store.forget();
  expect(await recall({server, api})).toBeNull();
});

test('a version before the expired ones is tried, and used if an older object shows that it is early enough', async () => {
  const {server, api} = await start();
  write(server, 'old', 46);
  server.store.forget();
  for (const ago of [22, 21, 20, 19, 18, 17, 9]) write(server, 'web', ago);
  expect((await recall({server, api}))?.changes).toMatchObject([{at: trueListedAt - 8500}]);
});

test('a deletion is dated before the next change, and before the list', async () => {
  const {server, api} = await start();
  writeAll(server, [
    ['old', 600],
    ['gone', 300],
    ['late', 300],
    ['web', 12],
  ]);
  server.store.remove('endpointslices', 'shop', 'gone');
  write(server, 'web', 4);
  server.store.remove('endpointslices', 'shop', 'late');
  write(server, 'web', 0);
  const history = await recall({server, api});
  expect(history?.changes.map(({at, before, now}) => [at - trueListedAt, before?.metadata.name, now?.metadata.name])).toEqual([
    [-11_500, undefined, 'web'],
    [-3500, 'gone', undefined],
    [-3500, 'web', 'web'],
    [-1, 'late', undefined],
    [-1, 'web', 'web'],
  ]);
});

test('a change whose object has an old time does not count as older than the change before it', async () => {
  const {server, api} = await start();
  writeAll(server, [
    ['old', 600],
    ['other', 12],
    ['backdated', 600],
    ['web', 4],
  ]);
  const history = await recall({server, api});
  expect(history?.changes.map(({at}) => at - trueListedAt)).toEqual([-11_500, -3500, -3500]);
});

test('no object counts as old if the API server does not record its update time', async () => {
  const {server, api} = await start();
  const slice = {addressType: 'IPv4', endpoints: []};
  for (const name of ['old', 'web', 'web', 'old'])
    server.store.put('endpointslices', {metadata: {namespace: 'shop', name, creationTimestamp: secondsBefore(600)}, ...slice});
  expect(await recall({server, api})).toBeNull();
});
