import {expect, test} from 'vitest';
import {fileText} from '../../src/model/snapshot.ts';
import {describeWith} from '../require.ts';
import {type FindingSummary, scenario} from '../scenario.ts';
import {Namespace, readNode} from './kernel/namespace.ts';

/** A node as a network plugin or its administrator sets it up, by `ip` commands; the types of interfaces that this kernel may lack are given. */
interface Setup {
  readonly name: string;
  readonly commands: readonly string[];
  readonly kinds?: Readonly<Record<string, object>>;
  /** What then goes wrong, and what is said of it. */
  readonly fault?: {readonly commands: readonly string[]; readonly says: string};
}

const pods = [4, 5, 6, 7, 8, 9];

/** An interface whose other end is elsewhere: in the network, or in a pod. */
const link = (name: string, ...addresses: readonly string[]): readonly string[] => [
  `link add ${name} type veth peer name x${name.replace(/\W/g, '').slice(0, 12)} netns ELSEWHERE`,
  `link set ${name} up`,
  ...addresses.map(address => `addr add ${address} dev ${name}`),
];
const gateway = (dev: string): readonly string[] => [
  `route add default via 172.18.0.1 dev ${dev}`,
  `route add default via fd00:18::1 dev ${dev}`,
];
const uplink = [...link('eth0', '172.18.0.11/16', 'fd00:18::11/64'), ...gateway('eth0')];
/** A bridge of pods. The network of the second family is as large as one node's. */
const bridge = (name: string, size = 24): readonly string[] => [
  `link add ${name} type bridge`,
  `addr add 10.244.11.1/${size} dev ${name}`,
  `addr add fd00:10:244:11::1/64 dev ${name}`,
  `link set ${name} up`,
  ...pods.flatMap(pod => [...link(`veth${pod}`), `link set veth${pod} master ${name}`, `link set veth${pod} type bridge_slave hairpin on`]),
];
/** A link and a route for each pod. */
const links = (prefix: string): readonly string[] =>
  pods.flatMap(pod => [
    ...link(`${prefix}${pod}`),
    `route add 10.244.11.${pod} dev ${prefix}${pod} scope link`,
    `route add fd00:10:244:11::${pod} dev ${prefix}${pod}`,
  ]);
/** A route to the pods of each other node. */
const others = (way: (node: number) => string, prefix = 24): readonly string[] =>
  [12, 13].map(node => `route add 10.244.${node}.0/${prefix} ${way(node)}`);
const flannel = [
  ...link('flannel.1', '10.244.11.0/32'),
  'link set flannel.1 mtu 1450',
  ...others(node => `via 10.244.${node}.0 dev flannel.1 onlink`),
];
const vxlan = {'flannel.1': {info_kind: 'vxlan', info_data: {id: 1, local: '172.18.0.11', link: 'eth0', port: 8472}}};
const strayed = 'packets for endpoints on node-b (10.244.12.9, 10.244.12.4, 10.244.12.8) go to the default gateway';
const podLost = {
  commands: ['link del azv4'],
  says: 'packets for endpoints on this node (10.244.11.4) go to the default gateway 172.18.0.1, while pods here have interfaces of their own',
};

