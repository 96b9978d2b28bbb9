import {expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {findingsOf, needsAction, containing, scenario} from '../scenario.ts';

const place = {code: 'ST302', node: 'node-b', family: 'IPv4'};

const lostReplies = 'clients outside the cluster may get no reply, and a pod that reaches itself through a Service gets none';

test.each([
  [`nothing jumps to KUBE-POSTROUTING from nat/POSTROUTING: ${lostReplies}`, ['-A POSTROUTING', '-j KUBE-POSTROUTING']],
  [`KUBE-MARK-MASQ does not set the mark 0x4000: ${lostReplies}`, ['-A KUBE-MARK-MASQ', '-j MARK']],
  [`KUBE-POSTROUTING does not masquerade marked packets: ${lostReplies}`, ['-A KUBE-POSTROUTING', '-j MASQUERADE']],
  [
    "KUBE-POSTROUTING masquerades packets that are not marked: endpoints see the address of the node, not the client's",
    ['-A KUBE-POSTROUTING', '-j RETURN'],
  ],
])('%s: one error for the node, not one for each Service', async (reason, words) => {
  const given = await scenario();
  const gone = given.rules('node-b').delete(...words);
  expect(given.newFindings()).toEqual([{...place, severity: 'error', message: reason, expected: [gone], actual: expect.anything()}]);
});

test('if marked packets keep their source and others lose it, both are said', async () => {
  const given = await scenario();
  const dump = given.rules('node-b');
  for (const words of [
    ['-A KUBE-MARK-MASQ', '-j MARK'],
    ['-A KUBE-POSTROUTING', '-j RETURN'],
  ])
    dump.delete(...words);
  expect(given.newFindings().map(({message}) => message)).toEqual([
    containing(`does not set the mark 0x4000: ${lostReplies}; KUBE-POSTROUTING masquerades packets that are not marked`),
  ]);
});

test('a mark that is set in one bit and tested in another is one error', async () => {
  const given = await scenario();
  given.rules('node-b').replace(['-A KUBE-MARK-MASQ'], '0x4000/0x4000', '0x2000/0x2000');
  expect(given.newFindings().map(({code, severity}) => ({code, severity}))).toEqual([{code: 'ST302', severity: 'error'}]);
});

test('a mark that is not cleared is a warning: packets in tunnels are masqueraded twice', async () => {
  const given = await scenario();
  const gone = given.rules('node-b').delete('-A KUBE-POSTROUTING', '-j MARK');
  expect(given.newFindings()).toEqual([
    {...place, severity: 'warning', message: containing('without clearing the mark'), expected: [gone], actual: expect.anything()},
  ]);
});

test('another spelling of the mark, as older tools print it, stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').replace(['-A KUBE-MARK-MASQ'], '--set-xmark 0x4000/0x4000', '--or-mark 0x4000');
  expect(given.newFindings()).toEqual([]);
});

test('a kernel without random ports has no --random-fully, and stays silent', async () => {
  const given = await scenario();
  given.rules('node-b').replace(['-A KUBE-POSTROUTING', 'MASQUERADE'], ' --random-fully', '');
  expect(given.newFindings()).toEqual([]);
});

test('another configured bit stays silent', async () => {
  expect(findingsOf(await snapshotOf('settings/masquerade-bit-5')).filter(({node}) => node !== undefined)).toEqual([]);
});

test('a second MASQUERADE rule, as a kubelet up to 1.26 writes it, changes nothing', async () => {
  const given = await scenario('healthy/1.23-iptables');
  const dump = given.rules('node-b');
  const words = ['-A KUBE-POSTROUTING', 'MASQUERADE'];
  dump.insertAfter(words, dump.line(...words));
  expect(given.newFindings().filter(needsAction)).toEqual([]);
});

test('where a third-party rule accepts packets before the masquerading, the remedy is about that rule: a restart does not help', async () => {
  const given = await scenario();
  const rule = '-A POSTROUTING -d 10.244.0.0/16 -j ACCEPT';
  given.rules('node-b').insertBefore(['-A POSTROUTING', '-j KUBE-POSTROUTING'], rule);
  const found = given.findings({nodes: name => name === 'node-b', only: new Set(['ST302'])});
  expect(found.map(({actual = []}) => actual.map(({text}) => text))).toEqual([[rule]]);
  expect(found[0]?.remedy).toMatch(/^Find out which tool wrote the rule.*A restart of kube-proxy does not change the rule/);
  expect(found[0]?.command).toBe('iptables -t nat -S POSTROUTING');
});
