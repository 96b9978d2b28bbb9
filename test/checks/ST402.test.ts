import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

const place = {code: 'ST402', severity: 'error', node: 'node-b', family: 'IPv4'};

test('a firewall that drops packets to a node port before they are rewritten is reported with the rule and the Service', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const table = ['*raw', ':PREROUTING ACCEPT [0:0]', ':OUTPUT ACCEPT [0:0]', '-A PREROUTING -p tcp -m tcp --dport 30080 -j DROP', 'COMMIT'];
  dump.insertBefore(['*mangle'], ...table);
  expect(given.newFindings()).toEqual([
    {
      ...{...place, subject: 'shop/nodeport:http', entry: 'node port 30080'},
      message: containing('are dropped by a third-party rule'),
      actual: [dump.evidence('-A PREROUTING -p tcp -m tcp --dport 30080 -j DROP')],
    },
  ]);
});

test('a rule that drops packets on their way out of the node is reported too', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.append('filter', '-A OUTPUT -d 192.0.2.10/32 -j REJECT --reject-with icmp-port-unreachable');
  const found = given.newFindings();
  expect(found.map(({code, subject, actual}) => ({code, subject, actual}))).toEqual([
    {code: 'ST402', subject: 'shop/manual:db', actual: [dump.evidence('-A OUTPUT -d 192.0.2.10/32')]},
  ]);
});

test('a firewall that drops other ports stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').append('filter', '-A INPUT -p tcp -m tcp --dport 22 -j DROP');
  expect(given.newFindings()).toEqual([]);
});

test('a firewall on the node port itself, in INPUT, sees none of its packets: they are rewritten before, and it stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').append('filter', '-A INPUT -p tcp -m tcp --dport 30080 -j DROP');
  expect(given.newFindings()).toEqual([]);
});

test('packets that kube-proxy itself drops are not reported', async () => {
  const given = await scenario();
  expect(given.rules('node-b').lines('-j DROP').length).toBeGreaterThan(4);
  expect(given.summaries().map(({code}) => code)).not.toContain('ST402');
});
