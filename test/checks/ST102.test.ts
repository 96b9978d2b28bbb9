import {expect, test} from 'vitest';
import type {SlicePort} from '../../src/model/api-objects.ts';
import {endpoint, slice} from '../cluster.ts';
import {type FindingSummary, containing, scenario} from '../scenario.ts';

test('a port whose name no slice has is reported with the names that they have', async () => {
  expect(await withSlicePorts('shop/web', [{name: 'web', port: 8080, protocol: 'TCP'}])).toEqual([
    finding('shop/web:http', 'no EndpointSlice has a port http/TCP', 'web 8080/TCP'),
  ]);
});

test('the name alone is not enough: the protocol must be the same', async () => {
  expect(await withSlicePorts('shop/web', [{name: 'http', port: 8080, protocol: 'UDP'}])).toEqual([
    finding('shop/web:http', 'no EndpointSlice has a port http/TCP', 'http 8080/UDP'),
  ]);
});

test('an unnamed port does not find the named port of a slice', async () => {
  expect(await withSlicePorts('shop/unnamed-port', [{name: 'http', port: 8080, protocol: 'TCP'}])).toEqual([
    finding('shop/unnamed-port:', 'no EndpointSlice has a port (unnamed)/TCP', 'http 8080/TCP'),
  ]);
});

test('each port without endpoints is a finding of its own, and the others stay silent', async () => {
  const ports = [
    {name: 'dns', port: 53, protocol: 'UDP'},
    {name: 'tcp', port: 53, protocol: 'TCP'},
  ];
  expect(await withSlicePorts('infra/dns', ports)).toEqual([
    finding('infra/dns:dns-tcp', 'no EndpointSlice has a port dns-tcp/TCP'),
    finding('infra/dns:metrics', 'no EndpointSlice has a port metrics/TCP'),
  ]);
});

test('two slices with the same port name and other port numbers are valid, and stay silent', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.addSlice(
    slice('shop/web', [endpoint('10.244.13.4', 'node-c')], {name: 'web-2', ports: [{name: 'http', port: 9090, protocol: 'TCP'}]}),
  );
  expect(given.newFindings()).toEqual([]);
});

test('a Service without any endpoint is ST101 and not this, whatever ports its slice names', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.slices('shop/web', whole => ({...whole, endpoints: [], ports: [{name: 'web', port: 8080, protocol: 'TCP'}]}));
  expect(given.newFindings().map(({code}) => code)).toEqual(['ST101']);
});

test('slices with endpoints and without any port name the targetPort that no container has', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.service('shop/web', service => ({
    ...service,
    spec: {...service.spec, ports: (service.spec?.ports ?? []).map(port => ({...port, targetPort: 'htttp'}))},
  }));
  given.slices('shop/web', whole => ({...whole, ports: []}));
  expect(given.newFindings()).toEqual([
    finding('shop/web:http', 'they have endpoints and no port: no container of the pods has a port named htttp (targetPort)'),
  ]);
});

async function withSlicePorts(service: string, ports: readonly SlicePort[]): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  given.leaveOutNodes();
  given.slices(service, whole => ({...whole, ports}));
  return given.newFindings();
}

function finding(subject: string, ...words: readonly string[]): FindingSummary {
  return {code: 'ST102', severity: 'warning', family: 'IPv4', subject, message: containing(...words, 'refused')};
}
