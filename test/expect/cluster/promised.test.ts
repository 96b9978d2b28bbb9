import {expect, test} from 'vitest';
import {ClusterView} from '../../../src/expect/cluster/cluster-view.ts';
import {allows, breaches, promisedEntries, type PromiseInput, type Seen, type Sender} from '../../../src/expect/cluster/promised.ts';
import {parseAddress} from '../../../src/model/address.ts';
import type {ServiceSpec, SliceEndpoint} from '../../../src/model/api-objects.ts';
import type {EntryKind} from '../../../src/model/service-port.ts';
import {apiObjects, type EndpointSetup, endpoint, gone, type LoadBalancerIngress, leaving, service, slice} from '../../cluster.ts';

const here = endpoint('10.244.1.5', 'node-a');
const there = endpoint('10.244.2.5', 'node-b');
const [hereName, thereName] = ['10.244.1.5:8080', '10.244.2.5:8080'];
const senders: Readonly<Record<Sender, string>> = {
  pod: '10.244.1.9',
  node: '172.18.0.11',
  endpoint: '10.244.1.5',
  outside: '203.0.113.9',
};

const loadBalancer: ServiceSpec = {
  ...{type: 'LoadBalancer', clusterIP: '10.96.0.10', clusterIPs: ['10.96.0.10'], ipFamilies: ['IPv4']},
  ports: [{port: 80, nodePort: 30080}],
  externalIPs: ['198.51.100.7'],
};

/** A Service with these endpoints on node-a: a node port, an external IP, and the load-balancer IP 192.0.2.10. */
function given(
  endpoints: readonly SliceEndpoint[],
  spec: ServiceSpec = {},
  ingress: readonly LoadBalancerIngress[] = [{ip: '192.0.2.10'}],
): PromiseInput {
  const services = [service('shop/web', {...loadBalancer, ...spec}, {ingress})];
  const view = new ClusterView(apiObjects({services, endpointSlices: [slice('shop/web', endpoints)]}));
  const [entry] = view.entries('IPv4', {version: {text: 'v1.37.0', minor: 37, patch: 0}, gates: {}});
  if (entry === undefined) throw new Error('the Service is not served');
  return {port: entry.port, endpoints: entry.set.endpoints, node: {name: 'node-a', zone: 'zone-1', addresses: ['172.18.0.11']}};
}

/** What is allowed, in words: each choice, then the other ends. */
function promise(input: PromiseInput, sender: Sender, kind: EntryKind, from = senders[sender]): string {
  const source = parseAddress(from);
  if (source === null) throw new Error(`${from} is no address`);
  const allowed = allows(input, sender, {kind, source});
  if (allowed === null) return 'open';
  const choices = [...new Set(allowed.choices.map(choice => [...choice].sort().join(' + ')))];
  return [...choices, ...allowed.ends].join(' | ');
}

const nobody = 'refused | dropped';
const both = `${hereName} + ${thereName}`;
const all: readonly Sender[] = ['pod', 'node', 'outside'];
const externally: readonly EntryKind[] = ['nodePort', 'loadBalancerIP', 'externalIP'];
const localOutside: ServiceSpec = {externalTrafficPolicy: 'Local'};
const localInside: ServiceSpec = {internalTrafficPolicy: 'Local'};

test('without a policy all usable endpoints serve everybody at every entry', () => {
  const input = given([here, there]);
  for (const kind of externally) expect(all.map(sender => promise(input, sender, kind))).toEqual([both, both, both]);
  expect(all.map(sender => promise(input, sender, 'clusterIP'))).toEqual([both, both, 'open']);
});

test('the internal policy Local is about the cluster IP alone, and drops or refuses where no endpoint is on the node', () => {
  expect(promise(given([here, there], localInside), 'pod', 'clusterIP')).toBe(hereName);
  expect(promise(given([there], localInside), 'node', 'clusterIP')).toBe(nobody);
  for (const kind of externally) expect(promise(given([there], localInside), 'outside', kind)).toBe(thereName);
});

test('the external policy Local holds for clients outside', () => {
  for (const kind of externally) {
    expect(promise(given([here, there], localOutside), 'outside', kind)).toBe(hereName);
    expect(promise(given([there], localOutside), 'outside', kind)).toBe(nobody);
  }
  expect(promise(given([there], localOutside), 'pod', 'clusterIP')).toBe(thereName);
});

