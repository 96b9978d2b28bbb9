import {describe, expect, test} from 'vitest';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import type {Hypothesis} from '../../../src/expect/node-context.ts';
import {expectRuleset} from '../../../src/expect/iptables/expect-ruleset.ts';
import type {EndpointSliceObject, ServiceSpec} from '../../../src/model/api-objects.ts';
import {apiObjects, endpoint, service, slice} from '../../cluster.ts';
import {nodeA, type PlainConfig, proxyConfig, serviceRules, version} from '../../kube-proxy.ts';
import {d1, d4} from './templates.ts';

const ports = [{name: 'http', port: 8080}];
const spec: ServiceSpec = {
  type: 'NodePort',
  clusterIP: '10.96.1.1',
  externalTrafficPolicy: 'Local',
  ports: [{name: 'http', port: 80, nodePort: 30080}],
};
const [local, remote] = ['10.244.1.5:8080', '10.244.2.7:8080'];

function rulesOf(slices: readonly EndpointSliceObject[], hypothesis: Hypothesis = {}, config: Partial<PlainConfig> = {}) {
  const view = new ClusterView(apiObjects({services: [service('shop/web', spec)], endpointSlices: slices}));
  return serviceRules(expectRuleset({view, config: proxyConfig(config), facts: nodeA, family: 'IPv4', ruleset: null}, hypothesis));
}

describe('the expected ruleset', () => {
  const slices = [slice('shop/web', [endpoint('10.244.1.5', 'node-a'), endpoint('10.244.2.7', 'node-b')], {ports})];

  test('depends on the node name that kube-proxy uses', () => {
    expect(rulesOf(slices)).toMatchObject({SVL: d4(local)});
    expect(rulesOf(slices, {}, {nodeName: 'node-b'})).toMatchObject({SVL: d4(remote)});
    expect(rulesOf(slices, {nodeName: 'node-b'})).toMatchObject({SVL: d4(remote)});
    expect(rulesOf(slices, {nodeName: 'nobody'})).not.toHaveProperty('SVL');
  });

  test('depends on the zone, which kube-proxy may not know', () => {
    const zoned = [
      slice('shop/web', [endpoint('10.244.1.5', 'node-a', {zones: ['zone-1']}), endpoint('10.244.2.7', 'node-b', {zones: ['zone-2']})], {
        ports,
      }),
    ];
    expect(rulesOf(zoned)).toMatchObject({SVC: [d1, ...d4(local)]});
    expect(rulesOf(zoned, {zone: null})).toMatchObject({SVC: [d1, ...d4(local, remote)]});
    expect(rulesOf(zoned, {}, {zone: null})).toMatchObject({SVC: [d1, ...d4(local, remote)]});
  });

  test('can be computed with another detector', () => {
    expect(rulesOf(slices, {detector: {kind: 'none'}})).toMatchObject({SVC: d4(local, remote)});
    expect(rulesOf(slices, {detector: {kind: 'cidr', cidr: '10.9.0.0/16'}})['SVC']?.[0]).toBe(d1.replace('10.244.0.0/16', '10.9.0.0/16'));
    expect(rulesOf(slices, {masqueradeAll: true})['SVC']?.[0]).toBe(d1.replace('! -s 10.244.0.0/16 ', ''));
  });
});

describe('duplicate endpoints', () => {
  const twice = [
    slice('shop/web', [endpoint('10.244.1.5', 'node-a'), endpoint('10.244.2.7', 'node-b')], {ports}),
    slice('shop/web', [endpoint('10.244.1.5', 'node-b')], {ports, name: 'web-2'}),
  ];
  const of = (minor: string, pick: number) => {
    const view = new ClusterView(apiObjects({services: [service('shop/web', spec)], endpointSlices: twice}));
    const config = proxyConfig({version: version(minor)});
    const entries = view.entries('IPv4', {version: config.version.value, gates: {}});
    const picks = new Map(entries.map(({port}) => [port, pick]));
    const expected = expectRuleset({view, config, facts: nodeA, family: 'IPv4', ruleset: null}, {picks});
    return {rules: serviceRules(expected), lists: expected.ports[0]?.lists};
  };

  test('give every list that kube-proxy may have built', () => {
    expect(of('1.36', 0)).toMatchObject({lists: 2, rules: {SVL: d4(local)}});
    expect(of('1.36', 1).rules).not.toHaveProperty('SVL');
    expect(of('1.36', 1).rules).toMatchObject({SVC: [d1, ...d4(local, remote)]});
  });

  test('give one list if the result is defined', () => {
    expect(of('1.35', 0)).toMatchObject({lists: 1, rules: {SVL: d4(local)}});
  });
});
