import {afterEach, expect, onTestFinished, test} from 'vitest';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import type {KubeApi} from '../../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {watchServices} from '../../../src/collect/watch/service-watches.ts';
import type {ClusterScope} from '../../../src/collect/cluster/cluster-reader.ts';
import type {EndpointSliceObject, ServiceObject} from '../../../src/model/api-objects.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../../stand-in/api-server.ts';
import type {StoredObject} from '../../stand-in/object-store.ts';

const opened: {close(): void | Promise<void>}[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close();
});

async function start(options: ApiServerOptions = {}): Promise<{readonly server: ApiServer; readonly api: KubeApi}> {
  const server = await startApiServer(options);
  const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig}, {environment: {}}), {backoff: 1});
  opened.push(api, server);
  return {server, api};
}

const service = (name: string, port = 80): StoredObject => ({metadata: {namespace: 'shop', name}, spec: {ports: [{port}]}});
const slice = (name: string, owner: string): StoredObject => ({
  metadata: {namespace: 'shop', name, labels: {'kubernetes.io/service-name': owner}},
  addressType: 'IPv4',
});

/** As a list of the whole cluster finds it now. */
function listed({store}: ApiServer) {
  const version = String(store.revision);
  return {
    objects: {
      services: structuredClone(store.all('services')) as unknown as ServiceObject[],
      endpointSlices: structuredClone(store.all('endpointslices')) as unknown as EndpointSliceObject[],
    },
    versions: new Map([
      ['/api/v1/services', version],
      ['/apis/discovery.k8s.io/v1/endpointslices', version],
    ]),
  };
}

interface Given {
  readonly server: ApiServer;
  readonly api: KubeApi;
  readonly listed: ReturnType<typeof listed>;
  readonly scope?: ClusterScope;
  /** The versions at which the watches begin. */
  readonly from: readonly string[];
}

/** The events of the watches before the list, and those after it. */
function watch({api, scope = {kind: 'cluster'}, listed: before, from}: Given) {
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const {signal} = end;
  const later: string[] = [];
  const {past} = watchServices(
    api,
    {
      ...{...before, scope, from: from.map(version => ({version, isEarly: true})), backoffMs: 1, onRefused: () => {}},
      onChange: ({key, object}) => void later.push(`${object === null ? '-' : '+'}${key}`),
    },
    signal,
  );
  const parts = past ?? [];
  const changes = async () => {
    if ((await Promise.all(parts.map(({events}) => events.untilWhole()))).includes(false)) return null;
    const all = await Promise.all(
      parts.map(async ({kind, events}) => (await events.changesFrom(0, api, signal)).map(change => ({kind, ...change}))),
    );
    return all.flat().map(({kind, before: old, now}) => `${kind} ${nameOf(old)} -> ${nameOf(now)}`);
  };
  return {later, changes};
}

const nameOf = (object: {readonly metadata: {readonly name: string}} | null) => object?.metadata.name ?? null;
const requested = ({requests}: ApiServer, what: 'watch' | 'Exact') =>
  requests.filter(({query}) => (what === 'watch' ? query.has('watch') : query.get('resourceVersionMatch') === 'Exact'));

test('a watch delivers every change before the list, in order, and then the later ones', async () => {
  const {server, api} = await start();
  const {store} = server;
  store.put('services', service('web'));
  store.put('endpointslices', slice('web-1', 'web'));
  const from = [String(store.revision)];
  store.put('services', service('web', 81));
  store.put('services', service('brief'));
  store.remove('services', 'shop', 'brief');
  store.put('endpointslices', slice('web-1', 'other'));
  const now = listed(server);
  store.put('services', service('later'));
  store.remove('endpointslices', 'shop', 'web-1');
  const {changes, later} = watch({server, api, listed: now, from});
  expect(await changes()).toEqual(['Service web -> web', 'Service null -> brief', 'Service brief -> null', 'EndpointSlice web-1 -> web-1']);
  expect(later.toSorted()).toEqual(['+shop/later', '-shop/web-1']);
  expect([requested(server, 'watch').length, requested(server, 'Exact').length]).toEqual([2, 2]);
});

