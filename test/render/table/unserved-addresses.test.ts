import {expect, test} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import {withUnservedFamilies} from '../../../src/diagnosis/diagnose-node.ts';
import type {ServiceObject} from '../../../src/model/api-objects.ts';
import {traceRenderers} from '../../../src/render/trace-index.ts';
import {tree} from '../../../src/render/table/tree.ts';
import {snapshotOf} from '../../fixtures.ts';
import {type Scenario, scenario} from '../../scenario.ts';
import {plain as hundredColumns} from '../report.ts';
import {tracedIn} from '../traces.ts';

const node = 'node-b';
const plain = {...hundredColumns, width: Infinity};

/** The lines of `trace` on one node that begin with `○` and name an address without rules. */
function unserved(given: Scenario, service: string, options = plain): readonly string[] {
  const lines = tree(tracedIn(given.snapshot(), service, node), options).split('\n');
  return lines.filter(line => line.includes('no rules:')).map(line => line.replace(/^[ │]*[├└]─ /, ''));
}

async function withService(
  service: string,
  change: (spec: NonNullable<ServiceObject['spec']>) => object,
  ingress?: readonly object[],
): Promise<Scenario> {
  const given = await scenario();
  given.service(service, object => ({
    ...object,
    spec: {...object.spec, ...change(object.spec ?? {})},
    ...(ingress === undefined ? {} : {status: {loadBalancer: {ingress: ingress as never}}}),
  }));
  return given;
}

test('a load-balancer IP with ipMode Proxy is shown with the reason for its missing rules', async () => {
  const ingress = [{ip: '203.0.113.12', ipMode: 'Proxy'}];
  const given = await withService('shop/lb-local', () => ({}), ingress);
  expect(unserved(given, 'shop/lb-local')).toEqual([
    '○ load-balancer IP 203.0.113.12:80: no rules: ipMode is Proxy: connections go to the load balancer',
  ]);
  const [port] = JSON.parse(traceRenderers.json(tracedIn(given.snapshot(), 'shop/lb-local', node), plain)).traces;
  expect(port.unserved).toEqual([
    {kind: 'loadBalancerIP', address: '203.0.113.12', port: 80, reason: 'ipMode is Proxy: connections go to the load balancer'},
  ]);
});

test('a load-balancer IP with ipMode Proxy is not shown for a kube-proxy that predates ipMode and programs it', async () => {
  const given = await withService('shop/lb-local', () => ({}), [{ip: '203.0.113.12', ipMode: 'Proxy'}]);
  given.file(node, 'kube-proxy-version', 'v1.28.3\n');
  expect(unserved(given, 'shop/lb-local')).toEqual([]);
});

test('a load balancer with a DNS name, and one without an address yet, are shown', async () => {
  const named = await withService('shop/lb-local', () => ({}), [{hostname: 'lb.example.com'}]);
  expect(unserved(named, 'shop/lb-local')).toEqual([
    '○ load-balancer IP lb.example.com:80: no rules: a DNS name: connections go to the load balancer',
  ]);
  const pending = await withService('shop/lb-local', () => ({}), []);
  expect(unserved(pending, 'shop/lb-local')).toEqual(['○ load-balancer IP: no rules: pending: status.loadBalancer has no address yet']);
});

test('external and load-balancer IPs of a family that the Service does not have are shown', async () => {
  const change = () => ({externalIPs: ['2001:db8::5', '198.51.100.7']});
  const given = await withService('shop/lb-local', change, [{ip: '2001:db8::1'}, {ip: '203.0.113.12'}]);
  expect(unserved(given, 'shop/lb-local')).toEqual([
    '○ load-balancer IP [2001:db8::1]:80: no rules: the Service has no IPv6 cluster IP',
    '○ external IP [2001:db8::5]:80: no rules: the Service has no IPv6 cluster IP',
  ]);
});

test('external IPs are shown when the gate of kube-proxy 1.36 is off', async () => {
  const given = await withService('shop/lb-local', () => ({externalIPs: ['198.51.100.7']}));
  const report = tracedIn(given.snapshot(), 'shop/lb-local', node);
  expect(report.traces[0]?.unserved).toBeUndefined();
  given.file(
    node,
    'kube-proxy-config.yaml',
    'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nfeatureGates:\n  AllowServiceExternalIPs: false\n',
  );
  given.file(node, 'configz.json', null);
  expect(unserved(given, 'shop/lb-local')).toEqual([
    '○ external IP 198.51.100.7:80: no rules: the feature gate AllowServiceExternalIPs of kube-proxy is off',
  ]);
});

test('a node port that answers on no address of the node is shown, and one that was not allocated', async () => {
  const given = await scenario();
  const snapshot = given.snapshot();
  const overrides = {nodePortAddresses: ['192.0.2.0/24']};
  const report = diagnose(snapshot, {
    ...{toolVersion: '0.0.0', trace: true, overrides},
    selects: ({metadata}) => metadata.name === 'lb-local',
    nodes: name => name === node,
  });
  expect(report.traces[0]?.unserved).toEqual([
    {kind: 'nodePort', address: null, port: 30084, reason: 'nodePortAddresses (192.0.2.0/24) selects no IPv4 address of this node'},
  ]);
  const change = ({ports}: NonNullable<ServiceObject['spec']>) => ({
    allocateLoadBalancerNodePorts: false,
    ports: (ports ?? []).map(port => ({...port, nodePort: 0})),
  });
  expect(unserved(await withService('shop/lb-local', change), 'shop/lb-local')).toEqual([
    '○ node port: no rules: allocateLoadBalancerNodePorts is false',
  ]);
});

test('the cluster IP of a family that an old kube-proxy does not serve is shown', async () => {
  const snapshot = await snapshotOf('healthy/1.36-iptables');
  const services = (snapshot.api.services ?? []).filter(({metadata}) => metadata.name === 'dual');
  const traces = tracedIn(snapshot, 'infra/dual', node).traces.filter(({family}) => family === 'IPv4');
  const [first] = withUnservedFamilies(traces, services, []);
  expect(first?.unserved).toEqual([
    {kind: 'clusterIP', address: 'fd00:96::3', port: 9153, reason: 'kube-proxy on this node serves IPv4 only'},
  ]);
  expect(withUnservedFamilies(traces, services, [{family: 'IPv6'}])).toEqual(traces);
});

test('the reason wraps at words on a narrow terminal', async () => {
  const given = await withService('shop/lb-local', () => ({}), [{ip: '203.0.113.12', ipMode: 'Proxy'}]);
  const lines = tree(tracedIn(given.snapshot(), 'shop/lb-local', node), {...plain, width: 60}).split('\n');
  const at = lines.findIndex(line => line.includes('○ load-balancer IP'));
  expect(lines.slice(at, at + 3)).toEqual([
    '   └─ ○ load-balancer IP 203.0.113.12:80: no rules: ipMode',
    '         is Proxy: connections go to the load balancer',
    '',
  ]);
});
