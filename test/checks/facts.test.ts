import {describe, expect, test} from 'vitest';
import {containing, type FindingSummary, scenario, type Scenario} from '../scenario.ts';
import type {PodObject} from '../../src/model/api-objects.ts';

/** What iproute2 and sysctl print of a node, as far as a test needs it. */
interface Given {
  readonly capture?: string;
  readonly node?: string;
  readonly sysctls?: Readonly<Record<string, string | number>>;
  readonly links?: readonly object[];
  readonly routes?: readonly object[];
  readonly rules?: readonly object[];
  readonly change?: (given: Scenario) => void;
}

const usualSysctls = {
  'net.ipv4.ip_forward': 1,
  'net.ipv4.conf.all.rp_filter': 0,
  'net.ipv4.conf.eth0.rp_filter': 0,
  'net.ipv4.conf.eth0.forwarding': 1,
  'net.ipv6.conf.all.forwarding': 1,
  'net.bridge.bridge-nf-call-iptables': 1,
  'net.bridge.bridge-nf-call-ip6tables': 1,
  'net.netfilter.nf_conntrack_count': 900,
  'net.netfilter.nf_conntrack_max': 262_144,
  'net.ipv4.ip_local_port_range': '32768\t60999',
  'net.ipv4.ip_local_reserved_ports': '',
};

