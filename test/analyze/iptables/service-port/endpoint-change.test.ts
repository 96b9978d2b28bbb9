import {describe, expect, test} from 'vitest';
import {iptablesServiceView} from '../../../../src/analyze/iptables/rules-of-ports.ts';
import {analyzePort} from '../../../../src/analyze/iptables/service-port/analyze-port.ts';
import {lacksEndpointRulesOnly} from '../../../../src/analyze/iptables/service-port/endpoint-change.ts';
import type {PortCase} from '../../../../src/analyze/iptables/service-port/port-differences.ts';
import {compareRulesets} from '../../../../src/compare/compare-rulesets.ts';
import {ClusterView} from '../../../../src/expect/cluster/cluster-view.ts';
import {expectRuleset} from '../../../../src/expect/iptables/expect-ruleset.ts';
import {nodeFacts} from '../../../../src/expect/read-node-facts.ts';
import {resolveProxyConfig} from '../../../../src/expect/resolve-proxy-config.ts';
import type {EndpointSliceObject} from '../../../../src/model/api-objects.ts';
import type {ApiObjects, NodeDump} from '../../../../src/model/snapshot.ts';
import {parseDumps} from '../../../../src/parse/iptables/iptables-save.ts';
import {expectationOf} from '../../../expectation.ts';
import {snapshotOf} from '../../../fixtures.ts';

/** The Service ports of a node whose kube-proxy stopped before the first endpoint of every slice was replaced. */
async function portsOfStoppedProxy(change: (dump: string) => string = dump => dump): Promise<readonly PortCase[]> {
  return differingPorts(change, withNewEndpoint);
}

/** The Service ports of a node that differ. */
async function differingPorts(
  change: (dump: string) => string,
  renewed: (slice: EndpointSliceObject, index: number) => EndpointSliceObject = slice => slice,
): Promise<readonly PortCase[]> {
  const {api, nodes} = await snapshotOf('healthy/1.36-iptables');
  const node = nodes.find(({name}) => name === 'node-a');
  return portsThatDiffer(node, {...api, endpointSlices: (api.endpointSlices ?? []).map(renewed)}, change);
}

function portsThatDiffer(node: NodeDump | undefined, api: ApiObjects, change: (dump: string) => string): readonly PortCase[] {
  const [actual] = parseDumps(change(node?.read('iptables-save')?.toString() ?? ''), 'IPv4');
  if (node === undefined || actual === undefined) throw new Error('the node has no rules');
  const {config} = resolveProxyConfig(node, api, {});
  const expected = expectRuleset({view: new ClusterView(api), config, facts: nodeFacts(node, api), family: 'IPv4', ruleset: actual});
  const {differences} = compareRulesets(expectationOf(expected), actual);
  return expected.ports.flatMap(item => {
    const own = differences.filter(({owner}) => owner === item);
    const sides = {
      expected,
      actual,
      view: iptablesServiceView(expected, actual),
      isBesideBroadRules: false,
      senders: () => ({pods: new Map(), nodes: new Map()}),
    };
    return own.length === 0 ? [] : [{...sides, item, differences: own}];
  });
}

function withNewEndpoint(slice: EndpointSliceObject, index: number): EndpointSliceObject {
  const [first, ...others] = slice.endpoints ?? [];
  if (first === undefined || slice.addressType !== 'IPv4') return slice;
  return {...slice, endpoints: [{...first, addresses: [`10.244.99.${index + 1}`]}, ...others]};
}

test('an entry that is not programmed is found beside the missing and stale endpoints', async () => {
  const ports = await portsOfStoppedProxy(dump => dump.replace(/^-A KUBE-NODEPORTS .*\/nodeport:.*\n/gm, ''));
  const given = ports.find(({item}) => item.port.service === 'nodeport');
  if (given === undefined) throw new Error('the Service does not differ');
  expect(given.differences.map(({rule}) => rule.chain)).toContain('KUBE-NODEPORTS');
  expect(new Set(analyzePort(given).map(({kind}) => kind))).toEqual(new Set(['missing-endpoint', 'stale-endpoint', 'missing-entry']));
});

/** Which lines of a kind are left out: those of the first, the second… endpoint of each chain. */
function without(lines: RegExp, nth: number): (dump: string) => string {
  const seen = new Map<string, number>();
  return dump =>
    dump.replace(lines, (line, chain: string) => {
      const count = seen.get(chain) ?? 0;
      seen.set(chain, count + 1);
      return count === nth ? '' : line;
    });
}

const picks = /^-A (KUBE-SVC-\S+) .* -j KUBE-SEP-\S+\n/gm;
/** The comment names the Service port. */
const rewrites = /^-A KUBE-SEP-\S+ .*--comment ("?\S+?"?) .* -j DNAT .*\n/gm;

describe.each([
  ['the rule that picks an endpoint', picks],
  ['the rule that sends to an endpoint', rewrites],
])('without %s', (_, lines) => {
  test.each([0, 1, 2])('one probe shows what all probes show: endpoint %i', async nth => {
    const ports = await differingPorts(without(lines, nth));
    const plain = ports.filter(lacksEndpointRulesOnly);
    expect(plain.length).toBeGreaterThan(0);
    for (const given of plain)
      expect(analyzePort(given)).toEqual(
        analyzePort({...given, isBesideBroadRules: true, senders: () => ({pods: new Map(), nodes: new Map()})}),
      );
    expect(plain.some(given => analyzePort(given).some(({kind}) => kind === 'missing-endpoint'))).toBe(true);
  });

  test('all probes are walked with a Local policy, with affinity, and beside another difference', async () => {
    const ports = await differingPorts(without(lines, 0));
    const others = ports.filter(given => !lacksEndpointRulesOnly(given)).map(({item: {port}}) => port);
    expect(others.some(({affinitySeconds}) => affinitySeconds !== null)).toBe(true);
    expect(others.some(({externalPolicyLocal}) => externalPolicyLocal)).toBe(true);
    expect(others.some(({internalPolicyLocal}) => internalPolicyLocal)).toBe(true);
    const beside = await differingPorts(dump => {
      const missing = without(lines, 0)(dump);
      return missing.replace(/^-A (KUBE-SVC-\S+) /gm, '-A $1 -s 10.9.9.9/32 -j RETURN\n$&');
    });
    expect(beside.length).toBeGreaterThan(0);
    expect(beside.filter(lacksEndpointRulesOnly)).toEqual([]);
    expect(
      (await differingPorts(dump => dump.replace(/^-A KUBE-SEP-.* -j KUBE-MARK-MASQ\n/gm, ''))).filter(lacksEndpointRulesOnly),
    ).toEqual([]);
  });
});
