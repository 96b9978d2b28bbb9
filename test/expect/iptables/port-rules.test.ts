import {describe, expect, test} from 'vitest';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import type {ExpectedRuleset} from '../../../src/expect/iptables/expected-ruleset.ts';
import {expectRuleset} from '../../../src/expect/iptables/expect-ruleset.ts';
import {nodeFacts} from '../../../src/expect/node-facts.ts';
import {type ConfigOverrides, resolveProxyConfig} from '../../../src/expect/proxy-config.ts';
import {families, type Family} from '../../../src/model/family.ts';
import type {NodeDump, Snapshot} from '../../../src/model/snapshot.ts';
import {captureNames, snapshotOf} from '../../fixtures.ts';

interface Case {
  readonly snapshot: Snapshot;
  readonly view: ClusterView;
  readonly node: NodeDump;
  readonly family: Family;
  readonly overrides?: ConfigOverrides;
}

function expected({snapshot: {api}, view, node, family, overrides = {}}: Case): ExpectedRuleset {
  const {config} = resolveProxyConfig(node, api, {mode: 'iptables', ...overrides});
  return expectRuleset({view, config, facts: nodeFacts(node, api), family, ruleset: null});
}

function rulesOf(ruleset: ExpectedRuleset): readonly unknown[] {
  return ruleset.ports.map(item => {
    const {own, shared} = ruleset.rulesOf(item);
    return [item.port.servicePortName, [...own], shared];
  });
}

describe('cached rules of Service ports from other nodes are those of the node', () => {
  test.each(captureNames('healthy', 'settings', 'eras', 'faults'))('%s', async name => {
    const snapshot = await snapshotOf(name);
    for (const family of families) {
      const view = new ClusterView(snapshot.api);
      // Each node twice: rules of a node are kept when it is not the first.
      for (const node of [...snapshot.nodes, ...snapshot.nodes]) {
        const kept = rulesOf(expected({snapshot, view, node, family}));
        expect(kept).toEqual(rulesOf(expected({snapshot, view: new ClusterView(snapshot.api), node, family})));
      }
    }
  });

  test('with other settings on each node', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const view = new ClusterView(snapshot.api);
    const settings: readonly ConfigOverrides[] = [
      {},
      {version: 'v1.23.0'},
      {version: 'v1.24.0'},
      {version: 'v1.28.0'},
      {clusterCIDRs: ['10.0.0.0/8']},
      {nodePortAddresses: ['192.0.2.0/24']},
      {nodePortAddresses: ['127.0.0.0/8']},
      {masqueradeAll: true},
    ];
    for (const overrides of [...settings, ...settings.toReversed()])
      for (const node of snapshot.nodes) {
        const fresh = {snapshot, view: new ClusterView(snapshot.api), node, family: 'IPv4', overrides} as const;
        expect(rulesOf(expected({...fresh, view}))).toEqual(rulesOf(expected(fresh)));
      }
  });
});

test('the rules of a Service port that are the same on the third node are not rendered again', async () => {
  const snapshot = await snapshotOf('healthy/1.36-iptables');
  const view = new ClusterView(snapshot.api);
  const [first, second, third] = snapshot.nodes.map(node => {
    const ruleset = expected({snapshot, view, node, family: 'IPv4'});
    const item = ruleset.ports.find(({port}) => port.servicePortName === 'default/kubernetes:https');
    return item === undefined ? undefined : ruleset.rulesOf(item);
  });
  expect(first?.own.size).toBeGreaterThan(0);
  expect(second).not.toBe(first);
  expect(third).toBe(second);
});
