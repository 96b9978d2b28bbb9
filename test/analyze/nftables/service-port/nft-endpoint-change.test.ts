/** One probe of each kind of client shows what all probes show, and all are walked wherever it might not. */
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {attribute} from '../../../../src/analyze/analyze-family.ts';
import {concernedBy} from '../../../../src/analyze/nftables/nft-layout.ts';
import {asNftExpectation} from '../../../../src/analyze/nftables/resolve-nft-version.ts';
import {type NftPortCase, nftServiceView} from '../../../../src/analyze/nftables/nft-case.ts';
import {tableWalkOf} from '../../../../src/analyze/outcomes/environment.ts';
import {probeWalks} from '../../../../src/analyze/outcomes/probes-to-walk.ts';
import {
  analyzeNftPort,
  hasOtherNftEndpointsOnly,
  nftAffinityRules,
} from '../../../../src/analyze/nftables/service-port/analyze-nft-port.ts';
import {NftSemantics} from '../../../../src/analyze/nftables/service-port/nft-semantics.ts';
import {comparePathOutcomes} from '../../../../src/analyze/outcomes/compare-outcomes.ts';
import {probesFor} from '../../../../src/analyze/outcomes/probes.ts';
import type {Symptom} from '../../../../src/analyze/symptoms/symptom.ts';
import {SymptomList} from '../../../../src/analyze/symptoms/symptom-list.ts';
import {readBundle} from '../../../../src/collect/bundle/read-bundle.ts';
import {compareNftTable} from '../../../../src/compare/compare-nft-table.ts';
import {proxyTableId} from '../../../../src/expect/nftables/expected-table.ts';
import type {EndpointSliceObject} from '../../../../src/model/api-objects.ts';
import type {Family} from '../../../../src/model/address.ts';
import type {ApiObjects, NodeDump} from '../../../../src/model/snapshot.ts';
import {formatNftRuleset} from '../../../rendered-nft-ruleset.ts';
import {parseNftDump} from '../../../../src/parse/nftables/nft-dump.ts';
import {buildCluster} from '../../../bench/build-cluster.ts';
import {withReplacedEndpoints} from '../../../bench/replace-endpoints.ts';
import {writeApiObjects, writeBundle} from '../../../bench/synthetic-cluster.ts';
import {snapshotOf} from '../../../fixtures.ts';
import {expectedTable} from '../../../nft-expectation.ts';
import {replaced, withRules} from '../../../nft-scenario.ts';

interface Stopped {
  readonly api: ApiObjects;
  readonly node: NodeDump;
}

/** A node whose kube-proxy stopped before the first ready endpoint of every slice was replaced. */
async function stoppedCapture(name: string): Promise<Stopped> {
  const {api, nodes} = await snapshotOf(name);
  const node = nodes.find(one => one.name === 'node-a');
  if (node === undefined) throw new Error('the capture has no node-a');
  return {node, api: {...api, endpointSlices: (api.endpointSlices ?? []).map(withNewEndpoint)}};
}

function withNewEndpoint(slice: EndpointSliceObject, index: number): EndpointSliceObject {
  const endpoints = slice.endpoints ?? [];
  const replacedAt = endpoints.findIndex(({conditions}) => conditions?.ready !== false);
  const address = slice.addressType === 'IPv6' ? `fd00:10:244:99::${index + 1}` : `10.244.99.${index + 1}`;
  return {...slice, endpoints: endpoints.map((endpoint, at) => (at === replacedAt ? {...endpoint, addresses: [address]} : endpoint))};
}

let temp: string;

beforeAll(() => {
  temp = mkdtempSync(join(tmpdir(), 'svc-trace-nft-changes-'));
});

afterAll(() => rmSync(temp, {recursive: true}));

async function stoppedCluster(): Promise<Stopped> {
  const cluster = buildCluster({services: 44, endpoints: 4, nodes: 1, seed: 3});
  writeBundle(temp, cluster, 'nftables');
  writeApiObjects(temp, withReplacedEndpoints(cluster, 0.3, 3));
  const {api, nodes} = await readBundle(temp);
  const [node] = nodes;
  if (node === undefined) throw new Error('the bundle has no node');
  return {api, node};
}

/** The Service ports that differ, of a dump that reads otherwise. */
function portsOf({api, node}: Stopped, {family = 'IPv4', change = text => text}: {family?: Family; change?: (dump: string) => string}) {
  const content = node.read('nft.json') ?? node.read('nft.txt');
  const dump = parseNftDump(Buffer.from(change(formatNftRuleset(parseNftDump(content ?? Buffer.from(''))))));
  const actual = dump.tables.get(proxyTableId(family));
  if (actual === undefined) throw new Error('the node has no table of kube-proxy');
  const expected = expectedTable({api, node, family});
  const {byPort} = attribute({
    differences: compareNftTable(asNftExpectation(expected), actual).differences,
    concerned: concernedBy(expected),
    isUnexpected: () => false,
  });
  const view = nftServiceView(expected, actual);
  return [...byPort].map(
    ([item, differences]): NftPortCase => ({
      item,
      differences,
      expected,
      actual,
      view,
      senders: () => ({pods: new Map(), nodes: new Map()}),
    }),
  );
}

/** The symptoms that all probes show, each of them walked, those of every endpoint's own connections too. */
function walked(given: NftPortCase): readonly Symptom[] {
  const {item, expected, view} = given;
  const symptoms = new SymptomList(item.port);
  comparePathOutcomes({
    ...{item, symptoms},
    probes: probesFor({item, context: expected.context, hairpins: item.endpoints.reachable}),
    walk: probeWalks(expected.context, {expected: tableWalkOf(expected), actual: tableWalkOf(view)}),
    semantics: new NftSemantics(given),
    affinity: () => nftAffinityRules(given, symptoms),
  });
  return symptoms.all;
}

