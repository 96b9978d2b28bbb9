import {describe, expect, test} from 'vitest';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import {parseNftName, portNames} from '../../../src/expect/nftables/nft-names.ts';
import type {ServicePort} from '../../../src/model/service-port.ts';
import {apiObjects, endpoint, service, slice} from '../../cluster.ts';

describe('the names of the objects that kube-proxy creates for a Service port', () => {
  // Names that real kube-proxies wrote.
  test.each([
    ['default/kubernetes', 'https', 'service-2QRHZV4L-default/kubernetes/tcp/https'],
    ['shop/unnamed-port', '', 'service-T5JN5A62-shop/unnamed-port/tcp/'],
    ['shop/web', 'http', 'service-KHN6ECMT-shop/web/tcp/http'],
  ])('%s %s', (name, portName, chain) => {
    expect(portNames(portOf(name, portName)).service).toBe(chain);
  });

  test('an endpoint’s address has dots in place of colons', () => {
    const {port, endpoints} = served('infra/dual', 'metrics', 'fd00:10:244:11::9', 9153);
    expect(endpoints.map(portNames(port).endpoint)).toEqual(['endpoint-NMETAHQD-infra/dual/tcp/metrics__fd00.10.244.11..9/9153']);
  });

  test('the affinity set of an endpoint is named as its chain', () => {
    const {port, endpoints} = served('shop/sticky', 'http', '10.244.11.4', 8080);
    expect(endpoints.map(portNames(port).affinity)).toEqual(['affinity-CYVGBI76-shop/sticky/tcp/http__10.244.11.4/8080']);
  });

  test('a name longer than 240 characters is truncated', () => {
    const long = 'n'.repeat(63);
    const {port, endpoints} = served(`${long}/${'s'.repeat(63)}`, 'p'.repeat(63), 'fd00:1111:2222:3333:4444:5555:6666:7777', 65_535);
    const name = portNames(port).endpoint(endpoints[0] ?? expect.fail());
    expect(name).toMatch(/^endpoint-[A-Z2-7]{8}-n{63}\/s{63}\/tcp\/p{63}__.*\.\.\.$/);
    expect(name.length).toBe('endpoint-'.length + 240);
  });
});

describe('a parsed name', () => {
  test.each([
    ['service-KHN6ECMT-shop/web/tcp/http', 'service', 'shop/web:http'],
    ['external-T5JN5A62-shop/unnamed-port/tcp/', 'external', 'shop/unnamed-port'],
    ['endpoint-NR6LSU5V-shop/unnamed-port/tcp/__10.244.11.4/8080', 'endpoint', 'shop/unnamed-port'],
    ['affinity-CYVGBI76-shop/sticky/tcp/http__10.244.11.4/8080', 'affinity', 'shop/sticky:http'],
  ])('%s', (name, role, servicePortName) => {
    expect(parseNftName(name)).toMatchObject({role, servicePortName});
  });

  test.each(['services', 'service-ips', 'service-endpoints-check', 'firewall-check', 'nodeport-ips'])(
    '%s belongs to no Service port',
    name => {
      expect(parseNftName(name)).toBeNull();
    },
  );
});

function portOf(name: string, portName: string): ServicePort {
  return served(name, portName, '10.244.11.4', 8080).port;
}

function served(name: string, portName: string, address: string, number: number) {
  const six = address.includes(':');
  const clusterIP = six ? 'fd00:96::1' : '10.96.1.1';
  const api = apiObjects({
    services: [service(name, {clusterIP, clusterIPs: [clusterIP], ports: [{name: portName, port: 80, protocol: 'TCP'}]})],
    endpointSlices: [slice(name, [endpoint(address)], {ports: [{name: portName, port: number, protocol: 'TCP'}]})],
  });
  const proxy = {version: {text: 'v1.36.0', minor: 36, patch: 0}, gates: {}};
  const [entry] = new ClusterView(api).entries(six ? 'IPv6' : 'IPv4', proxy);
  if (entry === undefined) throw new Error('the Service is not served');
  return {port: entry.port, endpoints: entry.set.endpoints};
}
