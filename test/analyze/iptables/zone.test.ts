import {expect, test} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import {snapshotOf} from '../../fixtures.ts';

test('if the Nodes were not read, the rules show the zone', async () => {
  const snapshot = await snapshotOf('healthy/1.36-iptables');
  const {findings} = diagnose({...snapshot, api: {...snapshot.api, nodes: null}}, {toolVersion: 'test'});
  expect(findings.filter(({code, severity}) => severity === 'error' || /^ST[2-5]/.test(code))).toEqual([]);
});