const up = {flags: ['UP', 'LOWER_UP'], promiscuity: 0};
const eth0 = {...up, ifname: 'eth0', mtu: 1500};
const usualLinks = [{...up, ifname: 'lo', mtu: 65_536}, eth0];
const usualRules = [
  {priority: 0, src: 'all', table: 'local'},
  {priority: 32_766, src: 'all', table: 'main'},
];
const byDefault = {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'};
const usualRoutes = [byDefault, {dst: '172.18.0.0/16', dev: 'eth0'}, {dst: '10.244.11.0/24', dev: 'veth9', metric: 9}];

async function factsFound({capture, node = 'node-a', change, ...given}: Given): Promise<readonly FindingSummary[]> {
  const made = await scenario(capture);
  const sysctls = Object.entries({...usualSysctls, ...given.sysctls}).map(([name, value]) => `${name} = ${value}\n`);
  made.file(node, 'sysctls', sysctls.join(''));
  made.file(node, 'links.json', JSON.stringify([...usualLinks, ...(given.links ?? [])]));
  made.file(node, 'routes.json', JSON.stringify([...usualRoutes, ...(given.routes ?? [])]));
  made.file(node, 'ip-rules.json', JSON.stringify([...(given.rules ?? []), ...usualRules]));
  change?.(made);
  return made.newFindings().filter(({code}) => code.startsWith('ST6'));
}

const speaker = (image: string): PodObject => ({
  metadata: {name: 'metallb-x', namespace: 'metallb'},
  spec: {containers: [{name: 'metallb', image}]},
});

/** The pods of a node on a bridge, with two of their ports. */
const port = (name: string, hairpin: boolean, isolated = false) => ({
  ...{...up, ifname: name, master: 'cni0', link_netnsid: 0},
  linkinfo: {info_kind: 'veth', info_slave_kind: 'bridge', info_slave_data: {hairpin, isolated}},
});
const bridge = (data: object = {}) => ({...up, ifname: 'cni0', linkinfo: {info_kind: 'bridge', info_data: data}});
const bridged = (hairpin: boolean, isolated = false): Given => ({
  links: [bridge(), port('veth1', hairpin, isolated), port('veth2', hairpin, isolated)],
  routes: [{dst: '10.244.11.0/24', dev: 'cni0', prefsrc: '10.244.11.1'}],
});
const promiscuous: Given = {
  ...bridged(false),
  links: [{...bridge(), flags: ['UP', 'LOWER_UP', 'PROMISC']}, port('veth1', false)],
  change: given => withKernel(given, ''),
};

/** The interface of the node is a bridge, as on hosts of virtual machines. */
const uplink = (ifname: string, hairpin: boolean) => ({
  ...{...up, ifname, mtu: 1500, master: 'eth0'},
  linkinfo: {info_slave_kind: 'bridge', info_slave_data: {hairpin}},
});
const uplinkBridge = (hairpin: boolean, route: object = {dst: '10.244.12.0/24', dev: 'eth0'}, ...more: readonly object[]): Given => ({
  routes: [route],
  change: given => given.file('node-a', 'links.json', JSON.stringify([{...bridge(), ifname: 'eth0'}, uplink('enp1', hairpin), ...more])),
});

/** A second interface for some pods, as with the network plugin of AWS. */
const secondInterface: Given = {
  links: [{...up, ifname: 'eth1', mtu: 1500}],
  routes: [{dst: 'default', gateway: '172.19.0.1', dev: 'eth1', table: '2'}],
  rules: [{priority: 1536, src: '10.244.11.5', table: '2'}],
};
const wayOfClients: Given = {
  links: secondInterface.links ?? [],
  routes: [{dst: '45.67.0.0/16', gateway: '172.19.0.1', dev: 'eth1', table: '2'}],
};
/** The node's address has a rule of its own, as nodes with two networks have it; the default route is by the other interface. */
const secondUplink: Given = {
  links: secondInterface.links ?? [],
  routes: [{dst: 'default', gateway: '172.18.0.1', dev: 'eth0', table: '101'}],
  rules: [{priority: 100, src: '172.18.0.11', table: '101'}],
  change: given => {
    const routes = [{...byDefault, gateway: '172.19.0.1', dev: 'eth1'}, ...usualRoutes.slice(1), ...(secondUplink.routes ?? [])];
    given.file('node-a', 'routes.json', JSON.stringify(routes));
  },
};
/** Pods behind links of their own, a route to those of another node, and a table of policy routing that leads to a second uplink. */
const policyRouting = (...rules: readonly object[]): Given => ({
  links: [
    ...(secondInterface.links ?? []),
    {...up, ifname: 'veth9', mtu: 1500, link_netnsid: 3, linkinfo: {info_kind: 'veth'}},
    {...up, ifname: 'wireguard.cali', mtu: 1440, linkinfo: {info_kind: 'wireguard'}},
  ],
  routes: [
    {dst: '10.244.12.0/24', gateway: '172.18.0.12', dev: 'eth0'},
    {dst: 'default', gateway: '172.19.0.1', dev: 'eth1', table: '2'},
    {dst: '10.244.12.0/24', dev: 'wireguard.cali', table: '3'},
  ],
  rules,
});
/** As OpenVPN's `redirect-gateway def1` routes. */
const halves = (second: string): Given => ({
  links: [{...up, ifname: 'tun0', mtu: 1500, linkinfo: {info_kind: 'tun'}}],
  routes: ['0.0.0.0/1', second].map(dst => ({dst, gateway: '10.8.0.1', dev: 'tun0'})),
});
const deliveredHere = (fwmark: string): Given => ({
  ...policyRouting({priority: 9, src: 'all', fwmark, fwmask: '0x4f00', table: '2004'}),
  routes: [{type: 'local', dst: 'default', dev: 'lo', scope: 'host', table: '2004'}],
});
const routedFrom = (src: string): Given => policyRouting({priority: 100, src, srclen: 24, table: '2'});
const toOthers = (route: object): Given => ({
  ...policyRouting({priority: 100, src: 'all', dst: '10.244.12.0', dstlen: 24, table: '2'}),
  routes: [{dst: '10.244.12.0/24', gateway: '172.18.0.12', dev: 'eth0'}, route],
});
const nextHops = (flags: readonly string[]) => ({
  dst: '10.244.12.0/24',
  nexthops: [
    {gateway: '172.18.0.12', dev: 'eth0', flags: []},
    {gateway: '192.0.2.1', dev: 'eth1', flags},
  ],
});
/** Packets to two pods of node-a take the default gateway. */
const podsAtGateway = {routes: [{...byDefault, dst: '10.244.11.4/31'}]};
const addressOn =
  (ifname: string, local: string, prefixlen: number) =>
  (given: Scenario): void => {
    const eth0Address = {ifname: 'eth0', addr_info: [{family: 'inet', local: '172.18.0.11', prefixlen: 16}]};
    given.file('node-a', 'addresses.json', JSON.stringify([eth0Address, {ifname, addr_info: [{family: 'inet', local, prefixlen}]}]));
  };
/** Pods behind links of their own, but for 10.244.11.5. */
const podLinks = (flags: readonly string[], ...routes: readonly object[]): Given => ({
  links: [
    {...up, ifname: 'veth9', mtu: 1500, link_netnsid: 3, linkinfo: {info_kind: 'veth'}},
    {...up, flags, ifname: 'veth5', mtu: 1500, link_netnsid: 4, linkinfo: {info_kind: 'veth'}},
  ],
  routes: [{...byDefault, dst: '10.244.11.5/32'}, ...routes].slice(routes.length > 0 ? 1 : 0),
});
const gateway = {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'};
const onUplink = podLinks([], ...['10.244.11.4', '10.244.11.5'].map(dst => ({dst, dev: 'eth0'})), gateway);
const podInTable = (dst: string): Given => ({
  ...podLinks([], {dst: '10.244.11.4', dev: 'veth9'}, {dst: '10.244.11.5', dev: 'veth5'}, {dst, dev: 'wt0', table: '7120'}, gateway),
  rules: [{priority: 104, src: 'all', table: '7120'}],
});
const podByWire = (route: object): Given => {
  const {links = [], ...given} = podLinks([], {dst: '10.244.11.5', dev: 'veth9'}, route, gateway);
  return {...given, links: [...links, eth0, {...eth0, ifname: 'eth1'}], change: addressOn('eth1', '192.0.2.2', 24)};
};
const askedOnUplink = podLinks([], {dst: '10.244.11.5', dev: 'veth9'}, {dst: '10.244.12.0/24', dev: 'eth0'}, gateway);
/** As AWS has them for pods with a security group, whose addresses are in the network of the node too. */
const inOtherTable = [
  ...[gateway, {dst: '10.244.11.0/24', dev: 'eth0'}],
  ...[4, 5, 6, 9].map(last => ({dst: `10.244.11.${last}`, dev: 'veth9', table: '101'})),
];
const docker0 = (kind: string, ...ports: readonly object[]): Given => ({
  links: [
    {...up, ifname: 'docker0', mtu: 1500, linkinfo: {info_kind: kind}},
    ...ports.map(port => ({...up, mtu: 1500, master: 'docker0', ...port})),
  ],
  routes: [{dst: '10.244.12.0/25', dev: 'docker0'}],
});
const strict = {'net.ipv4.conf.all.rp_filter': 1};
const twoDefaults: Given = {
  links: [{...up, ifname: 'eth1', mtu: 1500}],
  routes: [
    {...byDefault, metric: 200},
    {dst: 'default', gateway: '172.19.0.1', dev: 'eth1', metric: 100},
  ].slice(1),
};

const strictBeside = {...strict, 'net.ipv4.conf.eth1.rp_filter': 0};
/** As a load balancer announces addresses on a network beside that of the nodes. */
const announcedBeside: Given = {
  links: secondInterface.links ?? [],
  change: given => {
    const addresses = ['172.18.0.11', '172.19.0.11'].map((local, at) => ({ifname: `eth${at}`, addr_info: [{local, prefixlen: 16}]}));
    given.file('node-a', 'addresses.json', JSON.stringify(addresses));
    given.service('shop/web', service => ({...service, spec: {...service.spec, externalIPs: ['172.19.9.9']}}));
  },
};
const fromBeside: Given = {
  ...{...announcedBeside, sysctls: strictBeside, routes: secondInterface.routes ?? []},
  rules: [{priority: 100, src: '172.19.0.0', srclen: 16, table: '2'}],
};

const moved: Given = {links: secondInterface.links ?? [], change: moveDefault};

const flannel = (mtu: number): Given => ({
  links: [{...up, ifname: 'flannel.1', mtu, linkinfo: {info_kind: 'vxlan', info_data: {id: 1, link: 'eth0', port: 8472}}}],
  routes: [{dst: '10.244.12.0/24', gateway: '10.244.12.0', dev: 'flannel.1'}],
});

/** The nodes reach each other through WireGuard, and their pods through a tunnel in it. */
const nodesOverWireGuard = (mtu: number): Given => ({
  links: [
    {...up, ifname: 'wg0', mtu: 1420, linkinfo: {info_kind: 'wireguard'}},
    {...up, ifname: 'flannel.1', mtu, linkinfo: {info_kind: 'vxlan', info_data: {id: 1, link: 'wg0', port: 8472}}},
  ],
  routes: [
    {dst: '172.18.0.0/24', dev: 'wg0'},
    {dst: '10.244.12.0/24', gateway: '10.244.12.0', dev: 'flannel.1'},
  ],
  change: given => {
    const interfaces = [{ifname: 'lo'}, {ifname: 'eth0', addr_info: [{local: '192.0.2.11', prefixlen: 24}]}];
    given.file(
      'node-a',
      'addresses.json',
      JSON.stringify([...interfaces, {ifname: 'wg0', addr_info: [{local: '172.18.0.11', prefixlen: 24}]}]),
    );
  },
});

const ipvs = {'net.ipv4.vs.expire_nodest_conn': 1, 'net.ipv4.vs.expire_quiescent_template': 1, 'net.ipv4.vs.conn_reuse_mode': 1};
const ipvsOf = (sysctls: Given['sysctls']): Given => ({capture: 'ipvs/1.36', sysctls: {...ipvs, ...sysctls}});
const arp = (ignore: number, announce: number) => ({'net.ipv4.conf.all.arp_ignore': ignore, 'net.ipv4.conf.all.arp_announce': announce});
const announced = (given: Scenario): void =>
  given.service('shop/lb-cluster', service => ({
    ...service,
    metadata: {...service.metadata, annotations: {'metallb.io/ip-allocated-from-pool': 'first'}},
  }));

const counts = (failed: number): string => `cpu=0 found=0 invalid=3 insert=0 insert_failed=${failed} drop=0 early_drop=0 error=0\n`;
const lost = (inDays: number, number = 184_233): Given => ({
  change: given => {
    given.file('node-a', 'conntrack-stats', counts(number).replace('drop=0', `drop=${number}`));
    const now = Date.parse('2026-07-01T12:00:00Z');
    given.file('node-a', 'healthz.json', JSON.stringify({currentTime: new Date(now), lastUpdated: new Date(now), healthy: true}));
    const creationTimestamp = new Date(now - inDays * 86_400_000).toISOString();
    given.nodeObject('node-a', node => ({...node, metadata: {...node.metadata, creationTimestamp}}));
  },
});
const counted = (before: number, after: number): Given => ({
  change: given => {
    given.file('node-a', 'conntrack-stats', counts(before));
    given.file('node-a', 'conntrack-stats-after', counts(after));
  },
});

/** What `ip -j -4 netconf` prints. */
const netconf =
  (switches: Readonly<Record<string, boolean>>) =>
  (given: Scenario): void =>
    given.file(
      'node-a',
      'netconf.json',
      JSON.stringify(
        Object.entries(switches).map(([name, forwarding]) => ({family: 'inet', interface: name, forwarding, rp_filter: 'off'})),
      ),
    );

interface Case {
  readonly code: string;
  readonly title: string;
  readonly fires: Given;
  readonly says: string;
  readonly severity: string;
  /** Healthy nodes, as close to it as possible. */
  readonly silent: Readonly<Record<string, Given>>;
}

test('forwarding that is off in both families is one fault with both switches', async () => {
  const off = await factsFound({capture: 'healthy/1.36-iptables', sysctls: {'net.ipv4.ip_forward': 0, 'net.ipv6.conf.all.forwarding': 0}});
  expect(off.map(({code, family, message}) => [code, family, message])).toEqual([
    [
      'ST601',
      undefined,
      containing(
        'net.ipv4.ip_forward and net.ipv6.conf.all.forwarding are 0: the node forwards no IPv4 and no IPv6 packets. Its pods reach',
      ),
    ],
  ]);
});

const cases: readonly Case[] = [
  {
    ...{code: 'ST601', title: 'forwarding is off', severity: 'error'},
    fires: {sysctls: {'net.ipv4.ip_forward': 0}},
    says: 'net.ipv4.ip_forward is 0: the node forwards no IPv4 packets',
    silent: {'forwarding is on': {}, 'only another interface does not forward': {sysctls: {'net.ipv4.conf.wlan0.forwarding': 0}}},
  },
  {
    ...{code: 'ST601', title: 'the interface of the node does not forward', severity: 'error'},
    fires: {sysctls: {'net.ipv4.conf.eth0.forwarding': 0}},
    says: 'packets that arrive on eth0 are not forwarded',
    silent: {},
  },
  {
    ...{code: 'ST601', title: 'a second uplink does not forward', severity: 'info'},
    fires: {...announcedBeside, routes: secondInterface.routes ?? [], sysctls: {'net.ipv4.conf.eth1.forwarding': 0}},
    says: 'net.ipv4.conf.eth1.forwarding is 0, and a default route leads by eth1 too: node ports and load balancers lose clients that come by it.',
    silent: {'no default route leads by it': {...announcedBeside, sysctls: {'net.ipv4.conf.eth1.forwarding': 0}}},
  },
  {
    ...{code: 'ST611', title: 'a routing rule refuses what comes by a second uplink', severity: 'info'},
    fires: {
      ...{...announcedBeside, routes: secondInterface.routes ?? []},
      rules: [{priority: 50, src: 'all', iif: 'eth1', action: 'unreachable'}],
    },
    says: 'routes or routing rules refuse packets of clients that come by eth1, or the answers',
    silent: {'it leads to table main': {...fromBeside, rules: [{priority: 50, src: 'all', iif: 'eth1', table: 'main'}]}},
  },
  {
    ...{code: 'ST601', title: 'the interface by which pods of other nodes come does not forward', severity: 'error'},
    fires: {...flannel(1450), change: netconf({'flannel.1': false})},
    says: 'net.ipv4.conf.flannel/1.forwarding is 0: packets that arrive there are not forwarded.',
    silent: {
      'no pod is behind it': {change: netconf({'flannel.1': false})},
      'it forwards': {...flannel(1450), change: netconf({'flannel.1': true})},
    },
  },
  {
    ...{code: 'ST601', title: "a pod's interface does not forward", severity: 'error'},
    fires: {routes: [{dst: '10.244.11.5', dev: 'cali5'}], change: netconf({cali5: false, cali6: true})},
    says: 'net.ipv4.conf.cali5.forwarding is 0: packets that arrive there are not forwarded. 1 pod behind it (10.244.11.5) reaches no other pod',
    silent: {
      'it is the interface of no pod': {change: netconf({cali5: false})},
      'it forwards': {routes: [{dst: '10.244.11.5', dev: 'cali5'}], change: netconf({cali5: true})},
    },
  },
  {
    ...{code: 'ST602', title: 'pods on a bridge bypass the rules', severity: 'error'},
    fires: {...bridged(true), sysctls: {'net.bridge.bridge-nf-call-iptables': 0}},
    says: 'pods of this node are ports of cni0',
    silent: {
      'the switch is on': bridged(true),
      'no pod is on a bridge': {sysctls: {'net.bridge.bridge-nf-call-iptables': 0}},
      'the bridge calls iptables itself': {
        ...bridged(true),
        ...{sysctls: {'net.bridge.bridge-nf-call-iptables': 0}, links: [bridge({nf_call_iptables: 1}), port('veth1', true)]},
      },
    },
  },
  {
    ...{code: 'ST603', title: 'a bridge port sends nothing back', severity: 'warning'},
    fires: bridged(false),
    says: 'hairpin_mode is 0 on 2 ports of cni0 (veth1, veth2)',
    silent: {
      'hairpin mode is on': bridged(true),
      'the pods are on no bridge': {...bridged(false), routes: [{dst: '10.244.11.5', dev: 'veth7'}]},
    },
  },
  {
    ...{code: 'ST603', title: 'a promiscuous bridge of a kernel that lets packets forget their connections', severity: 'warning'},
    fires: {...promiscuous, change: given => withKernel(given, '6.9.0-generic')},
    says: 'hairpin_mode is 0 on 1 port of cni0 (veth1)',
    silent: {
      'an older kernel may keep them': {...promiscuous, change: given => withKernel(given, '6.8.0-45-generic')},
      'the kernel is not known': promiscuous,
    },
  },
  {
    ...{code: 'ST603', title: "the node's interface is a bridge that sends nothing back", severity: 'error'},
    fires: uplinkBridge(false),
    says: 'what comes there for node ports, external and load-balancer IPs is lost if it is sent to an endpoint on another node (10.244.12.',
    silent: {
      'hairpin mode is on': uplinkBridge(true),
      'rules see nothing of bridges': {...uplinkBridge(false), sysctls: {'net.bridge.bridge-nf-call-iptables': 0}},
      'a tunnel leads to other nodes': uplinkBridge(false, {dst: '10.244.0.0/16', dev: 'flannel.1'}),
      'two ports lead out': uplinkBridge(false, {dst: '10.244.12.0/24', dev: 'eth0'}, uplink('enp2', false)),
    },
  },
  {
    ...{code: 'ST603', title: 'bridge ports are isolated', severity: 'warning'},
    fires: bridged(true, true),
    says: '2 of 2 ports of cni0 are isolated (veth1, veth2): the bridge sends nothing from one to another',
    silent: {'one port is': {...bridged(true), links: [bridge(), port('veth1', true, true), port('veth2', true)]}},
  },
  {
    ...{code: 'ST603', title: 'a bridge port gets only what is for addresses that a program told the bridge of', severity: 'warning'},
    fires: {...bridged(true), links: [bridge(), withoutLearning(false), port('veth2', true)]},
    says: '1 of 2 ports of cni0 is set to learn no addresses and to flood nothing (veth1): the bridge sends nothing there but what is for addresses that its table names',
    silent: {'it floods': {...bridged(true), links: [bridge(), withoutLearning(true), port('veth2', true)]}},
  },
  {
    ...{code: 'ST604', title: 'strict filtering meets policy routing of pods', severity: 'error'},
    fires: {...secondInterface, sysctls: strict},
    says: 'policy rules route packets of 1 pod (10.244.11.5) by eth1',
    silent: {
      'filtering is loose, and answers get the mark that leads them back': {
        ...{...secondInterface, sysctls: {...strict, 'net.ipv4.conf.eth0.rp_filter': 2}},
        rules: [{priority: 1024, fwmark: '0x80', fwmask: '0x80', table: 'main'}, ...(secondInterface.rules ?? [])],
        change: given => restoreMarks(given, '-A PREROUTING -i eni+ -j CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80'),
      },
      'all replies leave by the same interface': {sysctls: strict},
      'the rules are not known': {...secondInterface, sysctls: strict, change: given => given.file('node-a', 'ip-rules.json', null)},
    },
  },
  {
    ...{code: 'ST604', title: 'strict filtering meets a rule for what comes from the interface of a pod', severity: 'error'},
    fires: {...secondInterface, sysctls: strict, rules: [{priority: 10, src: 'all', iif: 'veth9', table: '2'}]},
    says: 'policy rules route packets of 4 pods',
    silent: {
      'the rule is for another interface': {
        ...secondInterface,
        sysctls: strict,
        rules: [{priority: 10, src: 'all', iif: 'eth1', table: '2'}],
      },
    },
  },
  {
    ...{code: 'ST604', title: 'strict filtering meets a table that names the network of some clients', severity: 'info'},
    fires: {...wayOfClients, sysctls: strict, rules: [{priority: 10, src: 'all', iif: 'veth9', table: '2'}]},
    says: 'policy rules route packets of 4 pods (10.244.11.9, 10.244.11.6, 10.244.11.4, 10.244.11.5) to 45.67.0.0/16 by eth1: the kernel drops what arrives from there on eth0',
    silent: {
      'filtering is loose': {...wayOfClients, rules: [{priority: 10, src: 'all', iif: 'veth9', table: '2'}]},
      'the rule is for another interface': {...wayOfClients, sysctls: strict, rules: [{priority: 10, src: 'all', iif: 'eth1', table: '2'}]},
    },
  },
  {
    ...{code: 'ST604', title: 'a second interface for pods has no mark for answers', severity: 'warning'},
    fires: {...secondInterface, change: given => restoreMarks(given, '-A PREROUTING -p udp -j CONNMARK --restore-mark')},
    says: '"1536: from 10.244.11.5/32 lookup 2" sends the answers of 1 pod (10.244.11.5) to clients outside by eth1, while clients ask addresses of eth0',
    silent: {
      'the table leads by the same interface': {
        ...secondInterface,
        routes: [{dst: 'default', gateway: '172.18.0.1', dev: 'eth0', table: '2'}],
      },
      'the rule is for other marks': {...secondInterface, rules: [{priority: 100, src: 'all', fwmark: '0x100', table: '2'}]},
      'pods of a branch interface have its gateway': {...secondInterface, rules: [{priority: 10, src: 'all', iif: 'veth9', table: '2'}]},
    },
  },
  {
    ...{code: 'ST604', title: 'answers of the node alone have a rule, and outside is behind the other interface', severity: 'info'},
    fires: {...secondUplink, sysctls: strict},
    says: 'policy rules route packets of 4 pods',
    silent: {'nothing is filtered, and no rule does it': {...secondUplink, rules: []}},
  },
  {
    ...{code: 'ST604', title: 'a VPN takes both halves of all addresses', severity: 'info'},
    fires: halves('128.0.0.0/1'),
    says: 'send the answers of the node and its pods to clients outside by tun0, while clients ask addresses of eth0',
    silent: {'it takes only one': halves('64.0.0.0/2')},
  },
  {
    ...{code: 'ST604', title: 'the same without strict filtering', severity: 'info'},
    fires: secondUplink,
    says: 'policy routing sends the answers of 4 pods',
    silent: {},
  },
  {
    ...{code: 'ST604', title: 'a rule sends all answers by another interface', severity: 'info'},
    fires: {...secondInterface, rules: [{priority: 100, src: 'all', not: null, fwmark: '0xca6c', table: '2'}]},
    says: 'sends the answers of the node and its pods to clients outside by eth1',
    silent: {'it is for others': {...secondInterface, rules: [{priority: 100, src: '192.0.2.0', srclen: 24, table: '2'}]}},
  },
  {
    ...{code: 'ST604', title: 'the default route is that of another interface', severity: 'info'},
    fires: {...moved, sysctls: strict},
    says: 'the default route is by eth1: where clients outside 172.18.0.0/16 ask addresses of eth0 (172.18.0.11)',
    silent: {
      'filtering is loose': {...moved, sysctls: {'net.ipv4.conf.all.rp_filter': 2}},
      'a second interface is for storage': {...moved, sysctls: strict, change: () => {}},
    },
  },
  {
    ...{code: 'ST604', title: 'the default route is not by the interface of an address of a Service', severity: 'warning'},
    fires: {
      ...{...moved, sysctls: strict},
      change: given => {
        moveDefault(given);
        given.service('shop/web', service => ({...service, spec: {...service.spec, externalIPs: ['172.18.9.9']}}));
      },
    },
    says: 'ask addresses of eth0 (172.18.9.9)',
    silent: {},
  },
  {
    ...{code: 'ST604', title: 'a Service has an address in the network of a second interface', severity: 'warning'},
    fires: {...announcedBeside, sysctls: strictBeside},
    says: 'rp_filter of eth1 is strict (1), and the default route is by eth0: where clients outside 172.19.0.0/16 ask addresses of eth1 (172.19.9.9)',
    silent: {
      'filtering is loose': {...announcedBeside, sysctls: {...strictBeside, 'net.ipv4.conf.all.rp_filter': 2}},
      'the address is of IPv6, which has no such filter': {
        ...{...announcedBeside, sysctls: strictBeside, routes: [{dst: 'default', gateway: 'fe80::1', dev: 'eth0'}]},
        change: given => {
          const addressOf = (at: number) => ({local: `fd00:${at}::11`, prefixlen: 64});
          const addresses = [18, 19].map((net, at) => ({
            ifname: `eth${at}`,
            addr_info: [{local: `172.${net}.0.11`, prefixlen: 16}, addressOf(net)],
          }));
          given.file('node-a', 'addresses.json', JSON.stringify(addresses));
          given.nodeObject('node-a', ({status, ...node}) => ({
            ...node,
            status: {...status, addresses: [...(status?.addresses ?? []), {type: 'InternalIP', address: 'fd00:18::11'}]},
          }));
          given.file('node-a', 'ip6-rules.json', JSON.stringify(usualRules));
          given.service('infra/dual', service => ({...service, spec: {...service.spec, externalIPs: ['fd00:19::9']}}));
        },
      },
    },
  },
  {
    ...{code: 'ST604', title: 'what is sent from a second interface leaves by its gateway, and answers of pods do not', severity: 'info'},
    fires: fromBeside,
    says: 'rp_filter of eth1 is strict (1), and a default route leads by it too, while the answers of pods to clients outside leave by eth0',
    silent: {'filtering is loose': {...fromBeside, sysctls: {...strictBeside, 'net.ipv4.conf.all.rp_filter': 2}}},
  },
  {
    ...{code: 'ST604', title: 'two interfaces lead to the same place', severity: 'info'},
    fires: {...twoDefaults, sysctls: strict, change: given => preferSecond(given)},
    says: 'leave by eth1: the kernel drops such packets when they arrive on eth0',
    silent: {
      'the second interface is the spare': {...twoDefaults, sysctls: strict},
      'the other way is a tunnel': {
        ...{...twoDefaults, sysctls: strict, links: [{...up, ifname: 'eth1', linkinfo: {info_kind: 'wireguard'}}]},
        change: given => preferSecond(given),
      },
    },
  },
  {
    ...{code: 'ST605', title: 'the table of connections is full', severity: 'error'},
    fires: {sysctls: {'net.netfilter.nf_conntrack_count': 262_144}},
    says: '262144 connections are tracked, and nf_conntrack_max allows 262144',
    silent: {'it is not': {sysctls: {'net.netfilter.nf_conntrack_count': 200_000}}},
  },
  {
    ...{code: 'ST605', title: 'the table of connections is nearly full', severity: 'warning'},
    fires: {sysctls: {'net.netfilter.nf_conntrack_count': 250_000}},
    says: '95% of what nf_conntrack_max allows (262144)',
    silent: {'there is no limit': {sysctls: {'net.netfilter.nf_conntrack_count': 250_000, 'net.netfilter.nf_conntrack_max': 0}}},
  },
  {
    ...{code: 'ST606', title: 'connections cannot be tracked', severity: 'warning'},
    fires: counted(3, 7),
    says: 'insert_failed from 3 to 7',
    silent: {'that was long ago': counted(3, 3)},
  },
  {
    ...{code: 'ST606', title: 'many were lost for the age of the Node', severity: 'warning'},
    fires: lost(10),
    says: 'has lost 184233 packets',
    silent: {
      'they were sent on all the same': counted(184_233, 184_233),
      'it was less than one a minute': lost(100),
      'the node may have been up for a month before it was a Node': lost(1, 40_000),
    },
  },
  {
    ...{code: 'ST607', title: 'the node takes node ports for its own connections', severity: 'warning'},
    fires: {sysctls: {'net.ipv4.ip_local_port_range': '30090\t60999'}},
    says: '5 node ports (30090, 30091, 30092, 30093, 30094) are inside it',
    silent: {
      'they are reserved': {
        sysctls: {'net.ipv4.ip_local_port_range': '1024\t65535', 'net.ipv4.ip_local_reserved_ports': '30000-32767,8080'},
      },
    },
  },
  {
    ...{code: 'ST608', title: 'a switch of IPVS was changed', severity: 'warning'},
    fires: ipvsOf({'net.ipv4.vs.expire_nodest_conn': 0}),
    says: 'net.ipv4.vs.expire_nodest_conn is 0, and kube-proxy runs with 1',
    silent: {'all are as kube-proxy sets them': ipvsOf({}), 'IPVS is not in use': {sysctls: {'net.ipv4.vs.expire_nodest_conn': 0}}},
  },
  {
    ...{code: 'ST608', title: 'connections of IPVS are not tracked', severity: 'error'},
    fires: ipvsOf({'net.ipv4.vs.conntrack': 0}),
    says: 'net.ipv4.vs.conntrack is 0, and kube-proxy sets it to 1 when it starts: nothing that IPVS sends on is masqueraded',
    silent: {'they are': ipvsOf({'net.ipv4.vs.conntrack': 1}), 'IPVS is not in use': {sysctls: {'net.ipv4.vs.conntrack': 0}}},
  },
  {
    ...{code: 'ST609', title: 'every node answers ARP for an announced address', severity: 'warning'},
    fires: {...ipvsOf(arp(0, 0)), change: announced},
    says: 'this node answers ARP for them',
    silent: {
      'ARP is strict': {...ipvsOf(arp(1, 2)), change: announced},
      'nothing announces the address': ipvsOf(arp(0, 0)),
      'kube-proxy is in iptables mode': {sysctls: arp(0, 0), change: announced},
    },
  },
  {
    ...{code: 'ST609', title: 'every node answers ARP for an address that MetalLB may announce', severity: 'warning'},
    fires: {
      ...ipvsOf(arp(0, 0)),
      change: given => given.api(({pods}) => ({pods: [...(pods ?? []), speaker('quay.io/metallb/speaker:v0.12.1')]})),
    },
    says: 'this node answers ARP for them',
    silent: {
      'its controller alone runs': {
        ...ipvsOf(arp(0, 0)),
        change: given => given.api(({pods}) => ({pods: [...(pods ?? []), speaker('quay.io/metallb/controller:v0.12.1')]})),
      },
    },
  },
  {
    ...{code: 'ST610', title: 'a tunnel leaves no room for its headers', severity: 'warning'},
    fires: flannel(1500),
    says: 'flannel.1 (vxlan) has an MTU of 1500, and its headers take 50 bytes, but eth0',
    silent: {
      'it leaves room': flannel(1450),
      'no route uses it': {...flannel(1500), routes: []},
      "the tunnel has the node's own address": nodesOverWireGuard(1370),
    },
  },
  {
    ...{code: 'ST610', title: 'a tunnel in a tunnel leaves no room for its headers', severity: 'warning'},
    fires: nodesOverWireGuard(1420),
    says: 'flannel.1 (vxlan) has an MTU of 1420, and its headers take 50 bytes, but wg0, which carries it, has an MTU of 1420',
    silent: {'it leaves room': nodesOverWireGuard(1370)},
  },
  {
    ...{code: 'ST611', title: 'no route leads to the pods of another node', severity: 'error'},
    fires: {routes: [{type: 'unreachable', dst: '10.244.12.0/24'}]},
    says: 'no route leads to endpoints on node-b (10.244.12.9, 10.244.12.4, 10.244.12.8)',
    silent: {'a route leads there': flannel(1450), 'the network knows them': {}},
  },
  {
    ...{code: 'ST611', title: 'a route refuses cluster IPs', severity: 'error'},
    fires: {routes: [{type: 'blackhole', dst: '10.96.0.0/16', protocol: 'bird'}]},
    says: 'the route "blackhole 10.96.0.0/16" of the node refuses 30 addresses of Services',
    silent: {'it refuses others': {routes: [{type: 'blackhole', dst: '10.97.0.0/16', protocol: 'bird'}]}},
  },
  {
    ...{code: 'ST611', title: 'packets to a pod of another node go to the interface of a pod here', severity: 'error'},
    fires: podLinks([], {dst: '10.244.12.4', dev: 'veth9'}),
    says: 'packets to addresses on node-b (10.244.12.4) go to veth9, the interface of a pod of this node: what Services send there does not arrive.',
    silent: {
      'it is of this node': podLinks([], {dst: '10.244.11.5', dev: 'veth9'}),
      'it is no endpoint': podLinks([], {dst: '10.244.12.99', dev: 'veth9'}),
      'a gateway is behind the interface': podLinks(
        [],
        ...['10.244.12.4', '10.244.12.0/24'].map(dst => ({dst, gateway: '169.254.1.1', dev: 'veth9'})),
      ),
      'several gateways are': podLinks([], {
        dst: '10.244.12.4',
        nexthops: ['169.254.1.1', '169.254.1.2'].map(gateway => ({gateway, dev: 'veth9'})),
      }),
      'a tunnel leads there': {...nodesOverWireGuard(1370), routes: [{dst: '10.244.12.4', dev: 'wg0'}]},
    },
  },
  {
    ...{code: 'ST611', title: 'the network of containers overlaps that of pods of another node', severity: 'error'},
    fires: docker0('bridge', {ifname: 'veth9', link_netnsid: 3, linkinfo: {info_kind: 'veth'}}),
    says: 'packets to addresses on node-b (10.244.12.9, 10.244.12.4, 10.244.12.8, 10.244.12.6) go to docker0, which leads to no other node: what',
    silent: {
      'it leads to the node': {
        links: docker0('bridge').links ?? [],
        routes: [{dst: '10.244.12.0/25', gateway: '172.18.0.12', dev: 'docker0'}],
      },
      'the bridge has an uplink': docker0('bridge', {ifname: 'eth1'}),
      'it is a tunnel': docker0('openvswitch'),
      'no pod is in the network': {...docker0('bridge'), routes: [{dst: '172.17.0.0/16', dev: 'docker0'}]},
    },
  },
  {
    ...{code: 'ST611', title: 'a route asks on the uplink for pods that another one leads to their node', severity: 'error'},
    fires: {
      routes: [
        {dst: '10.244.12.0/25', dev: 'eth0'},
        {dst: '10.244.12.0/24', gateway: '172.18.0.12', dev: 'eth0'},
      ],
    },
    says: 'go to eth0, where a route of its own finds nobody, while another one leads to node-b: what',
    silent: {
      'all pods are in the network of the nodes': {routes: [{dst: '10.244.12.0/24', dev: 'eth0'}]},
      'the other one leads to another node': {
        routes: [
          {dst: '10.244.12.0/25', dev: 'eth0'},
          {dst: '10.244.0.0/16', gateway: '172.18.0.13', dev: 'eth0'},
        ],
      },
    },
  },
  {
    ...{code: 'ST611', title: 'the node has the address of a pod', severity: 'error'},
    fires: {routes: [{type: 'local', dst: '10.244.11.4', dev: 'lo', table: 'local'}]},
    says: 'packets to addresses on node-a (10.244.11.4) go to the node itself, which has the address too: what',
    silent: {'it is of no pod': {routes: [{type: 'local', dst: '10.244.11.1', dev: 'cni0', table: 'local'}]}},
  },
  {
    ...{code: 'ST611', title: 'the node has the address of another node', severity: 'error'},
    fires: {routes: [{type: 'local', dst: '172.18.0.12', dev: 'lo', table: 'local'}]},
    says: 'packets to addresses on node-b (172.18.0.12) go to the node itself, which has the address too: what',
    silent: {
      'it is its own': {routes: [{type: 'local', dst: '172.18.0.11', dev: 'eth0', table: 'local'}]},
      "it is one of several, as a load balancer's": {
        routes: [{type: 'local', dst: '172.18.0.12', dev: 'lo', table: 'local'}],
        change: given =>
          given.nodeObject('node-b', ({metadata}) => ({
            metadata,
            status: {addresses: ['172.18.0.12', '172.18.0.200'].map(address => ({type: 'InternalIP', address}))},
          })),
      },
    },
  },
  {
    ...{code: 'ST611', title: 'packets to a pod of the node go to another node', severity: 'error'},
    fires: podLinks([], {dst: '10.244.11.5', gateway: '172.18.0.12', dev: 'eth0'}),
    says: 'packets to addresses on node-a (10.244.11.5) go to 172.18.0.12, the address of node-b: what',
    silent: {'the gateway is no node': podLinks(['UP', 'LOWER_UP'], {dst: '10.244.11.5', gateway: '10.244.11.1', dev: 'cni0'})},
  },
  {
    ...{code: 'ST611', title: 'no route leads to another node', severity: 'error'},
    fires: {routes: [{type: 'blackhole', dst: '172.18.0.12'}]},
    says: 'no route leads to node-b (172.18.0.12): what Services send there, to endpoints in the network of the node, is lost, and so are the answers to it.',
    silent: {'it refuses somebody else': {routes: [{type: 'blackhole', dst: '198.18.0.12'}]}},
  },
  {
    ...{code: 'ST611', title: 'a route refuses clients outside', severity: 'info'},
    fires: {routes: [{type: 'blackhole', dst: '192.0.2.0/24'}]},
    says: 'routes or routing rules refuse packets of clients in 192.0.2.0/24, or the answers (unreachable, blackhole or prohibit): these get no answer from node ports',
    silent: {
      'it is about a private network': {routes: [{type: 'unreachable', dst: '192.168.0.0/16'}]},
      'a better route leads there': {
        routes: [
          {type: 'blackhole', dst: '192.0.2.0/24', metric: 9},
          {dst: '192.0.2.0/24', gateway: '172.18.0.9', dev: 'eth0'},
        ],
      },
    },
  },
  {
    ...{code: 'ST611', title: 'table local lacks the address of the node', severity: 'error'},
    fires: {routes: [{type: 'local', dst: '127.0.0.0/8', dev: 'lo', table: 'local'}]},
    says: 'table local has no route to 172.18.0.11, the address of the node: the kernel sends away what is for it',
    silent: {
      'it has it': {routes: ['127.0.0.0/8', '172.18.0.11'].map(dst => ({type: 'local', dst, dev: 'lo', table: 'local'}))},
      'no interface has it, as behind NAT': {
        routes: [{type: 'local', dst: '127.0.0.0/8', dev: 'lo', table: 'local'}],
        change: given => given.file('node-a', 'addresses.json', JSON.stringify([{ifname: 'eth0', addr_info: [{local: '172.18.0.111'}]}])),
      },
    },
  },
  {
    ...{code: 'ST611', title: 'routes lead to two pods by the interface of one', severity: 'error'},
    fires: ledBy('cali9', 'cali9'),
    says: 'routes lead to 2 pods (10.244.11.4, 10.244.11.5) by cali9, the interface of a single one: what Services send to the others is lost',
    silent: {'each has one': ledBy('cali8', 'cali9')},
  },
  {
    ...{code: 'ST611', title: 'a bridge leads to more pods than it has ports, and that of a pod is a port of none', severity: 'error'},
    fires: {...bridged(true), links: [bridge(), port('veth1', true), {...port('veth2', true), master: undefined}]},
    says: 'by cni0, a bridge without as many ports, while interfaces of pods are ports of none (veth2): what Services send to the pods behind these is lost',
    silent: {
      'each pod has one': {
        ...bridged(true),
        links: [bridge(), ...Array.from({length: 40}, (_, at) => port(`veth1${at}`, true)), {...port('veth2', true), master: undefined}],
      },
    },
  },
  {
    ...{code: 'ST611', title: 'the next hop to pods of another node is the address of no Node', severity: 'warning'},
    fires: toPods('172.18.0.99', '172.18.0.13'),
    says: 'packets for endpoints on node-b (10.244.12.9) go to 172.18.0.99, which is the address of no Node, although node-b is in the network of this node',
    silent: {
      'it is that of the node': toPods('172.18.0.12', '172.18.0.13'),
      'it is a router elsewhere': toPods('172.19.0.99', '172.18.0.13'),
      'a router has the routes to all pods': toPods('172.18.0.99', '172.18.0.99'),
      'nodes reach one another by addresses that the API does not have': toPods('172.18.0.98', '172.18.0.99'),
    },
  },
  {
    ...{
      code: 'ST611',
      title: 'a route of another program leads to some pods of another node elsewhere than to their Node',
      severity: 'warning',
    },
    fires: {routes: [...(toPods('172.18.0.12').routes ?? []), {dst: '10.244.12.0/25', gateway: '10.8.0.1', dev: 'eth1'}]},
    says: 'packets for endpoints on node-b (10.244.12.9) go to 10.8.0.1, which is the address of no Node, although node-b is in the network of this node',
    silent: {
      'no route leads to their Node': {
        routes: [...(toPods('172.18.0.13').routes ?? []), {dst: '10.244.12.0/25', gateway: '10.8.0.1', dev: 'eth1'}],
      },
      'it leads to none of them': {
        routes: [...(toPods('172.18.0.12').routes ?? []), {dst: '10.244.12.128/25', gateway: '10.8.0.1', dev: 'eth1'}],
      },
    },
  },
  {
    ...{code: 'ST611', title: 'a route to the pods of another node names the interface of a pod here', severity: 'error'},
    fires: podLinks([], {dst: '10.244.11.5', dev: 'veth9'}, {dst: '10.244.12.0/24', dev: 'veth9'}),
    says: 'go to veth9, the interface of a pod of this node: what Services send there does not arrive.',
    silent: {
      'no pod here is behind it, as where nodes are containers': podLinks([], {dst: '10.244.12.0/24', dev: 'veth9'}),
      'it leads to a gateway': podLinks(
        [],
        {dst: '10.244.11.5', dev: 'veth9'},
        {dst: '10.244.12.0/24', gateway: '10.89.0.3', dev: 'veth9'},
      ),
    },
  },
  {
    ...{code: 'ST611', title: 'no packet of the node gets further than the next host', severity: 'error'},
    fires: {sysctls: {'net.ipv4.ip_default_ttl': 1}},
    says: 'net.ipv4.ip_default_ttl is 1: the first host that would send them on drops what',
    silent: {'it is as usual': {sysctls: {'net.ipv4.ip_default_ttl': 64}}},
  },
  {
    ...{code: 'ST611', title: 'the interface of a pod asks for no neighbor', severity: 'warning'},
    fires: podLinks(['NOARP'], {dst: '10.244.11.5', dev: 'veth5'}),
    says: 'veth5, which leads to endpoints (10.244.11.5), has ARP off: by it the kernel finds only neighbors that it has permanent entries for',
    silent: {
      'it leads to no endpoint': podLinks(['NOARP'], {dst: '10.244.11.99', dev: 'veth5'}),
      'it asks': podLinks([], {dst: '10.244.11.5', dev: 'veth5'}),
    },
  },
  {
    ...{code: 'ST611', title: 'packets to one pod of the node leave by the uplink', severity: 'warning'},
    fires: podLinks(
      [],
      {dst: '10.244.11.5', dev: 'veth9'},
      {dst: '10.244.11.4', dev: 'eth0'},
      {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'},
    ),
    says: 'packets for endpoints on this node (10.244.11.4) leave by eth0, while pods here have interfaces of their own',
    silent: {
      'no interface is a pod’s': {...onUplink, links: [{...up, ifname: 'eth0', mtu: 1500, link_netnsid: 0, linkinfo: {info_kind: 'veth'}}]},
      'those of containers are ports of a bridge': {
        ...onUplink,
        links: [{...up, ifname: 'veth9', mtu: 1500, master: 'docker0', link_netnsid: 3, linkinfo: {info_kind: 'veth'}}],
      },
    },
  },
  {
    ...{code: 'ST611', title: 'packets to pods of another node leave by the uplink without a next hop', severity: 'warning'},
    fires: askedOnUplink,
    says: 'packets for endpoints on node-b (10.244.12.9, 10.244.12.4, 10.244.12.8) leave by eth0 without a next hop, and are in none of its networks',
    silent: {
      'nodes answer ARP for pods': {...askedOnUplink, sysctls: {'net.ipv4.conf.eth0.proxy_arp': 1}},
      'a next hop leads there': podLinks(
        [],
        {dst: '10.244.11.5', dev: 'veth9'},
        {dst: '10.244.12.0/24', gateway: '172.18.0.12', dev: 'eth0'},
      ),
      'pods here have no links of their own': {routes: [{dst: '10.244.12.0/24', dev: 'eth0'}]},
    },
  },
  {
    ...{code: 'ST611', title: 'the routes of a VPN, which come before table main, hold the pods of the node too', severity: 'error'},
    fires: podInTable('10.244.0.0/16'),
    says: 'the rule of policy routing "104: from all lookup 7120" sends packets of',
    silent: {
      'they hold those of others, as in an encrypted network': podInTable('10.244.12.0/24'),
      'no pod has a link of its own': {...podInTable('10.244.0.0/16'), links: [eth0, {...eth0, ifname: 'wt0'}]},
    },
  },
  {
    ...{code: 'ST611', title: 'packets to one pod of the node leave by another wire', severity: 'warning'},
    fires: podByWire({dst: '10.244.11.4', dev: 'eth1'}),
    says: 'packets for endpoints on this node (10.244.11.4) go by eth1, while pods here have interfaces of their own',
    silent: {
      'it is an interface without a network, as to a virtual function': {...podByWire({dst: '10.244.11.4', dev: 'eth1'}), change: () => {}},
      'no pod has a link of its own': {...podByWire({dst: '10.244.11.4', dev: 'eth1'}), links: [eth0, {...eth0, ifname: 'eth1'}]},
    },
  },
  {
    ...{code: 'ST611', title: 'packets to one pod of the node go to a gateway', severity: 'warning'},
    fires: podByWire({dst: '10.244.11.4', gateway: '192.0.2.77', dev: 'eth1'}),
    says: 'packets for endpoints on this node (10.244.11.4) go to 192.0.2.77 by eth1, while pods here have interfaces of their own',
    silent: {'the gateway is a pod here': podByWire({dst: '10.244.11.4', gateway: '10.244.11.5', dev: 'eth1'})},
  },
  {
    ...{code: 'ST611', title: 'packets to all pods of the node leave by the uplink, and interfaces of pods are there', severity: 'warning'},
    fires: onUplink,
    says: 'packets for endpoints on this node (10.244.11.4, 10.244.11.5) leave by eth0, while pods here have interfaces of their own',
    silent: {'a table for what arrives by another interface names the pods': {...onUplink, routes: inOtherTable}},
  },
  {
    ...{code: 'ST611', title: 'one of two next hops to pods of another node is the address of no Node', severity: 'warning'},
    fires: {routes: bothHops('172.18.0.99')},
    says: 'a share of the packets for endpoints on node-b (10.244.12.9) go to 172.18.0.99, which is the address of no Node',
    silent: {
      'both are Nodes': {routes: bothHops('172.18.0.13')},
      'it is a router elsewhere': {routes: bothHops('172.19.0.99')},
      'both are routers': {
        routes: [
          {
            ...bothHops('172.18.0.98')[0],
            nexthops: [
              {gateway: '172.18.0.98', dev: 'eth0'},
              {gateway: '172.18.0.99', dev: 'eth0'},
            ],
          },
        ],
      },
    },
  },
  {
    ...{code: 'ST611', title: 'the route to one pod leads to another Node than that to all pods of its node', severity: 'error'},
    fires: {routes: [...(toPods('172.18.0.12').routes ?? []), {dst: '10.244.12.4', gateway: '172.18.0.13', dev: 'eth0'}]},
    says: 'packets to addresses on node-b (10.244.12.4) go to 172.18.0.13, the address of node-c: what Services send there does not arrive.',
    silent: {
      'another node leads to all of them': toPods('172.18.0.13'),
      'it leads to its node': {
        routes: [...(toPods('172.18.0.13').routes ?? []), {dst: '10.244.12.4', gateway: '172.18.0.12', dev: 'eth0'}],
      },
      'it is no endpoint': {routes: [...(toPods('172.18.0.12').routes ?? []), {dst: '10.244.12.99', gateway: '172.18.0.13', dev: 'eth0'}]},
    },
  },
  {
    ...{code: 'ST611', title: 'the next hop to a pod of another node is a pod here', severity: 'error'},
    fires: podLinks(
      [],
      {dst: '10.244.12.4', gateway: '10.244.11.5', dev: 'veth9'},
      {dst: '10.244.12.0/24', gateway: '172.18.0.12', dev: 'eth0'},
    ),
    says: 'packets to addresses on node-b (10.244.12.4) go to 10.244.11.5, a pod of this node: what Services send there does not arrive.',
    silent: {
      'it leads to a network of no node': podLinks([], {dst: '192.168.0.0/16', gateway: '10.244.11.5', dev: 'veth9'}),
      'it is none': podLinks([], ...['10.244.12.4', '10.244.12.0/24'].map(dst => ({dst, gateway: '10.89.0.3', dev: 'veth9'}))),
    },
  },
  {
    ...{code: 'ST611', title: 'a routing rule refuses clients outside', severity: 'info'},
    fires: {rules: [{priority: 100, src: '192.0.2.0', srclen: 24, action: 'blackhole'}]},
    says: 'routes or routing rules refuse packets of clients in 192.0.2.0/24, or the answers',
    silent: {
      'it is for what arrives elsewhere': {rules: [{priority: 100, src: '192.0.2.0', srclen: 24, iif: 'eth9', action: 'blackhole'}]},
    },
  },
  {
    ...{code: 'ST611', title: 'a routing rule refuses answers to clients outside', severity: 'info'},
    fires: {rules: [{priority: 100, src: 'all', dst: '192.0.2.0', dstlen: 24, action: 'unreachable'}]},
    says: 'routes or routing rules refuse packets of clients in 192.0.2.0/24, or the answers',
    silent: {
      'a rule before it leads there': {
        rules: [
          {priority: 90, src: 'all', table: 'main'},
          {priority: 100, src: 'all', dst: '192.0.2.0', dstlen: 24, action: 'unreachable'},
        ],
      },
    },
  },
  {
    ...{code: 'ST611', title: 'a routing rule sends clients outside away', severity: 'info'},
    fires: routedFrom('192.0.2.0'),
    says: 'sends packets of clients in 192.0.2.0/24 by eth1, while ',
    silent: {'it is about a private network': routedFrom('10.99.0.0')},
  },
  {
    ...{code: 'ST611', title: 'the loopback interface is down', severity: 'error'},
    fires: {change: given => given.file('node-a', 'links.json', JSON.stringify([{...eth0, ifname: 'lo', flags: ['LOOPBACK']}, eth0]))},
    says: 'lo is down: what',
    silent: {'it is up': {}},
  },
  {
    ...{code: 'ST611', title: 'a routing rule refuses packets from a pod', severity: 'error'},
    fires: {rules: [{priority: 100, src: '10.244.11.5', dst: '10.244.0.0', dstlen: 16, action: 'prohibit'}]},
    says: 'the routing rules of the node refuse packets from 10.244.11.5 to 10.244.11.',
    silent: {
      'it is about other pods': {rules: [{priority: 100, src: '10.244.99.5', dst: '10.244.0.0', dstlen: 16, action: 'prohibit'}]},
      'it is about other destinations': {rules: [{priority: 100, src: '10.244.11.5', dst: '192.0.2.0', dstlen: 24, action: 'blackhole'}]},
      'it looks up another table': secondInterface,
    },
  },
  {
    ...{code: 'ST611', title: 'a routing rule refuses packets from pods of another node', severity: 'error'},
    fires: {rules: [{priority: 100, src: '10.244.12.0', srclen: 24, action: 'blackhole'}]},
    says: 'the routing rules of the node refuse packets from 10.244.12.',
    silent: {
      'it is for what pods here send there': {
        rules: [{priority: 100, src: '10.244.12.0', srclen: 24, dst: '10.99.0.1', action: 'blackhole'}],
      },
    },
  },
  {
    ...{code: 'ST611', title: 'a routing rule refuses packets of the node', severity: 'error'},
    fires: {rules: [{priority: 100, src: '172.18.0.11', action: 'prohibit'}]},
    says: 'the routing rules of the node refuse packets from 172.18.0.11 to 10.244.1',
    silent: {},
  },
  {
    ...{code: 'ST611', title: 'a routing rule looks pods of another node up in a table that asks for them on an uplink', severity: 'error'},
    fires: toOthers({dst: 'default', dev: 'eth1', table: '2'}),
    says: '"100: from all to 10.244.12.0/24 lookup 2" sends packets of pods of this node',
    silent: {
      'a tunnel takes all': toOthers({dst: 'default', dev: 'wireguard.cali', table: '2'}),
      'a gateway there knows them': toOthers({dst: 'default', gateway: '172.19.0.1', dev: 'eth1', table: '2'}),
      'the table names them': toOthers({dst: '10.244.12.0/24', dev: 'eth1', table: '2'}),
    },
  },
  {
    ...{code: 'ST611', title: 'a routing rule sends packets from pods by another uplink', severity: 'error'},
    fires: routedFrom('10.244.11.0'),
    says: 'the rule of policy routing "100: from 10.244.11.0/24 lookup 2" sends packets of pods of this node (10.244.11.',
    silent: {
      'it is about others': routedFrom('10.99.0.0'),
      'what is for pods is looked up before': policyRouting(
        {priority: 99, src: 'all', dst: '10.244.0.0', dstlen: 16, table: 'main'},
        {priority: 100, src: '10.244.11.0', srclen: 24, table: '2'},
      ),
      'table main decides all but the default route': policyRouting(
        {priority: 99, src: 'all', table: 'main', suppress_prefixlen: 0},
        {priority: 100, src: 'all', table: '2'},
      ),
      'the gateway of a branch interface leads back': policyRouting({priority: 10, src: 'all', iif: 'veth9', table: '2'}),
      'an encrypted network of pods leads there': policyRouting({priority: 99, not: null, src: 'all', fwmark: '0x200000', table: '3'}),
    },
  },
  {
    ...{code: 'ST611', title: 'a routing rule sends what kube-proxy marks by another uplink', severity: 'error'},
    fires: policyRouting({priority: 90, src: 'all', fwmark: '0x4000', fwmask: '0x4000', table: '2'}),
    says: 'lookup 2" sends packets with the mark 0x4000, by which kube-proxy marks what it masquerades',
    silent: {'it is about another mark': policyRouting({priority: 90, src: 'all', fwmark: '0x100', fwmask: '0xff00', table: '2'})},
  },
  {
    ...{code: 'ST611', title: 'a routing rule delivers what kube-proxy marks to the node itself', severity: 'error'},
    fires: deliveredHere('0x4000'),
    says: 'sends packets with the mark 0x4000, by which kube-proxy marks what it masquerades (of clients outside and of other nodes, to node ports and load balancers) to the node itself, while ',
    silent: {'it is about the mark of a proxy': deliveredHere('0x200')},
  },
  {
    ...{code: 'ST611', title: 'a routing rule looks what kube-proxy marks up in a table that refuses it', severity: 'error'},
    fires: {
      rules: [{priority: 90, src: 'all', fwmark: '0x4000', fwmask: '0x4000', table: '100'}],
      routes: [{type: 'blackhole', dst: 'default', table: '100'}],
    },
    says: 'the routing rules of the node refuse packets with the mark 0x4000',
    silent: {
      'it is about another mark': {
        rules: [{priority: 90, src: 'all', fwmark: '0x77', table: '100'}],
        routes: [{type: 'blackhole', dst: 'default', table: '100'}],
      },
      'the table leads on': {
        rules: [{priority: 90, src: 'all', fwmark: '0x4000', fwmask: '0x4000', table: '100'}],
        routes: [{...byDefault, table: '100'}],
      },
    },
  },
  {
    ...{code: 'ST611', title: 'no route leads to the addresses of Services', severity: 'error'},
    fires: {routes: [{type: 'blackhole', dst: '10.96.0.0/12'}]},
    says: "the kernel refuses what the node's own processes and pods with hostNetwork send there before kube-proxy's rules are asked",
    silent: {
      'a default route leads there': {},
      'another table has the route': {
        rules: [{priority: 99, src: 'all', table: '2'}],
        routes: [
          {type: 'blackhole', dst: '10.96.0.0/12'},
          {dst: '10.96.0.0/12', dev: 'eth0', table: '2'},
        ],
      },
      'the node has the addresses itself': {
        routes: [
          {type: 'blackhole', dst: '10.96.0.0/12', metric: 9},
          {dst: '10.96.0.0/12', dev: 'lo', type: 'local', metric: 1},
        ],
      },
      'Cilium translates addresses in the socket': {
        links: [{...up, ifname: 'cilium_host', mtu: 1500}],
        routes: [{type: 'blackhole', dst: '10.96.0.0/12'}],
      },
    },
  },
  {
    ...{code: 'ST611', title: 'the interface that leads to the pods of another node has no carrier', severity: 'error'},
    fires: {routes: [{dst: '10.244.12.0/24', gateway: '192.0.2.1', dev: 'eth1', flags: ['linkdown']}]},
    says: 'the interface that leads to endpoints (10.244.12.9, 10.244.12.4, 10.244.12.8), eth1, has no carrier: what',
    silent: {
      'no pod is behind it': {routes: [{dst: '172.17.0.0/16', dev: 'docker0', flags: ['linkdown']}]},
      'a route that counts more leads elsewhere': {
        routes: [
          {dst: '10.244.12.0/24', gateway: '192.0.2.1', dev: 'eth1', metric: 9, flags: ['linkdown']},
          {dst: '10.244.12.0/24', gateway: '172.18.0.12', dev: 'eth0'},
        ],
      },
    },
  },
  {
    ...{code: 'ST611', title: 'one of several next hops has no carrier', severity: 'error'},
    fires: {routes: [nextHops(['linkdown'])]},
    says: 'one of the next hops to endpoints (10.244.12.9, 10.244.12.4, 10.244.12.8), eth1, has no carrier, and the kernel does not skip it: a share of',
    silent: {'the kernel skips it': {routes: [nextHops(['dead', 'linkdown'])]}, 'all have one': {routes: [nextHops([])]}},
  },
  {
    ...{code: 'ST611', title: 'the interface of a pod is down', severity: 'error'},
    fires: podLinks([]),
    says: 'packets for endpoints on this node (10.244.11.5) go to the default gateway 172.18.0.1, while an interface of pods is down (veth5): what',
    silent: {
      'it is up': podLinks(['UP', 'LOWER_UP'], {dst: '10.244.11.5', dev: 'veth5'}),
      'it is of a pod that is no endpoint': podLinks([], {dst: '10.244.11.5', dev: 'veth9'}),
    },
  },
  {
    ...{code: 'ST611', title: 'one node has no route of its own', severity: 'warning'},
    fires: {...flannel(1450), change: addPodOnThirdNode},
    says: 'packets for endpoints on node-c (10.244.13.7) go to the default gateway 172.18.0.1, while there are routes',
    silent: {
      'no node has one': {change: addPodOnThirdNode},
      'each node has one': {
        ...flannel(1450),
        ...{
          routes: ['12', '13'].map(n => ({dst: `10.244.${n}.0/24`, gateway: `10.244.${n}.0`, dev: 'flannel.1'})),
          change: addPodOnThirdNode,
        },
      },
    },
  },
  {
    ...{code: 'ST611', title: 'the bridge of the pods is down', severity: 'error'},
    fires: {...podsAtGateway, links: [{...bridge(), flags: []}], change: addressOn('cni0', '10.244.11.1', 24)},
    says: 'packets for endpoints on this node (10.244.11.4, 10.244.11.5) go to the default gateway 172.18.0.1, while an interface of pods is down (cni0): what',
    silent: {
      'it is up': {...podsAtGateway, links: [bridge()], change: addressOn('cni0', '10.244.11.1', 24)},
      'it is of another network': {...podsAtGateway, links: [{...bridge(), flags: []}], change: addressOn('cni0', '172.17.0.1', 16)},
    },
  },
  {
    ...{code: 'ST611', title: 'pods here have no route, and others here have one of their own', severity: 'warning'},
    fires: {routes: [...podsAtGateway.routes, {dst: '10.244.11.6', dev: 'cali6'}]},
    says: 'packets for endpoints on this node (10.244.11.4, 10.244.11.5) go to the default gateway 172.18.0.1, while pods here have interfaces of their own: what',
    silent: {
      'none has one': podsAtGateway,
      'a table for their interface names them': {
        routes: [
          ...podsAtGateway.routes,
          {dst: '10.244.11.6', dev: 'cali6'},
          ...['10.244.11.4', '10.244.11.5'].map(dst => ({dst, dev: 'eni5', table: '101'})),
        ],
      },
    },
  },
  ...[
    {what: 'for addresses of the node', rule: {priority: 100, src: '192.0.2.11', table: '101'}},
    {what: 'for packets of a VRF', rule: {priority: 1000, src: 'all', l3mdev: null}, vrf: true},
  ].map(({what, rule, vrf}): Case => {
    const given = flannel(1450);
    const change = (made: Scenario): void => {
      addPodOnThirdNode(made);
      addressOn('eth1', '192.0.2.11', 24)(made);
    };
    const routes = [...(given.routes ?? []), {...byDefault, dev: 'eth1', gateway: '192.0.2.1', table: '101'}];
    const links = [
      ...(given.links ?? []),
      ...(vrf ? [{...up, ifname: 'mgmt', linkinfo: {info_kind: 'vrf', info_data: {table: 101}}}] : []),
    ];
    return {
      ...{code: 'ST611', title: `one node has no route of its own, and there are routing rules ${what}`, severity: 'warning'},
      fires: {links, routes, rules: [rule], change},
      says: 'packets for endpoints on node-c (10.244.13.7) go to the default gateway 172.18.0.1, while there are routes',
      silent: {
        'it has one': {
          links,
          routes: [...routes, {dst: '10.244.13.0/24', gateway: '10.244.13.0', dev: 'flannel.1'}],
          rules: [rule],
          change,
        },
      },
    };
  }),
  {
    ...{code: 'ST611', title: 'the tunnel to other nodes is down', severity: 'warning'},
    fires: {links: [tunnel([])], change: withTunnelAddress},
    says: 'while flannel.1, the tunnel to other nodes, is down',
    silent: {
      'it is up': {links: [tunnel(['UP'])], change: withTunnelAddress},
      'another is up': {links: [tunnel([]), {...tunnel(['UP']), ifname: 'flannel.2'}], change: withTunnelAddress},
      'it has no address': {links: [tunnel([])], change: addPodOnThirdNode},
      "it is the administrator's": {
        links: [{...tunnel([]), linkinfo: {info_kind: 'wireguard'}}],
        change: given => {
          addPodOnThirdNode(given);
          addressOn('flannel.1', '10.99.0.1', 24)(given);
        },
      },
    },
  },
];

function withTunnelAddress(given: Scenario): void {
  addPodOnThirdNode(given);
  addressOn('flannel.1', '10.244.11.0', 32)(given);
}

function tunnel(flags: readonly string[]): object {
  return {ifname: 'flannel.1', flags, promiscuity: 0, mtu: 1450, linkinfo: {info_kind: 'vxlan'}};
}

const flannelRules = (given: Scenario, guarded: boolean): void => {
  const dump = given.rules('node-a').toString();
  const own = [
    ...(guarded ? ['-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN'] : []),
    '-A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE --random-fully',
    '-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.0.0/16 -j MASQUERADE --random-fully',
  ];
  const jump = /^-A POSTROUTING .*-j KUBE-POSTROUTING$/m;
  given.file(
    'node-a',
    'iptables-save',
    dump
      .replace(':KUBE-POSTROUTING - [0:0]', ':FLANNEL-POSTRTG - [0:0]\n:KUBE-POSTROUTING - [0:0]')
      .replace(jump, found => `-A POSTROUTING -j FLANNEL-POSTRTG\n${found}\n${own.join('\n')}`),
  );
};

function withKernel(given: Scenario, kernelVersion: string): void {
  given.nodeObject('node-a', node => ({...node, status: {...node.status, nodeInfo: {...node.status?.nodeInfo, kernelVersion}}}));
}

describe("ST612: kube-proxy's mark stays on packets in a tunnel", () => {
  const expected = {code: 'ST612', severity: 'warning', node: 'node-a', family: 'IPv4'};

  test('is reported where flannel masquerades them first', async () => {
    const found = await factsFound({...flannel(1450), change: given => flannelRules(given, false)});
    expect(found).toMatchObject([
      {...expected, message: containing('FLANNEL-POSTRTG masquerades packets', 'through flannel.1 are masqueraded again')},
    ]);
  });

  test('is reported with the condition where interfaces were not read', async () => {
    const given = await scenario();
    flannelRules(given, false);
    given.file('node-a', 'addresses.json', null);
    expect(given.newFindings().filter(({code}) => code === 'ST612')).toMatchObject([{message: containing('if that is its backend')}]);
  });

  test.each<readonly [string, Given]>([
    ['flannel leaves marked packets alone', {...flannel(1450), change: given => flannelRules(given, true)}],
    ['kube-proxy masquerades first and clears the mark', flannel(1450)],
    ['pods are reached without a tunnel', {change: given => flannelRules(given, false)}],
  ])('stays silent where %s', async (_, given) => {
    expect((await factsFound(given)).map(({code}) => code)).not.toContain('ST612');
  });
});

/** The default route of eth0 counts less than that of eth1. */
function preferSecond(given: Scenario): void {
  const [spare, preferred] = [
    {...byDefault, metric: 200},
    {dst: 'default', gateway: '172.19.0.1', dev: 'eth1', metric: 100},
  ];
  given.file('node-a', 'routes.json', JSON.stringify([spare, preferred]));
}

function moveDefault(given: Scenario): void {
  const routes = usualRoutes.map(route => (route === byDefault ? {dst: 'default', gateway: '172.19.0.1', dev: 'eth1'} : route));
  given.file('node-a', 'routes.json', JSON.stringify(routes));
}

/** Two pods by their interfaces. */
/** The next hops to the pods of node-b and node-c. */
function toPods(...gateways: readonly string[]): Given {
  return {routes: gateways.map((gateway, at) => ({dst: `10.244.${12 + at}.0/24`, gateway, dev: 'eth0'}))};
}

function withoutLearning(flood: boolean): object {
  const {linkinfo, ...link} = port('veth1', true);
  return {...link, linkinfo: {...linkinfo, info_slave_data: {...linkinfo.info_slave_data, learning: false, flood}}};
}

/** Two next hops to the pods of node-b: the node itself, and another one. */
function bothHops(other: string): readonly [object] {
  return [{dst: '10.244.12.0/24', nexthops: ['172.18.0.12', other].map(gateway => ({gateway, dev: 'eth0'}))}];
}

function ledBy(...names: readonly string[]): Given {
  return {
    links: [...new Set(names)].map(ifname => ({...up, ifname, link_netnsid: 0, linkinfo: {info_kind: 'veth'}})),
    routes: names.map((dev, at) => ({dst: `10.244.11.${4 + at}`, dev})),
  };
}

/** A rule in table mangle, the first one. */
function restoreMarks(given: Scenario, rule: string): void {
  given.file('node-a', 'iptables-save', given.rules('node-a').toString().replace('COMMIT', `${rule}\nCOMMIT`));
}

function addPodOnThirdNode(given: Scenario): void {
  given.slices('shop/web', slice => ({
    ...slice,
    endpoints: [
      ...(slice.endpoints ?? []),
      {addresses: ['10.244.13.7'], nodeName: 'node-c', conditions: {ready: true}, targetRef: {kind: 'Pod', namespace: 'shop', name: 'new'}},
    ],
  }));
}

describe.each(cases)('$code: $title', ({code, fires, says, severity, silent}) => {
  test('is reported once for the node', async () => {
    const found = await factsFound(fires);
    expect(found).toEqual([expect.objectContaining({code, severity, node: 'node-a', message: containing(says)})]);
  });

  test.each(Object.entries(silent))('stays silent where %s', async (_, given) => {
    // What leads pods elsewhere leads answers to clients elsewhere too.
    const found = await factsFound(given);
    expect(found.filter(one => code !== 'ST611' || one.code !== 'ST604')).toEqual([]);
  });
});

test('a module that is not loaded is told from a switch that was not read', async () => {
  const unread = Object.fromEntries(Object.entries(usualSysctls).filter(([name]) => !name.startsWith('net.bridge')));
  const write = (sysctls: object) => (given: Scenario) =>
    given.file(
      'node-a',
      'sysctls',
      Object.entries(sysctls)
        .map(([name, value]) => `${name} = ${value}\n`)
        .join(''),
    );
  const notLoaded = await factsFound({...bridged(true), change: write(unread)});
  expect(notLoaded).toEqual([expect.objectContaining({code: 'ST602', message: containing('br_netfilter is not loaded')})]);
  expect(await factsFound({...bridged(true), change: write({'net.ipv4.ip_forward': 1})})).toEqual([]);
});

test('IPv6 that is switched off is an error, and an interface without it is none', async () => {
  const withLoopback = (...own: readonly string[]): Given => ({
    change: given => {
      const addresses = {lo: ['127.0.0.1', ...own], eth0: ['172.18.0.11']};
      const links = Object.entries(addresses).map(([ifname, all]) => ({ifname, addr_info: all.map(local => ({local}))}));
      given.file('node-a', 'addresses.json', JSON.stringify(links));
      given.nodeObject('node-a', ({spec, ...node}) => ({...node, spec: {...spec, podCIDRs: ['10.244.11.0/24', 'fd00:10:244:11::/64']}}));
    },
  });
  const off = await factsFound(withLoopback());
  expect(off).toMatchObject([
    {code: 'ST611', severity: 'error', node: 'node-a', family: 'IPv6', message: containing('IPv6 is switched off')},
  ]);
  expect(await factsFound(withLoopback('::1'))).toEqual([]);
});

test('a rule of IPv6 for table main that is missing is a warning, where nothing shows whether the kernel follows rules', async () => {
  const withRules = (rules: readonly object[]): Given => ({
    change: given => {
      given.file('node-a', 'ip6-rules.json', JSON.stringify(rules));
      given.file('node-a', 'routes.json', JSON.stringify([...usualRoutes, {dst: 'default', gateway: 'fc00::1', dev: 'eth0'}]));
    },
  });
  const missing = await factsFound(withRules(usualRules.slice(0, 1)));
  expect(missing).toMatchObject([
    {code: 'ST611', severity: 'warning', family: 'IPv6', message: containing('the rule of policy routing for table main is missing')},
  ]);
  expect(await factsFound(withRules(usualRules))).toEqual([]);
});

test('IPv6 forwarding matters where there are Services of IPv6', async () => {
  const found = await factsFound({sysctls: {'net.ipv6.conf.all.forwarding': 0}});
  expect(found).toEqual([expect.objectContaining({code: 'ST601', family: 'IPv6'})]);
});

test('nodes of which no facts were read have no such findings', async () => {
  const given = await scenario();
  for (const file of ['sysctls', 'addresses.json']) given.file('node-a', file, null);
  expect(given.newFindings().filter(({code}) => code.startsWith('ST6'))).toEqual([]);
});

describe('ST613: the MTU between pods is another one on one of three nodes', () => {
  const interfaces = (given: Scenario, mtus: Readonly<Record<string, readonly [tunnel: number, pods: number]>>) => {
    for (const [node, [tunnel, pods]] of Object.entries(mtus)) {
      const links = [
        {...up, ifname: 'flannel.1', mtu: tunnel, linkinfo: {info_kind: 'vxlan'}},
        {...bridge(), mtu: pods},
      ];
      given.file(node, 'links.json', JSON.stringify([eth0, ...links]));
      const own = {'node-a': 11, 'node-b': 12, 'node-c': 13}[node];
      const others = [11, 12, 13].filter(n => n !== own).map(n => ({dst: `10.244.${n}.0/24`, gateway: `10.244.${n}.0`, dev: 'flannel.1'}));
      given.file(node, 'routes.json', JSON.stringify([...others, {dst: `10.244.${own}.0/24`, dev: 'cni0'}]));
      given.file(node, 'ip-rules.json', JSON.stringify(usualRules));
    }
  };
  const foundWith = async (mtus: Parameters<typeof interfaces>[1]) => {
    const given = await scenario();
    interfaces(given, mtus);
    return given.findings().flatMap(({code, node, message}) => (code === 'ST613' ? [`${node}: ${message}`] : []));
  };

  test('is reported for that node', async () => {
    expect(await foundWith({'node-a': [1450, 1450], 'node-b': [1450, 1450], 'node-c': [1400, 1400]})).toEqual([
      'node-c: the MTU between pods is 1400 (flannel.1), and 1450 on 2 other nodes (node-a, node-b): large packets to its pods may be fragmented or lost, while small ones arrive',
    ]);
  });

  test('is reported where its pods are what differs', async () => {
    expect(await foundWith({'node-a': [1450, 1450], 'node-b': [1450, 1376], 'node-c': [1450, 1450]})).toEqual([
      expect.stringContaining('node-b: the MTU between pods is 1376 (cni0), and 1450 on 2 other nodes'),
    ]);
  });

  test('is reported once for two nodes, where the smaller one is', async () => {
    expect(await foundWith({'node-a': [8951, 8951], 'node-c': [1450, 1450]})).toEqual([expect.stringMatching(/^node-c: /)]);
  });

  test('stays silent where all are alike, where one node was read, and where larger tunnels have no larger pods', async () => {
    expect(await foundWith({'node-a': [1450, 1450], 'node-b': [1450, 1450], 'node-c': [1450, 1450]})).toEqual([]);
    expect(await foundWith({'node-a': [1400, 1400]})).toEqual([]);
    expect(await foundWith({'node-a': [8951, 1450], 'node-b': [1450, 1450], 'node-c': [1450, 1450]})).toEqual([]);
  });
});

describe('ST604: packets of pods of another node arrive by another interface than the one that leads back to them', () => {
  // On node-b the routes lead back by eth0; node-a sends to its pods by a gateway.
  const foundWith = async ({gateway, rp, found = 'ST604'}: {readonly gateway: string; readonly rp: number; readonly found?: string}) => {
    const given = await scenario();
    for (const [node, own, other] of [
      ['node-a', 11, 12],
      ['node-b', 12, 11],
    ] as const) {
      const networks = [
        {ifname: 'lo'},
        ...['172.18.0', '192.0.2'].map((net, n) => ({ifname: `eth${n}`, addr_info: [{local: `${net}.${own}`, prefixlen: 24}]})),
      ];
      given.file(node, 'addresses.json', JSON.stringify(networks));
      given.file(node, 'links.json', JSON.stringify([eth0, {...eth0, ifname: 'eth1'}, bridge()]));
      const hop = node === 'node-a' ? gateway : `172.18.0.${other}`;
      const routes = [
        {dst: `10.244.${other}.0/24`, gateway: hop, dev: hop.startsWith('192') ? 'eth1' : 'eth0'},
        {dst: '10.244.13.0/24', gateway: '172.18.0.13', dev: 'eth0'},
        {dst: `10.244.${own}.0/24`, dev: 'cni0'},
      ];
      given.file(node, 'routes.json', JSON.stringify(routes));
      given.file(node, 'ip-rules.json', JSON.stringify(usualRules));
      given.file(node, 'sysctls', ['all', 'eth0', 'eth1'].map(name => `net.ipv4.conf.${name}.rp_filter = ${rp}\n`).join(''));
    }
    return given.findings().flatMap(({code, node, severity, message}) => (code === found ? [`${severity} ${node}: ${message}`] : []));
  };

  test('may not arrive where the gateway on another link is an address that their node does not have, and its routes lead straight back', async () => {
    const said = 'warning node-a: packets for endpoints on node-b go to 192.0.2.77 by eth1, which node-b does not have, while';
    expect(await foundWith({gateway: '192.0.2.77', rp: 2, found: 'ST611'})).toEqual([expect.stringContaining(said)]);
    expect(await foundWith({gateway: '192.0.2.12', rp: 2, found: 'ST611'})).toEqual([]);
  });

  test('is a warning of the node that drops them, where reverse paths are strict', async () => {
    expect(await foundWith({gateway: '192.0.2.12', rp: 1})).toEqual(
      expect.arrayContaining([
        'warning node-b: rp_filter of eth1 is strict (1), and packets of pods on 1 other node (node-a) arrive there, while eth0 leads back to these pods: the kernel drops what they send to pods here by Services, unless their nodes masquerade it.',
      ]),
    );
  });

  test('is none where they are loose, and where both ways are the same', async () => {
    expect(await foundWith({gateway: '192.0.2.12', rp: 2})).toEqual([]);
    expect(await foundWith({gateway: '172.18.0.12', rp: 1})).toEqual([]);
  });
});

describe('ST611: the VXLAN of a node has another id or port than those of the others', () => {
  const foundWith = async (nodes: Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>) => {
    const given = await scenario();
    for (const [node, tunnels] of Object.entries(nodes)) {
      const links = tunnels.map((data, index) => ({
        ...up,
        ifname: `vx${index}`,
        mtu: 1450,
        linkinfo: {info_kind: 'vxlan', info_data: data},
      }));
      given.file(node, 'links.json', JSON.stringify([eth0, ...links, bridge()]));
      const own = {'node-a': 11, 'node-b': 12, 'node-c': 13}[node];
      const others = [11, 12, 13].filter(n => n !== own).map(n => ({dst: `10.244.${n}.0/24`, gateway: `10.244.${n}.0`, dev: 'vx0'}));
      given.file(node, 'routes.json', JSON.stringify([...others, {dst: `10.244.${own}.0/24`, dev: 'cni0'}]));
      given.file(node, 'ip-rules.json', JSON.stringify(usualRules));
    }
    return given.findings().flatMap(({code, node, message}) => (code === 'ST611' ? [`${node}: ${message}`] : []));
  };
  const [usual, other] = [
    {id: 1, port: 8472},
    {id: 4096, port: 8472},
  ];

  test('is an error of that node, which names the others', async () => {
    expect(await foundWith({'node-a': [other], 'node-b': [usual], 'node-c': [usual]})).toEqual([
      'node-a: packets to pods of other nodes leave by vx0, the VXLAN with the id 4096 and UDP port 8472, and those of 2 other nodes (node-b, node-c) by vx0, the VXLAN with the id 1 and UDP port 8472: a node takes only packets with its own, and what Services send between pods here and there is lost.',
    ]);
    expect(await foundWith({'node-b': [usual], 'node-c': [{id: 1, port: 4789}]})).toEqual([expect.stringMatching(/^node-c: /)]);
  });

  test('is none where each node has a tunnel of both kinds, where it takes any id, and where no details were read', async () => {
    expect(await foundWith({'node-a': [other, usual], 'node-b': [usual, other]})).toEqual([]);
    expect(await foundWith({'node-a': [other], 'node-b': [{id: 0, port: 8472, external: true}]})).toEqual([]);
    expect(await foundWith({'node-a': [other], 'node-b': [{}]})).toEqual([]);
  });
});

test('packets to pods that take the default gateway are ST611 alone, where only the routes to pods that are no endpoints are there', async () => {
  const given = await scenario();
  for (const [node, own] of Object.entries({'node-a': 11, 'node-b': 12, 'node-c': 13})) {
    // Pods of node-c are no endpoints, and to those of node-b the route is missing on node-a.
    const others = [11, 12, 13].filter(n => n !== own && !(node === 'node-a' && n === 12));
    given.file(
      node,
      'links.json',
      JSON.stringify([eth0, {...up, ifname: 'flannel.1', mtu: 1450, linkinfo: {info_kind: 'vxlan'}}, bridge()]),
    );
    const routes = others.map(n => ({dst: `10.244.${n}.0/24`, gateway: `10.244.${n}.0`, dev: 'flannel.1'}));
    const usual = [
      {dst: 'default', gateway: '172.18.0.1', dev: 'eth0'},
      {dst: `10.244.${own}.0/24`, dev: 'cni0'},
    ];
    given.file(node, 'routes.json', JSON.stringify([...routes, ...usual]));
    given.file(node, 'ip-rules.json', JSON.stringify(usualRules));
  }
  const found = given.newFindings().filter(({code}) => code === 'ST611' || code === 'ST613');
  expect(found.map(({code, node, message}) => `${code} ${node} ${message}`)).toEqual([
    expect.stringMatching(/^ST611 node-a packets for endpoints on node-b .* go to the default gateway 172\.18\.0\.1/),
  ]);
});

test('the switch of the interface of the node is told once, also where the usual default route is by another interface', async () => {
  const found = await factsFound({
    ...{...announcedBeside, sysctls: {'net.ipv4.conf.eth0.forwarding': 0}},
    change: given => {
      announcedBeside.change?.(given);
      const byEth0 = {dst: 'default', gateway: '172.18.0.1', dev: 'eth0', metric: 100};
      given.file(
        'node-a',
        'routes.json',
        JSON.stringify([{dst: 'default', gateway: '172.19.0.1', dev: 'eth1'}, byEth0, ...usualRoutes.slice(1)]),
      );
    },
  });
  const told = found.filter(({code}) => code === 'ST601').map(({severity, message}) => `${severity} ${message}`);
  expect(told).toEqual([
    'error net.ipv4.conf.eth0.forwarding is 0: packets that arrive on eth0 are not forwarded. Node ports lead to no pod, and no pod gets packets from other nodes.',
  ]);
});

describe('ST614: the switch that lets node ports answer on 127.0.0.1 is off', () => {
  const off = {'net.ipv4.conf.all.route_localnet': 0};
  const withConfig = (line: string) => (given: Scenario) => {
    given.file('node-a', 'configz.json', null);
    given.file('node-a', 'kube-proxy-config.yaml', `clusterCIDR: 10.244.0.0/16\n${line}\n`);
  };

  test('is a warning that names the node ports, with the command that turns it on', async () => {
    const given = await scenario();
    given.file('node-a', 'sysctls', 'net.ipv4.conf.all.route_localnet = 0\n');
    const [found, ...others] = given.findings({nodes: name => name === 'node-a'}).filter(({code}) => code === 'ST614');
    expect(others).toEqual([]);
    expect(found).toMatchObject({severity: 'warning', node: 'node-a', command: 'sysctl -w net.ipv4.conf.all.route_localnet=1'});
    expect(found?.message).toMatch(/^net\.ipv4\.conf\.all\.route_localnet is 0, .* at \d+ node ports \(30080, .* hang, unless/);
  });

  const ofInterfaces = (eth0: number, veth9: number) => ({
    sysctls: {...off, 'net.ipv4.conf.eth0.route_localnet': eth0, 'net.ipv4.conf.veth9.route_localnet': veth9},
  });

  test('names the interfaces whose own switch is off, where all were read', async () => {
    const behind = async (given: Given) =>
      (await factsFound({capture: 'healthy/1.36-iptables', ...given})).map(({message}) => message.replace(/^.*? hang/, ''));
    expect(await behind(ofInterfaces(0, 0))).toEqual([', where they reach an endpoint behind eth0, veth9, whose own switch is 0 too']);
    expect(await behind(ofInterfaces(0, 1))).toEqual([', where they reach an endpoint behind eth0, whose own switch is 0 too']);
    expect(await behind({sysctls: {...off, 'net.ipv4.conf.eth0.route_localnet': 0}})).toEqual([
      ', unless the interface to the endpoint has the switch of its own',
    ]);
  });

  test.each<[string, Given]>([
    ['it is on', {sysctls: {'net.ipv4.conf.all.route_localnet': 1}}],
    ['it is on for the interfaces to the endpoints', ofInterfaces(1, 1)],
    ['it was not read', {}],
    ['kube-proxy runs in nftables mode', {capture: 'nftables/1.36', sysctls: off}],
    ['kube-proxy serves none there by its setting', {sysctls: off, change: withConfig('iptables:\n  localhostNodePorts: false')}],
    ['the node ports are for other addresses', {sysctls: off, change: withConfig('nodePortAddresses: [172.18.0.0/16]')}],
    ['no Service has a node port', {sysctls: off, change: given => given.api(() => ({services: [], endpointSlices: []}))}],
  ])('stays silent where %s', async (_, given) => {
    expect((await factsFound(given)).filter(({code}) => code === 'ST614')).toEqual([]);
  });
});
