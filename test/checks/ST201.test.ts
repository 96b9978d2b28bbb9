import {expect, test} from 'vitest';
import {findingsOf, summaryOf, containing, scenario} from '../scenario.ts';
import {snapshotOf} from '../fixtures.ts';

test('a Service of which a node has no rule at all is reported with the rules that it lacks', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').deleteAll('"shop/manual:db');
  expect(gone).toHaveLength(8);
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST201', severity: 'error', node: 'node-b', family: 'IPv4', subject: 'shop/manual:db'},
      message: containing('shop/manual:db: not programmed on this node'),
      expected: expect.arrayContaining([gone.find(rule => rule.includes('-A KUBE-SERVICES'))]),
    },
  ]);
});

test('a Service with three ports is one finding that names them all', async () => {
  const given = await scenario();
  given.rules('node-b').deleteAll('"infra/dns:');
  expect(given.newFindings()).toEqual([
    {
      ...{code: 'ST201', severity: 'error', node: 'node-b', family: 'IPv4', subject: 'infra/dns'},
      message: containing('infra/dns (ports dns, dns-tcp, metrics): not programmed on this node'),
      expected: expect.anything(),
    },
  ]);
});

test('of a dual-stack Service only the missing family is reported', async () => {
  const given = await scenario();
  given.rules('node-b', 'ip6tables-save').deleteAll('"infra/dual:metrics');
  expect(given.newFindings().map(({code, family, subject}) => ({code, family, subject}))).toEqual([
    {code: 'ST201', family: 'IPv6', subject: 'infra/dual:metrics'},
  ]);
});

test('it is also found with the older rules of kube-proxy 1.23', async () => {
  const given = await scenario('healthy/1.23-iptables');
  given.rules('node-b').deleteAll('"shop/lb-local:http', '-A KUBE');
  expect(given.newFindings().map(({code, subject}) => ({code, subject}))).toEqual([{code: 'ST201', subject: 'shop/lb-local:http'}]);
});

test('a node that stopped following the API does not know a new Service', async () => {
  const findings = findingsOf(await snapshotOf('faults/frozen-node')).filter(({code}) => code === 'ST201');
  expect(findings.map(summaryOf)).toEqual([
    {
      ...{code: 'ST201', severity: 'error', node: 'node-b', family: 'IPv4', subject: 'shop/newborn:http'},
      message: containing('not programmed on this node'),
      expected: expect.anything(),
    },
  ]);
});

test('if one entry is left, it is ST206 and not this', async () => {
  const given = await scenario();
  given.rules('node-b').delete('-A KUBE-SERVICES', '"shop/external-ips:http cluster IP"');
  given.rules('node-b').delete('-A KUBE-SERVICES', '"shop/external-ips:http external IP"', '198.51.100.10/32');
  expect(given.newFindings().map(({code}) => code)).toEqual(['ST206', 'ST206']);
});

test('a Service without endpoints has no rule in table nat by design, and stays silent', async () => {
  const given = await scenario();
  expect(
    given
      .rules('node-b')
      .lines('-A KUBE-SERVICES', '"shop/empty:http')
      .map(rule => rule.includes('REJECT')),
  ).toEqual([true]);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST201');
});

test('a headless Service and one of another proxy have no rules by design, and stay silent', async () => {
  const given = await scenario();
  for (const name of ['headless', 'alias', 'other-proxy']) expect(given.rules('node-b').lines(`"shop/${name}`)).toEqual([]);
  expect(given.newFindings()).toEqual([]);
});
