import {expect, test} from 'vitest';
import {isLoud, saying, scenario} from '../scenario.ts';

const place = {node: 'node-b', family: 'IPv4'};

test('a rule of somebody else’s in a Service’s chain that changes nothing is an info', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.insertBefore(['"shop/web:http -> 10.244.11.4:8080"'], '-A KUBE-SVC-67NZLRHBNDSAWJRO -m comment --comment "count me" -j LOG');
  expect(given.news()).toEqual([
    {
      ...{code: 'ST216', severity: 'info', ...place, subject: 'shop/web:http'},
      message: saying('a rule that kube-proxy would not have written in nat/KUBE-SVC-67NZLRHBNDSAWJRO: no packet fares differently for it'),
      actual: [dump.evidence('"count me"')],
    },
  ]);
});

test('a rule that takes all packets out of a Service’s chain is not an info', async () => {
  const given = await scenario();
  given.rules('node-b').insertBefore(['-A KUBE-SVC-67NZLRHBNDSAWJRO', '-j KUBE-MARK-MASQ'], '-A KUBE-SVC-67NZLRHBNDSAWJRO -j ACCEPT');
  expect(given.news().filter(isLoud).map(({severity, subject}) => ({severity, subject}))).toContainEqual({severity: 'error', subject: 'shop/web:http'});
});

test('a rule in a shared chain that says of no Service what it is for is a warning', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.insertBefore(['-A KUBE-SERVICES', '"shop/web:http cluster IP"'], '-A KUBE-SERVICES -d 10.200.0.0/16 -j RETURN');
  expect(given.news()).toEqual([
    {
      ...{code: 'ST216', severity: 'warning', ...place},
      message: saying('a rule in nat/KUBE-SERVICES is not one that kube-proxy would have written'),
      actual: [dump.evidence('-d 10.200.0.0/16')],
    },
  ]);
});

test('an extra rule of the frame that no packet minds is an info', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.append('filter', '-A KUBE-FORWARD -m comment --comment "mine" -m conntrack --ctstate RELATED,ESTABLISHED -m mark --mark 0x1 -j ACCEPT');
  expect(given.news()).toEqual([
    {
      ...{code: 'ST216', severity: 'info', ...place},
      message: saying('a rule of filter/KUBE-FORWARD is not one that kube-proxy would have written'),
      actual: [dump.evidence('"mine"')],
    },
  ]);
});

test('the words of a comment mean nothing and stay silent', async () => {
  const given = await scenario();
  given.rules('node-b').replace(['"shop/web:http -> 10.244.11.4:8080"'], 'shop/web:http -> 10.244.11.4:8080', 'changed');
  expect(given.news()).toEqual([]);
});

test('the order of Services in the shared chains means nothing and stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').swapWithNext('-A KUBE-SERVICES', '"shop/web:http cluster IP"');
  expect(given.news()).toEqual([]);
});

test('counters stay silent', async () => {
  const given = await scenario();
  given.rules('node-b').replaceAll('-A KUBE-S', '[12:720] -A KUBE-S');
  expect(given.news()).toEqual([]);
});

test('what the kubelet up to 1.26 writes into KUBE-FIREWALL is known', async () => {
  const given = await scenario('healthy/1.23-iptables');
  expect(given.rules('node-b').lines('-A KUBE-FIREWALL', '--mark 0x8000/0x8000')).toHaveLength(1);
  expect(given.said().map(({code}) => code)).not.toContain('ST216');
});
