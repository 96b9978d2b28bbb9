import {describe, expect, test} from 'vitest';
import type {ApiObjects} from '../../src/model/snapshot.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {snapshotOf, withFiles} from '../fixtures.ts';

test.each([
  [
    'healthy/1.36-iptables',
    'drop: a cluster IP does not answer ping, by design: kube-proxy writes rules for ports of TCP, UDP and SCTP alone',
  ],
  [
    'nftables/1.36',
    'reject: a cluster IP does not answer ping, by design; by this rule of ip kube-proxy/cluster-ips-check: ip daddr @cluster-ips',
  ],
  ['ipvs/1.36', 'reject: a cluster IP does not answer ping, by design; by this rule of filter/KUBE-IPVS-FILTER: '],
])('in %s a ping of a cluster IP is answered with why, and by which rule', async (capture, words) => {
  const asked = {source: '10.244.11.4', destination: 'shop/web', protocol: 'icmp'};
  const [answer] = askNodes(asked, await snapshotOf(capture), name => name === 'node-a');
  expect(answer?.outcomes.map(({verdict, reason}) => `${verdict}: ${reason}`)).toEqual([expect.stringContaining(words)]);
});

test.each([
  [
    'healthy/1.36-iptables',
    '10.96.1.1',
    'drop: 10.96.1.1 is a cluster IP, and no rule takes its port 443/TCP to an endpoint: no host has the address',
  ],
  // Each of them refuses it by a rule of its own.
  [
    'nftables/1.36',
    '10.96.1.1',
    'reject: 10.96.1.1 is a cluster IP, and no rule takes its port 443/TCP to an endpoint; by this rule of ip kube-proxy/cluster-ips-check: ip daddr @cluster-ips reject comment "Reject traffic to invalid ports of ClusterIPs"',
  ],
  [
    'ipvs/1.36',
    '10.96.1.1',
    'reject: 10.96.1.1 is a cluster IP, and no rule takes its port 443/TCP to an endpoint; by this rule of filter/KUBE-IPVS-FILTER: -A KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-IPVS-IPS dst -j REJECT --reject-with icmp-port-unreachable',
  ],
  // What another proxy does with its Services is not known.
  ['healthy/1.36-iptables', '10.96.1.17', 'accept: undefined'],
])('in %s a packet to a port of the cluster IP %s that no Service has is not served', async (capture, destination, words) => {
  const asked = {source: '10.244.11.4', destination, port: '443', protocol: 'tcp'};
  const [answer] = askNodes(asked, await snapshotOf(capture), name => name === 'node-a');
  expect(answer?.outcomes.map(({verdict, reason}) => `${verdict}: ${reason}`)).toEqual([words]);
});

describe('a cluster IP that no Service has', () => {
  const asked = {source: '10.244.11.4', destination: '10.96.200.1', port: '80', protocol: 'tcp'};
  const range = {metadata: {name: 'kubernetes'}, spec: {cidrs: ['10.96.0.0/16']}};
  const asking = async (capture: string, api: Partial<ApiObjects>) => {
    const snapshot = await snapshotOf(capture);
    const [answer] = askNodes(asked, {...snapshot, api: {...snapshot.api, ...api}}, name => name === 'node-a');
    return answer?.outcomes.map(({verdict, reason}) => `${verdict}: ${reason}`);
  };
  const what = 'no Service has 10.96.200.1, which is in the range of cluster IPs (10.96.0.0/16)';

  test('leads nowhere', async () => {
    expect(await asking('healthy/1.36-iptables', {serviceCIDRs: [range]})).toEqual([`drop: ${what}: no host has the address`]);
    expect(await asking('nftables/1.36', {serviceCIDRs: [range]})).toEqual([
      `drop: ${what}; by this rule of ip kube-proxy/cluster-ips-check: ip daddr 10.96.0.0/16 drop comment "Drop traffic to unallocated ClusterIPs"`,
    ]);
  });

  test.each<[string, Partial<ApiObjects>]>([
    ['the range is not known', {}],
    ['only the Services of some namespaces were read', {serviceCIDRs: [range], namespaces: ['shop']}],
    [
      'a Service has it as an external IP',
      {serviceCIDRs: [range], services: [{metadata: {name: 'x'}, spec: {externalIPs: ['10.96.200.1']}}]},
    ],
    [
      'a node has an address of that range',
      {
        serviceCIDRs: [range],
        nodes: [{metadata: {name: 'node-z'}, status: {addresses: [{type: 'InternalIP', address: '10.96.200.7'}]}}],
      },
    ],
  ])('may lead to a host where %s', async (_, api) => {
    expect(await asking('healthy/1.36-iptables', api)).toEqual(['accept: undefined']);
  });

  test('may lead to a container where a bridge of the node has an address of its network', async () => {
    const snapshot = await snapshotOf('healthy/1.36-iptables');
    const docker = {ifname: 'docker0', addr_info: [{family: 'inet', local: '10.96.200.254', prefixlen: 24, scope: 'global'}]};
    const nodes = snapshot.nodes.map(node => withFiles(node, {'addresses.json': JSON.stringify([docker])}));
    const [answer] = askNodes(asked, {...snapshot, nodes, api: {...snapshot.api, serviceCIDRs: [range]}}, name => name === 'node-a');
    expect(answer?.outcomes.map(({verdict}) => verdict)).toEqual(['accept']);
  });
});

test('a rule about echo requests matches a ping, and one about other messages of ICMP does not', async () => {
  const {parseDumps} = await import('../../src/parse/iptables/iptables-save.ts');
  const {walkPacket} = await import('../trace/walks.ts');
  const {environmentOf} = await import('../../src/analyze/outcomes/environment.ts');
  const {packetOf} = await import('../../src/analyze/outcomes/probes.ts');
  const {nodeFacts} = await import('../../src/expect/read-node-facts.ts');
  const {nodes, api} = await snapshotOf('healthy/1.36-iptables');
  const [node] = nodes;
  const parts = {source: '10.7.1.5', destination: '10.7.2.9', port: 0, from: {kind: 'other', interface: null}} as const;
  const packet = packetOf({family: 'IPv4', protocol: 'ICMP'}, parts);
  const verdict = (match: string) => {
    const [rules] = parseDumps(`*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p icmp -m icmp ${match} -j DROP\nCOMMIT\n`);
    if (rules === undefined || node === undefined || packet === null) throw new Error('there are rules, a node and a packet');
    return walkPacket(rules, packet, environmentOf(nodeFacts(node, api))).map(outcome => outcome.verdict);
  };
  expect(verdict('--icmp-type 8')).toEqual(['drop']);
  expect(verdict('--icmp-type any')).toEqual(['drop']);
  expect(verdict('--icmp-type 3/4')).toEqual(['accept']);
  expect(verdict('! --icmp-type 8')).toEqual(['accept']);
});
