import {expect, onTestFinished, test, vi} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import {ExpectedRuleset} from '../../../src/expect/iptables/expected-ruleset.ts';
import {snapshotOf} from '../../fixtures.ts';

// A shared chain of the expected rules is made from those of all Service ports, which takes as long as the comparison.
test('no chain of the expected rules is made for a healthy node', async () => {
  const asked = vi.spyOn(ExpectedRuleset.prototype, 'chain');
  onTestFinished(() => asked.mockRestore());
  // What the API promises is compared with the rules of single Service ports.
  const ofAllPorts = () => (asked.mock.contexts as ExpectedRuleset[]).filter(({ports}) => ports.length > 2);
  const {nodes} = diagnose(await snapshotOf('healthy/1.36-iptables'), {toolVersion: '0'});
  expect(nodes.map(({status}) => status)).toEqual(['checked', 'checked', 'checked']);
  expect(ofAllPorts()).toEqual([]);
  // Those of a node with a fault are: the calls are counted.
  diagnose(await snapshotOf('faults/missing-endpoint'), {toolVersion: '0'});
  expect(ofAllPorts()).not.toEqual([]);
});
