import {expect, test} from 'vitest';
import {IptablesServiceView} from '../../../../src/analyze/iptables/iptables-service-view.ts';
import {analyzePort} from '../../../../src/analyze/iptables/service-port/analyze-port.ts';
import {hasOtherEndpointsOnly} from '../../../../src/analyze/iptables/service-port/endpoint-change.ts';
import type {PortCase} from '../../../../src/analyze/iptables/service-port/port-differences.ts';
import {compareRulesets} from '../../../../src/compare/compare-rulesets.ts';
import {ClusterView} from '../../../../src/expect/cluster/cluster-view.ts';
import {expectRuleset} from '../../../../src/expect/iptables/expect-ruleset.ts';
import {nodeFacts} from '../../../../src/expect/node-facts.ts';
import {resolveProxyConfig} from '../../../../src/expect/proxy-config.ts';
import type {EndpointSliceObject} from '../../../../src/model/api-objects.ts';
import {parseDumps} from '../../../../src/parse/iptables/iptables-save.ts';
import {expectationOf} from '../../../expectation.ts';
import {snapshotOf} from '../../../fixtures.ts';

/** The Service ports of a node whose kube-proxy stopped before the first endpoint of every slice was replaced. */
async function portsOfStoppedProxy(change: (dump: string) => string = dump => dump): Promise<readonly PortCase[]> {
  const {api: before, nodes} = await snapshotOf('healthy/1.36-iptables');
  const node = nodes.find(({name}) => name === 'node-a');
  const [actual] = parseDumps(change(node?.read('iptables-save')?.toString() ?? ''), 'IPv4');
  if (node === undefined || actual === undefined) throw new Error('the capture has no rules of node-a');
  const api = {...before, endpointSlices: (before.endpointSlices ?? []).map(withNewEndpoint)};
  const {config} = resolveProxyConfig(node, api, {});
  const expected = expectRuleset({view: new ClusterView(api), config, facts: nodeFacts(node, api), family: 'IPv4', ruleset: actual});
  const {differences} = compareRulesets(expectationOf(expected), actual);
  return expected.ports.flatMap(item => {
    const own = differences.filter(({owner}) => owner === item);
    const sides = {expected, actual, view: new IptablesServiceView(expected, actual), isBesideBroadRules: false};
    return own.length === 0 ? [] : [{...sides, item, differences: own}];
  });
}

function withNewEndpoint(slice: EndpointSliceObject, index: number): EndpointSliceObject {
  const [first, ...others] = slice.endpoints ?? [];
  if (first === undefined || slice.addressType !== 'IPv4') return slice;
  return {...slice, endpoints: [{...first, addresses: [`10.244.99.${index + 1}`]}, ...others]};
}

function servicesOf(ports: readonly PortCase[]): readonly string[] {
  return ports.map(({item}) => item.port.service);
}

test('one probe shows the same missing and stale endpoints as all probes', async () => {
  const ports = await portsOfStoppedProxy();
  const plain = ports.filter(hasOtherEndpointsOnly);
  expect(servicesOf(plain)).toEqual(expect.arrayContaining(['nodeport', 'sticky']));
  for (const given of plain) {
    const symptoms = analyzePort(given);
    expect(new Set(symptoms.map(({kind}) => kind))).toEqual(new Set(['missing-endpoint', 'stale-endpoint']));
    expect(symptoms).toEqual(analyzePort({...given, isBesideBroadRules: true}));
  }
});

test('all probes are walked for a Service port with a Local policy', async () => {
  const ports = await portsOfStoppedProxy();
  const local = ports.filter(({item: {port}}) => port.internalPolicyLocal || port.externalPolicyLocal);
  expect(local.length).toBeGreaterThan(0);
  expect(local.filter(hasOtherEndpointsOnly)).toEqual([]);
});

test('all probes are walked where anything but the endpoints differs', async () => {
  const ports = await portsOfStoppedProxy(dump => dump.replace(/^-A KUBE-SEP-.* -j KUBE-MARK-MASQ$\n/gm, ''));
  expect(ports.length).toBeGreaterThan(0);
  expect(ports.filter(hasOtherEndpointsOnly)).toEqual([]);
});

test('an entry that is not programmed is found beside the missing and stale endpoints', async () => {
  const ports = await portsOfStoppedProxy(dump => dump.replace(/^-A KUBE-NODEPORTS .*\/nodeport:.*\n/gm, ''));
  const given = ports.find(({item}) => item.port.service === 'nodeport');
  if (given === undefined) throw new Error('the Service does not differ');
  expect(given.differences.map(({chain}) => chain)).toContain('KUBE-NODEPORTS');
  expect(new Set(analyzePort(given).map(({kind}) => kind))).toEqual(new Set(['missing-endpoint', 'stale-endpoint', 'missing-entry']));
});
