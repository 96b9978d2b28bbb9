import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import type {Finding} from '../../src/model/finding.ts';
import {renderers} from '../../src/render/renderers.ts';
import {json} from '../../src/render/json.ts';
import {table} from '../../src/render/table/table.ts';
import {causesOf} from '../../src/render/headline.ts';
import {headlineOf} from '../../src/render/verdict-line.ts';
import {kernel} from '../incidents/changes.ts';
import {nftScenario, replaced, withRules} from '../nft-scenario.ts';
import {type Scenario, scenario} from '../scenario.ts';
import {snapshotOf, withFiles} from '../fixtures.ts';
import {findingOf, plain} from './report.ts';

const reported = async (change: (given: Scenario) => void) => {
  const given = await scenario();
  change(given);
  return diagnose(given.snapshot(), {toolVersion: '0.0.0'});
};

const pods = '-A FORWARD -s 10.244.0.0/16 -j ACCEPT';

describe('the first line says what happens, not that something is wrong', () => {
  test.each<readonly [says: string, change: (given: Scenario) => void]>([
    [
      // Without an endpoint at all, or without one on this node.
      'node-b: connections to Services without endpoints hang instead of being refused (ST301); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 26 in sync, 5 with findings, 3 without rules)',
      given => given.rules('node-b').delete('-A FORWARD', '-j KUBE-SERVICES'),
    ],
    [
      // The last rule that picks: what it does not take goes nowhere.
      'shop/web on node-b: pod web-3 gets no traffic, 33% of the connections are lost (ST202); 1 error on 1 of 3 nodes',
      given => given.rules('node-b').deleteAll('shop/web:http -> 10.244.12.4:8080'),
    ],
    [
      // The first one: the others take its share.
      'shop/web on node-b: pod web-1 gets no traffic (ST202); 1 error on 1 of 3 nodes',
      given => given.rules('node-b').deleteAll('shop/web:http -> 10.244.11.4:8080'),
    ],
    [
      // One node lacks all rules of a chain, and the others some.
      'node-a, node-b, node-c: connections to Services without endpoints hang or leave the node in place of a refusal (ST212)',
      given => {
        for (const node of ['node-a', 'node-b', 'node-c']) given.rules(node).deleteAll('-j REJECT');
      },
    ],
    [
      // Without any of its jumps: the worst is said, although others have the same code.
      "node-b: kube-proxy's chains are not called, Services do not work (ST301) and 3 more causes; 4 errors on 1 of 3 nodes",
      given => given.rules('node-b').deleteAll('-j KUBE-SERVICES'),
    ],
    [
      "node-b: kube-proxy's chains are not called, Services do not work over IPv6 (ST301) and 1 more cause",
      given => given.rules('node-b', 'ip6tables-save').deleteAll('-j KUBE-SERVICES'),
    ],
    [
      // Services of IPv6 still work.
      "node-b: no Service works over IPv4, kube-proxy's rules are missing (ST305); 1 error on 1 of 3 nodes",
      given => given.rules('node-b').deleteAll('-A KUBE-SERVICES', '-j KUBE-'),
    ],
    [
      // One cause, although each family of addresses has its own finding.
      "node-b: no Service works, kube-proxy's rules are missing (ST305); 2 errors on 1 of 3 nodes",
      given => {
        for (const file of ['iptables-save', 'ip6tables-save']) given.rules('node-b', file).deleteAll('-A KUBE-SERVICES', '-j KUBE-');
      },
    ],
    [
      'infra/dual on node-b: node ports do not work over IPv6 (ST304)',
      given => given.rules('node-b', 'ip6tables-save').delete('-A KUBE-NODEPORTS', 'infra/dual:metrics'),
    ],
    [
      // Its address says it.
      'infra/dual on node-b: cluster IP [fd00:96::3]:9153 is not programmed (ST206)',
      given => given.rules('node-b', 'ip6tables-save').delete('-A KUBE-SERVICES', 'infra/dual:metrics cluster IP'),
    ],
    [
      // It has no IPv4.
      'infra/six on node-b: port metrics is not programmed, connections fail (ST201)',
      given => given.rules('node-b', 'ip6tables-save').delete('-A KUBE-SERVICES', 'infra/six:metrics cluster IP'),
    ],
    [
      'node-b: 1% of the packets to pods of 26 Services are dropped in FORWARD by a rule of another program (ST303)',
      given =>
        given
          .rules('node-b')
          .insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -m statistic --mode random --probability 0.01 -j DROP'),
    ],
    [
      // One rule is one cause.
      'infra/dns and 1 more Service on node-b: packets to pod dns-1 are refused in FORWARD by a rule of another program (ST303); 2 errors on 1 of 3 nodes',
      given => given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -p udp --dport 53 -j REJECT'),
    ],
    [
      'node-a: packets from 10.244.11.4 (pod shop/web-1) to pods of 27 Services are dropped in FORWARD by a rule of another program (ST303); 1 error on 1 of 3 nodes',
      given => given.rules('node-a').insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -s 10.244.11.4/32 -j DROP'),
    ],
    [
      // It stops the replies of endpoints outside the cluster too, which are those of fewer Services.
      'node-b: packets from outside the cluster to pods of 12 Services are dropped in FORWARD by a rule of another program (ST303); 2 errors on 1 of 3 nodes',
      given => given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD ! -s 10.244.0.0/16 -j DROP'),
    ],
    [
      // The rules after the jump to it send its connections to the other endpoints.
      'shop/web on node-b: pod web-1 gets no traffic, a rule jumps to a chain that is empty or missing (ST214); 1 error on 1 of 3 nodes',
      given => given.rules('node-b').deleteAll('-A KUBE-SEP-M5HVGPPKKJ75V6WO'),
    ],
    [
      // Each Service has other endpoints, and so another share.
      'FAULTY: node-b: a part of the packets to pods of ',
      given => given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -d 10.244.11.0/24 -j DROP'),
    ],
    [
      'shop/sticky on node-b: endpoints get unequal shares of the traffic, 10.244.11.5:8080 6.7% in place of 33.3% (ST208)',
      given =>
        given
          .rules('node-b')
          .replace(['-A KUBE-SVC-', 'shop/sticky:http -> 10.244.11.5:8080', 'statistic'], 'probability 0.5', 'probability 0.1'),
    ],
    [
      'node-b: connections to Services without endpoints hang or leave the node in place of a refusal (ST212); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 28 in sync, 3 with findings, 3 without rules)',
      given => given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-SERVICES'], pods),
    ],
    [
      'node-b: loadBalancerSourceRanges are not enforced (ST301); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 27 in sync, 4 with findings, 3 without rules)',
      given => given.rules('node-b').delete('-A FORWARD', '-j KUBE-PROXY-FIREWALL'),
    ],
    [
      'node-b: node ports of 14 Services do not work (ST304); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 15 in sync, 16 with findings, ',
      given => given.rules('node-b').delete('-A KUBE-SERVICES', '-j KUBE-NODEPORTS'),
    ],
    [
      'shop/lb-ranges on node-b: packets that loadBalancerSourceRanges should drop are not dropped, and reach no endpoint (ST210)',
      given => given.rules('node-b').delete('-A KUBE-PROXY-FIREWALL', '203.0.113.13'),
    ],
    [
      // Without its DROP, the packet is refused by the node or lost on its way.
      'shop/both-local on node-b: packets that the Local policy should drop are not dropped, and reach no endpoint (ST207)',
      given => given.rules('node-b').delete('"shop/both-local:http has no local endpoints"', '10.96.1.13/32'),
    ],
    [
      'OK with 4 warnings: node-b: a rule of another program limits packets to 10 packets a second for each source: what exceeds it is dropped or refused (ST403)',
      given =>
        given
          .rules('node-b')
          .insertBefore(
            ['-A FORWARD', '-j KUBE-PROXY-FIREWALL'],
            '-A FORWARD -p tcp --dport 8080 -m hashlimit --hashlimit-above 10/sec --hashlimit-mode srcip --hashlimit-name x -j DROP',
          ),
    ],
    [
      // The API asks for the other policy than the rules apply.
      'shop/nodeport on node-a, node-b: packets through its node port 30080 are balanced by the Cluster policy, and should be by the Local policy (ST207)',
      given => given.service('shop/nodeport', ({spec, ...rest}) => ({...rest, spec: {...spec, externalTrafficPolicy: 'Local'}})),
    ],
    [
      'shop/lb-ranges on node-b: clients that loadBalancerSourceRanges allow are dropped (ST210)',
      given => given.rules('node-b').deleteAll('-A KUBE-FW-', ' -s '),
    ],
    [
      'shop/lb-local on node-b: pods of the node cannot reach all endpoints, because the Local policy is applied to them (ST207)',
      given => given.rules('node-b').delete('-A KUBE-EXT-', 'pod traffic for shop/lb-local:http'),
    ],
    [
      'node-b: packets in tunnels are masqueraded twice (ST302)',
      given => given.rules('node-b').delete('-A KUBE-POSTROUTING', '--set-xmark'),
    ],
    [
      'node-a: the table of tracked connections is full, new connections are dropped (ST605)',
      given => kernel(given, {sysctls: {'net.netfilter.nf_conntrack_count': 65_536}}),
    ],
    [
      // No pod runs on node-c: what hits all its Services comes before what hits those with a node port.
      'node-c: forwarding is off, the kernel forwards no packets (ST601) and 1 more cause; 2 errors on 1 of 3 nodes',
      given => {
        given.rules('node-c').delete('-A KUBE-SERVICES', '-j KUBE-NODEPORTS');
        given.file('node-c', 'sysctls', 'net.ipv4.ip_forward = 0\n');
      },
    ],
    [
      'pods share an address, connections reach the wrong one: 10.244.11.4 of shop/web-1 on node-a, shop/web-3 on node-b (ST119)',
      given =>
        given.api(({pods: all}) => ({
          pods: (all ?? []).map(pod =>
            pod.metadata.name === 'web-3' ? {...pod, status: {...pod.status, podIP: '10.244.11.4', podIPs: [{ip: '10.244.11.4'}]}} : pod,
          ),
        })),
    ],
    [
      "node-a: the node's own processes have no route to Services (ST611)",
      given => kernel(given, {routes: [{type: 'blackhole', dst: '10.96.0.1'}]}),
    ],
    [
      // Of the Services that share it, the one is named.
      'shop/web on node-b: a rule that kube-proxy did not write takes packets (ST216); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 27 in sync, 4 with findings, ',
      given => given.rules('node-b').insertBefore(['-A KUBE-SERVICES', '10.96.1.1/32'], '-A KUBE-SERVICES -d 10.96.1.1/32 -j ACCEPT'),
    ],
    [
      // The chain of another Service, whose policy is Local.
      'shop/web on node-a: traffic goes to 10.244.11.6:8080, which is no usable endpoint (ST203); 4 errors on 1 of 3 nodes',
      given =>
        given.rules('node-a').replace(['-A KUBE-SERVICES', '10.96.1.1/32'], '-j KUBE-SVC-67NZLRHBNDSAWJRO', '-j KUBE-SVL-3QIN7CTEIMV2MPZ3'),
    ],
    [
      // One rule that leads to the chain of another Service: a cause, and not three.
      'shop/lb-cluster on node-b: load-balancer IP 203.0.113.10:80 does not lead to its endpoints (ST206); 5 errors on 1 of 3 nodes',
      given =>
        given
          .rules('node-b')
          .replace(['-A KUBE-SERVICES', '203.0.113.10/32', '--dport 80'], '-j KUBE-EXT-M3QFV6FJK7ELJDP7', '-j KUBE-EXT-THAONNFDF5XMLPVB'),
    ],
    [
      // An endpoint that was replaced, and that nodes lack for different clients.
      'shop/web on node-a, node-b, node-c: traffic goes to 10.244.12.4:8080, which is no usable endpoint (ST203); 6 errors on 3 of 3 nodes',
      given =>
        given.slices('shop/web', ({endpoints, ...rest}) => ({
          ...rest,
          endpoints: (endpoints ?? []).map(one => (one.addresses?.[0] === '10.244.12.4' ? {...one, addresses: ['10.244.12.40']} : one)),
        })),
    ],
    [
      'infra/dns and 1 more Service on node-b: a rule of another program limits packets to 5 packets a second: what exceeds it is left to the rules after it (ST403)',
      given =>
        given
          .rules('node-b')
          .insertBefore(
            ['-A FORWARD', '-j KUBE-PROXY-FIREWALL'],
            '-A FORWARD -p udp -m udp --dport 53 -m limit --limit 5/sec -j ACCEPT\n-A FORWARD -p udp -m udp --dport 53 -j DROP',
          ),
    ],
    [
      'OK with 4 warnings: node-b: whether a rule of another program drops or refuses packets is unknown (ST403) and 1 other cause',
      given =>
        given
          .rules('node-b')
          .insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -m time --timestart 22:00:00 --timestop 06:00:00 -j DROP'),
    ],
    [
      // Another of its ports is fine.
      'infra/dns:dns on node-b: traffic for pod dns-1 goes to a wrong address (ST204); 1 error on 1 of 3 nodes',
      given =>
        given
          .rules('node-b')
          .replace(
            ['-A KUBE-SEP-', '"infra/dns:dns"', '--to-destination 10.244.11.9:'],
            'destination 10.244.11.9:53',
            'destination 10.244.11.9:54',
          ),
    ],
    [
      // Through its other entries packets pass.
      'shop/external-ips on node-b: packets to pods through its external IP 198.51.100.11:80 are dropped in FORWARD by a rule of another program (ST303); 1 error on 1 of 3 nodes',
      given =>
        given
          .rules('node-b')
          .insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -m conntrack --ctorigdst 198.51.100.11/32 -j DROP'),
    ],
    [
      // More Services on one node come before two on two nodes.
      'node-a: packets to pods of 28 Services are dropped in FORWARD by a rule of another program (ST303) and 1 more cause; 3 errors on 2 of 3 nodes',
      given => {
        for (const node of ['node-a', 'node-b'])
          given.rules(node, 'ip6tables-save').insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -j DROP');
        given.rules('node-a').insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -j DROP');
      },
    ],
    [
      // Through a chain of its own, and to other Services on each node.
      'node-a, node-b: a part of the packets to pods of 22 Services are refused in DOCKER-USER by a rule of another program (ST303); 4 errors on 2 of 3 nodes',
      given => {
        for (const node of ['node-a', 'node-b']) {
          const rules = given.rules(node);
          rules.insertBefore([':KUBE-PROXY-FIREWALL'], ':DOCKER-USER - [0:0]');
          rules.insertBefore(
            ['-A FORWARD', '-j KUBE-PROXY-FIREWALL'],
            '-A FORWARD -j DOCKER-USER',
            '-A DOCKER-USER -d 10.244.11.0/24 -j REJECT',
          );
        }
      },
    ],
    [
      // What was read of a node has an error, and not all was read.
      'shop/web on node-b: port http is not programmed, connections fail (ST201); 1 error on 1 of 3 nodes, 4 warnings (34 Services: 27 in sync, 4 with findings, 3 without rules); 1 of 3 nodes was not checked as a whole (node-b)',
      given => {
        given.rules('node-b').delete('-A KUBE-SERVICES', '10.96.1.1/32');
        given.file('node-b', 'ip6tables-save', null);
      },
    ],
    [
      'shop/web on node-b: 33% of the connections are lost, a rule jumps to a chain that is empty or missing (ST214)',
      given => given.rules('node-b').deleteAll('-A KUBE-SEP-YE46JM77HMULEYF6'),
    ],
    [
      'infra/dns on node-b: port dns is not programmed, connections fail (ST201)',
      given => given.rules('node-b').delete('"infra/dns:dns cluster IP"', '-j KUBE-SVC-'),
    ],
    [
      // The address that it was moved to answers, which is no second cause.
      'shop/external-ips on node-b: external IP 198.51.100.10:80 is not programmed (ST206); 2 errors on 1 of 3 nodes',
      given => given.rules('node-b').replace(['-A KUBE-SERVICES', '198.51.100.10/32'], '198.51.100.10', '198.51.100.19'),
    ],
    [
      // Two nodes have an endpoint, and the third should drop.
      'shop/nodeport on node-a, node-b: packets through its node port 30080 are balanced by the Cluster policy, and should be by the Local policy (ST207); 3 errors',
      given => given.service('shop/nodeport', ({spec, ...rest}) => ({...rest, spec: {...spec, externalTrafficPolicy: 'Local'}})),
    ],
    [
      'shop/zonal on node-a, node-b, node-c: port http is not programmed, connections fail (ST201); 6 errors on 3 of 3 nodes',
      given =>
        given.service('shop/zonal', ({spec, ...rest}) => ({
          ...rest,
          spec: {...spec, clusterIP: '10.96.1.200', clusterIPs: ['10.96.1.200']},
        })),
    ],
    [
      // Two entries that are missing are two causes, also of one Service.
      'shop/external-ips on node-b: external IP 198.51.100.10:80 is not programmed (ST206) and 1 more cause; 2 errors',
      given => given.rules('node-b').deleteAll('-A KUBE-SERVICES', '-d 198.51.100.1'),
    ],
    [
      // Two other Services have hints, and keep to the zone or the node.
      'shop/external-ips and 9 more Services on node-b: packets to pod web-2 are dropped in FORWARD by a rule of another program (ST303)',
      given => given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -d 10.244.11.5/32 -j DROP'),
    ],
    [
      // What is masqueraded has the mark: what a pod sends to itself, and what comes from outside.
      'node-a: packets from the endpoint itself and clients outside the cluster to pods of 19 Services are dropped in FORWARD by a rule of another program (ST303)',
      given =>
        given.rules('node-a').insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -m mark --mark 0x4000/0x4000 -j DROP'),
    ],
    [
      'shop/empty-lb on node-a: has no endpoint, and connections at its node port 30089 hang or leave the node in place of a refusal (ST212)',
      given => given.rules('node-a').delete('-A KUBE-EXTERNAL-SERVICES', '--dport 30089'),
    ],
    [
      // The rule also takes the replies to the few connections whose masqueraded port is one of these: it is one cause.
      'infra/dual and 11 more Services on node-b: a rule of another program in PREROUTING drops packets at their node ports (ST402); 14 errors',
      given =>
        given
          .rules('node-b')
          .insertBefore(['*filter'], '*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -m tcp --dport 30000:32767 -j DROP\nCOMMIT'),
    ],
    [
      'shop/external-ips and 15 more Services on node-b: packets at their cluster IPs are exempt from connection tracking, and reach no endpoint (ST401)',
      given =>
        given
          .rules('node-b')
          .insertBefore(['*filter'], '*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p tcp -m tcp --dport 80 -j NOTRACK\nCOMMIT'),
    ],
    [
      'node-b: replies are lost, a rule of another program gives packets an address that the node does not have (ST302); 1 error',
      given =>
        given
          .rules('node-b')
          .insertBefore(['-A POSTROUTING', 'KUBE-POSTROUTING'], '-A POSTROUTING -s 10.244.0.0/16 -j SNAT --to-source 198.51.100.99'),
    ],
    [
      'node-b: packets are not masqueraded, a rule of another program changes their mark (ST302); 1 error',
      given => given.rules('node-b').insertBefore(['-A FORWARD', 'KUBE-PROXY-FIREWALL'], '-A FORWARD -j MARK --set-xmark 0x0/0xffffffff'),
    ],
    [
      'node-b: a rule of another program in FORWARD drops replies of 18 Services (ST402); 1 error',
      given => given.rules('node-b').insertBefore(['-A FORWARD', 'KUBE-PROXY-FIREWALL'], '-A FORWARD -p tcp -m tcp --sport 8080 -j DROP'),
    ],
    [
      // No traffic policy of the Service is Local.
      'shop/web on node-b: kube-proxy refuses or drops connections at its cluster IP 10.96.1.1:80 although there are endpoints (ST213); 1 error',
      given =>
        given
          .rules('node-b')
          .insertBefore(['-A KUBE-SERVICES', '10.96.1.1/32'], '-A KUBE-SERVICES -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j DROP'),
    ],
    [
      // The node was checked.
      'OK with 4 warnings: node-b: not everything was read (ST901) and 1 other cause; 34 Services on all 3 nodes',
      given => given.file('node-b', 'kube-proxy-config.yaml', 'mode: [iptables'),
    ],
    [
      'INCOMPLETE: 3 of 3 nodes were not checked (node-a, node-b, node-c): the Services were not read, and without them the expected rules are unknown. 0 Services',
      given => given.api(() => ({services: null})),
    ],
    [
      'INCOMPLETE: 1 of 3 nodes was not checked (node-b): its mode is nftables (proxy-mode), and it has no nft.json. shop/empty and 2 more Services: no ready endpoint (ST101); 3 warnings, no errors on the other 2 (34 Services: ',
      given => given.file('node-b', 'proxy-mode', 'nftables'),
    ],
    [
      'no node was checked: no nodes were found; shop/empty and 2 more Services: no ready endpoint (ST101); 34 Services',
      given => given.leaveOutNodes(),
    ],
  ])('%s', async (says, change) => {
    expect(headlineOf(await reported(change))).toContain(says);
  });
});

