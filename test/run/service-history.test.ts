import {describe, expect, test} from 'vitest';
import type {EndpointSliceObject, ServiceObject} from '../../src/model/api-objects.ts';
import type {ApiObjects} from '../../src/model/snapshot.ts';
import {ServiceHistory} from '../../src/run/service-history.ts';

const old = '2026-01-01T00:00:00Z';
const start = Date.parse('2026-06-01T00:00:00Z');
const key = 'shop/web';

const service = (version: number, name = 'web'): ServiceObject => ({
  metadata: {namespace: 'shop', name, resourceVersion: String(version), creationTimestamp: old},
});

const slice = (version: number, written = old): EndpointSliceObject => ({
  metadata: {
    ...{namespace: 'shop', name: 'web-1', resourceVersion: String(version), creationTimestamp: old},
    labels: {'kubernetes.io/service-name': 'web'},
    managedFields: [{time: written}],
  },
});

const otherSlice: EndpointSliceObject = {
  metadata: {namespace: 'shop', name: 'other-1', resourceVersion: '8', labels: {'kubernetes.io/service-name': 'other'}},
};

const api = (services: readonly ServiceObject[], endpointSlices: readonly EndpointSliceObject[]): ApiObjects => ({
  ...{services, endpointSlices, endpoints: null, nodes: null, pods: null, configMaps: null},
});

const sliceEvent = (object: EndpointSliceObject | null) => ({kind: 'EndpointSlice', key: 'shop/web-1', object}) as const;

describe('a change that a watch delivers', () => {
  test('is stored with its time, and leaves all states known', () => {
    const history = new ServiceHistory(api([service(1)], [slice(2)]), start);
    history.note(sliceEvent(slice(3)), start + 500);
    expect(history.states.changes).toEqual([{kind: 'EndpointSlice', at: start + 500, before: slice(2), now: slice(3)}]);
    expect(history.knownSince(key)).toBe(Date.parse(old));
    expect([history.hasChanged(key, start), history.hasChanged(key, start + 500)]).toEqual([true, false]);
  });

  test('is not stored twice if a list shows it again', () => {
    const history = new ServiceHistory(api([service(1)], [slice(2)]), start);
    history.note(sliceEvent(slice(3)), start + 500);
    history.update(api([service(1)], [slice(3)]), start + 1000);
    expect(history.states.changes).toHaveLength(1);
  });

  test('is not undone by an older list', () => {
    const history = new ServiceHistory(api([service(1)], [slice(2)]), start);
    history.note({kind: 'Service', key: 'shop/new', object: service(9, 'new')}, start + 400);
    history.note(sliceEvent(null), start + 500);
    history.update(api([service(1)], [slice(2)]), start + 1000);
    expect(history.states.changes.map(({kind, now}) => [kind, now === null])).toEqual([
      ['Service', false],
      ['EndpointSlice', true],
    ]);
  });

  test('is discarded after some time, and then states are known since then', () => {
    const history = new ServiceHistory(api([service(1)], [slice(2, '2026-06-01T00:00:30Z')]), start);
    history.note(sliceEvent(slice(3, '2026-06-01T00:01:40Z')), start + 100_000);
    history.forgetBefore(start + 120_000);
    expect(history.states).toEqual({since: start + 120_000, changes: []});
    expect(history.knownSince(key)).toBe(start + 100_000);
  });
});

describe('the time since which states are known', () => {
  test('is that of a list that shows a change that no watch delivered', () => {
    const history = new ServiceHistory(api([service(1)], [slice(2)]), start);
    history.update(api([service(1)], [slice(5)]), start + 4000);
    expect(history.states.changes).toMatchObject([{at: start + 4000, after: start}]);
    expect(history.knownSince(key)).toBe(start + 4000);
  });

  test('is the start for a Service that changed shortly before, and for one that does not exist', () => {
    const history = new ServiceHistory(api([service(1)], [slice(2, '2026-06-01T00:00:05Z')]), start);
    expect(history.knownSince(key)).toBe(start);
    expect(history.knownSince('shop/gone')).toBe(start);
  });

  test('is that of the read of all Services, for a Service that was not in the first read', () => {
    const history = new ServiceHistory({...api([service(1)], [slice(2)]), namespaces: []}, start);
    history.update(api([service(1), service(7, 'other')], [slice(2)]), start + 2000);
    expect(history.states.changes).toEqual([]);
    expect(history.knownSince('shop/missing')).toBe(start + 2000);
  });

  test('slices of Services that were not in the first read are not changes when all are read', () => {
    const history = new ServiceHistory({...api([service(1)], [slice(2)]), namespaces: []}, start);
    history.update(api([service(1), service(7, 'other')], [slice(2), otherSlice]), start + 2000);
    expect(history.states.changes).toEqual([]);
  });

  test('Services outside of a narrower read are not deleted', () => {
    const history = new ServiceHistory({...api([service(1)], [slice(2)]), namespaces: []}, start);
    history.update(api([service(1), service(7, 'other')], [slice(2), otherSlice]), start + 2000);
    history.update({...api([service(1)], [slice(2)]), namespaces: []}, start + 4000);
    expect(history.states.changes).toEqual([]);
    history.update({...api([], []), namespaces: []}, start + 6000);
    expect(history.states.changes.map(({kind, now}) => [kind, now])).toEqual([
      ['Service', null],
      ['EndpointSlice', null],
    ]);
  });
});