test('nothing is read if nothing changed', async () => {
  const {server, api} = await start();
  server.store.put('services', service('web'));
  const from = [String(server.store.revision)];
  const {changes} = watch({server, api, listed: listed(server), from});
  expect(await changes()).toEqual([]);
  expect([requested(server, 'watch').length, requested(server, 'Exact').length]).toEqual([2, 0]);
});

test('a bookmark with the version of the list ends the wait for earlier changes', async () => {
  const {server, api} = await start();
  server.store.put('services', service('web'));
  const from = [String(server.store.revision)];
  server.store.put('services', service('web', 81));
  const before = listed(server);
  // Its events never come: without the bookmark they would be waited for.
  const unheard = {...before, objects: {...before.objects, services: [...before.objects.services, unheardOf]}};
  const {changes} = watch({server, api, listed: unheard, from});
  await expect.poll(() => server.watches.length).toBe(2);
  for (const one of server.watches) one.bookmark();
  await expect(changes()).rejects.toThrow('the events do not lead to the list');
});

const unheardOf = {metadata: {namespace: 'shop', name: 'unheard', resourceVersion: '1002'}} as ServiceObject;

test('reads only the Services of the scope, without another list', async () => {
  const {server, api} = await start();
  const {store} = server;
  for (const name of ['web', 'other']) store.put('services', service(name));
  const from = [String(store.revision)];
  for (const name of ['web', 'other']) store.put('services', service(name, 81));
  const {objects} = listed(server);
  const asked = {services: objects.services.filter(({metadata}) => metadata.name === 'web'), endpointSlices: []};
  const path = '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices';
  const versions = new Map([[`${path}?labelSelector=kubernetes.io%2Fservice-name%3Dweb`, String(store.revision)]]);
  const scope = {kind: 'services', services: [{namespace: 'shop', name: 'web'}]} as const;
  const {changes} = watch({server, api, listed: {objects: asked, versions}, scope, from});
  expect(await changes()).toEqual(['Service web -> web']);
  expect(server.requests.map(({path: asks, query}) => `${asks} ${query.get('fieldSelector') ?? query.get('labelSelector')}`)).toEqual([
    '/api/v1/namespaces/shop/services metadata.name=web',
    `${path} kubernetes.io/service-name=web`,
    '/api/v1/namespaces/shop/services metadata.name=web',
  ]);
});

test('the next version is tried if one has expired, and the objects are watched in any case', async () => {
  const {server, api} = await start();
  const {store} = server;
  store.put('services', service('web'));
  const forgotten = String(store.revision);
  store.forget();
  const from = [forgotten, String(store.revision)];
  store.put('services', service('web', 81));
  const now = listed(server);
  const known = watch({server, api, listed: now, from});
  expect(await known.changes()).toEqual(['Service web -> web']);
  const lost = watch({server, api, listed: now, from: [forgotten]});
  expect(await lost.changes()).toBeNull();
  store.put('services', service('later'));
  await expect.poll(() => [known.later, lost.later]).toEqual([['+shop/later'], ['+shop/later']]);
});

test.each([400, 403, 410])('rejects if the API server refuses the earlier list with %i', async status => {
  const {server, api} = await start();
  server.store.put('services', service('web'));
  const from = [String(server.store.revision)];
  server.store.put('services', service('web', 81));
  server.faults.push({kind: 'status', match: /resourceVersionMatch=Exact/, status, times: 9});
  await expect(watch({server, api, listed: listed(server), from}).changes()).rejects.toMatchObject({status});
});

test('is unknown if a watch ends before it has reached the list', async () => {
  const {server, api} = await start();
  server.store.put('services', service('web'));
  const from = [String(server.store.revision)];
  const before = listed(server);
  const {changes, later} = watch({
    ...{server, api, from},
    listed: {...before, objects: {...before.objects, services: [...before.objects.services, unheardOf]}},
  });
  await expect.poll(() => server.watches.length).toBe(2);
  for (const one of [...server.watches]) one.break();
  expect(await changes()).toBeNull();
  await expect.poll(() => server.watches.length).toBe(2);
  server.store.put('services', service('later'));
  await expect.poll(() => later).toEqual(['+shop/later']);
});
