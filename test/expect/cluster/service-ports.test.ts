import {describe, expect, test} from 'vitest';
import {clusterIPOf, servicePorts, whyNotServed} from '../../../src/expect/cluster/cluster-view.ts';
import type {ServiceSpec} from '../../../src/model/api-objects.ts';
import {service} from '../../cluster.ts';
import {proxyVersion, version} from '../../kube-proxy.ts';

const web: ServiceSpec = {clusterIP: '10.96.1.1', ports: [{name: 'http', port: 80, protocol: 'TCP'}]};
const newest = proxyVersion('1.36');

const portOf = (spec: ServiceSpec, rest: Parameters<typeof service>[2] = {}, proxy = newest) =>
  servicePorts(service('shop/web', {...web, ...spec}, rest), 'IPv4', proxy)[0];

describe('a Service that kube-proxy does not serve (section 4.1)', () => {
  const why = (spec: ServiceSpec, labels: Readonly<Record<string, string>> = {}, minor = '1.36') =>
    whyNotServed(service('shop/web', spec, {metadata: {labels}}), version(minor));

  test('is headless', () => {
    expect(why({clusterIP: 'None'})).toMatch(/headless/);
  });

  test('is an ExternalName Service, even with a cluster IP', () => {
    expect(why({type: 'ExternalName', clusterIP: '10.96.1.1'})).toMatch(/ExternalName/);
  });

  test('has no cluster IP', () => {
    expect(why({clusterIP: ''})).toMatch(/no cluster IP/);
    expect(why({})).toMatch(/no cluster IP/);
  });

  test('is assigned to another proxy, whatever the label value', () => {
    for (const minor of ['1.21', '1.35', '1.36']) {
      expect(why(web, {'service.kubernetes.io/service-proxy-name': 'kube-router'}, minor)).toMatch(/another proxy/);
      expect(why(web, {'service.kubernetes.io/service-proxy-name': ''}, minor)).toMatch(/another proxy/);
    }
  });

  test('has the label of headless Services, up to 1.35', () => {
    const labels = {'service.kubernetes.io/headless': ''};
    expect(why(web, labels, '1.23')).toMatch(/headless/);
    expect(why(web, labels, '1.35')).toMatch(/headless/);
    expect(why(web, labels, '1.36')).toBeNull();
  });

  test('gives no Service port, and every other does', () => {
    expect(portOf({clusterIP: 'None'})).toBeUndefined();
    expect(why(web)).toBeNull();
    expect(portOf({})).toBeDefined();
  });
});

describe('the cluster IP of a family', () => {
  const both: ServiceSpec = {clusterIP: 'fd00:96::1', clusterIPs: ['fd00:96::1', '10.96.1.1'], ipFamilies: ['IPv6', 'IPv4']};
  const of = (spec: ServiceSpec, family: 'IPv4' | 'IPv6') => clusterIPOf(service('shop/web', spec), family);

  test('is at the index of the family in ipFamilies', () => {
    expect([of(both, 'IPv4'), of(both, 'IPv6')]).toEqual(['10.96.1.1', 'fd00:96::1']);
  });

  test('belongs to its own family if ipFamilies is missing', () => {
    expect([of({clusterIP: '10.96.1.1'}, 'IPv4'), of({clusterIP: '10.96.1.1'}, 'IPv6')]).toEqual(['10.96.1.1', null]);
    expect([of({clusterIP: 'fd00:96::1'}, 'IPv4'), of({clusterIP: 'fd00:96::1'}, 'IPv6')]).toEqual([null, 'fd00:96::1']);
  });

  test('is read from clusterIP if clusterIPs is missing', () => {
    expect(of({clusterIP: '10.96.1.1', ipFamilies: ['IPv4']}, 'IPv4')).toBe('10.96.1.1');
    expect(of({clusterIP: '10.96.1.1', ipFamilies: ['IPv4', 'IPv6']}, 'IPv6')).toBeNull();
  });

  test('is in canonical form', () => {
    expect(of({clusterIP: 'FD00:0096::0001', ipFamilies: ['IPv6'], clusterIPs: ['FD00:0096::0001']}, 'IPv6')).toBe('fd00:96::1');
  });

  test('decides whether a port exists: another address of the family does not', () => {
    const one = service('shop/web', {...web, externalIPs: ['fd00:99::8']}, {ingress: [{ip: 'fd00:99::7'}]});
    expect(servicePorts(one, 'IPv6', newest)).toEqual([]);
    expect(servicePorts(one, 'IPv4', newest)).toMatchObject([{externalIPs: [], loadBalancerVIPs: []}]);
  });
});