test.each<readonly [says: string, chain: string]>([
  ['(ST212); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 28 in sync, 3 with findings, 3 without rules)', 'reject-chain'],
  ['(ST301); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 28 in sync, 3 with findings, 3 without rules)', 'filter-forward'],
  [
    '(ST301); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 27 in sync, 4 with findings, 3 without rules)',
    'filter-prerouting-pre-dnat',
  ],
])('in nftables mode only the Services that it hits are counted: %s', async (says, chain) => {
  const given = await nftScenario(withRules(chain));
  expect(headlineOf(await diagnose(given.snapshot(), {toolVersion: '0.0.0'}))).toContain(says);
});

test.each<readonly [says: string, change: (ruleset: string) => string]>([
  [
    'node-a: node ports of 13 Services do not work (ST304); 1 error on 1 of 3 nodes, 3 warnings (34 Services: 15 in sync, 16 with findings, ',
    replaced(/(map service-nodeports \{[^}]*?)\t\telements = \{[^}]*\}\n/, '$1'),
  ],
  [
    'shop/nodeport on node-a: traffic through its node port 30080 goes to 10.244.11.6:8080, which is no usable endpoint (ST203); 4 errors on 1 of 3 nodes',
    replaced(/(tcp \. 30080 : goto )\S+?(,?\s)/, '$1external-5C7MGBTD-shop/nodeport-local/tcp/http$2'),
  ],
  [
    'node-a: clients outside the cluster may get no reply, and a pod that reaches itself through a Service gets none (ST302)',
    withRules('masquerading'),
  ],
  [
    // Pods that reach themselves are still masqueraded.
    'node-a: clients outside the cluster may get no reply (ST302)',
    replaced(/(chain masquerading \{\n)[^\n]*0x00004000[^\n]*\n/, '$1'),
  ],
  [
    // One policy of a table for both families is one cause.
    'node-a: packets to pods of 28 Services are dropped in FORWARD, no rule accepts them (ST303); 2 errors on 1 of 3 nodes',
    ruleset =>
      `${ruleset}\ntable inet fw {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy drop;\n\t\tct state established,related accept\n\t}\n}\n`,
  ],
])('in nftables mode it says: %s', async (says, change) => {
  const given = await nftScenario(change);
  expect(headlineOf(await diagnose(given.snapshot(), {toolVersion: '0.0.0'}))).toContain(says);
});

