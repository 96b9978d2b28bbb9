import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

const place = {code: 'ST214', severity: 'error', node: 'node-b', family: 'IPv4', subject: 'shop/web:http'};

test('an entry that jumps to an empty chain is reported with the jump and the missing rules', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const gone = dump.deleteAll('-A KUBE-SVC-67NZLRHBNDSAWJRO ');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, entry: 'cluster IP 10.96.1.1:80'},
      message: containing('a rule jumps to KUBE-SVC-67NZLRHBNDSAWJRO, which is empty; ', 'end in no endpoint at all: connections time out'),
      expected: gone.slice(0, 3),
      actual: [dump.evidence('-A KUBE-SERVICES', '"shop/web:http cluster IP"')],
    },
  ]);
});

test('an empty chain of an endpoint is reported with the endpoint, whose share is lost', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.deleteAll('-A KUBE-SEP-M5HVGPPKKJ75V6WO ');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, endpoint: '10.244.11.4:8080'},
      message: containing('a rule jumps to KUBE-SEP-M5HVGPPKKJ75V6WO, which is empty'),
      expected: expect.anything(),
      actual: [dump.evidence('-A KUBE-SVC-', '-j KUBE-SEP-M5HVGPPKKJ75V6WO')],
    },
  ]);
});

test('a chain that is not declared at all is reported as missing', async () => {
  const given = await scenario();
  given.rules('node-b').deleteAll('-A KUBE-SEP-M5HVGPPKKJ75V6WO ');
  given.rules('node-b').delete(':KUBE-SEP-M5HVGPPKKJ75V6WO ');
  expect(given.newFindings().map(({code, message}) => ({code, message}))).toEqual([
    {code: 'ST214', message: containing('which does not exist')},
  ]);
});

test('several entries that jump to the same empty chain are one finding', async () => {
  const given = await scenario();
  given.rules('node-b').deleteAll('-A KUBE-EXT-M3QFV6FJK7ELJDP7 ');
  expect(given.newFindings().map(({code, subject}) => ({code, subject}))).toEqual([{code: 'ST214', subject: 'shop/lb-cluster:http'}]);
});

test('an empty XLB chain of kube-proxy 1.23 is found', async () => {
  const given = await scenario('healthy/1.23-iptables');
  given.rules('node-b').deleteAll('-A KUBE-XLB-THAONNFDF5XMLPVB ');
  expect(given.newFindings().map(({code, subject}) => ({code, subject}))).toEqual([{code: 'ST214', subject: 'shop/lb-local:http'}]);
});

test('an empty chain that nothing jumps to stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').declare('nat', 'KUBE-SVC-AAAAAAAAAAAAAAAA');
  expect(given.newFindings()).toEqual([]);
});

test('KUBE-FIREWALL is empty in ip6tables by design', async () => {
  const given = await scenario();
  expect(given.rules('node-b', 'ip6tables-save').lines('-A KUBE-FIREWALL')).toEqual([]);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST214');
});