describe('a Service port', () => {
  test('has kube-proxy’s name and the hash of its chains', () => {
    const spec: ServiceSpec = {
      clusterIP: '10.96.0.10',
      ports: [
        {name: 'dns', port: 53, protocol: 'UDP'},
        {name: 'dns-tcp', port: 53, protocol: 'TCP'},
        {name: 'metrics', port: 9153},
      ],
    };
    expect(servicePorts(service('kube-system/kube-dns', spec), 'IPv4', newest)).toMatchObject([
      {servicePortName: 'kube-system/kube-dns:dns', protocol: 'UDP', hash: 'TCOU7JCQXEZGVUNU', port: 53, nodePort: 0},
      {servicePortName: 'kube-system/kube-dns:dns-tcp', protocol: 'TCP', hash: 'ERIFXISQEP7F7OF4'},
      {servicePortName: 'kube-system/kube-dns:metrics', protocol: 'TCP', hash: 'JD5MR3NA4I4DYORP', port: 9153},
    ]);
  });

  test('without a name has no colon in its name and its hash', () => {
    const spec: ServiceSpec = {clusterIP: '10.96.1.1', ports: [{port: 80}]};
    expect(servicePorts(service('default/hostnames', spec), 'IPv4', newest)).toMatchObject([
      {servicePortName: 'default/hostnames', portName: '', hash: 'YN5D6RYVEVZOH44Q'},
    ]);
  });

  test('of an invalid protocol, or without a number, does not exist', () => {
    expect(portOf({ports: [{name: 'x', port: 80, protocol: 'ICMP'}]})).toBeUndefined();
    expect(portOf({ports: [{name: 'x'}]})).toBeUndefined();
  });

  test('has external IPs and load-balancer addresses of its family, in their order and in canonical form', () => {
    const spec = {externalIPs: ['198.51.100.9', 'fd00::1', '198.051.100.008']};
    const ingress = [{ip: '203.0.113.7'}, {hostname: 'lb.example.org'}, {ip: 'fd00::7'}, {ip: '203.0.113.1'}];
    expect(portOf(spec, {ingress})).toMatchObject({
      externalIPs: ['198.51.100.9', '198.51.100.8'],
      loadBalancerVIPs: ['203.0.113.7', '203.0.113.1'],
    });
  });

  test.each([
    ['1.28', {}, true],
    ['1.29', {}, true],
    ['1.29', {LoadBalancerIPMode: true}, false],
    ['1.30', {}, false],
    ['1.30', {LoadBalancerIPMode: false}, true],
    ['1.34', {LoadBalancerIPMode: false}, true],
    ['1.35', {LoadBalancerIPMode: false}, false],
    ['1.36', {}, false],
  ])('ignores addresses of ipMode Proxy by version and gate: %s %j serves it: %s', (minor, gates, taken) => {
    const ingress = [
      {ip: '203.0.113.7', ipMode: 'Proxy'},
      {ip: '203.0.113.8', ipMode: 'VIP'},
    ];
    expect(portOf({}, {ingress}, proxyVersion(minor, gates))?.loadBalancerVIPs).toEqual(
      taken ? ['203.0.113.7', '203.0.113.8'] : ['203.0.113.8'],
    );
  });

  test.each([
    ['1.33', ['0.0.0.0/0', '10.0.0.0/8'], ['0.0.0.0/0', '10.0.0.0/8']],
    ['1.34', ['0.0.0.0/0', '10.0.0.0/8'], []],
    ['1.36', ['10.0.0.0/8'], ['10.0.0.0/8']],
    ['1.36', ['10.0.0.0/8', '::/0'], ['10.0.0.0/8']],
    ['1.36', ['::/0'], []],
    ['1.36', [' 10.1.2.3/8', 'x', '10.0.0.1', ''], ['10.0.0.0/8']],
  ])('has source ranges of its family: %s makes of %j %j', (minor, ranges, kept) => {
    expect(portOf({loadBalancerSourceRanges: ranges}, {}, proxyVersion(minor))?.sourceRanges).toEqual(kept);
  });

  test.each<readonly [string, ServiceSpec, boolean]>([
    ['1.36', {type: 'LoadBalancer', externalTrafficPolicy: 'Local'}, true],
    ['1.36', {type: 'NodePort', externalTrafficPolicy: 'Local'}, true],
    ['1.36', {type: 'NodePort', externalTrafficPolicy: 'Cluster'}, false],
    ['1.36', {type: 'NodePort'}, false],
    ['1.36', {type: 'ClusterIP', externalTrafficPolicy: 'Local'}, false],
    ['1.29', {type: 'ClusterIP', externalTrafficPolicy: 'Local', externalIPs: ['198.51.100.8']}, true],
    ['1.29', {type: 'ClusterIP', externalTrafficPolicy: 'Local', externalIPs: ['fd00::8']}, true],
    ['1.28', {type: 'ClusterIP', externalTrafficPolicy: 'Local', externalIPs: ['198.51.100.8']}, false],
  ])('has external policy Local by type and version: %s %j: %s', (minor, spec, local) => {
    expect(portOf(spec, {}, proxyVersion(minor))?.externalPolicyLocal).toBe(local);
  });

  test.each([
    ['1.21', {}, false],
    ['1.21', {ServiceInternalTrafficPolicy: true}, true],
    ['1.22', {}, true],
    ['1.36', {}, true],
  ])('has internal policy Local by version and gate: %s %j: %s', (minor, gates, local) => {
    expect(portOf({internalTrafficPolicy: 'Local'}, {}, proxyVersion(minor, gates))?.internalPolicyLocal).toBe(local);
    expect(portOf({internalTrafficPolicy: 'Cluster'}, {}, proxyVersion(minor, gates))?.internalPolicyLocal).toBe(false);
    expect(portOf({}, {}, proxyVersion(minor, gates))?.internalPolicyLocal).toBe(false);
  });

  test('has affinity with its timeout, three hours by default', () => {
    expect(portOf({})?.affinitySeconds).toBeNull();
    expect(portOf({sessionAffinity: 'None'})?.affinitySeconds).toBeNull();
    expect(portOf({sessionAffinity: 'ClientIP'})?.affinitySeconds).toBe(10800);
    expect(portOf({sessionAffinity: 'ClientIP', sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}})?.affinitySeconds).toBe(5);
  });

  test('has a health check if load balancers use it: LoadBalancer with external policy Local', () => {
    const local: ServiceSpec = {externalTrafficPolicy: 'Local', healthCheckNodePort: 32100};
    expect(portOf({...local, type: 'LoadBalancer'})?.healthCheckNodePort).toBe(32100);
    expect(portOf({...local, type: 'NodePort'})?.healthCheckNodePort).toBe(0);
    expect(portOf({...local, type: 'LoadBalancer', externalTrafficPolicy: 'Cluster'})?.healthCheckNodePort).toBe(0);
  });
});