const setups: readonly Setup[] = [
  {
    name: 'flannel with VXLAN',
    commands: [...uplink, ...bridge('cni0'), ...flannel],
    kinds: vxlan,
    fault: {commands: ['link set flannel.1 down'], says: 'while flannel.1, the tunnel to other nodes, is down'},
  },
  {
    name: 'flannel as host gateway',
    commands: [...uplink, ...bridge('cni0'), ...others(node => `via 172.18.0.${node} dev eth0`)],
    fault: {commands: ['route del 10.244.12.0/24'], says: strayed},
  },
  {
    name: 'Calico with BGP',
    commands: [...uplink, ...links('cali'), 'route add blackhole 10.244.11.0/26', ...others(node => `via 172.18.0.${node} dev eth0`, 26)],
    fault: {commands: ['link del cali4'], says: 'no route leads to endpoints on node-a (10.244.11.4)'},
  },
  {
    name: 'Calico with IPIP, and an address that another node borrowed',
    commands: [
      ...uplink,
      ...links('cali'),
      'route add blackhole 10.244.11.0/26',
      ...link('tunl0', '10.244.11.0/32'),
      'link set tunl0 mtu 1480',
      ...others(node => `via 172.18.0.${node} dev tunl0 onlink`, 26),
      'route add 10.244.12.63 via 172.18.0.13 dev tunl0 onlink',
    ],
    kinds: {tunl0: {info_kind: 'ipip'}},
  },
  {name: 'Azure without a bridge', commands: [...uplink, ...links('azv')], fault: podLost},
  {
    name: 'a second interface with rules for its address',
    commands: [
      ...uplink,
      ...link('eth1', '192.0.2.11/24'),
      'rule add pref 100 from 192.0.2.11 lookup 101',
      'route add default via 192.0.2.1 dev eth1 table 101',
      ...bridge('cni0'),
      ...others(node => `via 172.18.0.${node} dev eth0`),
    ],
    fault: {commands: ['route del 10.244.12.0/24'], says: strayed},
  },
  {
    name: 'a VRF for management',
    commands: [
      ...uplink,
      ...link('mgmt'),
      ...link('eth1'),
      'rule add pref 1000 l3mdev',
      ...['192.0.2.0/24 dev eth1', 'unreachable default metric 4278198272'].map(route => `route add ${route} table 10`),
      ...links('cali'),
      ...others(node => `via 172.18.0.${node} dev eth0`),
    ],
    kinds: {mgmt: {info_kind: 'vrf', info_data: {table: 10}}},
    fault: {commands: ['route del 10.244.12.0/24'], says: strayed},
  },
  {
    name: 'addresses without a network, as virtual machines of Google have',
    commands: [
      ...link('eth0', '172.18.0.11/32', 'fd00:18::11/128'),
      ...['172.18.0.1', 'fd00:18::1'].map(hop => `route add ${hop} dev eth0`),
      ...gateway('eth0'),
      ...links('gke'),
    ],
  },
  {
    name: 'Weave',
    commands: [
      ...uplink,
      ...bridge('weave', 16),
      'link add vethwe-bridge type veth peer name vethwe-datapath',
      ...['vethwe-bridge master weave up', 'vethwe-datapath up'].map(change => `link set ${change}`),
    ],
    fault: {commands: ['link set weave down'], says: 'while an interface of pods is down (weave)'},
  },
  {
    name: 'Cilium beside kube-proxy',
    commands: [
      ...uplink,
      ...link('cilium_host', '10.244.11.1/32', 'fd00:10:244:11::1/128'),
      ...pods.flatMap(pod => link(`lxc${pod}`)),
      ...['10.244.11.0/24', '10.244.12.0/24', '10.244.13.0/24', 'fd00:10:244:11::/64'].map(to => `route add ${to} dev cilium_host`),
      'rule add pref 9 fwmark 0x200/0xf00 lookup 2004',
      'route add local default dev lo table 2004',
      'rule add pref 100 lookup local',
      'rule del pref 0',
    ],
    // Its other end is on the node.
    kinds: {cilium_host: {info_kind: 'veth'}},
    fault: {commands: ['link set cilium_host down'], says: 'while an interface of pods is down (cilium_host)'},
  },
  {
    name: 'kube-router',
    commands: [
      ...uplink,
      ...bridge('kube-bridge'),
      ...link('kube-dummy-if'),
      'rule add pref 32765 from 10.244.11.0/24 lookup 77',
      ...others(node => `via 172.18.0.${node} dev eth0`),
    ],
    kinds: {'kube-dummy-if': {info_kind: 'dummy'}},
  },
  {
    name: 'Tailscale beside flannel',
    commands: [
      ...uplink,
      ...link('tailscale0', '100.64.0.11/32'),
      ...['fwmark 0x80000/0xff0000 lookup main', 'fwmark 0x80000/0xff0000 unreachable', 'lookup 52'].map(
        (rule, at) => `rule add pref ${5210 + at} ${rule}`,
      ),
      'route add 100.64.0.99 dev tailscale0 table 52',
      ...bridge('cni0'),
      ...flannel,
    ],
    kinds: {...vxlan, tailscale0: {info_kind: 'tun'}},
  },
  {
    name: 'pods in the network of the nodes',
    commands: [...uplink, ...[11, 12, 13].map(node => `route add 10.244.${node}.0/24 dev eth0`), 'route add fd00:10:244:11::/64 dev eth0'],
  },
];

const files = ['addresses.json', 'links.json', 'routes.json', 'ip-rules.json', 'ip6-rules.json', 'netconf.json', 'sysctls'];

/** What `ip -d -j link` prints, with the given types; the uplinks of a machine have none. */
function withKinds(text: string, kinds: Readonly<Record<string, object>>): string {
  const found = JSON.parse(text) as {ifname: string; linkinfo?: object; link_netnsid?: number}[];
  return JSON.stringify(
    found.map(one => {
      const kind = kinds[one.ifname];
      if (kind === undefined && !/^eth\d$/.test(one.ifname)) return one;
      const {linkinfo: _, link_netnsid: __, ...rest} = one;
      return kind === undefined ? rest : {...rest, linkinfo: kind};
    }),
  );
}

describeWith(['root', 'netns', 'nsenter', 'ip', 'sysctl'], 'routes of a node as network plugins make them', () => {
  async function found({commands, kinds = {}}: Setup, later: readonly string[] = []): Promise<readonly FindingSummary[]> {
    await using elsewhere = await Namespace.open();
    await using node = await Namespace.open();
    node.run('sysctl', ['-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1', 'net.ipv4.conf.all.route_localnet=1']);
    node.ip(['link set lo up', ...commands].join('\n').replaceAll('ELSEWHERE', String(elsewhere.pid)));
    const ends = commands.flatMap(command => /peer name (\S+) netns/.exec(command)?.[1] ?? []);
    elsewhere.ip(ends.map(end => `link set ${end} up`).join('\n'));
    node.ip(later.join('\n'));
    const read = await readNode(node);
    const given = await scenario();
    for (const file of files) {
      const text = fileText(read, file) || null;
      given.file('node-a', file, file === 'links.json' ? withKinds(text ?? '[]', kinds) : text);
    }
    return given.newFindings().filter(({severity}) => severity !== 'info');
  }

  test.each(setups)('are no reason to say anything: $name', async setup => {
    expect(await found(setup)).toEqual([]);
  });

  test.each(setups.filter(({fault}) => fault !== undefined))('are told when they are gone: $name', async setup => {
    const {commands = [], says = ''} = setup.fault ?? {};
    const lost = (await found(setup, commands)).filter(({code, family}) => code === 'ST611' && family === 'IPv4');
    expect(lost.map(({message}) => message)).toEqual([expect.stringContaining(says)]);
  });
});