test('inside the cluster, external addresses have the policy Cluster, and a node port may have either', () => {
  const input = given([here, there], localOutside);
  for (const kind of ['loadBalancerIP', 'externalIP'] as const)
    expect([promise(input, 'pod', kind), promise(input, 'node', kind)]).toEqual([both, both]);
  expect(promise(input, 'pod', 'nodePort')).toBe(`${both} | ${hereName}`);
  expect(promise(given([there], localOutside), 'node', 'nodePort')).toBe(`${thereName} | ${nobody}`);
});

test('without endpoints, packets from inside to an external address may go on to the load balancer', () => {
  expect(promise(given([]), 'pod', 'loadBalancerIP')).toBe('open');
  expect(promise(given([]), 'outside', 'loadBalancerIP')).toBe(nobody);
  expect(promise(given([]), 'pod', 'clusterIP')).toBe(nobody);
});

test('endpoints that terminate serve only where no ready one does', () => {
  const terminating = endpoint('10.244.1.6', 'node-a', leaving);
  const stopped = endpoint('10.244.1.7', 'node-a', gone);
  expect(promise(given([terminating, stopped, there]), 'pod', 'clusterIP')).toBe(thereName);
  expect(promise(given([terminating, stopped]), 'pod', 'clusterIP')).toBe('10.244.1.6:8080');
  expect(promise(given([terminating, there], localOutside), 'outside', 'nodePort')).toBe('10.244.1.6:8080');
  expect(promise(given([stopped]), 'pod', 'clusterIP')).toBe(nobody);
});

test('an endpoint without a node is never local', () => {
  expect(promise(given([endpoint('10.244.9.9')], localOutside), 'outside', 'nodePort')).toBe(nobody);
});

test('hints are a wish: all endpoints, or those for this zone or node, if every ready one has hints', () => {
  const hinted = (setup: EndpointSetup, other: EndpointSetup): PromiseInput =>
    given([endpoint('10.244.1.5', 'node-a', setup), endpoint('10.244.2.5', 'node-b', other)]);
  expect(promise(hinted({zones: ['zone-1']}, {zones: ['zone-2']}), 'pod', 'clusterIP')).toBe(`${both} | ${hereName}`);
  expect(promise(hinted({nodes: ['node-a']}, {nodes: ['node-b']}), 'pod', 'clusterIP')).toBe(`${both} | ${hereName}`);
  expect(promise(hinted({zones: ['zone-1']}, {}), 'pod', 'clusterIP')).toBe(both);
  expect(promise(hinted({zones: ['zone-2']}, {zones: ['zone-2']}), 'pod', 'clusterIP')).toBe(both);
});

test('source ranges are about clients outside at the load-balancer IP', () => {
  const ranged = (...loadBalancerSourceRanges: string[]): PromiseInput => given([here], {loadBalancerSourceRanges});
  expect(promise(ranged('203.0.113.0/24'), 'outside', 'loadBalancerIP')).toBe(hereName);
  expect(promise(ranged('192.168.0.0/16'), 'outside', 'loadBalancerIP')).toBe(nobody);
  expect(promise(ranged('192.168.0.0/16'), 'outside', 'nodePort')).toBe(hereName);
  expect(promise(ranged('192.168.0.0/16'), 'outside', 'externalIP')).toBe(hereName);
  expect(promise(ranged('0.0.0.0/0'), 'outside', 'loadBalancerIP')).toBe(hereName);
  expect(promise(ranged('2001:db8::/32'), 'outside', 'loadBalancerIP')).toBe('open');
  expect(promise(ranged('192.168.0.0/16'), 'pod', 'loadBalancerIP')).toBe(`${hereName} | ${nobody}`);
  expect(promise(ranged('172.18.0.0/16'), 'node', 'loadBalancerIP', '192.0.2.10')).toBe(hereName);
});

