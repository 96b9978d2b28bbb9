import {describe, expect, test} from 'vitest';
import {addManifests} from '../../src/preview/manifests/add-manifests.ts';
import {parseEndpoint, slicesOf} from '../../src/preview/manifests/endpoint-flag.ts';
import type {ServiceSpec} from '../../src/model/api-objects.ts';
import {apiObjects, service} from '../cluster.ts';

describe('a planned Service', () => {
  const ports = [{name: 'http', port: 80, targetPort: 8080}];

  test('gets placeholders for what the API server would allocate, and they are listed', () => {
    const {api, notes} = applied({type: 'NodePort', ports});
    expect(api.services?.[0]?.spec).toMatchObject({
      clusterIP: '198.18.0.1',
      clusterIPs: ['198.18.0.1'],
      ports: [{nodePort: 30_000, protocol: 'TCP'}],
    });
    expect(notes).toEqual([
      'shop/web has no cluster IP yet; 198.18.0.1 stands in for it',
      'shop/web has no node ports yet; 30000 stand in for them',
    ]);
  });

  test('keeps its cluster IP and node port', () => {
    const before = service('shop/web', {type: 'NodePort', clusterIP: '10.96.1.1', ports: [{name: 'http', port: 80, nodePort: 30_080}]});
    const {api, notes} = applied({type: 'NodePort', ports}, before);
    expect(api.services).toHaveLength(1);
    expect(api.services?.[0]?.spec).toMatchObject({clusterIPs: ['10.96.1.1'], ports: [{nodePort: 30_080}]});
    expect(notes).toEqual([]);
  });

  test('of type ExternalName stays unchanged', () => {
    expect(applied({type: 'ExternalName'}).notes).toEqual([]);
  });

  function applied(spec: ServiceSpec, ...before: readonly ReturnType<typeof service>[]) {
    const planned = {services: [service('shop/web', spec)], endpointSlices: [], nodes: []};
    return addManifests(apiObjects({services: before}), planned);
  }
});

describe('an endpoint on the command line', () => {
  test.each([
    ['10.0.0.1', {address: '10.0.0.1', family: 'IPv4', port: null, node: null}],
    ['10.0.0.1:8080@node-a', {address: '10.0.0.1', family: 'IPv4', port: 8080, node: 'node-a'}],
    ['fd00::1', {address: 'fd00::1', family: 'IPv6', port: null, node: null}],
    ['[fd00::1]:8080', {address: 'fd00::1', family: 'IPv6', port: 8080, node: null}],
    ['10.0.0.1:0', null],
    ['10.0.0.1@', null],
    ['web', null],
  ])('%s', (text, endpoint) => {
    expect(parseEndpoint(text)).toEqual(endpoint);
  });

  test('needs a port number if the target port is a name', () => {
    const web = service('shop/web', {ports: [{port: 80, targetPort: 'http'}]});
    expect(slicesOf(web, [{address: '10.0.0.1', family: 'IPv4', port: null, node: null}])).toBe('http');
  });
});
