import {describe, expect, onTestFinished, test} from 'vitest';
import {shapes} from '../../../src/collect/objects/api-shapes.ts';
import {createKubeApi} from '../../../src/collect/kube/create-kube-api.ts';
import {loadConnection} from '../../../src/collect/kube/load-connection.ts';
import {ObjectWatch, StringPool} from '../../../src/collect/watch/object-watch.ts';
import type {ServiceObject} from '../../../src/model/api-objects.ts';
import {type ApiServer, type ApiServerOptions, startApiServer} from '../../stand-in/api-server.ts';

const service = (name: string, more: object = {}) => ({
  metadata: {namespace: 'shop', name, ...more},
  spec: {clusterIP: '10.96.0.1', ports: [{port: 80, targetPort: 'http'}]},
  status: {conditions: []},
});

interface Started {
  readonly server: ApiServer;
  readonly watch: ObjectWatch<ServiceObject>;
  /** What came (`+`), changed (`~`) and went (`-`). */
  readonly changes: readonly string[];
}

async function start(options: ApiServerOptions & {readonly silenceMs?: number} = {}): Promise<Started> {
  const server = await startApiServer({objects: {services: [service('a'), service('b')]}, ...options});
  const api = createKubeApi(loadConnection({kubeconfig: server.kubeconfig}, {environment: {}}), {backoff: 1});
  const changes: string[] = [];
  const watch = new ObjectWatch<ServiceObject>(api, {
    ...{kind: 'services', path: '/api/v1/services', shape: shapes.services, strings: new StringPool(), backoffMs: 1},
    ...(options.silenceMs === undefined ? {} : {silenceMs: options.silenceMs}),
    onChange: ({object, before}) =>
      changes.push(`${before === undefined ? '+' : object === null ? '-' : '~'}${(object ?? before)?.metadata.name}`),
  });
  const stop = new AbortController();
  const running = watch.run(stop.signal);
  onTestFinished(async () => {
    stop.abort();
    await running;
    api.close();
    await server.close();
  });
  await expect.poll(() => watch.isListed).toBe(true);
  return {server, watch, changes};
}

const lists = ({requests}: ApiServer) =>
  requests.filter(({resource}) => resource?.verb === 'list').map(({query}) => query.get('resourceVersion'));
const watching = (server: ApiServer) => expect.poll(() => server.watches).toHaveLength(1);
const namesOf = (watch: ObjectWatch<ServiceObject>) => [...watch.objects.keys()].sort();