const captures = ['nftables/1.31', 'nftables/1.33', 'nftables/1.36', 'nftables/masquerade-all', 'nftables/nodeport-all'];

describe.each<[string, () => Promise<Stopped>]>([
  ...captures.map(name => [name, () => stoppedCapture(name)] as [string, () => Promise<Stopped>]),
  ['a made-up cluster', stoppedCluster],
])('%s', (_, stopped) => {
  test.each(['IPv4', 'IPv6'] as const)('one probe shows the missing and stale endpoints that all probes show: %s', async family => {
    const plain = portsOf(await stopped(), {family}).filter(hasOtherNftEndpointsOnly);
    expect(plain.length).toBeGreaterThan(0);
    for (const given of plain) {
      const symptoms = analyzeNftPort(given);
      expect(symptoms.map(({kind}) => kind)).toEqual(expect.arrayContaining(['missing-endpoint', 'stale-endpoint']));
      expect(symptoms).toEqual(walked(given));
    }
  });

  test('Service ports with a Local policy are among them', async () => {
    const local = portsOf(await stopped(), {}).filter(({item: {port}}) => port.internalPolicyLocal || port.externalPolicyLocal);
    expect(local.filter(hasOtherNftEndpointsOnly).length).toBeGreaterThan(0);
  });
});

const web = 'service-KHN6ECMT-shop/web/tcp/http';

/** A Service port of the namespace shop, one of whose endpoints has another address now. */
async function given(service: string, change: (dump: string) => string = dump => dump, capture = 'nftables/1.36'): Promise<NftPortCase> {
  const ports = portsOf(await stoppedCapture(capture), {change});
  const found = ports.find(({item: {port}}) => port.service === service && port.namespace === 'shop');
  if (found === undefined) throw new Error(`shop/${service} does not differ`);
  return found;
}

describe('all probes are walked', () => {
  const picks =
    'meta l4proto tcp dnat ip to numgen random mod 3 map { 0 : 10.244.11.4 . 8080, 1 : 10.244.11.5 . 8080, 2 : 10.244.12.4 . 8080 }';

  test.each<[what: string, change: (dump: string) => string]>([
    ['if another rule is in front', withRules(web, 'ip saddr 10.244.11.9 accept', picks)],
    ['if another rule follows', withRules(web, picks, 'ip saddr 10.244.11.9 dnat to 10.0.0.1:80')],
    ['if the rule matches more', withRules(web, `ip saddr 10.244.0.0/16 ${picks}`)],
    ['if the rule matches another protocol', withRules(web, picks.replace('tcp', 'udp'))],
    ['if the shares are other', withRules(web, picks.replace('mod 3', 'mod 6'))],
    ['if the chain is empty', withRules(web)],
    ['if its entry leads elsewhere', replaced(/(10\.96\.1\.1 \. tcp \. 80 : goto )\S+?(?=,?\s)/, '$1reject-chain')],
    ['if its entry is missing', replaced(/10\.96\.1\.1 \. tcp \. 80 : goto \S+,\s+/, '')],
    [
      'if it is refused besides',
      replaced('map no-endpoint-services {', 'map no-endpoint-services {\n\t\telements = { 10.96.1.1 . tcp . 80 : drop }'),
    ],
    ['if the dump is truncated', dump => dump.slice(0, dump.indexOf('table ip6 kube-proxy') - 4)],
  ])('%s', async (_, change) => {
    expect(hasOtherNftEndpointsOnly(await given('web'))).toBe(true);
    expect(hasOtherNftEndpointsOnly(await given('web', change))).toBe(false);
  });

  test('if a chain of an endpoint holds another rule', async () => {
    const capture = 'nftables/1.31';
    const {item, actual} = await given('web', undefined, capture);
    const [chain = ''] = [...actual.chains.keys()].filter(name => name.startsWith('endpoint-') && name.includes(item.names.base.slice(9)));
    const rules =
      actual
        .chain(chain)
        ?.rules()
        .map(({text}) => text) ?? [];
    expect(hasOtherNftEndpointsOnly(await given('web', withRules(chain, ...rules), capture))).toBe(true);
    for (const others of [['meta mark 0x1 return', ...rules], rules.slice(1), [...rules, 'accept']])
      expect(hasOtherNftEndpointsOnly(await given('web', withRules(chain, ...others), capture))).toBe(false);
  });

  test('if the chain of an endpoint that is not picked is there', async () => {
    const {item, actual} = await given('sticky');
    const missing = item.endpoints.cluster.find(endpoint => actual.chain(item.names.endpoint(endpoint)) === undefined);
    const chain = missing === undefined ? '' : item.names.endpoint(missing);
    const added = replaced('\tchain services {', `\tchain ${chain} {\n\t\taccept\n\t}\n\n\tchain services {`);
    expect(hasOtherNftEndpointsOnly(await given('sticky'))).toBe(true);
    expect(hasOtherNftEndpointsOnly(await given('sticky', added))).toBe(false);
  });

  test('if the clients of an endpoint are remembered for another time', async () => {
    const {item, actual} = await given('sticky');
    const stayed = item.endpoints.cluster.find(endpoint => actual.set(item.names.affinity(endpoint)) !== undefined);
    const set = stayed === undefined ? '' : item.names.affinity(stayed);
    const change = (dump: string): string => {
      const at = dump.indexOf('timeout ', dump.indexOf(`set ${set} {`));
      return `${dump.slice(0, at)}${dump.slice(at).replace(/timeout \w+/, 'timeout 7s')}`;
    };
    expect(hasOtherNftEndpointsOnly(await given('sticky', change))).toBe(false);
  });
});
