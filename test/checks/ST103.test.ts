import {expect, test} from 'vitest';
import type {EndpointAddress, EndpointsObject} from '../../src/model/api-objects.ts';
import {type EndpointSetup, endpoint, slice} from '../cluster.ts';
import {type FindingSummary, containing, scenario} from '../scenario.ts';

test('an address that is ready in one slice and not in another is reported with both states', async () => {
  expect(await withSecond('node-a', {ready: false, serving: false})).toEqual([
    {
      ...{code: 'ST103', severity: 'warning', family: 'IPv4', subject: 'shop/web:http', endpoint: '10.244.11.4:8080'},
      message: containing(
        '10.244.11.4:8080 is given 2 times',
        'EndpointSlice web-khxfr: 10.244.11.4:8080 ready on node-a',
        'EndpointSlice web-2: 10.244.11.4:8080 not ready on node-a',
      ),
    },
  ]);
});

test('an address on two nodes at once is reported', async () => {
  expect((await withSecond('node-b', {ready: true})).map(({code, message}) => [code, message])).toEqual([
    ['ST103', containing('on node-a', 'on node-b')],
  ]);
});

test('an address on two nodes in the Endpoints object, which is read where there are no slices, is reported with its name', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  const [ofA, ofB] = ['node-a', 'node-b'].map(nodeName => endpointsOf('web', [{ip: '10.244.11.4', nodeName}]));
  given.api(() => ({
    endpointSlices: null,
    endpoints: [{...ofA, metadata: {namespace: 'shop', name: 'web'}, subsets: [...(ofA?.subsets ?? []), ...(ofB?.subsets ?? [])]}],
  }));
  expect(
    given
      .newFindings()
      .filter(({code}) => code === 'ST103')
      .map(({message}) => message),
  ).toEqual([containing('Endpoints object web: 10.244.11.4:8080 ready on node-a; Endpoints object web: 10.244.11.4:8080 ready on node-b')]);
});

test('the same endpoint in two slices that agree stays silent, as while the controller moves it', async () => {
  expect(await withSecond('node-a', {ready: true, serving: true, terminating: false})).toEqual([]);
});

test('conditions that are left out count as their defaults, and stay silent', async () => {
  expect(await withSecond('node-a', {})).toEqual([]);
});

test('the same address at another port is another endpoint, and stays silent', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  const ports = [{name: 'http', port: 9090, protocol: 'TCP'}];
  given.addSlice(slice('shop/web', [endpoint('10.244.11.4', 'node-a', {ready: false})], {name: 'web-2', ports}));
  expect(given.newFindings()).toEqual([]);
});

test('an address that somebody added to the Endpoints of a Service with a selector is reported, as slices do not get it', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.api(() => ({endpoints: [endpointsOf('web', [{ip: '10.244.11.4', targetRef: {kind: 'Pod', name: 'web-1'}}, {ip: '192.0.2.7'}])]}));
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST103', severity: 'warning', subject: 'shop/web'},
      message: containing('its Endpoints object has 192.0.2.7 without a pod', 'kube-proxy reads slices, and sends nothing there'),
    },
  ]);
});

test('Endpoints that the controller wrote a moment before the slices, and those of a Service without a selector, stay silent', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.api(() => ({
    endpoints: [
      endpointsOf('web', [{ip: '10.244.11.250', targetRef: {kind: 'Pod', name: 'web-9'}}]),
      endpointsOf('manual', [{ip: '192.0.2.7'}]),
    ],
  }));
  expect(given.newFindings()).toEqual([]);
});

test('a copy of Endpoints that was made while a Service had no selector is reported, as nobody updates it', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  const labels = {'endpointslice.kubernetes.io/managed-by': 'endpointslicemirroring-controller.k8s.io'};
  const copied = (service: string) =>
    given.api(({endpointSlices}) => ({
      endpointSlices: (endpointSlices ?? []).map(({metadata, ...each}) => ({
        ...each,
        metadata: {
          ...metadata,
          labels: {...metadata.labels, ...(metadata.labels?.['kubernetes.io/service-name'] === service ? labels : {})},
        },
      })),
    }));
  copied('manual');
  expect(given.newFindings()).toEqual([]);
  copied('nodal');
  expect(given.newFindings()).toMatchObject([
    {code: 'ST103', message: containing('shop/nodal has a selector', 'no controller updates that')},
  ]);
});

function endpointsOf(name: string, addresses: readonly EndpointAddress[]): EndpointsObject {
  return {metadata: {namespace: 'shop', name}, subsets: [{addresses, ports: [{name: 'http', port: 8080, protocol: 'TCP'}]}]};
}

async function withSecond(node: string, setup: EndpointSetup): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  given.leaveOutNodes();
  const ports = [{name: 'http', port: 8080, protocol: 'TCP'}];
  given.addSlice(slice('shop/web', [endpoint('10.244.11.4', node, setup)], {name: 'web-2', ports}));
  return given.newFindings();
}
