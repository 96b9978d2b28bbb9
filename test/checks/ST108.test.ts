import {expect, test} from 'vitest';
import type {SliceEndpoint} from '../../src/model/api-objects.ts';
import {type FindingSummary, containing, scenario} from '../scenario.ts';

test('an internal Local policy whose endpoints name no node is reported', async () => {
  expect(await withEndpoints('shop/internal-local', endpoints => endpoints.map(({nodeName: _, ...rest}) => rest))).toEqual([
    finding('shop/internal-local:http', 'internalTrafficPolicy is Local', 'none of its endpoints names a node'),
  ]);
});

test('an external Local policy whose endpoints name no node is reported', async () => {
  expect(await withEndpoints('shop/nodeport-local', endpoints => endpoints.map(({nodeName: _, ...rest}) => rest))).toEqual([
    finding('shop/nodeport-local:http', 'externalTrafficPolicy is Local', 'none of its endpoints names a node'),
  ]);
});

test('endpoints that are all on deleted nodes are reported here and not a second time as ST109', async () => {
  expect(await withEndpoints('shop/internal-local', endpoints => endpoints.map(one => ({...one, nodeName: 'node-x'})))).toEqual([
    finding('shop/internal-local:http', 'none of its endpoints is on a node of this cluster'),
  ]);
});

test('one usable endpoint that knows its node is enough to stay silent', async () => {
  const more = {addresses: ['10.244.12.6'], conditions: {ready: true}};
  expect(await withEndpoints('shop/internal-local', endpoints => [...endpoints, more])).toEqual([]);
});

test('a Cluster policy needs no node names and stays silent', async () => {
  expect(await withEndpoints('shop/web', endpoints => endpoints.map(({nodeName: _, ...rest}) => rest))).toEqual([]);
});

test('an external policy without any external entry has no effect and stays silent', async () => {
  const given = await scenario();
  given.leaveOutNodes();
  given.service('shop/manual', object => ({...object, spec: {...object.spec, externalTrafficPolicy: 'Local'}}));
  expect(given.newFindings()).toEqual([]);
});

test('a Service without a usable endpoint is ST101 and not this', async () => {
  const conditions = {ready: false, serving: false};
  expect(
    (await withEndpoints('shop/internal-local', endpoints => endpoints.map(one => ({...one, conditions})))).map(({code}) => code),
  ).toEqual(['ST101']);
});

async function withEndpoints(
  service: string,
  change: (endpoints: readonly SliceEndpoint[]) => readonly SliceEndpoint[],
): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  given.leaveOutNodes();
  given.slices(service, slice => ({...slice, endpoints: change(slice.endpoints ?? [])}));
  return given.newFindings();
}

function finding(subject: string, ...words: readonly string[]): FindingSummary {
  return {code: 'ST108', severity: 'warning', family: 'IPv4', subject, message: containing(...words)};
}
