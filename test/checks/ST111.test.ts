import {expect, test} from 'vitest';
import {containing, type FindingSummary, type Scenario, scenario} from '../scenario.ts';

const label = 'node.kubernetes.io/exclude-from-external-load-balancers';

function exclude(given: Scenario, ...nodes: readonly string[]): void {
  for (const name of nodes)
    given.nodeObject(name, node => ({...node, metadata: {...node.metadata, labels: {...node.metadata.labels, [label]: ''}}}));
}

async function found(change: (given: Scenario) => void): Promise<readonly FindingSummary[]> {
  const given = await scenario();
  given.leaveOutNodes();
  change(given);
  return given.newFindings().filter(({code}) => code === 'ST111');
}

test('load balancers of a cluster in which every node is excluded are reported', async () => {
  const findings = await found(given => exclude(given, 'node-a', 'node-b', 'node-c'));
  expect(findings).toContainEqual({
    ...{code: 'ST111', severity: 'info', subject: 'shop/lb-cluster'},
    message: containing(
      `all nodes have the label ${label} (node-a, node-b, node-c): a load balancer that respects the label sends it nothing`,
    ),
  });
  // It has no address yet.
  expect(findings.map(({subject}) => subject)).not.toContain('shop/lb-pending');
});

test('one whose address MetalLB gave is a warning', async () => {
  const findings = await found(given => {
    exclude(given, 'node-a', 'node-b', 'node-c');
    given.service('shop/lb-cluster', object => ({
      ...object,
      metadata: {...object.metadata, annotations: {'metallb.io/ip-allocated-from-pool': 'first'}},
    }));
  });
  expect(findings.find(({subject}) => subject === 'shop/lb-cluster')).toMatchObject({
    severity: 'warning',
    message: containing('MetalLB announces its addresses from none of them'),
  });
});

test('with a Local policy, the nodes with ready endpoints count', async () => {
  const all = ['node-a', 'node-b', 'node-c'];
  const given = await scenario();
  const slices = given.snapshot().api.endpointSlices ?? [];
  const own = slices.filter(({metadata}) => metadata.labels?.['kubernetes.io/service-name'] === 'lb-local');
  const serving = all.filter(name => own.some(({endpoints}) => endpoints?.some(({nodeName}) => nodeName === name)));
  expect(serving.length).toBeGreaterThan(0);
  expect(serving.length).toBeLessThan(3);
  const findings = await found(cluster => exclude(cluster, ...serving));
  expect(findings).toEqual([
    {
      ...{code: 'ST111', severity: 'info', subject: 'shop/lb-local'},
      message: containing('all nodes with its endpoints (externalTrafficPolicy is Local)'),
    },
  ]);
});

test('one node that is not excluded is enough to stay silent', async () => {
  expect((await found(given => exclude(given, 'node-c'))).map(({subject}) => subject)).not.toContain('shop/lb-cluster');
});

test('a load balancer that sends to pods directly stays silent', async () => {
  const findings = await found(given => {
    exclude(given, 'node-a', 'node-b', 'node-c');
    given.service('shop/lb-cluster', object => ({
      ...object,
      metadata: {...object.metadata, annotations: {'service.beta.kubernetes.io/aws-load-balancer-nlb-target-type': 'ip'}},
    }));
  });
  expect(findings.map(({subject}) => subject)).not.toContain('shop/lb-cluster');
});

test('no label stays silent', async () => {
  expect(await found(() => undefined)).toEqual([]);
});
