import {describe, expect, test} from 'vitest';
import {addManifests, serviceNotes} from '../../src/preview/manifests/add-manifests.ts';
import {parseEndpoint, slicesOf} from '../../src/run/rules/planned-objects.ts';
import type {ServiceObject, ServiceSpec} from '../../src/model/api-objects.ts';
import {apiObjects, service, slice} from '../cluster.ts';

describe('a planned Service', () => {
  const ports = [{name: 'http', port: 80, targetPort: 8080}];
  const specOf = (spec: ServiceSpec, ...before: readonly ServiceObject[]) => applied(spec, ...before).service?.spec;

  test('gets placeholders for what the API server would allocate, and they are listed', () => {
    const {service: planned, notes} = applied({type: 'NodePort', ports});
    expect(planned?.spec).toMatchObject({
      clusterIP: '198.18.0.1',
      clusterIPs: ['198.18.0.1'],
      ipFamilies: ['IPv4'],
      ports: [{nodePort: 30_000, protocol: 'TCP'}],
    });
    expect(notes).toEqual([
      'shop/web has no cluster IP yet; 198.18.0.1 stands in for it',
      'shop/web has no node port yet; 30000 stands in for it',
    ]);
  });

  test('of two families gets an address of each, and the second if it only has the first', () => {
    const {service: planned, notes} = applied({ipFamilyPolicy: 'RequireDualStack', ports});
    expect(planned?.spec).toMatchObject({clusterIPs: ['198.18.0.1', '2001:db8:198::1'], ipFamilies: ['IPv4', 'IPv6']});
    expect(notes).toEqual(['shop/web has no cluster IPs yet; 198.18.0.1 and 2001:db8:198::1 stand in for them']);
    const added = applied({ipFamilyPolicy: 'PreferDualStack', clusterIP: '10.96.1.1', ports});
    expect(added.notes).toEqual(['shop/web has no second cluster IP yet; 2001:db8:198::1 stands in for it']);
    const single = service('shop/other', {clusterIP: '10.96.0.9', ports});
    expect(specOf({ipFamilyPolicy: 'PreferDualStack', clusterIP: '10.96.1.1', ports}, single)?.clusterIPs).toEqual(['10.96.1.1']);
  });

  test('is served in the families of its addresses, as the API server fills them in', () => {
    expect(specOf({clusterIP: 'fd00::1', clusterIPs: ['fd00::1', '10.96.1.1'], ports})?.ipFamilies).toEqual(['IPv6', 'IPv4']);
  });

  test('of type LoadBalancer gets a health check port with a Local policy, and no node ports where they are not wanted', () => {
    const {service: planned, notes} = applied({
      ...{type: 'LoadBalancer', externalTrafficPolicy: 'Local', allocateLoadBalancerNodePorts: false},
      ...{clusterIP: '10.96.1.1', ports},
    });
    expect(planned?.spec?.healthCheckNodePort).toBe(30_000);
    expect(planned?.spec?.ports?.[0]?.nodePort).toBeUndefined();
    expect(notes).toEqual(['shop/web has no health check node port yet; 30000 stands in for it']);
  });

  test('keeps its cluster IP and node port', () => {
    const before = service('shop/web', {type: 'NodePort', clusterIP: '10.96.1.1', ports: [{name: 'http', port: 80, nodePort: 30_080}]});
    const {service: planned, notes, services} = applied({type: 'NodePort', ports}, before);
    expect(services).toHaveLength(1);
    expect(planned?.spec).toMatchObject({clusterIPs: ['10.96.1.1'], ports: [{nodePort: 30_080}]});
    expect(notes).toEqual([]);
    const renumbered = specOf({type: 'NodePort', ports: [{name: 'http', port: 81}]}, before);
    expect(renumbered?.ports?.[0]?.nodePort).toBe(30_080);
    expect(specOf({ports: [{name: 'http', port: 80, nodePort: 30_080}]}, before)?.ports?.[0]?.nodePort).toBeUndefined();
  });

  test('keeps both cluster IPs if it names the first, and the addresses of its load balancer if it has an empty status', () => {
    const before = {
      ...service('shop/web', {type: 'LoadBalancer', clusterIP: '10.96.1.1', clusterIPs: ['10.96.1.1', 'fd00::1'], ports}),
      status: {loadBalancer: {ingress: [{ip: '192.0.2.7'}]}},
    };
    const {service: planned} = applied({type: 'LoadBalancer', clusterIP: '10.96.1.1', ports}, before);
    expect(planned?.spec?.clusterIPs).toEqual(['10.96.1.1', 'fd00::1']);
    expect(planned?.status).toEqual(before.status);
    expect(applied({clusterIP: '10.96.1.1', ports}, before).service?.status?.loadBalancer?.ingress ?? []).toEqual([]);
  });

  test('that is there twice is applied once, as the last', () => {
    const planned = [service('shop/web', {clusterIP: '10.96.1.1', ports}), service('shop/web', {clusterIP: '10.96.1.2', ports})];
    const result = addManifests(apiObjects({services: []}), {services: planned, endpointSlices: [], nodes: []});
    expect(result).toMatchObject({api: {services: [{spec: {clusterIP: '10.96.1.2'}}]}});
  });

  test('of type ExternalName stays unchanged', () => {
    expect(applied({type: 'ExternalName'}).notes).toEqual([]);
  });

  function applied(spec: ServiceSpec, ...before: readonly ServiceObject[]) {
    const {api, notes} = result(spec, ...before);
    const services = api.services ?? [];
    return {services, notes, service: services.find(({metadata}) => metadata.name === 'web')};
  }

  function result(spec: ServiceSpec, ...before: readonly ServiceObject[]) {
    const found = apply(spec, ...before);
    if (typeof found === 'string') throw new Error(found);
    return found;
  }
});

