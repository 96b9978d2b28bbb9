import {expect, test} from 'vitest';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {snapshotOf} from '../fixtures.ts';

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
  ['nftables/1.36', '10.96.1.1', 'reject: undefined'],
  ['ipvs/1.36', '10.96.1.1', 'reject: undefined'],
  // What another proxy does with its Services is not known.
  ['healthy/1.36-iptables', '10.96.1.17', 'accept: undefined'],
])('in %s a packet to a port of the cluster IP %s that no Service has is not served', async (capture, destination, words) => {
  const asked = {source: '10.244.11.4', destination, port: '443', protocol: 'tcp'};
  const [answer] = askNodes(asked, await snapshotOf(capture), name => name === 'node-a');
  expect(answer?.outcomes.map(({verdict, reason}) => `${verdict}: ${reason}`)).toEqual([words]);
});

test('a rule about echo requests matches a ping, and one about other messages of ICMP does not', async () => {
  const {parseDumps} = await import('../../src/parse/iptables/iptables-save.ts');
  const {walkPacket} = await import('../trace/walks.ts');
  const {environmentOf} = await import('../../src/analyze/outcomes/environment.ts');
  const {packetOf} = await import('../../src/analyze/outcomes/probes.ts');
  const {nodeFacts} = await import('../../src/expect/node-facts.ts');
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
