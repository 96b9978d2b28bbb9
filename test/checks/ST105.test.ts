import {expect, test} from 'vitest';
import {type FindingSummary, containing, scenario} from '../scenario.ts';

test('an IPv6 external IP of an IPv4 Service is reported', async () => {
  expect(await withExternalIPs('shop/external-ips', ['2001:db8::10'])).toEqual([
    finding('shop/external-ips', 'external IP 2001:db8::10 is IPv6, and the Service has only IPv4'),
  ]);
});

test('an IPv4 load-balancer IP of an IPv6 Service is reported', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.service('infra/six', object => ({...object, status: {loadBalancer: {ingress: [{ip: '203.0.113.99'}]}}}));
  expect(given.newFindings()).toEqual([finding('infra/six', 'load-balancer IP 203.0.113.99 is IPv4, and the Service has only IPv6')]);
});

test('an invalid external IP is reported', async () => {
  expect(await withExternalIPs('shop/external-ips', ['198.51.100.300'])).toEqual([
    finding('shop/external-ips', 'external IP 198.51.100.300 is no IP address'),
  ]);
});

test('a dual-stack Service may have addresses of both families and stays silent', async () => {
  expect(await withExternalIPs('infra/dual', ['198.51.100.20', '2001:db8::20'])).toEqual([]);
});

test('a load balancer with a host name and no address stays silent', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.service('shop/lb-pending', object => ({...object, status: {loadBalancer: {ingress: [{hostname: 'lb.example.com'}]}}}));
  expect(given.newFindings()).toEqual([]);
});

async function withExternalIPs(name: string, externalIPs: readonly string[]): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  given.leaveOutNodes();
  given.service(name, object => ({...object, spec: {...object.spec, externalIPs}}));
  return given.newFindings();
}

function finding(subject: string, words: string): FindingSummary {
  return {code: 'ST105', severity: 'warning', subject, message: containing(words, 'no node serves it')};
}
