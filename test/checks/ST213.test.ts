import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, summaryOf, containing, scenario} from '../scenario.ts';

const place = {code: 'ST213', node: 'node-b', family: 'IPv4'};
const reject =
  '-A KUBE-SERVICES -d 10.96.1.1/32 -p tcp -m comment --comment "shop/web:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable';

test('a node that still rejects packets to a Service which now has endpoints is one error, with the rule', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.deleteAll('"shop/web:http');
  dump.append('filter', reject);
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'error', subject: 'shop/web:http', entry: 'cluster IP 10.96.1.1:80'},
      message: containing('to its cluster IP 10.96.1.1:80 end in a REJECT, and should reach'),
      expected: expect.anything(),
      actual: [dump.evidence('"shop/web:http has no endpoints"')],
    },
  ]);
});

test('all entries that are rejected are one finding', async () => {
  const given = await scenario();
  given.slices('shop/empty-lb', slice => ({
    ...slice,
    ports: [{name: 'http', port: 8080, protocol: 'TCP'}],
    endpoints: [{addresses: ['10.244.11.4'], conditions: {ready: true}, nodeName: 'node-a'}],
  }));
  const found = given.newFindings({nodes: name => name === 'node-b'});
  expect(found.map(({code, severity, subject}) => ({code, severity, subject}))).toEqual([
    {code: 'ST213', severity: 'error', subject: 'shop/empty-lb:http'},
  ]);
  for (const entry of ['cluster IP', 'node port', 'load-balancer IP', 'external IP']) expect(found[0]?.message).toContain(entry);
});

test('a refusal that no packet reaches, because table nat has translated it before, is an info', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.append('filter', reject);
  expect(given.newFindings()).toEqual([
    {
      ...{...place, severity: 'info', subject: 'shop/web:http'},
      message: containing('no packet reaches it as long as the nat rules are in place'),
      actual: [dump.evidence('"shop/web:http has no endpoints"')],
    },
  ]);
});

test('the capture of a leftover refusal has this info and nothing else of the node', async () => {
  const found = findingsOf(await snapshotOf('faults/leftover-reject')).filter(({node}) => node !== undefined);
  expect(found.map(summaryOf)).toEqual([
    expect.objectContaining({code: 'ST213', severity: 'info', node: 'node-a', subject: 'shop/web:http'}),
  ]);
});

test('a Service without endpoints rejects packets by design, and stays silent', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('"shop/empty:http has no endpoints"')).toHaveLength(1);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST213');
});

test('the duplicated refusal of such a Service is ST218, because it rejects no packet that should pass', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.insertAfter(['"shop/empty:http has no endpoints"'], dump.line('"shop/empty:http has no endpoints"'));
  expect(given.newFindings().map(({code, severity}) => [code, severity])).toEqual([['ST218', 'info']]);
});

test('a drop for a missing local endpoint, on a node without one, stays silent', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('-A KUBE-SERVICES', '"shop/internal-local:http has no local endpoints"')).toHaveLength(1);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST213');
});
