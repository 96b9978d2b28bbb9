import {expect, test} from 'vitest';
import {diagnose} from '../../../src/diagnose.ts';
import {seededRandom} from '../../bench/random.ts';
import {apiObjects, endpoint, nodeDump, service, slice} from '../../cluster.ts';
import {withFiles} from '../../fixtures.ts';
import {writtenNode} from '../../rendered-node.ts';

// Two load balancers that let in clients of some networks alone, and a Service with a cluster IP.
const names = ['shop/a', 'shop/b', 'shop/c'];
const services = names.map((name, index) => {
  const clusterIP = `10.96.1.${index + 1}`;
  const spec = {clusterIP, clusterIPs: [clusterIP], ipFamilies: ['IPv4'], ports: [{name: 'http', protocol: 'TCP', port: 80}]};
  const ranges = {type: 'LoadBalancer', allocateLoadBalancerNodePorts: false, loadBalancerSourceRanges: ['198.51.100.0/24']};
  return index === 2 ? service(name, spec) : service(name, {...spec, ...ranges}, {ingress: [{ip: `203.0.113.${index + 1}`}]});
});
const endpointSlices = names.map((name, index) =>
  slice(name, [endpoint(`10.244.2.${index + 2}`, 'node-b', {ready: true})], {ports: [{name: 'http', protocol: 'TCP', port: 8080}]}),
);
const nodes = ['node-a', 'node-b'].map((name, index) => ({
  metadata: {name, labels: {'kubernetes.io/os': 'linux'}},
  spec: {podCIDRs: [`10.244.${index + 1}.0/24`]},
  status: {addresses: [{type: 'InternalIP', address: `192.168.1.${10 + index}`}]},
}));
const api = apiObjects({services, endpointSlices, nodes});
const files = {
  'kube-proxy-version': 'v1.36.0\n',
  'kube-proxy-config.yaml': JSON.stringify({kind: 'KubeProxyConfiguration', mode: 'ipvs', clusterCIDR: '10.244.0.0/16'}),
  'addresses.json': JSON.stringify([{ifname: 'eth0', addr_info: [{local: '192.168.1.10'}]}]),
};
const written = writtenNode(nodeDump('node-a', files), api, {mode: 'ipvs', random: seededRandom(1)});

/** The findings of the node without the lines of a file that begin so. */
function foundWithout(file: string, lines: RegExp) {
  const text = written.read(file)?.toString() ?? '';
  const changed = withFiles(written, {[file]: text.replaceAll(lines, '')});
  const {findings} = diagnose({origin: 'made', api, problems: [], nodes: [changed]}, {toolVersion: '0'});
  return findings
    .filter(({node, code}) => node === 'node-a' && !code.startsWith('ST9'))
    .map(({code, severity, service: own, affects = []}) => [code, severity, own?.name ?? affects.map(({name}) => name).join()]);
}

test('the node as kube-proxy writes it has no finding', () => {
  expect(foundWithout('ipset-save', /^$/g)).toEqual([]);
});

test.each(['KUBE-LOAD-BALANCER-FW', 'KUBE-LOAD-BALANCER-SOURCE-CIDR'])(
  'an emptied set %s is one error for all Services that it held',
  set => {
    expect(foundWithout('ipset-save', new RegExp(`^add ${set} .*\n`, 'gm'))).toEqual([['ST210', 'error', 'a,b']]);
  },
);

test('KUBE-IPVS-OUT-FILTER that something emptied is one error for all Services that it kept addresses from', () => {
  expect(foundWithout('iptables-save', /^-A KUBE-IPVS-OUT-FILTER .*\n/gm)).toEqual([['ST210', 'error', 'a,b']]);
});

test('KUBE-MARK-MASQ that was removed with all jumps to it is one error around IPVS', () => {
  const lines = /^(?::KUBE-MARK-MASQ .*|-A KUBE-MARK-MASQ .*|-A \S+ .*-j KUBE-MARK-MASQ)\n/gm;
  expect(foundWithout('iptables-save', lines)).toEqual([['ST302', 'error', '']]);
});

test('a chain around IPVS that something emptied names the Services that lose by it, and no others', () => {
  expect(foundWithout('iptables-save', /^-A KUBE-PROXY-FIREWALL .*\n/gm)).toEqual([['ST210', 'error', 'a,b']]);
});
