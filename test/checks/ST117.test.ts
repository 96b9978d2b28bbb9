import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

test('an endpoint that is the cluster IP of a Service is reported, with the Service', async () => {
  expect(await withEndpoint({addresses: ['10.96.0.1']})).toEqual([
    ['warning', containing('shop/web:http', '10.96.0.1:', 'which is the cluster IP of default/kubernetes')],
  ]);
});

test('an endpoint that is a node port is reported for its own node, and is not taken for a program that listens there', async () => {
  const given = await scenario();
  given.slices('shop/manual', slice => ({
    ...slice,
    ports: (slice.ports ?? []).map(port => ({...port, port: 30080})),
    endpoints: [{addresses: ['172.18.0.12'], conditions: {ready: true}}],
  }));
  given.leaveOutNodes();
  expect(given.newFindings().map(({code, message}) => [code, message])).toEqual([
    ['ST117', containing('shop/manual:db', 'from their own node (172.18.0.12:30080, which is the node port of shop/nodeport:http)')],
  ]);
});

test.each([
  ['is a server outside', {addresses: ['192.0.2.7']}],
  ['has a node, as pods have', {addresses: ['10.96.0.1'], nodeName: 'node-a'}],
])('an endpoint that %s is not', async (_, endpoint) => {
  expect(await withEndpoint(endpoint)).toEqual([]);
});

async function withEndpoint(endpoint: {readonly addresses: readonly string[]; readonly nodeName?: string}) {
  const given = await scenario();
  given.slices('shop/web', slice => ({...slice, endpoints: [{...endpoint, conditions: {ready: true}}]}));
  const found = given.findings().filter(({code}) => code === 'ST117');
  return found.map(({severity, message}) => [severity, message]);
}
