import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, needsAction, summaryOf, containing, scenario} from '../scenario.ts';

const place = {code: 'ST301', node: 'node-b', family: 'IPv4'};

test.each([
  ['PREROUTING', 'no Service works for pods and for traffic that enters the node'],
  ['OUTPUT', 'no Service works for the node itself'],
])('without the jump from nat/%s no Service works there: one error, not one for each Service', async (chain, loss) => {
  const given = await scenario();
  const gone = given
    .rules('node-b')
    .delete(`-A ${chain}`, '-j KUBE-SERVICES', '"kubernetes service portals"', chain === 'OUTPUT' ? '-A OUTPUT -m comment' : '-A');
  expect(given.newFindings()).toEqual([
    {...place, severity: 'error', message: containing(`KUBE-SERVICES is not reached from nat/${chain}`, loss), expected: [gone]},
  ]);
});

test('the capture of a missing jump has this finding and no other of the node', async () => {
  const found = findingsOf(await snapshotOf('faults/no-prerouting-hook')).filter(({node}) => node !== undefined);
  expect(found.map(summaryOf)).toEqual([expect.objectContaining({...place, severity: 'error', message: containing('nat/PREROUTING')})]);
});

test('a jump with too many conditions is shown beside the correct one, and not said to serve no packet', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const right = dump.replace(['-A PREROUTING', '-j KUBE-SERVICES'], '-A PREROUTING ', '-A PREROUTING -p udp ');
  expect(given.newFindings()).toEqual([
    {
      ...{
        ...place,
        severity: 'error',
        message: 'the jump from nat/PREROUTING to KUBE-SERVICES has other conditions: packets that do not meet them reach no Service',
      },
      expected: [right],
      actual: [dump.evidence('-A PREROUTING -p udp')],
    },
  ]);
});

test('if a chain of another program leads there in place of the jump, Services work', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const right = dump.replace(['-A PREROUTING', '-j KUBE-SERVICES'], '-j KUBE-SERVICES', '-j OTHERS');
  dump.insertBefore([':KUBE-MARK-MASQ'], ':OTHERS - [0:0]');
  dump.insertBefore(['-A KUBE-SERVICES', '-j KUBE-NODEPORTS'], '-A OTHERS -j KUBE-SERVICES');
  expect(given.newFindings()).toEqual([
    {...place, severity: 'warning', message: 'nat/PREROUTING has no jump to KUBE-SERVICES: no traffic is affected', expected: [right]},
  ]);
});

test.each([
  ['the refusals of Services without endpoints', ['-A FORWARD', '-j KUBE-SERVICES'], 'hang instead of being refused'],
  ['source ranges', ['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], 'loadBalancerSourceRanges are not enforced'],
  ['the drops at external addresses', ['-A INPUT', '-j KUBE-EXTERNAL-SERVICES'], 'are not refused or dropped'],
])('without its jump in table filter %s are never reached, which is an error', async (_, words, loss) => {
  const given = await scenario();
  const gone = given.rules('node-b').delete(...words);
  expect(given.newFindings()).toEqual([{...place, severity: 'error', message: containing(loss), expected: [gone]}]);
});

test('without the jump to the accept rules of health checks no packet of a Service is lost: a warning, like ST219', async () => {
  const given = await scenario();
  given.rules('node-b').delete('-A INPUT', '-j KUBE-NODEPORTS');
  expect(given.newFindings()).toEqual([
    {
      ...place,
      severity: 'warning',
      message: containing('the health-check ports of load balancers are not accepted'),
      expected: expect.anything(),
    },
  ]);
});

test('a missing jump to a chain without rules loses nothing', async () => {
  const given = await scenario();
  given.rules('node-b', 'ip6tables-save').delete('-A FORWARD', '-j KUBE-PROXY-FIREWALL');
  const found = given.newFindings();
  expect(found.map(({code, family}) => ({code, family}))).toEqual([{code: 'ST301', family: 'IPv6'}]);
  expect(found[0]?.severity).not.toBe('error');
});

test('third-party rules between the jumps stay silent', async () => {
  const given = await scenario();
  given.rules('node-b').insertBefore(['-A PREROUTING', '-j KUBE-SERVICES'], '-A PREROUTING -p tcp -m tcp --dport 9999 -j LOG');
  expect(given.newFindings().filter(needsAction)).toEqual([]);
});

test('the order of the jumps of a base chain stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').swapWithNext('-A INPUT', '-j KUBE-PROXY-FIREWALL');
  expect(given.newFindings()).toEqual([]);
});
