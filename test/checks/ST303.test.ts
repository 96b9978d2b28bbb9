import {expect, test} from 'vitest';
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

test('with the policy ACCEPT, missing accept rules are harmless', async () => {
  const given = await scenario();
  given.rules('node-b').delete('-A KUBE-FORWARD', '--mark 0x4000/0x4000');
  given.rules('node-b').delete('-A KUBE-FORWARD', 'RELATED,ESTABLISHED');
  expect(given.newFindings().filter(needsAction)).toEqual([]);
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