describe('the API server would refuse', () => {
  const ports = [{name: 'http', port: 80}];
  const dual = {clusterIP: '10.96.1.1', clusterIPs: ['10.96.1.1', 'fd00::1'], ipFamilies: ['IPv4', 'IPv6'], ports};
  const local = {type: 'LoadBalancer', externalTrafficPolicy: 'Local', healthCheckNodePort: 30_500, clusterIP: '10.96.1.1', ports};

  test.each<readonly [string, ServiceSpec, ServiceSpec, string]>([
    ['another cluster IP', {clusterIP: '10.96.1.2', ports}, {clusterIP: '10.96.1.1', ports}, 'spec.clusterIPs[0] is 10.96.1.1'],
    ['another second cluster IP', {...dual, clusterIPs: ['10.96.1.1', 'fd00::2']}, dual, 'spec.clusterIPs[1] is fd00::1'],
    ['a cluster IP for a headless Service', {clusterIP: '10.96.1.2', ports}, {clusterIP: 'None', ports}, 'spec.clusterIPs[0] is None'],
    ['no cluster IP any more', {clusterIP: 'None', ports}, {clusterIP: '10.96.1.1', ports}, 'cannot change to None'],
    ['another first family', {ipFamilies: ['IPv6'], ports}, dual, 'spec.ipFamilies[0] is IPv4 and cannot change to IPv6'],
    ['one address fewer', {...dual, clusterIPs: ['10.96.1.1'], ipFamilies: ['IPv4']}, dual, 'must be SingleStack'],
    ['another health check port', {...local, healthCheckNodePort: 30_501}, local, 'healthCheckNodePort is 30500'],
    [
      'a node port of a ClusterIP Service',
      {ports: [{port: 80, nodePort: 30_080}]},
      {clusterIP: '10.96.1.1', ports},
      'nodePort cannot be set',
    ],
    [
      'a Local policy without an external address',
      {externalTrafficPolicy: 'Local', ports},
      {clusterIP: '10.96.1.1', ports},
      'no externalIPs',
    ],
    ['a health check port without a Local policy', {healthCheckNodePort: 30_500, ports}, {clusterIP: '10.96.1.1', ports}, 'needs type'],
  ])('%s', (_, spec, before, why) => {
    const found = apply(spec, service('shop/web', before));
    expect(found).toMatch(/^the API server would refuse Service shop\/web: /);
    expect(found).toContain(why);
  });

  test.each<readonly [string, ServiceSpec, string]>([
    ['the address of another Service', {clusterIP: '10.96.1.1', ports}, 'the cluster IP 10.96.1.1 belongs to shop/other'],
    ['its address in another spelling', {clusterIP: 'fd00:0::1', ports}, 'the cluster IP fd00:0::1 belongs to shop/other'],
    [
      'a node port of another Service',
      {type: 'NodePort', ports: [{port: 80, nodePort: 30_500}]},
      'the node port 30500 belongs to shop/other',
    ],
  ])('%s', (_, spec, why) => {
    expect(apply(spec, service('shop/other', {...local, ...dual}))).toContain(why);
  });

  test.each<readonly [string, ServiceSpec, ServiceSpec]>([
    ['a change to ExternalName', {type: 'ExternalName', externalName: 'example.com'}, {clusterIP: '10.96.1.1', ports}],
    ['a cluster IP for what was ExternalName', {clusterIP: '10.96.1.2', ports}, {type: 'ExternalName'}],
    ['a second address', {...dual, ipFamilyPolicy: 'PreferDualStack'}, {clusterIP: '10.96.1.1', ports}],
    ['one address fewer with SingleStack', {ipFamilyPolicy: 'SingleStack', ports}, dual],
    ['its cluster IP in another spelling', {clusterIP: 'fd00:0::1', ports}, {clusterIP: 'fd00::1', ports}],
    ['the same fields after a change of type', {...local, type: 'ClusterIP'}, local],
    ['a policy for external IPs', {externalIPs: ['192.0.2.1'], externalTrafficPolicy: 'Local', ports}, {clusterIP: '10.96.1.1', ports}],
  ])('not %s', (_, spec, before) => {
    expect(apply(spec, service('shop/web', before))).not.toBeTypeOf('string');
  });
});

