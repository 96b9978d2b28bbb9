import {describe, expect, onTestFinished, test, vi} from 'vitest';
import {type Shape, shapes} from '../../../src/collect/objects/api-shapes.ts';
import {readApiList} from '../../../src/collect/bundle/read-bundle.ts';

const good = {metadata: {name: 'web', namespace: 'shop'}, spec: {clusterIP: '10.96.1.1', ports: [{port: 80}]}};

test.each([
  ['api/services.json', {kind: 'PodList', items: []}, 'PodList'],
  [
    'api/endpointslices.json',
    {
      kind: 'List',
      items: [
        {kind: 'EndpointSlice', metadata: {name: 'a'}},
        {kind: 'Pod', metadata: {name: 'a'}},
      ],
    },
    'Pod',
  ],
])('%s with objects of another kind is unread', (file, list, kind) => {
  const {items, problems} = readApiList(file, () => JSON.stringify(list), shapes.services);
  expect(items).toBeNull();
  expect(problems).toEqual([{message: `${file} was not read: it holds objects of another kind (${kind})`}]);
});

test.each(['NetworkPolicy', 'Endpoints', 'ServiceCIDR', 'ConfigMap'])('a list of kind %s is of its file', kind => {
  const name = {NetworkPolicy: 'networkpolicies', Endpoints: 'endpoints', ServiceCIDR: 'servicecidrs', ConfigMap: 'configmaps'}[kind];
  const read = (list: object) => readApiList(`api/${name}.json`, () => JSON.stringify(list), {fields: {}});
  expect(read({kind: `${kind}List`, items: [{kind, metadata: {name: 'a'}}]})).toMatchObject({items: [{kind}], problems: []});
});

describe('a file', () => {
  test('that does not exist is null, which is no problem by itself', () => {
    expect(readApiList('api/services.json', () => null, shapes.services)).toMatchObject({items: null, problems: []});
  });

  test.each([
    ['truncated', JSON.stringify({items: [good]}).slice(0, -20), 'is not valid JSON'],
    ['empty', '', 'is not valid JSON'],
    ['an object without items', '{"kind":"Status","message":"forbidden"}', 'holds no list'],
    ['one object, not a list', JSON.stringify(good), 'holds no list'],
    ['an array', JSON.stringify([good]), 'holds no list'],
    ['a number', '5', 'holds no list'],
    ['null', 'null', 'holds no list'],
    ['a list whose items are not an array', '{"items":{"0":{}}}', 'holds no list'],
  ])('that is %s is null, and the problem names the file', (_, text, words) => {
    const {items, problems} = readApiList('api/services.json', () => text, shapes.services);
    expect(items).toBeNull();
    expect(problems).toEqual([{message: expect.stringContaining(`api/services.json ${words}`)}]);
  });

  test('whose items are null, as Go prints an empty list, is empty', () => {
    expect(readApiList('api/services.json', () => '{"kind":"List","items":null}', shapes.services)).toMatchObject({
      items: [],
      problems: [],
    });
  });

  test('that is large is garbage once it is parsed, and an executable collects it; a small file is not worth it', () => {
    const gc = vi.fn();
    vi.stubGlobal('Bun', {gc});
    onTestFinished(() => {
      vi.unstubAllGlobals();
    });
    readApiList('api/services.json', () => '{"items":[]}', shapes.services);
    expect(gc).not.toHaveBeenCalled();
    readApiList('api/services.json', () => '{"items":[]}'.padEnd(16 << 20), shapes.services);
    expect(gc).toHaveBeenCalledExactlyOnceWith(true);
  });

  test('that is one page of several is read, and reported as incomplete', () => {
    const page = {metadata: {continue: 'eyJ2Ijoi'}, items: [good]};
    const {items, problems} = readApiList('api/services.json', () => JSON.stringify(page), shapes.services);
    expect(items).toHaveLength(1);
    expect(problems).toEqual([{message: expect.stringContaining('only the first page')}]);
  });
});

describe('an item', () => {
  test.each<[string, Shape, unknown, string]>([
    ['null', shapes.services, null, 'it is not an object'],
    ['a string', shapes.services, 'web', 'it is not an object'],
    ['without metadata', shapes.services, {spec: {}}, 'it has no metadata'],
    ['without a name', shapes.services, {metadata: {namespace: 'shop'}}, 'it has no metadata.name'],
    ['with a number for a name', shapes.services, {metadata: {name: 5}}, 'it has no metadata.name'],
    ['with a string for its spec', shapes.services, {...good, spec: 'x'}, 'its spec is not an object'],
    ['with a list for its labels', shapes.services, {...good, metadata: {name: 'web', labels: []}}, 'its metadata.labels is not an object'],
    ['with an object for its ports', shapes.services, {...good, spec: {ports: {}}}, 'its spec.ports is not a list'],
    ['with a string for a port', shapes.services, {...good, spec: {ports: [{port: '80'}]}}, 'its spec.ports[0].port is not a number'],
    ['with a number for its cluster IP', shapes.services, {...good, spec: {clusterIP: 10}}, 'its spec.clusterIP is not a string'],
    [
      'with a list for an address',
      shapes.services,
      {...good, status: {loadBalancer: {ingress: [{ip: []}]}}},
      'its status.loadBalancer.ingress[0].ip is not a string',
    ],
    [
      'with a string for its addresses',
      shapes.endpointSlices,
      {metadata: {name: 's'}, endpoints: [{addresses: '10.0.0.1'}]},
      'its endpoints[0].addresses is not a list',
    ],
    [
      'with a string for a condition',
      shapes.endpointSlices,
      {metadata: {name: 's'}, endpoints: [{conditions: {ready: 'yes'}}]},
      'its endpoints[0].conditions.ready is not a boolean',
    ],
    [
      'with null among its endpoints',
      shapes.endpointSlices,
      {metadata: {name: 's'}, endpoints: [null]},
      'its endpoints[0] is not an object',
    ],
    [
      'with a number for its pod network',
      shapes.nodes,
      {metadata: {name: 'n'}, spec: {podCIDRs: [10]}},
      'its spec.podCIDRs[0] is not a string',
    ],
    [
      'with a string for its containers',
      shapes.pods,
      {metadata: {name: 'p'}, spec: {containers: 'x'}},
      'its spec.containers is not a list',
    ],
  ])('%s is left out, and the problem names it and the reason', (_, shape, item, reason) => {
    const {items, problems} = readApiList('api/x.json', () => JSON.stringify({items: [good, item]}), shape);
    expect(items).toHaveLength(1);
    expect(problems).toEqual([{message: `api/x.json: item 1 is left out: ${reason}`}]);
  });

  test('with only a name is read, as every other field may be missing', () => {
    const bare = {metadata: {name: 'web'}};
    for (const shape of [shapes.services, shapes.endpointSlices, shapes.nodes, shapes.pods])
      expect(readApiList('x', () => JSON.stringify({items: [bare]}), shape)).toMatchObject({items: [bare], problems: []});
  });

  test('with fields that are null is read as if they were missing', () => {
    const item = {metadata: {name: 's'}, endpoints: null, ports: [{name: null, port: 80}]};
    expect(readApiList('x', () => JSON.stringify({items: [item]}), shapes.endpointSlices)).toMatchObject({
      items: [{metadata: {name: 's'}, ports: [{port: 80}]}],
      problems: [],
    });
  });

  test('may contain anything in fields that are not used', () => {
    const item = {...good, spec: {...good.spec, somethingNew: [5, {}]}, status: {conditions: 'odd'}};
    expect(readApiList('x', () => JSON.stringify({items: [item]}), shapes.services).problems).toEqual([]);
  });
});
