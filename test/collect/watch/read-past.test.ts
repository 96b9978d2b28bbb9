import {afterEach, expect, test} from 'vitest';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import type {KubeApi} from '../../../src/collect/kube/kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {type Past, readPast} from '../../../src/collect/watch/read-past.ts';
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

const signal = new AbortController().signal;
const nameOf = (object: {readonly metadata: {readonly name: string}} | null) => object?.metadata.name ?? null;
const shown = (past: Past | null) => past?.changes.map(({kind, before, now}) => `${kind} ${nameOf(before)} -> ${nameOf(now)}`);

test('tells every change between an earlier resourceVersion and a list, in order, and none of later', async () => {
  const {server, api} = await start();
  const {store} = server;
  store.put('services', service('web'));
  store.put('endpointslices', slice('web-1', 'web'));
  const version = String(store.revision);
  store.put('services', service('web', 81));
  store.put('services', service('brief'));
  store.remove('services', 'shop', 'brief');
  store.put('endpointslices', slice('web-1', 'other'));
  const now = listed(server);
  store.put('services', service('later'));
  store.remove('endpointslices', 'shop', 'web-1');
  const past = await readPast(api, {scope: {kind: 'cluster'}, ...now, version, signal});
  expect(shown(past)).toEqual(['Service web -> web', 'Service null -> brief', 'Service brief -> null', 'EndpointSlice web-1 -> web-1']);
  expect(past?.changes[0]).toMatchObject({before: {spec: {ports: [{port: 80}]}}, now: {spec: {ports: [{port: 81}]}}});
  expect(past?.objects.map(nameOf)).toEqual(['web', 'web-1']);
});

test('reads no more than the Services of the scope', async () => {
  const {server, api} = await start();
  const {store} = server;
  for (const name of ['web', 'other']) store.put('services', service(name));
  const version = String(store.revision);
  for (const name of ['web', 'other']) store.put('services', service(name, 81));
  const {objects} = listed(server);
  const asked = {services: objects.services.filter(({metadata}) => metadata.name === 'web'), endpointSlices: []};
  const scope = {kind: 'services', services: [{namespace: 'shop', name: 'web'}]} as const;
  const past = await readPast(api, {scope, objects: asked, versions: new Map(), version, signal});
  expect(shown(past)).toEqual(['Service web -> web']);
  const paths = new Set(server.requests.map(({path, query}) => `${path} ${query.get('fieldSelector') ?? query.get('labelSelector')}`));
  expect(paths).toEqual(
    new Set([
      '/api/v1/namespaces/shop/services metadata.name=web',
      '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices kubernetes.io/service-name=web',
    ]),
  );
});

test('is null where the API server has forgotten the version', async () => {
  const {server, api} = await start();
  server.store.put('services', service('web'));
  const version = String(server.store.revision);
  server.store.put('services', service('web', 81));
  server.store.forget();
  expect(await readPast(api, {scope: {kind: 'cluster'}, ...listed(server), version, signal})).toBeNull();
});

test.each([400, 403, 410])('is null where the API server refuses with %i', async status => {
  const {server, api} = await start();
  server.store.put('services', service('web'));
  const version = String(server.store.revision);
  server.faults.push({kind: 'status', match: /resourceVersionMatch=Exact/, status, times: 9});
  expect(await readPast(api, {scope: {kind: 'cluster'}, ...listed(server), version, signal})).toBeNull();
});

test('is null where the events do not lead to what was listed', async () => {
  const {server, api} = await start();
  const {store} = server;
  store.put('services', service('web'));
  const version = String(store.revision);
  const {objects, versions} = listed(server);
  const unheard = {...objects, services: [...objects.services, {metadata: {namespace: 'shop', name: 'unheard', resourceVersion: '7'}}]};
  expect(await readPast(api, {scope: {kind: 'cluster'}, objects: unheard, versions, version, signal})).toBeNull();
});
