import {describe, expect, test} from 'vitest';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import type {ApiObjects} from '../../../src/model/snapshot.ts';
import {apiObjects, endpoint, service, slice} from '../../cluster.ts';
import {proxyVersion} from '../../kube-proxy.ts';

const web = service('shop/web', {
  clusterIP: '10.96.1.1',
  ports: [
    {name: 'http', port: 80},
    {name: 'https', port: 443},
  ],
});
const headless = service('shop/db', {clusterIP: 'None', ports: [{port: 5432}]});
const six = service('shop/six', {clusterIP: 'fd00:96::1', ipFamilies: ['IPv6'], clusterIPs: ['fd00:96::1'], ports: [{port: 80}]});
const ports = [{name: 'http', port: 8080}];

const entries = (api: Partial<ApiObjects>, minor = '1.36', gates = {}, family: 'IPv4' | 'IPv6' = 'IPv4') =>
  new ClusterView(apiObjects(api))
    .entries(family, proxyVersion(minor, gates))
    .map(({port, set}) => [port.servicePortName, ...set.endpoints.map(({hostPort}) => hostPort)]);

describe('the view of a cluster', () => {
  const endpointSlices = [
    slice('shop/web', [endpoint('10.244.1.5')], {ports}),
    slice('shop/web', [endpoint('10.244.1.6')], {ports, name: 'web-2'}),
    slice('other/web', [endpoint('10.244.1.7')], {ports}),
    slice('shop/deleted', [endpoint('10.244.1.8')], {ports}),
  ];

  test('has every Service port with the endpoints of all its slices', () => {
    expect(entries({services: [web, headless], endpointSlices})).toEqual([
      ['shop/web:http', '10.244.1.5:8080', '10.244.1.6:8080'],
      ['shop/web:https'],
    ]);
  });

  test('contains one family', () => {
    expect(entries({services: [web, six], endpointSlices}, '1.36', {}, 'IPv6')).toEqual([['shop/six']]);
  });

  test('without Services is empty, and without slices its Service ports have no endpoints', () => {
    expect(entries({endpointSlices})).toEqual([]);
    expect(entries({services: [web], endpointSlices: null})).toEqual([['shop/web:http'], ['shop/web:https']]);
  });

  test('is computed once for each version', () => {
    const view = new ClusterView(apiObjects({services: [web], endpointSlices}));
    expect(view.entries('IPv4', proxyVersion('1.36.1'))).toBe(view.entries('IPv4', proxyVersion('1.36.2')));
    expect(view.entries('IPv4', proxyVersion('1.35'))).not.toBe(view.entries('IPv4', proxyVersion('1.36')));
    expect(view.entries('IPv4', proxyVersion('1.36', {A: true}))).not.toBe(view.entries('IPv4', proxyVersion('1.36')));
    expect(view.entries('IPv6', proxyVersion('1.36'))).not.toBe(view.entries('IPv4', proxyVersion('1.36')));
  });

  describe('with Endpoints', () => {
    const endpoints = [{metadata: {name: 'web', namespace: 'shop'}, subsets: [{addresses: [{ip: '10.244.9.9'}], ports}]}];

    test('reads slices anyway', () => {
      expect(entries({services: [web], endpointSlices, endpoints})[0]).toEqual(['shop/web:http', '10.244.1.5:8080', '10.244.1.6:8080']);
      expect(entries({services: [web], endpointSlices, endpoints}, '1.21')[0]).toContain('10.244.1.5:8080');
    });

    test('reads them if kube-proxy 1.21 is configured to', () => {
      const gates = {EndpointSliceProxying: false};
      expect(entries({services: [web], endpointSlices, endpoints}, '1.21', gates)[0]).toEqual(['shop/web:http', '10.244.9.9:8080']);
      expect(entries({services: [web], endpointSlices, endpoints}, '1.22', gates)[0]).toContain('10.244.1.5:8080');
    });

    test('reads them if there are no slices', () => {
      expect(entries({services: [web], endpointSlices: null, endpoints})[0]).toEqual(['shop/web:http', '10.244.9.9:8080']);
    });
  });
});
