import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, needsAction, summaryOf, containing, scenario} from '../scenario.ts';

const place = {code: 'ST401', severity: 'error', node: 'node-b', family: 'IPv4'};

test('the capture of a pod whose host port is a node port has this finding with the rule, and no other of the node', async () => {
  const found = findingsOf(await snapshotOf('faults/hostport-hijack')).filter(({node}) => node !== undefined);
  expect(found.map(summaryOf)).toEqual([
    {
      ...{...place, node: 'node-c', subject: 'shop/nodeport:http', entry: 'node port 30080'},
      message: containing('are sent to 10.244.13.200:80', 'by a third-party rule that comes before'),
      actual: [containing('--dport 30080', '-j DNAT --to-destination 10.244.13.200:80')],
    },
  ]);
});

test('a rule before kube-proxy’s that accepts a Service’s packets is reported as well', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.insertBefore(['-A PREROUTING', '-j KUBE-SERVICES'], '-A PREROUTING -d 10.96.1.1/32 -j ACCEPT');
  expect(given.newFindings()).toEqual([
    {
      ...{...place, subject: 'shop/web:http', entry: 'cluster IP 10.96.1.1:80'},
      message: containing("never reach kube-proxy's rules"),
      actual: [dump.evidence('-A PREROUTING -d 10.96.1.1/32')],
    },
  ]);
});

test('the same rule after kube-proxy’s has no effect, and stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').insertAfter(['-A PREROUTING', '-j KUBE-SERVICES'], '-A PREROUTING -d 10.96.1.1/32 -j ACCEPT');
  expect(given.newFindings().filter(needsAction)).toEqual([]);
});

test('a rule before kube-proxy’s for another port stays silent', async () => {
  const given = await scenario();
  const rule = '-A PREROUTING -p tcp -m tcp --dport 31999 -j DNAT --to-destination 10.244.12.200:80';
  given.rules('node-b').insertBefore(['-A PREROUTING', '-j KUBE-SERVICES'], rule);
  expect(given.newFindings()).toEqual([]);
});

test('a rule that sends packets elsewhere is an error although a later rule cannot be evaluated', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const taking = '-A PREROUTING -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 192.0.2.7:80';
  dump.insertBefore(['-A PREROUTING', '-j KUBE-SERVICES'], taking);
  for (const rule of ['-m limit --limit 10/sec -j ACCEPT', '-j DROP'])
    dump.insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], `-A FORWARD -m conntrack --ctstate NEW ${rule}`);
  const found = given.newFindings().filter(({subject}) => subject === 'shop/web:http');
  expect(found).toEqual([
    {
      ...{...place, subject: 'shop/web:http', entry: 'cluster IP 10.96.1.1:80'},
      message: containing('are sent to 192.0.2.7:80 by a third-party rule'),
      actual: [dump.evidence('-A PREROUTING -d 10.96.1.1/32')],
    },
  ]);
});

test('whether a rule sends packets elsewhere is no error where it cannot be evaluated itself', async () => {
  const given = await scenario();
  const taking = '-A PREROUTING -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -m u32 --u32 "0x0=0x1" -j DNAT --to-destination 192.0.2.7:80';
  given.rules('node-b').insertBefore(['-A PREROUTING', '-j KUBE-SERVICES'], taking);
  expect(given.newFindings().map(({code, severity}) => `${code} ${severity}`)).toEqual(['ST403 warning']);
});
