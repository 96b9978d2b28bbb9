import {expect, test} from 'vitest';
import {noReadyEndpoint} from '../../src/checks/objects/ready-endpoints.ts';
import {unusualEntries} from '../../src/checks/objects/node-ports-and-target-ports.ts';
import type {ClusterContext} from '../../src/checks/check-types.ts';
import {ClusterView} from '../../src/expect/cluster/cluster-view.ts';
import type {EndpointSliceObject, SliceEndpoint, SlicePort} from '../../src/model/api-objects.ts';
import {apiObjects, endpoint, gone, leaving, service, slice} from '../cluster.ts';

const usual = [endpoint('10.244.1.1', 'node-a'), endpoint('10.244.1.2', 'node-b')];
const ports: SlicePort[] = [{name: 'http', port: 8080, protocol: 'TCP'}];
const admin = {name: 'admin', port: 9090, protocol: 'TCP'};

test('ready endpoints without hints on nodes of the cluster are usual', () => {
  expect(unusual([slice('shop/web', usual, {ports})])).toEqual([]);
});

test('one endpoint among others that any check may report is unusual', () => {
  const third = (...rest: [node?: string, setup?: Parameters<typeof endpoint>[2]]) => [
    slice('shop/web', [...usual, endpoint('10.244.1.3', ...rest)], {ports}),
  ];
  const slices: Record<string, readonly EndpointSliceObject[]> = {
    'no endpoint (ST101)': [slice('shop/web', [], {ports})],
    'no slice (ST101)': [],
    'another port name (ST102)': [slice('shop/web', usual, {ports: [{name: 'https', port: 8443, protocol: 'TCP'}]})],
    'not ready (ST101)': third('node-a', gone),
    'terminating (ST101)': third('node-a', leaving),
    'given twice with different content (ST103)': [
      slice('shop/web', usual, {ports}),
      slice('shop/web', [endpoint('10.244.1.2', 'node-a')], {name: 'web-2', ports}),
    ],
    'a zone hint (ST104)': third('node-a', {zones: ['zone-1']}),
    'a node hint (ST104)': third('node-a', {nodes: ['node-a']}),
    'no node (ST108)': third(),
    'an unknown node (ST108, ST109)': third('node-x'),
  };
  for (const [what, given] of Object.entries(slices)) expect(unusual(given), what).toEqual(['shop/web:http']);
});

test('without Nodes every name of a node is usual, and a missing one is not', () => {
  const withoutNodes = (endpoints: readonly SliceEndpoint[]): ClusterContext => {
    const context = contextOf([slice('shop/web', endpoints, {ports})]);
    return {...context, api: {...context.api, nodes: null}};
  };
  expect(unusualEntries(withoutNodes([endpoint('10.244.1.1', 'node-x')]))).toEqual([]);
  expect(unusualEntries(withoutNodes([endpoint('10.244.1.1')]))).toHaveLength(1);
});

test('ST101 is about one port of a Service if only this one has no usable endpoint, although the other is usual', () => {
  const slices = [
    slice('shop/web', usual, {ports}),
    slice('shop/web', [endpoint('10.244.1.1', 'node-a', gone)], {name: 'web-2', ports: [admin]}),
  ];
  const context = contextOf(slices, [admin]);
  const found = [...(noReadyEndpoint.cluster?.(context) ?? [])];
  expect(found.map(({port, message}) => [port?.name, message.split(' has ')[0]])).toEqual([['admin', 'shop/web:admin']]);
});

function unusual(slices: readonly EndpointSliceObject[]): readonly string[] {
  return unusualEntries(contextOf(slices)).map(({port}) => port.servicePortName);
}

/** Service shop/web with port http and others, and two nodes. */
function contextOf(endpointSlices: readonly EndpointSliceObject[], others: readonly (typeof admin)[] = []): ClusterContext {
  const http = {name: 'http', port: 80, protocol: 'TCP'};
  const web = service('shop/web', {clusterIP: '10.96.0.10', ports: [http, ...others]});
  const nodes = ['node-a', 'node-b'].map(name => ({metadata: {name}}));
  const api = apiObjects({services: [web], endpointSlices, nodes});
  const proxy = {version: {text: 'v1.34.0', minor: 34, patch: 0}, gates: {}};
  return {api, view: new ClusterView(api), proxy, services: [web], byName: false};
}