test('all connections are lost where the chain of a Service port is empty, though its address refuses them', async () => {
  const given = await nftScenario(replaced(/(chain service-[A-Z0-9]+-shop\/web\/tcp\/http \{\n)(?:\t\t.*\n)+/, '$1'));
  const report = diagnose(given.snapshot(), {toolVersion: '0.0.0'});
  expect(headlineOf(report)).toContain(
    'shop/web on node-a: all connections are lost, a rule jumps to a chain that is empty or missing (ST214)',
  );
  expect(report.findings.find(({code}) => code === 'ST214')?.hits).toMatchObject({share: 1, effect: 'all connections for shop/web:http'});
});

test('where virtual servers do not tell whose they were, the first line has their address', async () => {
  const given = await scenario('ipvs/1.36');
  given.deleteService('shop/web');
  const says = 'node-a: 10.96.1.1:80/TCP still answers, and the API has no such Service (ST205)';
  expect(headlineOf(await diagnose(given.snapshot(), {toolVersion: '0.0.0'}))).toContain(says);
});

test('in IPVS mode the entry is named whose packets are not masqueraded', async () => {
  const given = await scenario('ipvs/1.36');
  const sets = (await snapshotOf('ipvs/1.36')).nodes[0]?.read('ipset-save')?.toString() ?? '';
  given.file('node-a', 'ipset-save', sets.replace('add KUBE-NODE-PORT-TCP 30080\n', ''));
  expect(headlineOf(await diagnose(given.snapshot(), {toolVersion: '0.0.0'}))).toContain(
    'shop/nodeport on node-a: packets at its node port 30080 are not masqueraded, and their answers may be lost (ST211)',
  );
});

test('in IPVS mode an interface without addresses is said', async () => {
  const given = await scenario('ipvs/1.36');
  given.file('node-a', 'kube-ipvs0.json', '[{"ifname":"kube-ipvs0","addr_info":[]}]');
  expect(headlineOf(diagnose(given.snapshot(), {toolVersion: '0.0.0'}))).toMatch(
    /node-a: packets to Services are not accepted, and none works except for the node itself \(ST301\)/,
  );
});

test('in nftables mode the effect of a rule that is missing is said', async () => {
  const given = await nftScenario(replaced(/^.*ip daddr @cluster-ips reject.*\n/m, ''));
  expect(headlineOf(await diagnose(given.snapshot(), {toolVersion: '0.0.0'}))).toContain(
    'node-a: connections to ports that a cluster IP does not have hang instead of being refused (ST217)',
  );
});

test('in IPVS mode a flushed table filter is the cause of the source ranges that are not enforced', async () => {
  const given = await scenario('ipvs/1.36');
  const dump = (await snapshotOf('ipvs/1.36')).nodes[0]?.read('iptables-save')?.toString() ?? '';
  const empty = '*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n';
  given.file('node-a', 'iptables-save', dump.replace(/\*filter\n.*?COMMIT\n/s, empty));
  expect(headlineOf(await diagnose(given.snapshot(), {toolVersion: '0.0.0'}))).toMatch(
    /^FAULTY: node-a: kube-proxy's rules in table filter are missing, packets that should be refused or dropped are not \(ST305\); 1 error/,
  );
});

test('in IPVS mode a rule of FORWARD that takes the replies to pods of the node is told by them, not by what other nodes send on', async () => {
  const given = await scenario('ipvs/1.36');
  given.rules('node-a').insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -p udp -j DROP');
  const report = await diagnose(given.snapshot(), {toolVersion: '0.0.0'});
  // infra/dns and infra/same-node-port have UDP.
  expect(headlineOf(report)).toContain('node-a: a rule of another program in FORWARD drops replies of 2 Services (ST402); 1 error');
  const told = report.findings.find(({code}) => code === 'ST402');
  expect(told?.hits).toMatchObject({share: 1, effect: expect.stringMatching(/^all connections for 2 Service ports refused or dropped/)});
});

test('what two endpoints of a Service show is one cause that counts both, and a pod that two ports lack is one', () => {
  const lacks = (port: string, endpoint: string) =>
    findingOf('node-a', 'shop/web', {
      port: {name: port, protocol: 'TCP', port: 80},
      endpoint,
      endpoints: 3,
      message: `${port} lacks ${endpoint}`,
    });
  const first = (...findings: readonly Finding[]) => causesOf({findings}, undefined).map(({message}) => message);
  expect(first(lacks('http', '10.0.0.1:80'), lacks('http', '10.0.0.2:80'))).toEqual([
    'shop/web on node-a: 2 of 3 endpoints get no traffic',
  ]);
  expect(first(lacks('http', '10.0.0.1:80'), lacks('admin', '10.0.0.1:81'))).toEqual([
    'shop/web on node-a: endpoint 10.0.0.1:80 gets no traffic',
  ]);
  const keeps = (port: string, endpoint: string) => ({...lacks(port, endpoint), code: 'ST203', name: 'stale-endpoint'});
  expect(first(keeps('http', '10.0.0.9:80'), keeps('admin', '10.0.0.9:81'))).toEqual([
    'shop/web on node-a: traffic goes to 10.0.0.9, which is no usable endpoint',
  ]);
  const unserved = (name: string, port: number) =>
    findingOf('node-a', 'shop/web', {
      ...{code: 'ST206', name: 'missing-entry', message: `no ${port}`},
      ...{port: {name, protocol: 'TCP', port}, entry: {kind: 'loadBalancerIP', address: '192.0.2.1', port}},
    });
  expect(first(unserved('http', 80), unserved('admin', 81))).toEqual(['shop/web on node-a: load-balancer IP 192.0.2.1 is not programmed']);
  expect(first(lacks('http', '10.0.0.1:80'), findingOf('node-a', 'shop/api', {endpoint: '10.0.0.1:80'}))).toHaveLength(2);
});

test('a pod that several Services lack, or have at another address, is named once and is one cause', async () => {
  const given = await scenario();
  // Those of one zone or node have it on some nodes alone.
  for (const node of ['node-a', 'node-b', 'node-c'])
    given.file(node, 'iptables-save', given.rules(node).toString().replaceAll('10.244.12.4', '10.244.12.99'));
  expect(headlineOf(diagnose(given.snapshot(), {toolVersion: '0.0.0'}))).toMatch(
    /^FAULTY: shop\/\S+ and \d+ more Services on node-a, node-b, node-c: traffic for pod web-3 goes to a wrong address \(ST204\); \d+ errors/,
  );
});

test('a pod that all nodes lack is one cause of all, also on the node of the pod', async () => {
  const given = await scenario();
  for (const node of ['node-a', 'node-b', 'node-c']) given.rules(node).deleteAll('shop/sticky:http -> 10.244.12.4:8080');
  const [cause] = causesOf(diagnose(given.snapshot(), {toolVersion: '0.0.0'}), undefined);
  expect(cause?.message).toBe('shop/sticky on node-a, node-b, node-c: pod web-3 gets no traffic, 33% of the connections are lost');
});

test('a node with several errors of one code affects the Services of each', async () => {
  const report = await reported(given => given.rules('node-b').deleteAll('-j KUBE-SERVICES'));
  expect(table(report, {...plain, width: Infinity})).toContain(
    'the other 27 Services: affected by ST301 on node-b, in sync on every other node; 1 Service: in sync on every node\n',
  );
});

test('in iptables mode the evidence of a cluster IP that leads to another Service is its rule', async () => {
  const {findings} = await reported(given =>
    given.rules('node-a').replace(['-A KUBE-SERVICES', '10.96.1.1/32'], '-j KUBE-SVC-67NZLRHBNDSAWJRO', '-j KUBE-SVL-3QIN7CTEIMV2MPZ3'),
  );
  const own = findings.filter(({severity}) => severity === 'error');
  expect(own.map(({code}) => code)).toEqual(['ST202', 'ST202', 'ST202', 'ST203']);
  expect(own[0]?.expected?.map(({text}) => text.slice(-28))).toEqual(['-j KUBE-SVC-67NZLRHBNDSAWJRO']);
  expect(own.map(({actual}) => actual?.[0]?.text.slice(-28))).toEqual(own.map(() => '-j KUBE-SVL-3QIN7CTEIMV2MPZ3'));
});

test('in nftables mode the evidence of a node port that leads to another Service is its element', async () => {
  const given = await nftScenario(replaced(/(tcp \. 30080 : goto )\S+?(,?\s)/, '$1external-5C7MGBTD-shop/nodeport-local/tcp/http$2'));
  const {findings} = diagnose(given.snapshot(), {toolVersion: '0.0.0'});
  const own = findings.filter(({severity}) => severity === 'error');
  expect(own.map(({code}) => code)).toEqual(['ST202', 'ST202', 'ST202', 'ST203']);
  const [first] = own;
  expect(first?.expected?.map(({text}) => text)).toEqual(['tcp . 30080 : goto external-6HDZL72K-shop/nodeport/tcp/http']);
  const found = ['tcp . 30080 : goto external-5C7MGBTD-shop/nodeport-local/tcp/http'];
  expect(own.map(({actual = []}) => actual.map(({text}) => text))).toEqual([found, found, found, found]);
});

test.each<readonly [code: string, nodes: string, change: (given: Scenario) => void]>([
  ['ST212', 'node-b', given => given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-SERVICES'], pods)],
  ['ST203', 'node-a, node-b, node-c', given => given.slices('shop/web', slice => ({...slice, endpoints: []}))],
])('neither a block nor JSON says that connections are refused beside %s of the same Service', async (code, nodes, change) => {
  const report = await reported(change);
  const {findings} = JSON.parse(json(report, plain)) as {readonly findings: readonly Finding[]};
  const own = findings.filter(finding => finding.code === 'ST101' && finding.message.includes(`and on ${nodes} are not (${code})`));
  expect(own.length).toBeGreaterThan(0);
  expect(own.map(({remedy}) => remedy).join()).not.toContain('by design');
  const text = table(report, {...plain, width: Infinity});
  expect(text).toContain(`Connections should be refused, and on ${nodes} are not (${code})`);
  const [, block = ''] = text.split(`are not (${code})`);
  expect(block.split('\n\n')[0]).not.toContain('by design');
  for (const format of ['sarif', 'junit', 'github', 'openreports'] as const)
    expect(renderers[format](report, plain)).toContain(`and on ${nodes} are not (${code})`);
});

test('a message is not read: senders with names do not cut it, and a finding without a gist has the words of its code', () => {
  const message = 'packets from 10.244.1.0/27 (2 pods: shop/a, shop/b) should be masqueraded, but a third-party rule changes their mark';
  const lines = [
    {code: 'ST302', message},
    {code: 'ST302', message, gist: 'replies do not come back'},
    {code: 'ST505', message: 'kube-proxy on node-a does not keep up: it does not answer at its port 10249'},
  ].map(finding => causesOf({findings: [findingOf('node-a', null, finding)]}, undefined)[0]?.text);
  expect(lines).toEqual([
    'node-a: masquerading does not work (ST302)',
    'node-a: replies do not come back (ST302)',
    'node-a: kube-proxy does not apply changes (ST505)',
  ]);
});

test('what is not dropped is not said to be served, and hits name no share that other Services do not have', async () => {
  const hitsOf = async (code: string, change: (given: Scenario) => void) => {
    const found = (await reported(change)).findings.find(finding => finding.code === code && finding.severity === 'error');
    return [found?.hits?.verb, found?.hits?.effect].filter(part => part !== undefined).join(' ');
  };
  expect(
    await hitsOf('ST207', given => given.rules('node-b').delete('"shop/both-local:http has no local endpoints"', '10.96.1.13/32')),
  ).toBe('have packets for shop/both-local:http reach no endpoint, where they should be dropped');
  expect(
    await hitsOf('ST303', given =>
      given.rules('node-b').insertBefore(['-A FORWARD', '-j KUBE-PROXY-FIREWALL'], '-A FORWARD -d 10.244.11.0/24 -j DROP'),
    ),
  ).toMatch(/^have a part of the connections for \d+ Service ports refused or dropped \(also hit: clients outside the cluster\)$/);
});

test.each([
  [
    'its chains too',
    (dump: string) => dump.replace(/\*filter\n.*?COMMIT\n/s, '*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\nCOMMIT\n'),
  ],
  ['its rules alone', (dump: string) => dump.replace(/\*filter\n.*?COMMIT\n/s, table => table.replaceAll(/^-A .*\n/gm, ''))],
])('a table filter that was flushed, %s, is one cause of all that it lacks', async (_, change) => {
  const {nodes, ...rest} = (await scenario()).snapshot();
  const flushed = nodes.map(node =>
    node.name === 'node-b' ? withFiles(node, {'iptables-save': change(node.read('iptables-save')?.toString() ?? '')}) : node,
  );
  const report = diagnose({...rest, nodes: flushed}, {toolVersion: '0.0.0'});
  expect(headlineOf(report)).toMatch(
    /^FAULTY: node-b: kube-proxy's rules in table filter are missing, packets that should be refused or dropped are not \(ST301\); 7 errors/,
  );
  const text = table(report, {...plain, width: Infinity});
  expect(text).toContain("kube-proxy's rules in table filter are missing on node-b: something flushed the table\n  hits");
  // both-local, internal-local, lb-local and nodeport-local, lb-ranges, and the three without endpoints.
  expect(text).toMatch(/also {6}1\d more findings on 8 Services, likely from this cause: 10 × ST301/);
});

test('in a report of one Service its name comes first, also where a rule concerns others too', async () => {
  const given = await scenario();
  // The rule drops what pods say on open connections, to any Service.
  given
    .rules('node-a')
    .insertBefore(
      ['-A FORWARD', '-j KUBE-PROXY-FIREWALL'],
      '-A FORWARD -s 10.244.11.0/24 -p tcp -m conntrack --ctstate ESTABLISHED -j DROP',
    );
  const lineOf = (...names: readonly string[]) =>
    headlineOf(
      diagnose(given.snapshot(), {toolVersion: '0.0.0', selects: ({metadata: {name}}) => names.length === 0 || names.includes(name)}),
    );
  expect(lineOf()).toMatch(/^FAULTY: node-a: a rule of another program in FORWARD drops packets to \d+ Services \(ST402\)/);
  expect(lineOf('web')).toMatch(
    /^FAULTY: shop\/web and \d+ more Services on node-a: a rule of another program in FORWARD drops packets \(ST402\)/,
  );
  expect(lineOf('web', 'leaving')).toMatch(/^FAULTY: node-a: a rule of another program in FORWARD drops packets to \d+ Services \(ST402\)/);
});

test('one jump from table filter that is missing is told by itself', async () => {
  const report = await reported(given => given.rules('node-b').delete('-A FORWARD', '-j KUBE-SERVICES'));
  expect(headlineOf(report)).not.toContain('table filter');
});

test('a dump of iptables-legacy is named as such, whatever its first line says', async () => {
  const {nodes, ...rest} = (await scenario('faults/split-brain')).snapshot();
  const unheaded = nodes.map(node =>
    withFiles(node, {
      'iptables-legacy-save':
        node
          .read('iptables-legacy-save')
          ?.toString()
          .replace(/^#.*\n/gm, '') ?? null,
    }),
  );
  const {findings} = diagnose({...rest, nodes: unheaded}, {toolVersion: '0.0.0'});
  expect(findings.find(({code}) => code === 'ST501')?.message).toContain('iptables-legacy sends');
});

test('a chain that lost most rules in both families is not said to have lost them over IPv6 alone, also where more of IPv6 are gone', () => {
  const services = ['a', 'b'].map(name => ({namespace: 'shop', name, families: ['IPv4', 'IPv6'] as const}));
  const lost = (family: 'IPv4' | 'IPv6', names: readonly string[]) => {
    const affects = names.map(name => ({namespace: 'shop', name, ports: ['http']}));
    return findingOf('node-a', null, {code: 'ST305', severity: 'error', family, affects});
  };
  const both = [lost('IPv4', ['a']), lost('IPv6', ['a', 'b'])];
  const textsOf = (findings: readonly Finding[]) => causesOf({findings, services}, undefined).map(({message}) => message);
  expect(textsOf(both).filter(text => text.includes('IPv6'))).toEqual([]);
  expect(textsOf(both.slice(1))).toEqual(['node-a: 2 Services do not answer, most rules that lead to Services are missing over IPv6']);
});
