import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, summaryOf, containing, scenario} from '../scenario.ts';

const place = {code: 'ST202', severity: 'error', node: 'node-b', family: 'IPv4'};

test('an endpoint whose balancing rule is missing is reported with the rule, and the remaining ones as actual', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const gone = dump.delete('-A KUBE-SVC-', '"shop/web:http -> 10.244.11.5:8080"');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, subject: 'shop/web:http', endpoint: '10.244.11.5:8080'},
      message: containing('endpoint 10.244.11.5:8080 (pod shop/web-2 on node-a) gets no traffic'),
      expected: [gone],
      actual: expect.arrayContaining([dump.evidence('"shop/web:http -> 10.244.11.4:8080"')]),
    },
  ]);
});

test('an endpoint whose chain does not rewrite the destination gets no traffic either, and that rule is the evidence', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-SEP-', '"shop/web:http"', '-j DNAT --to-destination 10.244.12.4:8080');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, subject: 'shop/web:http', endpoint: '10.244.12.4:8080'},
      message: containing('endpoint 10.244.12.4:8080', 'gets no traffic'),
      expected: [gone],
      actual: expect.anything(),
    },
  ]);
});

test('an endpoint that is in the API and not on the node is reported', async () => {
  const found = findingsOf(await snapshotOf('faults/frozen-node')).filter(({code, service}) => code === 'ST202' && service?.name === 'web');
  expect(found.map(summaryOf)).toEqual([
    {
      ...{...place, subject: 'shop/web:http', endpoint: '10.244.11.99:8080'},
      message: containing('pod shop/web-9 on node-a'),
      expected: [
        containing('-A KUBE-SVC-67NZLRHBNDSAWJRO', 'shop/web:http -> 10.244.11.99:8080'),
        containing('-A KUBE-SEP-', '-s 10.244.11.99/32', 'KUBE-MARK-MASQ'),
        containing('-A KUBE-SEP-', '-j DNAT --to-destination 10.244.11.99:8080'),
      ],
      actual: expect.anything(),
    },
  ]);
});

test('the capture of a node that lost one endpoint has this finding and no other', async () => {
  const healthy = findingsOf(await snapshotOf('healthy/1.36-iptables')).length;
  const found = findingsOf(await snapshotOf('faults/missing-endpoint'));
  expect(found).toHaveLength(healthy + 1);
  expect(found[0]).toMatchObject({...place, node: 'node-a', endpoint: '10.244.11.5:8080', service: {namespace: 'shop', name: 'web'}});
});

test('an endpoint that is missing where only local ones count is reported with its entry', async () => {
  const given = await scenario();
  given.rules('node-a').delete('-A KUBE-SVL-', '"shop/sticky-short:http -> 10.244.11.5:8080"', '-j KUBE-SEP-', 'recent');
  given.rules('node-a').delete('-A KUBE-SVL-', '"shop/sticky-short:http -> 10.244.11.5:8080"');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, node: 'node-a', subject: 'shop/sticky-short:http', endpoint: '10.244.11.5:8080', entry: 'node port 30087'},
      message: containing('gets no traffic through its node port 30087'),
      expected: expect.anything(),
      actual: expect.anything(),
    },
  ]);
});

test('an endpoint that is missing in one family is reported for that family only', async () => {
  const given = await scenario();
  given.rules('node-c', 'ip6tables-save').delete('-A KUBE-SVC-', '"infra/six:metrics -> [fd00:10:244:11::9]:9153"');
  expect(given.newFindings().map(({code, family, endpoint}) => ({code, family, endpoint}))).toEqual([
    {code: 'ST202', family: 'IPv6', endpoint: '[fd00:10:244:11::9]:9153'},
  ]);
});

test('kube-proxy 1.23 writes no comment that names the endpoint, and it is found anyway', async () => {
  const given = await scenario('healthy/1.23-iptables');
  const gone = given.rules('node-b').delete('-A KUBE-SVC-67NZLRHBNDSAWJRO', '--probability 0.33333333349');
  expect(given.newFindings().map(({code, endpoint, expected}) => ({code, endpoint, expected}))).toEqual([
    {code: 'ST202', endpoint: '10.244.11.4:8080', expected: [gone]},
  ]);
});

test('an endpoint that is not ready has no rule by design, and stays silent', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('10.244.12.5:8080')).toEqual([]);
  expect(given.newFindings()).toEqual([]);
});

test('endpoints of another zone are left out by hints, and stay silent', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('-A KUBE-SVC-', '"shop/zonal:http -> 10.244.11')).toEqual([]);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST202');
});