test('entries of the node itself, of a load balancer that is a proxy, and of two kinds with ranges are left open', () => {
  const entries = (spec: ServiceSpec, ingress: LoadBalancerIngress): readonly string[] =>
    promisedEntries(given([here], spec, [ingress])).map(({kind, address}) => `${kind} ${address}`);
  const usual = ['clusterIP 10.96.0.10', 'nodePort 172.18.0.11'];
  expect(entries({}, {ip: '192.0.2.10'})).toEqual([...usual, 'loadBalancerIP 192.0.2.10', 'externalIP 198.51.100.7']);
  expect(entries({externalIPs: ['172.18.0.11']}, {ip: '192.0.2.10', ipMode: 'Proxy'})).toEqual(usual);
  expect(entries({externalIPs: []}, {hostname: 'lb.example.com'})).toEqual(usual);
  const ranged = {externalIPs: ['192.0.2.10'], loadBalancerSourceRanges: ['203.0.113.0/24']};
  expect(entries(ranged, {ip: '192.0.2.10'})).toEqual(usual);
  expect(entries({ports: [{port: 80}], externalIPs: []}, {hostname: 'lb.example.com'})).toEqual(usual.slice(0, 1));
});

/** How a walk that ends like this breaks the promise. */
function broken(input: PromiseInput, sender: Sender, kind: EntryKind, seen: Partial<Seen>): readonly string[] {
  const source = parseAddress(senders[sender]);
  const allowed = source === null ? null : allows(input, sender, {kind, source});
  if (allowed === null) throw new Error('nothing is promised');
  return breaches(allowed, {destinations: new Map(), passed: 0, rejected: 0, dropped: 0, undecided: 0, ...seen}).map(
    ({kind: how, endpoints}) => [how, ...endpoints].join(' '),
  );
}

function reached(...ends: readonly (readonly [name: string, masquerade: boolean])[]): Pick<Seen, 'destinations'> {
  return {destinations: new Map(ends.map(([name, masquerade]) => [name, {masquerade}]))};
}

test('a walk that reaches the promised endpoints breaks nothing', () => {
  const input = given([here, there]);
  expect(broken(input, 'pod', 'clusterIP', reached([hereName, false], [thereName, false]))).toEqual([]);
  expect(broken(input, 'outside', 'nodePort', reached([hereName, true], [thereName, true]))).toEqual([]);
  expect(broken(input, 'pod', 'clusterIP', {undecided: 1})).toEqual([]);
});

test('a connection whose replies do not come back is as good as dropped', () => {
  const input = given([here, there]);
  expect(broken(input, 'outside', 'nodePort', reached([hereName, false], [thereName, false]))).toEqual([`unanswered ${thereName}`]);
  expect(broken(input, 'endpoint', 'clusterIP', reached([hereName, false], [thereName, false]))).toEqual([`unanswered ${hereName}`]);
  expect(broken(given([there], localOutside), 'outside', 'nodePort', reached([thereName, false]))).toEqual([]);
});

test('endpoints that should not be reached, or should, and refusals are named', () => {
  expect(broken(given([here, there], localInside), 'pod', 'clusterIP', reached([hereName, false], [thereName, false]))).toEqual([
    `unwanted ${thereName}`,
  ]);
  expect(broken(given([here, there]), 'pod', 'clusterIP', reached([hereName, false]))).toEqual([`unserved ${thereName}`]);
  expect(broken(given([here]), 'pod', 'clusterIP', {dropped: 1})).toEqual(['dropped']);
  expect(broken(given([here]), 'outside', 'loadBalancerIP', {passed: 1})).toEqual(['passed']);
});

test("the external policy Local keeps the client's address by the API, a cluster IP that of pods by custom", () => {
  expect(broken(given([here], localOutside), 'outside', 'nodePort', reached([hereName, true]))).toEqual([`source-changed ${hereName}`]);
  expect(broken(given([here]), 'pod', 'clusterIP', reached([hereName, true]))).toEqual([`source-changed ${hereName}`]);
  expect(broken(given([here]), 'node', 'clusterIP', reached([hereName, true]))).toEqual([]);
});

test('whoever no range holds is kept out by the API outside, and by custom inside', () => {
  const input = given([here], {loadBalancerSourceRanges: ['192.168.0.0/16']});
  expect(broken(input, 'outside', 'loadBalancerIP', reached([hereName, false]))).toEqual([`unwanted ${hereName}`]);
  expect(broken(input, 'pod', 'loadBalancerIP', reached([hereName, false]))).toEqual([`admitted ${hereName}`]);
  expect(broken(input, 'pod', 'loadBalancerIP', {dropped: 1})).toEqual([]);
});
