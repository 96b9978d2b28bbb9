import {expect, test} from 'vitest';
import type {SliceEndpoint} from '../../src/model/api-objects.ts';
import {type FindingSummary, containing, type Scenario, scenario} from '../scenario.ts';

test('one ready endpoint without a hint makes kube-proxy ignore all hints, and is named', async () => {
  const given = await cluster();
  changeEndpoint(given, '10.244.12.4', ({hints: _, ...rest}) => rest);
  expect(given.newFindings()).toEqual([finding('shop/web-3 has none, and kube-proxy uses hints only if all endpoints have them')]);
});

test('nodes without a zone label are named', async () => {
  const given = await cluster();
  for (const name of ['node-a', 'node-b', 'node-c']) given.nodeObject(name, node => ({...node, metadata: {...node.metadata, labels: {}}}));
  expect(given.newFindings()).toEqual([finding('no zone label (topology.kubernetes.io/zone) on node-a, node-b, node-c')]);
});

test('a node without a zone label is named where other nodes go by the hints', async () => {
  const given = await cluster();
  given.nodeObject('node-c', node => ({...node, metadata: {...node.metadata, labels: {}}}));
  expect(given.newFindings().map(({message}) => message)).toEqual([
    containing('shop/zonal:http: traffic from node-c goes to all zones', 'no zone label'),
  ]);
});

test('hints for zones that the cluster does not have are reported as such', async () => {
  const given = await cluster();
  given.slices('shop/zonal', slice => ({
    ...slice,
    endpoints: (slice.endpoints ?? []).map(({hints, ...rest}) =>
      hints === undefined ? rest : {...rest, hints: {forZones: [{name: 'zone-9'}]}},
    ),
  }));
  expect(given.newFindings()).toEqual([finding('they name no zone and no node of this cluster')]);
});

test('kube-proxy 1.30 requires an annotation that the Services do not have', async () => {
  const given = await scenario('healthy/1.30-iptables');
  const reason = containing('requires an annotation');
  expect(given.summaries().filter(({code}) => code === 'ST104')).toEqual([
    {code: 'ST104', severity: 'info', family: 'IPv4', subject: 'shop/nodal:http', message: reason},
    {code: 'ST104', severity: 'info', family: 'IPv4', subject: 'shop/zonal:http', message: reason},
  ]);
});

test('with the annotation, kube-proxy 1.30 uses the hints and the check stays silent', async () => {
  const given = await scenario('healthy/1.30-iptables');
  given.leaveOutNodes();
  const annotations = {'service.kubernetes.io/topology-mode': 'Auto'};
  given.service('shop/zonal', object => ({...object, metadata: {...object.metadata, annotations}}));
  expect(given.summaries({overrides: {version: 'v1.30.5'}}).map(({code}) => code)).not.toContain('ST104');
});

test('an endpoint that is not ready needs no hint: the healthy cluster stays silent', async () => {
  const given = await scenario();
  expect(given.summaries().map(({code}) => code)).not.toContain('ST104');
});

test('a node in a zone without hints stays silent as long as another node uses the hints', async () => {
  const given = await cluster();
  given.nodeObject('node-c', node => ({...node, metadata: {...node.metadata, labels: {'topology.kubernetes.io/zone': 'zone-3'}}}));
  expect(given.newFindings()).toEqual([]);
});

async function cluster(): Promise<Scenario> {
  const given = await scenario();
  given.leaveOutNodes();
  given.deleteService('shop/nodal');
  return given;
}

function changeEndpoint(given: Scenario, address: string, change: (endpoint: SliceEndpoint) => SliceEndpoint): void {
  given.slices('shop/zonal', slice => ({
    ...slice,
    endpoints: (slice.endpoints ?? []).map(endpoint => (endpoint.addresses?.[0] === address ? change(endpoint) : endpoint)),
  }));
}

function finding(reason: string): FindingSummary {
  return {
    ...{code: 'ST104', severity: 'info', family: 'IPv4', subject: 'shop/zonal:http'},
    message: containing('ignores the topology hints', reason),
  };
}
