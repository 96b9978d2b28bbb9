import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, summaryOf, containing, type Scenario, scenario} from '../scenario.ts';

const place = {code: 'ST207', severity: 'error', family: 'IPv4'};

test('a node that balances a Local Service like Cluster is reported with the entry', async () => {
  const found = findingsOf(await snapshotOf('faults/etp-cluster-not-local')).filter(({code}) => code === 'ST207');
  expect(found.map(summaryOf)).toEqual([
    {
      ...{...place, node: 'node-b', subject: 'shop/nodeport-local:http', entry: 'node port 30081'},
      message: containing('packets from outside the cluster to its node port 30081 must be dropped'),
      expected: expect.anything(),
      actual: expect.anything(),
    },
  ]);
});

test('a Service that became Local, on a node that did not follow, is one finding for all its entries', async () => {
  const given = await scenario();
  given.service('shop/lb-cluster', object => ({
    ...object,
    spec: {...object.spec, externalTrafficPolicy: 'Local', ports: (object.spec?.ports ?? []).filter(({name}) => name === 'http')},
  }));
  const found = onNode(given, 'node-c').filter(({subject}) => subject === 'shop/lb-cluster:http');
  expect(found.map(({code, severity}) => ({code, severity}))).toEqual([{code: 'ST207', severity: 'error'}]);
  expect(found[0]?.message).toContain('node port 30082');
  expect(found[0]?.message).toContain('load-balancer IP 203.0.113.10:80');
});

test('a Service that became Cluster, on a node that did not follow, loses external traffic', async () => {
  const given = await scenario();
  given.service('shop/nodeport-local', object => ({...object, spec: {...object.spec, externalTrafficPolicy: 'Cluster'}}));
  expect(onNode(given, 'node-b')).toEqual([
    {
      ...{...place, node: 'node-b', subject: 'shop/nodeport-local:http', entry: 'node port 30081'},
      message: containing('packets from outside the cluster to its node port 30081 are dropped because the node has no local endpoint'),
      expected: expect.anything(),
      actual: expect.anything(),
    },
  ]);
});

test.each([
  ['pods', 'pod traffic for', 'a pod of this node'],
  ['the node itself', 'route LOCAL traffic for', 'the node itself'],
])('the missing bypass for %s to all endpoints of a Local Service is reported', async (_, comment, source) => {
  const given = await scenario();
  const gone = given.rules('node-a').delete('-A KUBE-EXT-', `"${comment} shop/sticky-short:http`);
  expect(given.newFindings()).toEqual([
    {
      ...{...place, node: 'node-a', subject: 'shop/sticky-short:http', entry: 'node port 30087'},
      message: containing(
        `packets from ${source} to its node port 30087 are balanced by the Local policy, and should be by the Cluster policy`,
      ),
      expected: expect.arrayContaining([gone]),
      actual: expect.anything(),
    },
  ]);
});

test('where nothing is left of the bypass, the chain that returns the packets is named', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-EXT-', '"pod traffic for shop/nodeport-local:http');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, node: 'node-b', subject: 'shop/nodeport-local:http', entry: 'node port 30081'},
      message: containing(
        'packets from a pod of this node to its node port 30081 do not get the bypass to all endpoints: ',
        'KUBE-EXT-MXUIPMOZBK5EOUF7 returns them without an endpoint',
      ),
      expected: [gone],
      actual: expect.anything(),
    },
  ]);
});

test('without the drop for nodes without local endpoints, external packets leak', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-EXTERNAL-SERVICES', '"shop/nodeport-local:http has no local endpoints"');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, node: 'node-b', subject: 'shop/nodeport-local:http', entry: 'node port 30081'},
      message: containing('must be dropped, since the policy is Local and no endpoint is on this node; they end in no endpoint at all'),
      expected: [gone],
      actual: expect.anything(),
    },
  ]);
});

test('an internal Local policy that is not applied shows at the cluster IP', async () => {
  const given = await scenario();
  given.service('shop/web', object => ({...object, spec: {...object.spec, internalTrafficPolicy: 'Local'}}));
  expect(onNode(given, 'node-a').map(({code, entry}) => ({code, entry}))).toEqual([{code: 'ST207', entry: 'cluster IP 10.96.1.1:80'}]);
});

test('pods reach remote endpoints of a Local Service by the bypass: a node without local endpoints stays silent', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('"shop/nodeport-local:http has no local endpoints"')).toHaveLength(1);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST207');
});

test('an explicit default policy, Cluster, stays silent', async () => {
  const given = await scenario();
  given.service('shop/web', object => ({
    ...object,
    spec: {...object.spec, externalTrafficPolicy: 'Cluster', internalTrafficPolicy: 'Cluster'},
  }));
  expect(given.newFindings()).toEqual([]);
});

function onNode(given: Scenario, node: string) {
  return given.newFindings({nodes: name => name === node});
}

test.each(['healthy/1.23-iptables', 'healthy/1.36-iptables'])(
  'the first local endpoint of a node that does not know it is dropped by the policy, whatever drops it: %s',
  async capture => {
    const given = await scenario(capture);
    given.slices('shop/lb-local', slice => ({
      ...slice,
      endpoints: [...(slice.endpoints ?? []), {addresses: ['10.244.13.77'], conditions: {ready: true}, nodeName: 'node-c'}],
    }));
    const found = given.newFindings({nodes: name => name === 'node-c'}).filter(({severity}) => severity === 'error');
    expect(found.map(({code}) => code)).toEqual(['ST202', 'ST207']);
    expect(found[1]?.message).toContain('are dropped because the node has no local endpoint');
  },
);