describe('of Services that somebody asks for', () => {
  const version = {text: 'v1.37.0', minor: 37, patch: 0};
  const asked = [
    service('shop/ext', {type: 'ExternalName'}),
    service('shop/head', {clusterIP: 'None', ports: [{port: 80}]}),
    service('shop/empty', {clusterIP: '10.96.1.1', ports: [{port: 80}]}),
    service('shop/web', {clusterIP: '10.96.1.2', ports: [{port: 80}]}),
  ];

  test('those without rules or endpoints are named', () => {
    const endpointSlices = [slice('shop/web', [{addresses: ['10.0.0.1']}])];
    expect(serviceNotes(apiObjects({services: asked, endpointSlices}), asked, version)).toEqual([
      expect.stringMatching(/^shop\/ext has no rules of kube-proxy: it is of type ExternalName/),
      expect.stringMatching(/^shop\/head has no rules of kube-proxy: it is headless/),
      expect.stringMatching(/^shop\/empty has no endpoints: connections to it are refused/),
    ]);
  });
});

function apply(spec: ServiceSpec, ...before: readonly ServiceObject[]) {
  const planned = {services: [service('shop/web', spec)], endpointSlices: [], nodes: []};
  return addManifests(apiObjects({services: before}), planned);
}

describe('the EndpointSlices of a Service whose ports change', () => {
  const selector = {app: 'web'};
  const http = {name: 'http', port: 80, targetPort: 'web-port'};
  const before = service('shop/web', {clusterIP: '10.96.1.1', selector, ports: [http]});
  const endpoints = [{addresses: ['10.0.0.1']}];
  const slices = [
    slice('shop/web', endpoints, {ports: [{name: 'http', port: 8080, protocol: 'TCP'}]}),
    slice('shop/other', endpoints, {ports: [{name: 'http', port: 8080, protocol: 'TCP'}]}),
  ];

  function rewritten(spec: ServiceSpec, known = slices, was = before) {
    const planned = {services: [service('shop/web', spec)], endpointSlices: [], nodes: []};
    const found = addManifests(apiObjects({services: [was], endpointSlices: known}), planned);
    if (typeof found === 'string') throw new Error(found);
    return {notes: found.notes, ports: (found.api.endpointSlices ?? []).map(({ports}) => ports), slices: found.api.endpointSlices};
  }

  test('have another name of a port, its new number, and ports that are added, as the controller will write them', () => {
    expect(rewritten({selector, ports: [{...http, name: 'web'}]})).toMatchObject({
      notes: [],
      ports: [[{name: 'web', port: 8080, protocol: 'TCP'}], [{name: 'http', port: 8080}]],
    });
    const more = rewritten({
      selector,
      ports: [
        {...http, targetPort: 9090},
        {name: 'dns', port: 53, protocol: 'UDP'},
      ],
    });
    expect(more.ports[0]).toEqual([
      {name: 'http', port: 9090, protocol: 'TCP'},
      {name: 'dns', port: 53, protocol: 'UDP'},
    ]);
  });

  test('lack a port whose target has a name that no port had, and a note says so', () => {
    const {notes, ports} = rewritten({selector, ports: [http, {name: 'admin', port: 81, targetPort: 'admin-port'}]});
    expect(ports[0]).toEqual([{name: 'http', port: 8080, protocol: 'TCP'}]);
    expect(notes).toEqual([
      'the number of target port admin-port of shop/web is not known: it has no endpoints here (add its EndpointSlice with -f)',
    ]);
  });

  test('stay as they are if the ports do, whatever they hold', () => {
    const strange = [slice('shop/web', endpoints, {ports: [{name: 'http', port: 1234, protocol: 'TCP'}]})];
    const numbered = service('shop/web', {clusterIP: '10.96.1.1', selector, ports: [{port: 80, targetPort: 8080}]});
    expect(rewritten({selector, ports: [{port: 80, targetPort: 8080, protocol: 'TCP'}]}, strange, numbered).slices).toEqual(strange);
    expect(rewritten({selector, ports: [{...http, port: 81}]}).slices).toEqual(slices);
  });

  test('stay as they are if somebody else writes them', () => {
    expect(rewritten({ports: [{...http, name: 'web'}]}).slices).toEqual(slices);
    const mesh = [slice('shop/web', endpoints, {labels: {'endpointslice.kubernetes.io/managed-by': 'mesh'}})];
    expect(rewritten({selector, ports: [{...http, name: 'web'}]}, mesh).slices).toEqual(mesh);
  });

  test('are those of other pods if the selector changes: a note says so', () => {
    expect(rewritten({selector: {app: 'shop'}, ports: [http]}).notes).toEqual([
      "shop/web selects other pods then: today's endpoints stand in for them",
    ]);
  });
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