describe('a watch of all objects of a kind', () => {
  test('lists them from the watch cache, and follows additions, changes and deletions', async () => {
    const {server, watch, changes} = await start();
    expect(lists(server)).toEqual(['0']);
    await watching(server);
    server.store.put('services', service('c'));
    server.store.put('services', service('a'));
    server.store.remove('services', 'shop', 'b');
    await expect.poll(() => changes).toEqual(['+a', '+b', '+c', '~a', '-b']);
    expect(namesOf(watch)).toEqual(['shop/a', 'shop/c']);
    expect(watch.resourceVersion).toBe(String(server.store.revision));
    expect(lists(server)).toHaveLength(1);
  });

  test('keeps only the fields of an object that are used, and the newest time of its managedFields', async () => {
    const managedFields = [{manager: 'x', time: '2026-01-02T00:00:00Z', fieldsV1: {}}, {time: '2026-01-01T00:00:00Z'}];
    const annotations = {'kubectl.kubernetes.io/last-applied-configuration': '{}', 'service.kubernetes.io/topology-mode': 'Auto', own: 'x'};
    const {watch} = await start({objects: {services: [service('a', {managedFields, annotations})]}});
    expect(watch.objects.get('shop/a')).toEqual({
      metadata: {
        ...{namespace: 'shop', name: 'a', resourceVersion: expect.any(String)},
        annotations: {'service.kubernetes.io/topology-mode': 'Auto'},
        managedFields: [{time: '2026-01-02T00:00:00Z'}],
      },
      spec: {clusterIP: '10.96.0.1', ports: [{port: 80}]},
      status: {},
    });
  });

  test('uses bookmarks to resume from the latest version', async () => {
    const {server, watch} = await start();
    await watching(server);
    server.store.put('nodes', {metadata: {name: 'node-z'}});
    server.watches[0]?.bookmark();
    await expect.poll(() => watch.resourceVersion).toBe(String(server.store.revision));
  });

  test.each(['end', 'break'] as const)('a watch that has ended (%s) is resumed without another list', async how => {
    const {server, watch, changes} = await start();
    await watching(server);
    server.watches[0]?.bookmark();
    const known = String(server.store.revision);
    await expect.poll(() => watch.resourceVersion).toBe(known);
    server.watches[0]?.mute();
    server.store.put('services', service('c'));
    server.watches[0]?.[how]();
    await expect.poll(() => changes).toContain('+c');
    expect(lists(server)).toHaveLength(1);
    const resumed = server.requests.filter(({resource}) => resource?.verb === 'watch').at(-1);
    expect(resumed?.query.get('resourceVersion')).toBe(known);
    expect(watch.restarts[how === 'end' ? 'ended' : 'broken']).toBeGreaterThan(0);
  });

  test('a silent watch is resumed, and missed changes are recovered', async () => {
    const {server, changes} = await start({silenceMs: 100});
    await watching(server);
    server.watches[0]?.mute();
    server.store.put('services', service('c'));
    await expect.poll(() => changes).toContain('+c');
    expect(lists(server)).toHaveLength(1);
  });

  test.each([
    ['in an event', (server: ApiServer) => server.watches[0]?.fail(410)],
    [
      'as the answer',
      (server: ApiServer) => {
        server.store.forget();
        server.watches[0]?.break();
      },
    ],
  ])(
    'if the API server no longer has the next changes (410, %s), all is listed again, and deletions in between are noticed',
    async (_, expire) => {
      const {server, watch, changes} = await start();
      await watching(server);
      const known = watch.resourceVersion;
      server.watches[0]?.mute();
      server.store.remove('services', 'shop', 'b');
      expire(server);
      await expect.poll(() => changes).toEqual(['+a', '+b', '-b']);
      expect(namesOf(watch)).toEqual(['shop/a']);
      // None that is older than what was known.
      expect(lists(server)).toEqual(['0', known]);
      expect(watch.restarts.expired).toBeGreaterThan(0);
    },
  );

  test('an API server that is behind another causes a read from etcd', async () => {
    const {server, watch} = await start();
    await watching(server);
    server.faults.push({kind: 'status', status: 504, match: /services\?resourceVersion=\d+$/, message: 'Too large resource version'});
    server.watches[0]?.fail(410);
    await expect.poll(() => lists(server).at(-1)).toBeNull();
    await expect.poll(() => watch.lists).toBe(2);
  });

  test('while the API server refuses, the known objects and the reason are kept; then the watch continues', async () => {
    const {server, watch, changes} = await start();
    await watching(server);
    server.faults.push({kind: 'status', status: 403, match: /watch=1/, message: 'no'});
    server.watches[0]?.break();
    await expect.poll(() => watch.trouble).toContain('no');
    expect(namesOf(watch)).toEqual(['shop/a', 'shop/b']);
    server.faults.length = 0;
    server.store.put('services', service('c'));
    await expect.poll(() => changes).toContain('+c');
    expect(watch.trouble).toBeNull();
  });

  test('an unusable object is left out and reported, until it can be used', async () => {
    const unusable = {metadata: {namespace: 'shop', name: 'odd'}, spec: {ports: 'none'}};
    const {server, watch} = await start({objects: {services: [service('a'), unusable]}});
    expect(namesOf(watch)).toEqual(['shop/a']);
    expect(watch.problems).toEqual([expect.objectContaining({message: expect.stringContaining('spec.ports is not a list')})]);
    await watching(server);
    server.store.put('services', service('odd'));
    await expect.poll(() => namesOf(watch)).toEqual(['shop/a', 'shop/odd']);
    expect(watch.problems).toEqual([]);
  });
});
