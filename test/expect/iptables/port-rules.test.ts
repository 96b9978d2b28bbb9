import {describe, expect, test} from 'vitest';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import type {ExpectedRuleset} from '../../../src/expect/iptables/expected-ruleset.ts';
import {expectRuleset} from '../../../src/expect/iptables/expect-ruleset.ts';
import {nodeFacts} from '../../../src/expect/read-node-facts.ts';
import {type ConfigOverrides, resolveProxyConfig} from '../../../src/expect/resolve-proxy-config.ts';
import {families, type Family} from '../../../src/model/address.ts';
import type {NodeDump, Snapshot} from '../../../src/model/snapshot.ts';
import {someOf} from '../../cases.ts';
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
    for (const {chain, text, line = `-A ${chain} ${text}`} of shared) expect(line).toBe(`-A ${chain} ${text}`);
    return [item.port.servicePortName, [...own], shared.map(({table, chain, text}) => ({table, chain, text}))];
  });
}

describe('cached rules of Service ports from other nodes are those of the node', () => {
  test.each(someOf(captureNames('healthy', 'settings', 'eras', 'faults')))('%s', async name => {
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

test('a node that source ranges of a Service hold has other rules than one that they do not', async () => {
  const snapshot = await snapshotOf('healthy/1.36-iptables');
  const [first, second] = snapshot.nodes;
  if (first === undefined || second === undefined) throw new Error('no two nodes');
  const own = nodeFacts(second, snapshot.api).hostIPs.find(address => !address.includes(':'));
  const services = (snapshot.api.services ?? []).map(service =>
    service.metadata.name === 'lb-ranges'
      ? {...service, spec: {...service.spec, loadBalancerSourceRanges: ['203.0.113.0/24', `${own}/32`]}}
      : service,
  );
  const given = {...snapshot, api: {...snapshot.api, services}};
  const view = new ClusterView(given.api);
  const firewalls = [first, second, first, second, second, first].map(node => {
    const kept = rulesOf(expected({snapshot: given, view, node, family: 'IPv4'}));
    expect(kept).toEqual(rulesOf(expected({snapshot: given, view: new ClusterView(given.api), node, family: 'IPv4'})));
    return kept.find(each => JSON.stringify(each).startsWith('["shop/lb-ranges:'));
  });
  expect(firewalls[2]).not.toEqual(firewalls[1]);
  expect(firewalls[3]).toEqual(firewalls[1]);
  expect(firewalls[5]).toEqual(firewalls[0]);
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
