import {expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {nftScenario} from '../nft-scenario.ts';
import type {EditableDump} from '../editable-dump.ts';
import {needsAction, type FindingSummary, containing, type Scenario, scenario} from '../scenario.ts';

test('a FORWARD chain that drops by default, without the rule that accepts masqueraded traffic, loses packets', async () => {
  const given = await dropping();
  given.rules('node-b').delete('-A KUBE-FORWARD', '--mark 0x4000/0x4000');
  expect(given.newFindings().filter(needsAction)).toContainEqual(
    expect.objectContaining({code: 'ST303', severity: 'error', node: 'node-b', family: 'IPv4'}),
  );
});

test('packets between pods through a Service have no mark: a FORWARD chain that drops by default loses them', async () => {
  const given = await dropping();
  expect(given.newFindings().filter(needsAction)).toContainEqual(
    expect.objectContaining({code: 'ST303', severity: 'error', node: 'node-b', message: containing('FORWARD')}),
  );
});

test('with rules that accept the pod network, as a network plugin writes them, nothing is lost', async () => {
  const given = await dropping();
  const dump = given.rules('node-b');
  dump.append('filter', '-A FORWARD -s 10.244.0.0/16 -j ACCEPT');
  dump.append('filter', '-A FORWARD -d 10.244.0.0/16 -j ACCEPT');
  expect(ofPodNetwork(given.newFindings().filter(needsAction))).toEqual([]);
});

test('packets that only the missing rule of kube-proxy would accept are not also said to be lost to the policy of FORWARD', async () => {
  const given = await dropping();
  given.rules('node-b').append('filter', '-A FORWARD -s 10.244.0.0/16 -j ACCEPT');
  const gone = given.rules('node-b').delete('-A KUBE-FORWARD', '--mark 0x4000/0x4000');
  const found = given.newFindings().filter(({code}) => code === 'ST303');
  expect(found.map(({message, expected = []}) => ({message, expected}))).toEqual([
    {message: containing('the rule of KUBE-FORWARD that accepts Service traffic is missing'), expected: [gone]},
    // With a Local policy clients keep their address, so that kube-proxy's rule would not accept them either.
    {message: containing('because no rule accepts them and the policy of filter/FORWARD is DROP (3 Service ports'), expected: []},
  ]);
});

test('if another rule accepts the same packets, the missing one is an info', async () => {
  const given = await dropping();
  given.rules('node-b').append('filter', '-A FORWARD -m conntrack --ctstate NEW -j ACCEPT');
  const gone = given.rules('node-b').delete('-A KUBE-FORWARD', '--mark 0x4000/0x4000');
  expect(given.newFindings()).toEqual([
    {...{code: 'ST217', severity: 'info', node: 'node-b', family: 'IPv4'}, message: expect.anything(), expected: [gone]},
  ]);
});

test('the missing rule for replies is an error whatever accepts new connections', async () => {
  const given = await dropping();
  given.rules('node-b').append('filter', '-A FORWARD -d 10.244.0.0/16 -j ACCEPT');
  given.rules('node-b').append('filter', '-A FORWARD -m conntrack --ctstate NEW -j ACCEPT');
  given.rules('node-b').delete('-A KUBE-FORWARD', 'RELATED,ESTABLISHED');
  expect(given.newFindings().map(({code, severity}) => `${code} ${severity}`)).toEqual(['ST303 error']);
});

test('a third-party rule that drops is reported beside a missing rule of kube-proxy', async () => {
  const given = await dropping();
  given.rules('node-b').append('filter', '-A FORWARD -s 10.244.0.0/16 -j ACCEPT');
  given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-FORWARD'], '-A FORWARD -d 10.244.12.0/24 -j DROP');
  given.rules('node-b').delete('-A KUBE-FORWARD', '--mark 0x4000/0x4000');
  const found = given.findings({nodes: name => name === 'node-b'}).filter(({code}) => code === 'ST303');
  expect(found.map(({message}) => message)).toEqual([
    containing('the rule of KUBE-FORWARD that accepts Service traffic is missing'),
    containing('are sent to an endpoint and then dropped by a third-party rule'),
  ]);
});

test('with the policy ACCEPT, missing accept rules are harmless', async () => {
  const given = await scenario();
  given.rules('node-b').delete('-A KUBE-FORWARD', '--mark 0x4000/0x4000');
  given.rules('node-b').delete('-A KUBE-FORWARD', 'RELATED,ESTABLISHED');
  expect(given.newFindings().filter(needsAction)).toEqual([]);
});

test.each<[writer: string, change: (dump: EditableDump) => void, remedy: RegExp, command: RegExp]>([
  [
    'kube-proxy, which a restart lets write its rules again',
    dump => dump.replace(['-A KUBE-FORWARD', 'INVALID'], 'INVALID', 'INVALID,NEW'),
    /^Restart kube-proxy on this node/,
    /^kubectl get pods -A -o wide --field-selector spec.nodeName=node-b$/,
  ],
  [
    'another program, whose rule a restart of kube-proxy leaves',
    dump => dump.insertBefore(['-A FORWARD', '-j KUBE-FORWARD'], '-A FORWARD -d 10.244.0.0/16 -j DROP'),
    /^Find out which tool wrote the rule .* an ACCEPT that comes after the rule has no effect/,
    /^iptables -t filter -S FORWARD$/,
  ],
])('the remedy is for the writer of the rules: %s', async (_, change, remedy, command) => {
  const given = await scenario();
  change(given.rules('node-b'));
  expect(given.findings({nodes: name => name === 'node-b', only: new Set(['ST303'])})).toEqual([
    expect.objectContaining({remedy: expect.stringMatching(remedy), command: expect.stringMatching(command)}),
  ]);
});

test.each([
  ['another node', '172.18.0.11', ['ST303 error']],
  ['a pod of another node', '10.244.11.4', ['ST303 error']],
  ['a pod of this node', '10.244.12.4', ['ST303 error']],
  ['a part of the clients outside, as a ban is meant', '203.0.113.64/26', ['ST216 info']],
  ['nobody', '10.244.11.192/27', ['ST216 info']],
])('a rule in KUBE-FORWARD that drops what %s sends is as bad as that', async (_, source, wanted) => {
  const given = await scenario();
  given.rules('node-b').insertBefore(['-A KUBE-FORWARD', '--ctstate INVALID'], `-A KUBE-FORWARD -s ${source} -j DROP`);
  expect(given.newFindings().map(({code, severity}) => `${code} ${severity}`)).toEqual(wanted);
});

test('for a policy the remedy is an ACCEPT for the pod network', async () => {
  const given = await dropping();
  const found = given.findings({nodes: name => name === 'node-b', only: new Set(['ST303'])});
  expect(found.map(({remedy}) => remedy)).toEqual([expect.stringMatching(/^Accept the pod network in FORWARD/)]);
});

test('a policy has the command that lists its chain, and stands at the end of the traced path', async () => {
  const snapshot = (await dropping()).snapshot();
  const {findings, traces} = diagnose(snapshot, {toolVersion: '', trace: true, selects: ({metadata: {name}}) => name === 'web'});
  expect(findings.find(({code}) => code === 'ST303')?.command).toBe('iptables -t filter -S FORWARD');
  const ofNode = traces.filter(({node}) => node === 'node-b').flatMap(({entries}) => entries);
  expect(ofNode.map(({end}) => end)).toEqual([{verdict: 'dropped', rule: null, reason: 'by the policy of filter/FORWARD'}]);

  const drop = 'table inet fw {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n}\n';
  const given = await nftScenario(ruleset => `${ruleset}\n${drop}`);
  expect(diagnose(given.snapshot(), {toolVersion: ''}).findings.find(({code}) => code === 'ST303')?.command).toBe(
    'nft list chain inet fw forward',
  );
});

async function dropping(): Promise<Scenario> {
  const given = await scenario();
  given.rules('node-b').policy('filter', 'FORWARD', 'DROP');
  return given;
}

/** Endpoints outside of the pod network are not what the network plugin accepts. */
function ofPodNetwork(found: readonly FindingSummary[]): readonly FindingSummary[] {
  return found.filter(({subject}) => subject === undefined || subject.startsWith('shop/web'));
}
