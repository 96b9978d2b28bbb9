import {expect, test} from 'vitest';
import {containing, scenario} from '../scenario.ts';

const place = {code: 'ST403', severity: 'warning', node: 'node-b', family: 'IPv4'};

test('a rule with an unknown match that would drop a Service’s packets makes their outcome undetermined', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  dump.insertBefore(
    ['-A FORWARD', '-j KUBE-FORWARD'],
    '-A FORWARD -d 10.244.12.6/32 -m bpf --bytecode "4,48 0 0 9,21 0 1 6,6 0 0 1,6 0 0 0" -j DROP',
  );
  expect(given.newFindings().map(({code, severity, subject, actual}) => ({code, severity, subject, actual}))).toEqual([
    // As a client, the pod may get no replies from any Service.
    {code: 'ST403', severity: 'warning', subject: undefined, actual: [dump.evidence('-m bpf')]},
    {code: 'ST403', severity: 'warning', subject: 'shop/sleepy-published:http', actual: [dump.evidence('-m bpf')]},
  ]);
});

test('what a later rule refuses is lost, whether or not the unknown match drops it before', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  const anchor = ['-A FORWARD', '-j KUBE-FORWARD'];
  dump.insertBefore(anchor, '-A FORWARD -d 10.244.12.6/32 -m bpf --bytecode "4,48 0 0 9,21 0 1 6,6 0 0 1,6 0 0 0" -j DROP');
  dump.insertBefore(anchor, '-A FORWARD -d 10.244.12.6/32 -j REJECT');
  const found = given.newFindings().filter(({actual}) => actual !== undefined);
  expect(new Set(found.map(({severity}) => severity))).toEqual(new Set(['error']));
  expect(found.map(({code}) => code)).toContain('ST303');
  for (const {actual} of found) expect(actual).toEqual([dump.evidence('-d 10.244.12.6/32 -j REJECT')]);
});

test('an unknown target has the same effect as such a match', async () => {
  const given = await scenario();
  given.rules('node-b').insertBefore(['-A PREROUTING', '-j KUBE-SERVICES'], '-A PREROUTING -d 10.96.1.1/32 -j NFQUEUE --queue-num 3');
  expect(given.newFindings()).toEqual([
    {
      ...place,
      subject: 'shop/web:http',
      entry: 'cluster IP 10.96.1.1:80',
      message: containing('is undetermined', 'NFQUEUE'),
      actual: expect.anything(),
    },
  ]);
});

test('the same match in a rule that accepts packets has no effect, and stays silent', async () => {
  const given = await scenario();
  given
    .rules('node-b')
    .insertBefore(['-A FORWARD', '-j KUBE-FORWARD'], '-A FORWARD -d 10.244.12.6/32 -m bpf --bytecode "1,6 0 0 1" -j LOG');
  expect(given.newFindings()).toEqual([]);
});

test('a match by set is evaluated if the bundle contains the set', async () => {
  const given = await scenario();
  const rule = '-A FORWARD -m set --match-set blocked dst -j DROP';
  given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-FORWARD'], rule);
  expect(given.newFindings().map(({code}) => code)).toContain('ST403');
  given.file('node-b', 'ipset-save', 'create blocked hash:ip family inet hashsize 1024 maxelem 65536\nadd blocked 192.0.2.99\n');
  // An address outside that no node has is hit on purpose.
  expect(given.newFindings().map(({code, severity}) => [code, severity])).toEqual([['ST402', 'info']]);
});
