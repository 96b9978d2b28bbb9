import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, summaryOf, containing, scenario} from '../scenario.ts';

test('an endpoint that was removed from the API is reported on each node that still uses it, and nothing else is', async () => {
  const given = await scenario();
  given.slices('shop/web', slice => ({
    ...slice,
    endpoints: (slice.endpoints ?? []).filter(({addresses}) => addresses?.[0] !== '10.244.12.4'),
  }));
  expect(given.newFindings()).toEqual(
    ['node-a', 'node-b', 'node-c'].map(node => ({
      ...{code: 'ST203', severity: 'error', node, family: 'IPv4', subject: 'shop/web:http', endpoint: '10.244.12.4:8080'},
      message: containing('33.3% of the traffic goes to 10.244.12.4:8080, which is no endpoint of the Service (any more)'),
      actual: [
        given.rules(node).evidence('-A KUBE-SVC-', '"shop/web:http -> 10.244.12.4:8080"'),
        given.rules(node).evidence('-A KUBE-SEP-', '"shop/web:http"', 'DNAT --to-destination 10.244.12.4:8080'),
      ],
    })),
  );
});

test('an endpoint that is no longer ready is reported as not ready', async () => {
  const given = await scenario();
  given.slices('shop/web', slice => ({
    ...slice,
    endpoints: (slice.endpoints ?? []).map(one =>
      one.addresses?.[0] === '10.244.12.4' ? {...one, conditions: {ready: false, serving: false, terminating: false}} : one,
    ),
  }));
  expect(given.newFindings().map(({code, message}) => [code, message])).toEqual(
    ['node-a', 'node-b', 'node-c'].map(() => ['ST203', containing('is an endpoint that must not be used (not ready)')]),
  );
});

test('a Service that lost all its endpoints is reported by the endpoint that still gets traffic, not by the rules around it', async () => {
  const given = await scenario();
  given.slices('shop/sleepy-published', slice => ({...slice, endpoints: []}));
  const [node, family] = ['node-b', 'IPv4'];
  expect(given.newFindings({nodes: name => name === node})).toEqual([
    {
      ...{code: 'ST203', severity: 'error', node, family, subject: 'shop/sleepy-published:http', endpoint: '10.244.12.6:8080'},
      message: containing('100% of the traffic goes to 10.244.12.6:8080'),
      actual: expect.anything(),
    },
    {code: 'ST101', severity: 'warning', family, subject: 'shop/sleepy-published', message: expect.anything()},
  ]);
});

test('a node that stopped following the API sends traffic to a deleted pod', async () => {
  const found = findingsOf(await snapshotOf('faults/frozen-node')).filter(({code, service}) => code === 'ST203' && service?.name === 'web');
  expect(found.map(summaryOf).map(({node, endpoint}) => ({node, endpoint}))).toEqual([{node: 'node-b', endpoint: '10.244.11.4:8080'}]);
});

test('a chain of a removed endpoint that nothing jumps to is not used: it stays silent here', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.declare('nat', 'KUBE-SEP-AAAAAAAAAAAAAAAA');
  dump.append(
    'nat',
    '-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.12.99:8080',
  );
  expect(given.newFindings().map(({code, severity}) => [code, severity])).toEqual([['ST215', 'info']]);
});

test('a terminating endpoint that still serves is used by design if there is no other, and stays silent', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('-A KUBE-SVC-', '"shop/leaving:http -> ')).toHaveLength(2);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST203');
});
