import {drop, elsewhere, inIptables, ipset, nft, nftChain, rules, type Scenario, sh, shIn, type Step, ufw} from './steps.ts';

const decided = {isDecided: true} as const;

function secondUplink(condition: string, ...others: readonly string[]): Step {
  return uplink(['route add default dev eth1 table 101', `rule add ${condition} lookup 101`, ...others]);
}

/** The same behind a gateway: it may know the way to those whom the answers are for. */
function secondGateway(condition: string, ...others: readonly string[]): Step {
  const way = ['address add 192.0.2.2/24 dev eth1', 'route add default via 192.0.2.1 dev eth1 table 101'];
  return uplink([...way, `rule add ${condition} lookup 101`, ...others]);
}

function uplink(further: readonly string[]): Step {
  const lines = ['link add eth1 type veth peer name beyond', 'link set eth1 up', 'link set beyond up', ...further];
  return sh(lines.map(line => `ip ${line}`).join('\n'));
}

const forgetNeighbors = sh('ip -6 neighbour flush nud permanent');

/** Translates before kube-proxy does. */
const nftPort = (hook: string, rule: string): Step =>
  nft(`table ip early { chain c { type nat hook ${hook} priority -110; policy accept; ${rule}; }; }`);

const strict = sh('sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth0.rp_filter=1');

/** As on AWS: what arrived by the uplink is answered with a mark. */
const connectionMark = rules(
  'mangle',
  '-A PREROUTING -i eth0 -j CONNMARK --set-xmark 0x100/0x100',
  '-A PREROUTING -i cali+ -j CONNMARK --restore-mark --nfmask 0x100 --ctmask 0x100',
);

const toSecond = uplink(['address add 192.0.2.2/24 dev eth1', 'route del 203.0.113.9', 'route replace default via 192.0.2.1 dev eth1']);

/** A link of the node to the client beside the uplink, whose gateway it is, and what is done on the node and by the client then. */
function secondLinkOfClient(onNode: readonly string[], byClient: readonly string[] = []): readonly Step[] {
  const end = (name: string, own: string, peer: string, others: readonly string[]): string =>
    [
      `ip link set ${name} up; ip address add 192.0.2.${own}/24 dev ${name}`,
      `ip neighbour add 192.0.2.${peer} lladdr 02:00:00:00:03:0${peer} dev ${name} nud permanent`,
      ...others,
    ].join('\n');
  const made = 'ip link add eth1 address 02:00:00:00:03:02 type veth peer name eth9 address 02:00:00:00:03:01 netns $CLIENT';
  return [sh(`${made}\n${end('eth1', '2', '1', onNode)}`), shIn('client', end('eth9', '1', '2', byClient))];
}

/** As on AWS: what a pod with an address of the second interface sends goes to the gateway there. */
const secondEni = uplink([
  'address add 192.0.2.2/24 dev eth1',
  'route del 203.0.113.9',
  'route add default via 192.0.2.1 dev eth1 table 2',
  'route add 172.18.0.0/16 dev eth0 table 2',
  'rule add to 10.244.11.4 lookup main pref 512',
  'rule add from 10.244.11.4 to 10.244.0.0/16 lookup main pref 1500',
  'rule add from 10.244.11.4 lookup 2 pref 1536',
]);
const mainForMarked = sh('ip rule add fwmark 0x100/0x100 lookup main pref 1024');
const validMark = sh('sysctl -qw net.ipv4.conf.all.src_valid_mark=1');

/** As wg-quick routes for a peer that takes all addresses. */
const wgQuick = uplink([
  'route del 203.0.113.9',
  'route add default dev eth1 table 51820',
  'rule add not fwmark 0xca6c lookup 51820',
  'rule add lookup main suppress_prefixlength 0',
]);

/** As proxies let the node deliver what they marked. */
const deliveredMarked = sh('ip rule add fwmark 0x200/0xf00 lookup 2004 pref 9; ip route add local default dev lo table 2004');

const localLater = 'ip rule add lookup local pref 100; ip rule del lookup local pref 0';

/** The pods of the node are ports of a bridge, which sends packets back. */
const bridgeOfPods = sh(`ip link add cni0 address 02:ee:ee:ee:ee:ee type bridge; ip link set cni0 up
for n in 4 5; do
  ip link set cali$n master cni0
  ip route replace 10.244.11.$n dev cni0
  ip neigh replace 10.244.11.$n lladdr 02:00:00:00:00:0$n dev cni0 nud permanent
  bridge link set dev cali$n hairpin on
done`);

/** What rules can ask of a packet and do to it, one thing at a time, and what two programs do beside each other. */
export const conditions: readonly Scenario[] = [
  // Who is here is known by pods, endpoints and routes where no Node has a podCIDR.
  {name: 'pods-untracked', isAboutPods: true, load: [rules('raw', '-A PREROUTING -s 10.244.11.0/24 -d 10.96.0.0/12 -j CT --notrack')]},
  {name: 'pod-refused', isAboutPods: true, load: [rules('filter', '-I FORWARD -s 10.244.11.4/32 -j REJECT')]},
  {
    name: 'pods-refused-iprange',
    isAboutPods: true,
    load: [rules('filter', '-I FORWARD -m iprange --src-range 10.244.11.2-10.244.11.9 -j DROP')],
  },
  {name: 'masquerade-all', isAboutPods: true, load: [rules('nat', '-A POSTROUTING -j MASQUERADE')]},
  // Replies, and what other nodes send, where a rule is about something else as well.
  {name: 'replies-to-nodes', load: [rules('filter', '-I FORWARD -s 10.244.11.0/24 -d 172.18.0.0/16 -j REJECT')]},
  {name: 'endpoint-port-untracked', load: [rules('raw', '-A PREROUTING -p tcp --dport 8080 -j CT --notrack')]},
  {name: 'answers-of-node-to-node', load: [rules('filter', '-I OUTPUT -s 172.18.0.11 -d 172.18.0.12 -p tcp --sport 8080 -j DROP')]},
  {name: 'answers-to-nodes-and-more', load: [rules('filter', '-I FORWARD -d 172.18.0.0/16 -j DROP')]},
  {name: 'answers-to-client', load: [rules('filter', '-I FORWARD -s 10.244.11.0/24 -d 203.0.113.0/24 -j REJECT')], isPurpose: true},
  {name: 'nodes-to-cluster-ips', load: [rules('raw', '-A PREROUTING -s 172.18.0.12/32 -d 10.96.0.0/12 -j DROP')]},
  {name: 'tproxy-pods', isAboutPods: true, load: [rules('mangle', '-A PREROUTING -i cali+ -p tcp --dport 80 -j TPROXY --on-port 15006')]},
  // Without a listener, nftables goes on with the next rule.
  {
    name: 'nft-tproxy',
    load: [nftChain('prerouting priority mangle; policy accept;', 'iifname "cali4" tcp dport 80 tproxy to :15006 accept')],
  },
  {name: 'tproxy-uplink', load: [rules('mangle', '-A PREROUTING -i eth0 -p tcp -j TPROXY --on-port 15006')]},
  {name: 'neighbors-dropped', isIPv6Only: true, load: [rules('filter', '-I INPUT -p ipv6-icmp -j DROP'), forgetNeighbors]},
  {
    name: 'neighbors-accepted',
    load: [
      rules('filter', ...[135, 136].map(type => `-A INPUT -p ipv6-icmp --icmpv6-type ${type} -j ACCEPT`), '-A INPUT -p ipv6-icmp -j DROP'),
      forgetNeighbors,
    ],
    isIPv6Only: true,
  },
  {
    name: 'neighbors-not-answered',
    load: [rules('filter', '-A OUTPUT -p ipv6-icmp --icmpv6-type 136 -j DROP'), shIn('node-b', 'ip neighbour del 172.18.0.11 dev eth0')],
    isIPv6Only: true,
  },
  {name: 'nft-dnat-port', load: [nftPort('prerouting', 'ip daddr 10.96.1.2 tcp dport 80 dnat to :8080')]},
  {name: 'nft-dnat-port-of-node', load: [nftPort('prerouting', 'tcp dport 30080 dnat to :8080')]},
  {name: 'nft-dnat-port-output', load: [nftPort('output', 'tcp dport 80 dnat to :8080')]},
  // What the node itself gets is answered through the node, whatever the address.
  {name: 'snat-input', load: [rules('nat', '-A INPUT -p tcp --dport 8080 -j SNAT --to-source 198.18.0.5')], isPurpose: true},
  {name: 'snat-loopback', load: [rules('nat', '-I POSTROUTING -o lo -p tcp --dport 8080 -j SNAT --to-source 198.18.0.5')]},
  {name: 'snat-range-partly', load: [rules('nat', '-I POSTROUTING -s 10.244.11.0/24 -j SNAT --to-source 172.18.0.11-172.18.0.12')]},
  {name: 'snat-range', load: [rules('nat', '-I POSTROUTING -s 10.244.11.0/24 -j SNAT --to-source 198.18.0.1-198.18.0.9')]},
  // Policy routing: a second uplink on which nobody answers.
  {name: 'ip-rule-from-pods', load: [secondUplink('from 10.244.11.0/24')]},
  {name: 'ip-rule-interface', load: [secondUplink('iif cali4')]},
  {name: 'ip-rule-interface-uplink', load: [secondUplink('iif eth0')]},
  {name: 'ip-rule-to-far-pods', load: [secondUplink('to 10.244.12.0/24')]},
  {name: 'ip-rule-to-nodes', load: [secondUplink('to 172.18.0.0/16 pref 100')]},
  {
    name: 'ip-rule-to-node-same-way',
    load: [sh('for to in 172.18.0.0/16 default; do ip route add $to dev eth0 table 101; done; ip rule add to 172.18.0.12 lookup 101')],
  },
  // Without a rule ever added, the kernel looks up table main of IPv6 although its rule is gone.
  {name: 'ip-rule-of-main-deleted', load: [sh('ip rule del pref 32766')]},
  {name: 'ip-rule-blackhole-client', load: [sh('ip rule add from 203.0.113.0/24 blackhole pref 100')], isIPv4Only: true, isPurpose: true},
  {
    name: 'ip-rule-unreachable-client',
    load: [sh('ip rule add to 203.0.113.0/24 unreachable pref 100')],
    isIPv4Only: true,
    isPurpose: true,
  },
  {name: 'local-route-deleted', load: [sh('ip route del local 172.18.0.11 dev eth0 table local')]},
  // Of another network of pods the next hop is node-b: where all were routers, the one would be right.
  {
    name: 'next-hop-of-nobody',
    load: [sh('ip route add 10.244.13.0/24 via 172.18.0.12; ip route replace 10.244.12.0/24 via 172.18.0.99')],
  },
  {name: 'next-hop-of-nobody-beside', load: [sh('ip route replace 10.244.12.0/24 nexthop via 172.18.0.12 nexthop via 172.18.0.99')]},
  {name: 'default-ttl-1', load: [sh('sysctl -qw net.ipv4.ip_default_ttl=1')], isIPv4Only: true},
  {name: 'arp-off', load: [sh('ip link set cali5 arp off; ip neigh flush dev cali5 nud permanent')]},
  {
    name: 'realm-of-no-route',
    load: [
      rules('filter', '-I FORWARD -m realm --realm 5 -j DROP'),
      nftChain('forward priority 0; policy accept;', 'meta rtclassid 6 drop'),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {
    name: 'hash-mark',
    load: [
      rules('mangle', '-A PREROUTING -j HMARK --hmark-tuple src,dst,sport,dport --hmark-mod 4 --hmark-offset 0x100 --hmark-rnd 0x1'),
      rules('filter', '-I FORWARD -m mark --mark 0x200/0xf00 -j DROP'),
    ],
    ...decided,
  },
  {
    name: 'hash-mark-of-kube-proxy',
    load: [rules('mangle', '-A FORWARD -i cali4 -o cali5 -j HMARK --hmark-tuple src --hmark-mod 2 --hmark-offset 0x4000 --hmark-rnd 0x1')],
    ...decided,
  },
  {
    name: 'nft-dscp-set-and-dropped',
    load: [
      nft(`table inet qos {
  chain marks { type filter hook forward priority -150; policy accept; ip dscp set af31; ip6 dscp set af31; }
  chain drops { type filter hook postrouting priority -150; policy accept; oifname "cali*" ip saddr 10.244.0.0/16 ip dscp { af31, ef } drop; }
  chain others { type filter hook forward priority 10; policy accept; ip dscp cs1 drop; }
}`),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {
    name: 'other-backend-dnat',
    load: [elsewhere(rules('nat', '-A PREROUTING -d 10.96.1.2/32 -p tcp --dport 80 -j DNAT --to-destination 10.244.11.4:8080'))],
  },
  {name: 'pod-by-uplink', load: [sh('ip route replace 10.244.11.5 dev eth0')]},
  {name: 'far-pods-by-link-of-pod', load: [sh('ip route replace 10.244.12.0/24 dev cali4')]},
  {
    name: 'vpn-takes-some-pods',
    load: [uplink(['address add 10.8.0.2/24 dev eth1', 'route add 10.244.12.0/25 via 10.8.0.1'])],
  },
  // A pod whose own route leads out, and pods of another node behind a gateway without a route to them.
  {name: 'pod-by-second-link', load: secondLinkOfClient(['ip route replace 10.244.11.4 dev eth1'])},
  {
    name: 'pod-by-table-of-its-own',
    load: secondLinkOfClient(['ip rule add to 10.244.11.4 lookup 200; ip route add 10.244.11.4 dev eth1 table 200']),
  },
  {name: 'pod-behind-gateway', load: [sh('ip route replace 10.244.11.4 via 172.18.0.99')]},
  {name: 'far-pods-behind-gateway', load: secondLinkOfClient(['ip route replace 10.244.12.0/24 via 192.0.2.1'])},
  {name: 'far-pod-by-default-gateway', load: [sh('ip route add 10.244.12.4 via 172.18.0.1')]},
  {
    name: 'client-by-second-gateway',
    load: [
      strict,
      ...secondLinkOfClient(
        ['ip route add default via 192.0.2.1 dev eth1 metric 200'],
        ['ip route replace 198.51.100.10 via 192.0.2.2 src 203.0.113.9'],
      ),
    ],
    ...{isIPv4Only: true, isPurpose: true},
  },
  {
    name: 'client-by-second-gateway-loose',
    load: secondLinkOfClient(
      ['ip route add default via 192.0.2.1 dev eth1 metric 200'],
      ['ip route replace 198.51.100.10 via 192.0.2.2 src 203.0.113.9'],
    ),
    ...decided,
  },
  ...(
    [
      ['drops', rules('filter', '-I FORWARD -i eth1 -j DROP')],
      ['forwards-nothing', sh('sysctl -qw net.ipv4.conf.eth1.forwarding=0')],
      ['of-an-empty-table', sh('ip route add blackhole default table 101; ip rule add iif eth1 lookup 101 pref 50')],
    ] as const
  ).map(([name, step]): Scenario => {
    const way = ['ip route replace 198.51.100.10 via 192.0.2.2 src 203.0.113.9'];
    const load = [...secondLinkOfClient(['ip route add default via 192.0.2.1 dev eth1 metric 200'], way), step];
    return {name: `second-gateway-${name}`, load, isPurpose: true, isIPv4Only: true};
  }),
  {
    name: 'vpn-takes-the-pods',
    load: [uplink(['address add 100.92.0.1/16 dev eth1', 'route add 10.244.11.0/24 dev eth1 table 7120', 'rule add lookup 7120 pref 104'])],
  },
  {
    name: 'kube-forward-clients',
    load: [rules('filter', '-I KUBE-FORWARD -s 203.0.113.0/24 -p tcp --dport 8080 -j DROP')],
    ...{modes: inIptables, isIPv4Only: true, isPurpose: true},
  },
  {name: 'own-source-ports', load: [rules('filter', '-I INPUT -i lo -p tcp --sport 1024:46000 -j DROP')]},
  {name: 'ip-rule-nodes-off-link', load: [uplink(['rule add pref 5270 lookup 52', 'route add 172.18.0.0/16 dev eth1 table 52'])]},
  // Clients outside may see another address than the one that they asked: nobody promised them cluster IPs.
  {
    name: 'nft-dnat-one-endpoint',
    load: [nftPort('prerouting', 'ip daddr 10.96.1.5 tcp dport 80 dnat to 10.244.12.4:8080')],
  },
  {name: 'bridge-of-pods-down', load: [bridgeOfPods, sh('ip link set cni0 down')], isIPv4Only: true},
  {name: 'bridge-port-told', load: [bridgeOfPods, sh('bridge link set dev cali4 flood off learning off')], isIPv4Only: true},
  {name: 'far-pod-via-pod', load: [sh('ip route add 10.244.12.4 via 10.244.11.4 dev cali4 onlink')]},
  {
    name: 'ip-rule-suppressed-group',
    load: [secondUplink('pref 200', 'link set eth0 group 5', 'rule add lookup main suppress_ifgroup 5 pref 100')],
  },
  {
    name: 'ip-rule-suppressed-other-group',
    load: [secondUplink('from 192.0.2.0/24 pref 200', 'link set eth1 group 5', 'rule add lookup main suppress_ifgroup 5 pref 100')],
    ...decided,
  },
  {
    name: 'nft-loose-reverse-path',
    load: [nftChain('prerouting priority 10; policy accept;', 'meta l4proto ipv6-icmp accept', 'fib saddr . mark oif missing drop')],
    ...decided,
  },
  // Replies to the node have the address that it asked once they passed priority 100 of `input`.
  {name: 'nft-input-behind-nat', load: [nftChain('input priority 110; policy accept;', 'ip saddr 10.244.12.0/24 drop')], ...decided},
  {name: 'nft-input-of-cluster-ips', load: [nftChain('input priority 110; policy accept;', 'ip saddr 10.96.0.0/12 tcp sport 80 drop')]},
  {name: 'node-mark-cleared', load: [rules('mangle', '-I POSTROUTING -s 172.18.0.11 -j MARK --set-xmark 0x0/0x4000')], ...decided},
  {
    name: 'endpoint-port-marked',
    load: [rules('mangle', '-I PREROUTING -p tcp --dport 8080 -j MARK --set-xmark 0x4000/0x4000')],
    isPurpose: true,
  },
  {
    name: 'kube-services-marks-pod',
    load: [rules('nat', '-I KUBE-SERVICES -d 10.244.11.5 -j MARK --set-xmark 0x4000/0x4000')],
    modes: inIptables,
  },
  {
    name: 'route-of-sources',
    load: secondLinkOfClient(['ip route add 10.244.12.0/24 from 10.244.11.0/24 via 192.0.2.1 dev eth1']),
    isIPv6Only: true,
  },
  {
    name: 'default-route-of-sources',
    load: [sh('ip route add default from 172.18.0.0/16 via 172.18.0.1 dev eth0; ip route del default via 172.18.0.1 from ::/0')],
    isIPv6Only: true,
    isPurpose: true,
  },
  {
    name: 'second-gateway-sends-back',
    load: [
      ...secondLinkOfClient(
        ['ip route add default via 192.0.2.1 dev eth1 metric 2048', 'ip route add default via 192.0.2.1 dev eth1 table 101'],
        ['ip route replace 198.51.100.10 via 192.0.2.2 src 203.0.113.9'],
      ),
      sh('ip rule add iif eth1 lookup 101 pref 90'),
    ],
    isPurpose: true,
  },
  {
    name: 'set-return-nomatch',
    load: [
      ipset('create allow hash:net', 'add allow 10.244.0.0/16', 'add allow 10.244.11.4 nomatch'),
      rules('filter', '-I FORWARD -m set --return-nomatch --match-set allow src -j DROP'),
    ],
  },
  {
    name: 'dscp-set-and-dropped',
    load: [
      rules(
        'mangle',
        '-A FORWARD -j DSCP --set-dscp-class AF31',
        '-A POSTROUTING -o cali+ -s 10.244.0.0/16 -m dscp --dscp-class AF31 -j DROP',
      ),
    ],
  },
  {name: 'pod-by-link-of-other-pod', load: [sh('ip route replace 10.244.11.4 dev cali5')]},
  {name: 'ct-reply-destination', load: [rules('filter', '-I FORWARD -m conntrack --ctrepldst 172.18.0.11 -j DROP')], ...decided},
  {name: 'ct-reply-destination-unused', load: [rules('filter', '-I FORWARD -m conntrack --ctrepldst 192.0.2.0/24 -j DROP')], ...decided},
  {
    name: 'nft-ct-reply-destination',
    load: [nftChain('postrouting priority 150; policy accept;', 'ct reply ip daddr 172.18.0.11 drop')],
    isIPv4Only: true,
    ...decided,
  },
  {name: 'ip-rule-prohibits-node', load: [sh('ip rule add to 172.18.0.12 prohibit pref 100')]},
  {
    name: 'ip-rule-before-local',
    load: [sh(`${localLater}; ip route add default dev eth0 table 55; ip rule add to 172.18.0.11 lookup 55 pref 50`)],
    // Over IPv6, neighbors are no longer found either.
    isIPv4Only: true,
  },
  {name: 'ip-rule-before-local-of-proxies', load: [deliveredMarked, sh(localLater)]},
  // As on AWS, where no pod of a Service has an address of the second interface.
  {
    name: 'second-eni-of-others',
    load: [
      uplink([
        ...['address add 172.18.0.111/16 dev eth1 noprefixroute', 'route add 172.18.0.1 dev eth1 scope link table 2'],
        'route add default via 172.18.0.1 dev eth1 onlink table 2',
        ...['rule add from 10.244.11.77 lookup 2 pref 1536', 'rule add fwmark 0x80/0x80 lookup main pref 1024'],
      ]),
    ],
    isIPv4Only: true,
  },
  {name: 'ip-rule-prohibits-far-pods', load: [sh('ip rule add from 10.244.12.0/24 prohibit pref 60')]},
  {name: 'other-node-blackholed', load: [sh('ip route add blackhole 172.18.0.12')]},
  {name: 'ip-rule-blackhole-node', load: [sh('ip rule add from 172.18.0.11 blackhole pref 60')]},
  {name: 'ip-rule-from-one-pod', load: [secondUplink('from 10.244.11.4')]},
  {name: 'ip-rule-mark-of-kube-proxy', load: [secondUplink('fwmark 0x4000/0x4000')]},
  {name: 'ip-rule-other-mark', load: [secondUplink('fwmark 0x100/0xff00')]},
  {name: 'ip-rule-from-others', load: [secondUplink('from 192.0.2.0/24')]},
  {
    name: 'ip-rule-all-but-main',
    load: [secondUplink('from 10.244.11.0/24 pref 200', 'rule add lookup main suppress_prefixlength 0 pref 100')],
  },
  {name: 'ip-rule-gateway-pods', load: [secondGateway('from 10.244.11.0/24')]},
  {name: 'ip-rule-gateway-one-pod', load: [secondGateway('from 10.244.11.4')]},
  {name: 'ip-rule-gateway-node', load: [secondGateway('from 172.18.0.11')]},
  {name: 'ip-rule-gateway-mark', load: [secondGateway('fwmark 0x4000/0x4000')]},
  {name: 'ip-rule-gateway-own', load: [secondGateway('from 192.0.2.2')]},
  {name: 'strict-gateway-pods', load: [strict, secondGateway('from 10.244.11.0/24')], isIPv4Only: true},
  {name: 'strict-gateway-node', load: [strict, secondGateway('from 172.18.0.11')], isIPv4Only: true},
  {name: 'strict-gateway-own', load: [strict, secondGateway('from 192.0.2.2')], isIPv4Only: true},
  {name: 'strict-pods', load: [strict, secondUplink('from 10.244.11.0/24')], isIPv4Only: true},
  {
    name: 'loose-no-route-back',
    load: [sh('sysctl -qw net.ipv4.conf.all.rp_filter=2; ip route del default; ip route del 203.0.113.9')],
    isIPv4Only: true,
  },
  // The default route, or that of pods, by another uplink than the one of the node's address.
  {name: 'default-moved-strict', load: [strict, toSecond], isIPv4Only: true, isPurpose: true},
  {name: 'uplink-storage-strict', load: [strict, uplink(['address add 192.0.2.2/24 dev eth1'])], isIPv4Only: true},
  {name: 'second-eni', load: [connectionMark, secondEni, mainForMarked]},
  {name: 'second-eni-strict', load: [connectionMark, secondEni, mainForMarked, strict], isIPv4Only: true},
  {name: 'second-eni-without-mark', load: [secondEni]},
  {name: 'second-eni-without-rule', load: [connectionMark, secondEni]},
  {name: 'all-through-second', load: [wgQuick], isPurpose: true},
  {name: 'all-through-second-strict', load: [wgQuick, strict, validMark], isIPv4Only: true},
  // As OpenVPN's `redirect-gateway def1` routes.
  {
    name: 'vpn-takes-both-halves',
    load: [uplink(['route del 203.0.113.9', 'route add 0.0.0.0/1 dev eth1', 'route add 128.0.0.0/1 dev eth1'])],
    isPurpose: true,
    isIPv4Only: true,
  },
  // Over IPv6, a process of the node that listens there answers.
  {
    name: 'mark-delivered-here',
    load: [deliveredMarked, rules('mangle', '-A PREROUTING -i cali4 -j MARK --set-xmark 0x200/0xf00')],
    isIPv4Only: true,
  },
  {
    name: 'mark-delivered-here-node',
    load: [deliveredMarked, rules('mangle', '-A OUTPUT -p tcp -m tcp --dport 80 -j MARK --set-xmark 0x200/0xf00')],
    isIPv4Only: true,
  },
  {
    name: 'mark-refused',
    load: [
      rules('mangle', '-A PREROUTING -i cali5 -j MARK --set-xmark 0x200/0x200'),
      sh('ip rule add fwmark 0x200/0x200 prohibit pref 60'),
    ],
  },
  {
    name: 'connection-mark-refused',
    load: [
      rules(
        'mangle',
        '-A PREROUTING -i eth0 -p tcp --dport 30080 -j CONNMARK --set-xmark 0x200/0x200',
        '-A PREROUTING -i cali+ -j CONNMARK --restore-mark --nfmask 0x200 --ctmask 0x200',
      ),
      sh('ip route add unreachable default table 33; ip rule add fwmark 0x200/0x200 lookup 33 pref 60'),
    ],
  },
  {
    name: 'mark-of-mail-refused',
    load: [
      rules('mangle', '-A PREROUTING -i cali5 -p tcp --dport 25 -j MARK --set-xmark 0x200/0x200'),
      sh('ip rule add fwmark 0x200/0x200 prohibit pref 60'),
    ],
    ...decided,
  },
  {
    name: 'kube-proxy-mark-delivered-here',
    load: [sh('ip rule add fwmark 0x4000/0x4000 lookup 9; ip route add local default dev lo table 9')],
  },
  {
    name: 'sockets-of-proxy-delivered-here',
    load: [deliveredMarked, rules('mangle', '-A PREROUTING -m socket --transparent -j MARK --set-xmark 0x200/0xffffffff')],
    ...decided,
  },
  {name: 'ip-rule-source-port', load: [secondUplink('ipproto tcp sport 8080')]},
  {name: 'ip-rule-destination-port', load: [sh('ip rule add ipproto tcp dport 8080 prohibit pref 60')]},
  {name: 'ip-rule-other-ports', load: [secondUplink('ipproto tcp sport 9000-9100'), sh('ip rule add ipproto udp dport 8080 prohibit')]},
  {name: 'ip-rule-user-root', load: [secondUplink('uidrange 0-0')]},
  {name: 'ip-rule-connection-mark', load: [connectionMark, secondUplink('fwmark 0x100/0x100')]},
  {name: 'ip-rule-connection-mark-main', load: [connectionMark, sh('ip rule add fwmark 0x100/0x100 lookup main pref 100')]},
  {
    name: 'ip-rule-connection-mark-nft',
    load: [
      nftChain('prerouting priority -150; policy accept;', 'iifname "eth0" ct mark set 0x100', 'iifname "cali*" meta mark set ct mark'),
      secondUplink('fwmark 0x100/0x100'),
    ],
  },
  {
    name: 'nft-state-vmap-one-interface',
    load: [
      nftChain(
        'forward priority 0; policy drop;',
        'ct state vmap { established : accept, related : accept, invalid : drop }',
        'iifname { "cali4", "eth0" } accept',
      ),
    ],
  },
  {
    name: 'nft-state-vmap-all',
    load: [
      nftChain(
        'forward priority 0; policy drop;',
        'ct state vmap { established : accept, related : accept, invalid : drop }',
        'iifname "cali*" accept',
        'oifname "cali*" accept',
      ),
    ],
  },
  {
    name: 'nft-dispatch-one-missing',
    load: [
      nft(`table inet workloads {
  chain fw { ct state established accept; accept; }
  chain none { drop; }
  chain forward { type filter hook forward priority 0; policy accept;
    iifname "cali*" jump from
  }
  chain from { iifname vmap { "cali4" : goto fw }; drop; }
}`),
    ],
  },
  {
    name: 'nft-dispatch-all',
    load: [
      nft(`table inet workloads {
  map dispatch { type ifname : verdict; elements = { "cali4" : goto fw, "cali5" : goto fw } }
  chain fw { ct state established accept; accept; }
  chain forward { type filter hook forward priority 0; policy accept;
    iifname "cali*" jump from
  }
  chain from { iifname vmap @dispatch; drop; }
}`),
    ],
  },
  // The source of what the node sends to itself, which is masqueraded on the way.
  {name: 'nft-source-input', load: [nftChain('input priority 0; policy accept;', 'ip saddr 203.0.113.0/24 drop')], ...decided},
  {
    name: 'nft-source-bans',
    load: [
      nft(`table inet bans {
  set bans { type ipv4_addr; flags interval; elements = { 192.0.2.0/24, 198.51.100.64/26 } }
  chain pre { type filter hook prerouting priority -150; policy accept; ip saddr @bans drop; }
  chain in { type filter hook input priority 0; policy accept; ip saddr @bans drop; }
  chain post { type filter hook postrouting priority 300; policy accept; ip saddr @bans drop; }
}`),
    ],
    isDecided: true,
  },
  {
    name: 'nft-source-tailscale',
    load: [
      nft(`table ip tailscale {
  chain in { type filter hook input priority 0; policy accept; iifname != "tailscale0" ip saddr 100.64.0.0/10 drop; }
  chain out { type filter hook postrouting priority 110; policy accept; ip saddr 100.64.0.0/10 drop; }
}`),
    ],
    isDecided: true,
  },
  {name: 'nft-source-own', load: [nftChain('input priority 0; policy accept;', 'ip saddr 172.18.0.11 tcp dport 8080 drop')], ...decided},
  {name: 'nft-source-behind', load: [nftChain('postrouting priority 300; policy accept;', 'ip saddr 172.18.0.11 drop')], ...decided},
  {
    name: 'nft-source-ingress-ip',
    load: [nftChain('postrouting priority 300; policy accept;', 'ip saddr 198.51.100.10 drop')],
    isDecided: true,
  },
  {name: 'nft-source-service', load: [nftChain('input priority 0; policy accept;', 'iifname "lo" ip saddr 10.96.0.0/12 drop')], ...decided},
  {name: 'nft-source-type', load: [nftChain('input priority 0; policy accept;', 'fib saddr type local tcp dport 8080 drop')], ...decided},
  {
    name: 'nft-source-mapped',
    load: [
      nft(`table inet mapped {
  chain in { type filter hook input priority 0; policy accept; ip6 saddr ::ffff:0:0/96 drop; }
  chain out { type filter hook output priority 10; policy accept; ip6 daddr { ::/96, ::ffff:0:0/96, 2002:a00::/24 } reject; }
}`),
    ],
    isDecided: true,
  },
  {name: 'nft-rpfilter', load: [nftChain('prerouting priority -300; policy accept;', 'fib saddr . iif oif missing drop')]},
  {
    name: 'nft-local-node-ports',
    load: [nftChain('prerouting priority -300; policy accept;', 'fib daddr type local tcp dport 30000-32767 drop')],
  },
  {
    name: 'nft-local-node-ports-after',
    load: [nftChain('prerouting priority 0; policy accept;', 'fib daddr type local tcp dport 30000-32767 drop')],
  },
  {
    name: 'nft-way-there',
    load: [nftChain('prerouting priority 0; policy accept;', 'fib daddr oifname { "docker0", "cali5" } drop')],
    ...decided,
  },
  {
    name: 'nft-way-back',
    load: [nftChain('prerouting priority -300; policy accept;', 'fib saddr oifname != "cali*" ip daddr 10.244.11.5 drop')],
    ...decided,
  },
  {
    name: 'nft-group',
    load: [nftChain('forward priority 0; policy accept;', 'iifgroup 7 drop', 'meta oifkind "wireguard" drop')],
    ...decided,
  },
  {
    name: 'nft-group-of-pod',
    load: [
      sh('ip link set cali5 group 7'),
      nftChain('forward priority 0; policy accept;', 'iifgroup 7 ct state new drop', 'oifgroup 0x9 drop'),
    ],
    ...decided,
  },
  {
    name: 'group-of-pod',
    load: [sh('ip link set cali5 group 7'), rules('filter', '-I FORWARD -m devgroup --src-group 0x7 -m conntrack --ctstate NEW -j DROP')],
    ...decided,
  },
  {
    name: 'nft-strong-host',
    load: [nftChain('prerouting priority -50; policy accept;', 'fib daddr type != { local, multicast, broadcast } drop')],
  },
  {name: 'nft-marked-postrouting', load: [nftChain('postrouting priority -150; policy accept;', 'meta mark & 0x4000 == 0x4000 drop')]},
  {name: 'nft-status-dnat-only', load: [nftChain('forward priority 0; policy drop;', 'ct status dnat accept')]},
  {
    name: 'nft-status-not-dnat',
    load: [nftChain('forward priority 0; policy accept;', 'ct status & dnat == 0 ct state new ip daddr 10.244.11.5 drop')],
    ...decided,
  },
  {
    name: 'nft-flags-none',
    load: [nftChain('forward priority 0; policy accept;', 'tcp flags ! syn,ack ip daddr 10.244.11.5 drop')],
    ...decided,
  },
  {name: 'nft-original-cluster-range', load: [nftChain('forward priority 0; policy accept;', 'ct original ip daddr 10.96.0.0/12 drop')]},
  {name: 'nft-original-others', load: [nftChain('forward priority 0; policy accept;', 'ct original ip daddr 10.97.0.0/16 drop')]},
  {
    name: 'nft-family-and-zone',
    load: [nftChain('forward priority 0; policy accept;', 'ct l3proto ipv6 drop', 'ct zone 9 drop', 'ct protocol udp drop')],
    isIPv4Only: true,
    ...decided,
  },
  {name: 'nft-direction-reply', load: [nftChain('forward priority 0; policy accept;', 'ct direction reply ip saddr 10.244.11.5 drop')]},
  {
    name: 'nft-ct-mark',
    load: [
      nft(`table inet m {
  chain pre { type filter hook prerouting priority -150; policy accept; iifname "cali4" ct mark set 0x77; }
  chain passing { type filter hook forward priority 0; policy accept; ct mark 0x77 drop; }
}`),
    ],
  },
  {
    name: 'nft-limit-over',
    load: [nftChain('forward priority 0; policy accept;', 'tcp flags syn limit rate over 1/hour burst 1 packets drop')],
  },
  {
    name: 'nft-limit-over-high',
    load: [nftChain('forward priority 0; policy accept;', 'tcp flags syn limit rate over 100000/second burst 10000 packets drop')],
  },
  {
    name: 'nft-meter',
    load: [
      nft(`table inet m {
  set seen { type ipv4_addr; size 65535; flags dynamic,timeout; timeout 1m; }
  chain passing { type filter hook forward priority 0; policy accept; ct state new add @seen { ip saddr limit rate over 90000/second } drop; }
}`),
    ],
  },
  {name: 'nft-numgen', load: [nftChain('forward priority 0; policy accept;', 'ct state new numgen random mod 2 == 0 drop')]},
  {name: 'nft-jhash', load: [nftChain('forward priority 0; policy accept;', 'ct state new jhash ip saddr . ip daddr mod 2 == 0 drop')]},
  {
    name: 'nft-concatenation',
    load: [
      nft(`table ip acl {
  set denied { type ipv4_addr . ipv4_addr . inet_service; flags interval; elements = { 10.244.11.0/25 . 10.244.12.0/24 . 8080 } }
  chain passing { type filter hook forward priority 0; policy accept; ip saddr . ip daddr . tcp dport @denied drop; }
}`),
    ],
  },
  {
    name: 'nft-concatenation-unused',
    load: [
      nft(`table ip acl {
  set denied { type ipv4_addr . ipv4_addr . inet_service; flags interval; elements = { 10.244.11.0/25 . 10.244.12.0/24 . 9090 } }
  chain passing { type filter hook forward priority 0; policy accept; ip saddr . ip daddr . tcp dport @denied drop; }
}`),
    ],
  },
  {
    name: 'nft-client-vmap',
    load: [
      nft(`table ip acl {
  map clients { type ipv4_addr : verdict; flags interval; elements = { 10.244.11.4 : drop, 10.244.12.0/24 : accept } }
  chain pre { type filter hook prerouting priority -150; policy accept; ip daddr 10.96.0.0/12 ip saddr vmap @clients; }
}`),
    ],
  },
  {
    name: 'nft-pod-port-reset',
    load: [nftChain('forward priority 0; policy accept;', 'ip daddr 10.244.11.5 tcp dport 8080 reject with tcp reset')],
  },
  {
    name: 'nft-service-port-only',
    load: [nftChain('forward priority 0; policy drop;', 'ct state established,related accept', 'tcp dport 80 accept')],
  },
  {
    name: 'nft-pod-port-only',
    load: [nftChain('forward priority 0; policy drop;', 'ct state established,related accept', 'tcp dport 8080 accept')],
  },
  {name: 'nft-dormant', load: [nft('table inet d { flags dormant; chain f { type filter hook forward priority 0; policy drop; }; }')]},
  {name: 'nft-postrouting-drop', load: [nftChain('postrouting priority 300; policy drop;', 'oifname "eth0" accept')]},
  {
    name: 'nft-goto-nothing',
    load: [
      nft(`table inet g {
  chain quiet { ip saddr 203.0.113.0/24 accept; }
  chain passing { type filter hook forward priority 0; policy drop; goto quiet; }
}`),
    ],
  },
  {
    name: 'nft-jump-back',
    load: [
      nft(`table inet g {
  chain quiet { ip saddr 192.0.2.0/24 drop; return; }
  chain passing { type filter hook forward priority 0; policy accept; jump quiet; }
}`),
    ],
  },
  {name: 'nft-notrack-cluster-ips', load: [nftChain('prerouting priority -300; policy accept;', 'ip daddr 10.96.1.2 notrack')]},
  {name: 'nft-zone', load: [nftChain('prerouting priority -300; policy accept;', 'iifname "cali5" ct zone set 9')]},
  {
    name: 'nft-masquerade-first',
    load: [nft('table ip early { chain post { type nat hook postrouting priority 90; policy accept; oifname "cali*" masquerade; }; }')],
  },
  {
    name: 'nft-snat-first',
    load: [
      nft(
        'table ip early { chain post { type nat hook postrouting priority 90; policy accept; ip daddr 10.244.12.0/24 snat to 192.0.2.50; }; }',
      ),
    ],
  },
  {
    name: 'nft-redirect-output',
    load: [nft('table ip early { chain out { type nat hook output priority -150; policy accept; tcp dport 80 redirect to :15001; }; }')],
  },
  {
    name: 'nft-redirect-output-later',
    load: [nft('table ip late { chain out { type nat hook output priority -50; policy accept; tcp dport 81 redirect to :15001; }; }')],
  },
  {
    name: 'nft-accept-before-nat',
    load: [nft('table ip early { chain pre { type nat hook prerouting priority -110; policy accept; accept; }; }')],
  },
  {name: 'nft-quota', load: [nftChain('forward priority 0; policy accept;', 'quota over 500000 mbytes drop')]},
  {
    name: 'nft-log',
    load: [nftChain('forward priority 0; policy accept;', 'ct state invalid log prefix "x" drop', 'limit rate 3/minute log', 'counter')],
  },
  {name: 'nft-mark-delete', load: [nftChain('forward priority 0; policy accept;', 'meta mark set 0')]},
  {name: 'nft-mark-set-bit', load: [nftChain('forward priority 0; policy accept;', 'meta mark set meta mark | 0x00004000')]},
  {name: 'nft-mss', load: [nftChain('forward priority 0; policy accept;', 'tcp flags syn tcp option maxseg size set rt mtu')]},
  {name: 'nft-ttl', load: [nftChain('prerouting priority -150; policy accept;', 'iifname "cali4" ip ttl set 1')]},
  {
    name: 'nft-not-in-set',
    load: [
      nft(`table inet a {
  set friends { type ipv4_addr; flags interval; elements = { 10.244.0.0/16, 172.18.0.0/16 } }
  chain f { type filter hook forward priority 0; policy accept; ip saddr != @friends ct state new drop; }
}`),
    ],
    isPurpose: true,
  },
  {name: 'nft-interface-index', load: [nftChain('forward priority 0; policy accept;', 'iif "eth0" oif "cali5" drop')]},
  {name: 'nft-synproxy-unused', load: [nftChain('input priority 0; policy accept;', 'tcp dport 9999 tcp flags syn drop')]},
  {name: 'nft-cgroup', load: [nftChain('output priority 0; policy accept;', 'meta skuid 12345 drop')]},
  {name: 'nft-time', load: [nftChain('forward priority 0; policy accept;', 'meta hour "00:00"-"23:59" ip saddr 10.244.11.5 drop')]},
  {name: 'nft-length', load: [nftChain('forward priority 0; policy accept;', 'meta length > 1400 drop')]},
  {
    name: 'nft-firewalld-policies',
    load: [
      nft(`table inet firewalld {
  chain filter_FORWARD { type filter hook forward priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    jump filter_FORWARD_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_FORWARD_ZONES {
    iifname "eth0" goto filter_FWD_public
    goto filter_FWD_public
  }
  chain filter_FWD_public { jump filter_FWD_public_allow; reject with icmpx admin-prohibited; }
  chain filter_FWD_public_allow { oifname "eth0" accept; }
}`),
    ],
  },
  {
    name: 'nft-docker-29',
    load: [
      nft(`table ip docker-bridges {
  map filter-forward-in-jumps { type ifname : verdict; elements = { "docker0" : jump filter-forward-in__docker0 } }
  map filter-forward-out-jumps { type ifname : verdict; elements = { "docker0" : jump filter-forward-out__docker0 } }
  chain filter-FORWARD { type filter hook forward priority filter; policy accept; oifname vmap @filter-forward-in-jumps; iifname vmap @filter-forward-out-jumps; }
  chain filter-forward-in__docker0 { ct state established,related counter accept; iifname "docker0" counter accept comment "ICC"; counter drop comment "UNPUBLISHED PORT DROP"; }
  chain filter-forward-out__docker0 { ct state established,related counter accept; counter accept comment "OUTGOING"; }
  chain nat-PREROUTING { type nat hook prerouting priority dstnat; policy accept; fib daddr type local counter jump nat-prerouting-and-output; }
  chain nat-OUTPUT { type nat hook output priority -100; policy accept; ip daddr != 127.0.0.0/8 fib daddr type local counter jump nat-prerouting-and-output; }
  chain nat-prerouting-and-output { }
  chain nat-POSTROUTING { type nat hook postrouting priority srcnat; policy accept; oifname != "docker0" ip saddr 172.17.0.0/16 counter masquerade; }
  chain raw-PREROUTING { type filter hook prerouting priority raw; policy accept; iifname != "docker0" ip daddr 172.17.0.2 counter drop; }
}`),
    ],
  },
  {
    name: 'nft-podman',
    load: [
      nft(`table inet netavark {
  chain INPUT { type filter hook input priority filter; policy accept; ip saddr 10.88.0.0/16 meta l4proto { tcp, udp } th dport 53 accept; }
  chain FORWARD { type filter hook forward priority filter; policy accept; ct state invalid drop; jump NETAVARK-ISOLATION-1; ip daddr 10.88.0.0/16 ct state established,related accept; ip saddr 10.88.0.0/16 accept; }
  chain POSTROUTING { type nat hook postrouting priority srcnat; policy accept; meta mark & 0x00002000 == 0x00002000 masquerade; ip saddr 10.88.0.0/16 ip daddr != { 224.0.0.0/4, 10.88.0.0/16 } masquerade; }
  chain PREROUTING { type nat hook prerouting priority dstnat; policy accept; fib daddr type local jump NETAVARK-HOSTPORT-DNAT; }
  chain OUTPUT { type nat hook output priority -100; policy accept; fib daddr type local jump NETAVARK-HOSTPORT-DNAT; }
  chain NETAVARK-HOSTPORT-DNAT { tcp dport 30081 dnat ip to 10.88.0.5:80; }
  chain NETAVARK-ISOLATION-1 { }
}`),
    ],
  },
  {
    name: 'nft-libvirt',
    load: [
      nft(`table ip libvirt_network {
  chain forward { type filter hook forward priority filter; policy accept; counter jump guest_cross; counter jump guest_input; counter jump guest_output; }
  chain guest_output { ip saddr 192.168.122.0/24 iif "lo" counter accept; iifname "virbr0" counter reject; }
  chain guest_input { oifname "virbr0" ip daddr 192.168.122.0/24 ct state established,related counter accept; oifname "virbr0" counter reject; }
  chain guest_cross { iifname "virbr0" oifname "virbr0" counter accept; }
  chain guest_nat { type nat hook postrouting priority srcnat; policy accept; ip saddr 192.168.122.0/24 ip daddr != 192.168.122.0/24 counter masquerade; }
}`),
    ],
  },

  // What the bundle decides.
  {name: 'netmap-one', load: [rules('nat', '-I PREROUTING -d 10.96.1.2/32 -j NETMAP --to 10.244.11.5/32')], ...decided},
  {name: 'netmap-range', load: [rules('nat', '-I PREROUTING -d 10.96.0.0/16 -j NETMAP --to 10.99.0.0/16')], ...decided},
  {name: 'netmap-source', load: [rules('nat', '-I POSTROUTING -s 10.244.11.0/24 -d 10.244.12.0/24 -j NETMAP --to 198.18.11.0/24')]},
  {name: 'netmap-others', load: [rules('nat', '-I PREROUTING -d 10.97.0.0/16 -j NETMAP --to 10.99.0.0/16')], ...decided},
  {
    name: 'dnat-range-nowhere',
    load: [rules('nat', '-I PREROUTING -p tcp --dport 80 -j DNAT --to-destination 192.0.2.1-192.0.2.9')],
    ...decided,
  },
  {
    name: 'nft-dnat-range-nowhere',
    load: [
      nft(
        'table ip early { chain pre { type nat hook prerouting priority -110; policy accept; tcp dport 80 dnat to 192.0.2.1-192.0.2.9; }; }',
      ),
    ],
    ...decided,
  },
  {
    name: 'nft-dnat-jhash-nowhere',
    load: [
      nft(
        'table ip early { chain pre { type nat hook prerouting priority -110; policy accept; tcp dport 80 dnat to jhash ip saddr mod 2 map { 0 : 192.0.2.1, 1 : 192.0.2.2 }; }; }',
      ),
    ],
    ...decided,
  },
  {name: 'options-stripped', load: [rules('mangle', '-A FORWARD -p tcp -j TCPOPTSTRIP --strip-options sack-permitted')], ...decided},
  {name: 'nft-options-reset', load: [nftChain('forward priority 0; policy accept;', 'reset tcp option sack-perm')], ...decided},
  {name: 'time-past', load: [rules('filter', '-I FORWARD -d 10.244.11.5/32 -m time --datestop 2010-01-01 -j DROP')], ...decided},
  {
    name: 'time-always',
    load: [rules('filter', '-I FORWARD -d 10.244.11.5/32 -m time --timestart 00:00 --timestop 23:59:59 -j DROP')],
    ...decided,
  },
  {
    name: 'option-of-first-packets',
    load: [rules('filter', '-I FORWARD -d 10.244.11.5/32 -p tcp -m tcp --tcp-option 2 -j DROP')],
    ...decided,
  },
  {
    name: 'first-packets-without-option',
    load: [rules('filter', '-I FORWARD -p tcp -m conntrack --ctstate NEW -m tcp ! --tcp-option 2 -j DROP')],
    ...decided,
  },
  {
    name: 'ports-of-clients',
    load: [
      rules('filter', '-I FORWARD -p tcp -m conntrack --ctorigsrcport 1024:65535 -d 10.244.11.5 -j DROP'),
      rules('mangle', '-A FORWARD -p tcp -m conntrack --ctrepldstport 1:22 -j DROP'),
      nftChain('forward priority 0; policy accept;', 'meta l4proto tcp ct original proto-src 1-1023 drop'),
    ],
    ...decided,
  },
  {
    name: 'nft-quota-used-up',
    load: [nftChain('forward priority 0; policy accept;', 'ip daddr 10.244.11.5 quota over 10 bytes drop')],
    ...decided,
  },
  {
    name: 'nft-declared-limits',
    load: [
      nft(`table inet declared {
 limit often { rate 100000/second burst 50000 packets; }
 quota much { over 900000 mbytes; }
 chain c { type filter hook forward priority 0; policy accept; quota name "much" drop; limit name "often" accept; }
}
`),
    ],
    ...decided,
  },
  {name: 'nft-quota-large', load: [nftChain('forward priority 0; policy accept;', 'quota over 900000 mbytes drop')], ...decided},
  {name: 'nft-time-past', load: [nftChain('forward priority 0; policy accept;', 'meta time < "2010-01-01" drop')], ...decided},
  {name: 'physdev-in', load: [rules('filter', '-I FORWARD -m physdev --physdev-in veth+ -j DROP')], ...decided},
  {
    name: 'segment-size',
    load: [
      rules(
        'mangle',
        '-A PREROUTING -p tcp -m conntrack --ctstate NEW -m tcpmss ! --mss 536:65535 -j DROP',
        '-A PREROUTING -p tcp -m tcpmss --mss 1:535 -j DROP',
      ),
    ],
    ...decided,
  },
  {
    name: 'status-without-reply',
    load: [rules('filter', '-I FORWARD -m conntrack ! --ctstatus SEEN_REPLY --ctstate ESTABLISHED -j DROP')],
    ...decided,
  },
  {
    name: 'status-not-confirmed',
    load: [rules('filter', '-I FORWARD -m conntrack ! --ctstatus CONFIRMED -d 10.244.11.5 -j DROP')],
    ...decided,
  },
  {name: 'physdev-not-in', load: [rules('filter', '-I FORWARD -m physdev ! --physdev-is-in -d 10.244.11.5 -j DROP')], ...decided},
  {
    name: 'nft-ct-count-2000',
    load: [nftChain('forward priority 0; policy accept;', 'tcp dport 8080 ct state new ct count over 2000 reject')],
  },
  {
    name: 'nft-meter-2000',
    load: [
      nftChain(
        'forward priority 0; policy accept;',
        'tcp dport 8080 ct state new meter m { meta l4proto limit rate over 2000/second burst 800 packets } drop',
      ),
    ],
    isDecided: true,
  },
  // What comes at once counts too: five connections, where nothing else is said.
  {
    name: 'limit-2000-at-once',
    load: [rules('filter', '-I FORWARD -p tcp --syn -j DROP', '-I FORWARD -p tcp --syn -m limit --limit 2000/s -j ACCEPT')],
  },
  // The node's own packets to itself take the loopback, although eth0 has the address.
  {name: 'classified', load: [rules('mangle', '-A POSTROUTING -o eth0 -j CLASSIFY --set-class 1:10')], ...decided},
  // An interface of a pod may have no address to which REDIRECT could send.
  {name: 'redirect-node-ports', load: [rules('nat', '-I PREROUTING -p tcp --dport 30000:32767 -j REDIRECT --to-ports 8080')]},
  {name: 'redirect-pod', load: [rules('nat', '-I PREROUTING -i cali5 -p tcp -j REDIRECT --to-ports 8080')]},
  // Only what the node sends itself has a socket.
  {
    name: 'istio-ambient-probes',
    load: [
      ipset('create istio-inpod-probes-v4 hash:ip', 'add istio-inpod-probes-v4 10.244.11.4'),
      rules(
        'nat',
        '-I POSTROUTING -p tcp -m owner --socket-exists -m set --match-set istio-inpod-probes-v4 dst -j SNAT --to-source 169.254.7.127',
      ),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {name: 'owner-forwarded', load: [rules('mangle', '-A POSTROUTING -s 10.244.0.0/16 -m owner --uid-owner 5000 -j DROP')], ...decided},
  {name: 'reply-source', load: [rules('filter', '-I FORWARD -m conntrack --ctreplsrc 10.244.11.5 -j DROP')], ...decided},
  {
    name: 'nft-reply-source',
    load: [nftChain('forward priority 0; policy accept;', 'ct reply ip saddr 10.244.11.5 drop')],
    ...decided,
  },
  {
    name: 'address-of-interface',
    load: [rules('raw', '-A PREROUTING -m addrtype --dst-type LOCAL --limit-iface-in -p tcp --dport 30080 -j DROP')],
    ...decided,
  },
  {
    name: 'replies-to-address-of-interface',
    load: [rules('raw', '-A PREROUTING -p tcp --sport 8080 -m addrtype --dst-type LOCAL --limit-iface-in -j DROP')],
  },
  {
    name: 'nft-address-of-interface',
    load: [nftChain('prerouting priority -300; policy accept;', 'fib daddr . iif type != local ip daddr 172.18.0.11 drop')],
    ...decided,
  },
  {
    name: 'nft-mark-by-map',
    load: [
      nft(`table ip m {
  chain pre { type filter hook prerouting priority -150; policy accept; ct mark set ip saddr map { 10.244.11.4 : 0x1, 10.244.11.5 : 0x2 }; }
  chain passing { type filter hook forward priority 0; policy accept; ct mark 0x2 drop; }
}`),
    ],
    isDecided: true,
  },
  {
    name: 'nft-ct-timeout',
    load: [
      nft(`table ip t {
  ct timeout short { protocol tcp; policy = { established : 100 }; }
  chain pre { type filter hook prerouting priority 0; policy accept; tcp dport 8080 ct timeout set "short"; }
}`),
    ],
    isDecided: true,
  },
  // Answers that get a mark leave by the gateway of another uplink, which may not know the way to those whom they are for.
  {
    name: 'marked-answers-to-clients',
    load: [
      rules('mangle', '-A PREROUTING -i cali+ -m conntrack --ctdir REPLY -d 203.0.113.0/24 -j MARK --set-xmark 0x2/0xffffffff'),
      secondGateway('fwmark 0x2 pref 900'),
    ],
    isPurpose: true,
  },
  {
    name: 'marked-answers-to-node',
    load: [
      rules('mangle', '-A PREROUTING -i cali+ -d 172.18.0.12/32 -j MARK --set-xmark 0x2/0xffffffff'),
      secondGateway('fwmark 0x2 pref 900'),
    ],
  },
  // The types of addresses are those of table local.
  {
    name: 'type-of-refused',
    load: [
      rules('filter', '-I FORWARD -m addrtype --dst-type BLACKHOLE -j DROP', '-I FORWARD -m addrtype --src-type UNREACHABLE -j REJECT'),
      nftChain('prerouting priority 0; policy accept;', 'fib saddr type { blackhole, prohibit } drop'),
      sh('ip route add blackhole 10.244.11.128/25'),
    ],
    ...{isIPv4Only: true, ...decided},
  },
  // Policy routing of other programs. No packet has an interface to leave by before it is routed, unless its socket is bound to one.
  {name: 'ip-rule-oif', load: [sh('ip rule add oif eth0 prohibit pref 60')]},
  // The way back of what passes the node is that of an answer by the interface by which it leaves.
  {
    name: 'strict-rule-of-the-node',
    load: [strict, secondUplink('iif lo to 10.244.12.0/24 pref 60')],
    isIPv4Only: true,
  },
  {
    name: 'strict-rule-of-a-pod',
    load: [strict, secondUplink('not to 10.0.0.0/8 iif cali4 pref 60', 'rule add to 172.18.0.0/16 lookup main pref 50')],
    isIPv4Only: true,
  },
  {
    name: 'strict-clients-of-a-table',
    load: [
      strict,
      uplink(['route del 203.0.113.9', 'route add 203.0.113.0/24 dev eth1 table 105', 'rule add iif eth0 lookup 105 pref 900']),
    ],
    ...{isIPv4Only: true, isPurpose: true},
  },
  {name: 'ip-rule-of-the-node-alone', load: [sh('ip rule add iif lo to 10.244.12.0/24 prohibit pref 60')]},
  {name: 'ip-rule-tos', load: [secondUplink('tos 0x10 pref 50')]},
  {name: 'ip-rule-goto', load: [secondUplink('pref 60', 'rule add from 10.244.11.0/24 goto 200 pref 50', 'rule add lookup main pref 200')]},
  {
    name: 'egress-gateway',
    load: [
      sh('ip rule add fwmark 0x500/0xf00 lookup 500; ip route add default via 172.18.0.12 table 500'),
      rules('mangle', '-A PREROUTING -s 10.244.11.5/32 ! -d 10.0.0.0/8 -j MARK --set-xmark 0x500/0xf00'),
    ],
  },
  {
    name: 'mwan3',
    load: [
      rules(
        'mangle',
        ...[':mwan3_hook -', '-A PREROUTING -j mwan3_hook', '-A OUTPUT -j mwan3_hook'],
        '-A mwan3_hook -m mark --mark 0x0/0x3f00 -j CONNMARK --restore-mark --nfmask 0x3f00 --ctmask 0x3f00',
        '-A mwan3_hook -i eth0 -m mark --mark 0x0/0x3f00 -j MARK --set-xmark 0x100/0x3f00',
        '-A mwan3_hook -j CONNMARK --save-mark --nfmask 0x3f00 --ctmask 0x3f00',
      ),
      secondUplink('fwmark 0x100/0x3f00'),
    ],
  },
  {
    name: 'ip-rule-interface-default-gateway',
    load: [sh('ip route add default via 172.18.0.1 dev eth0 table 99; ip rule add iif cali4 lookup 99 pref 50')],
  },
  // What came by an uplink is answered by it: other nodes and their pods came by it too.
  {
    name: 'uplinks-by-connection-mark',
    load: [
      rules(
        'mangle',
        '-A PREROUTING -i eth0 -m conntrack --ctstate NEW -j CONNMARK --set-xmark 0x200/0xff00',
        '-A PREROUTING ! -i eth+ -j CONNMARK --restore-mark --nfmask 0xff00 --ctmask 0xff00',
      ),
      sh('ip route add default via 172.18.0.1 dev eth0 table 200; ip rule add fwmark 0x200/0xff00 lookup 200 pref 100'),
    ],
  },
  {
    name: 'libvirt-nftables',
    load: [
      sh('ip link add virbr0 type bridge; ip link set virbr0 up; ip address add 192.168.122.1/24 dev virbr0'),
      nftChain(
        'forward priority 0; policy accept;',
        'iif "virbr0" ip saddr 192.168.122.0/24 accept',
        'iif "virbr0" reject',
        'oif "virbr0" reject',
      ),
    ],
    ...decided,
  },
  {
    name: 'multipath-default',
    load: [uplink(['address add 192.0.2.2/24 dev eth1', 'route replace default nexthop via 172.18.0.1 nexthop via 192.0.2.1'])],
  },
  // What the interface of a packet decides together with the one by which it leaves.
  {
    name: 'nft-interface-pairs',
    load: [nftChain('forward priority 0; policy accept;', 'iifname . oifname vmap { "cali4" . "eth0" : drop, "cali5" . "eth0" : accept }')],
  },
  {
    name: 'ipsec-accepted',
    load: [
      rules('filter', '-A FORWARD -d 10.244.11.0/24 -i eth0 -m policy --dir in --pol ipsec --reqid 1 --proto esp -j ACCEPT'),
      rules('nat', '-I POSTROUTING -s 10.244.11.0/24 -m policy --dir out --pol ipsec -j ACCEPT'),
    ],
    isDecided: true,
  },
  {
    name: 'netdev-vlan',
    load: [nft('table netdev n {\n chain i {\n type filter hook ingress device "eth0" priority -500;\n vlan id 5 drop\n }\n}\n')],
    isDecided: true,
  },
  {
    name: 'docker-published',
    load: [
      rules(
        'nat',
        ...[':DOCKER -', '-I PREROUTING -m addrtype --dst-type LOCAL -j DOCKER', '-I OUTPUT -m addrtype --dst-type LOCAL -j DOCKER'],
        ...[
          '-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE',
          '-A DOCKER ! -i docker0 -p tcp --dport 30080 -j DNAT --to 172.17.0.2:80',
        ],
      ),
    ],
  },
  {
    name: 'microk8s',
    load: [
      rules('filter', drop, ...['-s', '-d'].map(side => `-A FORWARD ${side} 10.244.0.0/16 -m comment --comment "MicroK8s pods" -j ACCEPT`)),
    ],
  },
  {
    name: 'connlimit-500',
    load: [rules('filter', '-I FORWARD -p tcp --syn -m connlimit --connlimit-above 500 -j REJECT')],
    ...decided,
  },
  {
    name: 'connbytes-large',
    load: [rules('filter', '-I FORWARD -m connbytes --connbytes 1073741824: --connbytes-dir both --connbytes-mode bytes -j DROP')],
    ...decided,
  },
  {name: 'nft-ct-bytes-large', load: [nftChain('forward priority 0; policy accept;', 'ct bytes > 1073741824 drop')], ...decided},
  {
    name: 'masquerade-destinations',
    load: [
      rules(
        'nat',
        '-A POSTROUTING -s 10.244.11.0/24 -d 10.244.12.0/24 -j MASQUERADE',
        '-A POSTROUTING -s 10.244.11.0/24 -d 10.244.11.0/24 -j MASQUERADE',
      ),
    ],
    isPurpose: true,
    ...decided,
  },
  {
    name: 'nft-dnat-prefix',
    load: [
      nft(
        'table ip early { chain pre { type nat hook prerouting priority -110; policy accept; ip daddr 10.96.0.0/16 dnat prefix to 10.99.0.0/16; }; }',
      ),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {
    name: 'nft-dnat-prefix-map',
    load: [
      nft(
        'table ip early { chain pre { type nat hook prerouting priority -110; policy accept; dnat ip prefix to ip daddr map { 10.96.0.0/16 : 10.99.0.0/16 }; }; }',
      ),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {name: 'routing-header', load: [rules('filter', '-I FORWARD -m rt --rt-type 0 -j DROP')], isIPv6Only: true, ...decided},
  {
    name: 'extension-headers',
    load: [
      rules(
        'filter',
        '-I FORWARD -m ipv6header --header frag --soft -j DROP',
        '-I FORWARD -m frag --fragmore -j DROP',
        '-I FORWARD -m hbh -j DROP',
        '-I FORWARD -m dst -j DROP',
        '-I FORWARD -p ah -m ah -j DROP',
      ),
    ],
    isIPv6Only: true,
    ...decided,
  },
  {
    name: 'nft-routing-header',
    load: [nftChain('forward priority 0; policy accept;', 'rt type 0 drop', 'exthdr frag exists drop')],
    isIPv6Only: true,
    ...decided,
  },

  // iptables: what its matches can ask.
  {
    name: 'forward-drop-ctstate-dnat',
    load: [rules('filter', drop, '-I FORWARD -m conntrack --ctstate DNAT -j ACCEPT', '-I FORWARD 2 -j DROP')],
  },
  {name: 'ctorigdst-cluster-range', load: [rules('filter', '-I FORWARD -m conntrack --ctorigdst 10.96.0.0/12 -j DROP')]},
  {name: 'ctorigdstport', load: [rules('filter', '-I FORWARD -p tcp -m conntrack --ctorigdstport 30080 -j DROP')]},
  {name: 'ctdir-reply', load: [rules('mangle', '-A FORWARD -m conntrack --ctdir REPLY -s 10.244.11.5/32 -j DROP')]},
  {name: 'physdev-bridged', load: [rules('filter', '-I FORWARD -m physdev --physdev-is-bridged -j DROP')]},
  {name: 'drop-marked', load: [rules('filter', '-I FORWARD -m mark --mark 0x4000/0x4000 -j DROP')]},
  {
    name: 'connmark-of-pod',
    load: [
      rules('mangle', '-A PREROUTING -s 10.244.11.4/32 -j CONNMARK --set-xmark 0x1/0x1'),
      rules('filter', '-I FORWARD -m connmark --mark 0x1/0x1 -j DROP'),
    ],
  },
  {
    name: 'statistic-nth',
    load: [rules('filter', '-I FORWARD -d 10.244.11.5/32 -p tcp --syn -m statistic --mode nth --every 2 --packet 0 -j DROP')],
  },
  {
    name: 'recent-unused',
    load: [rules('filter', '-I FORWARD -p tcp --dport 22 -m recent --name ssh --rcheck --seconds 60 --hitcount 10 -j DROP')],
  },
  {
    name: 'recent-any',
    load: [rules('filter', '-I FORWARD -p tcp --syn -m recent --name many --rcheck --seconds 60 --hitcount 20 -j DROP')],
  },
  {name: 'rpfilter-iptables', load: [rules('raw', '-A PREROUTING -m rpfilter --validmark --invert -j DROP')]},
  {name: 'addrtype-unicast', load: [rules('mangle', '-A PREROUTING -i eth0 -m addrtype --dst-type UNICAST -j DROP')]},
  {
    name: 'ports-of-the-node-closed',
    load: [
      rules(
        'mangle',
        '-A PREROUTING -m addrtype --dst-type LOCAL -m conntrack --ctstate NEW -p tcp -m multiport ! --dports 22,80,443 -j DROP',
      ),
    ],
  },
  {name: 'addrtype-not-local-source', load: [rules('filter', '-I FORWARD -m addrtype ! --src-type LOCAL -d 10.244.11.5/32 -j DROP')]},
  {
    name: 'set-ip-port',
    load: [
      ipset('create pairs hash:ip,port', 'add pairs 10.244.11.5,tcp:8080'),
      rules('filter', '-I FORWARD -m set --match-set pairs dst,dst -j DROP'),
    ],
  },
  {
    name: 'set-ip-port-unused',
    load: [
      ipset('create pairs hash:ip,port', 'add pairs 10.244.11.5,tcp:80'),
      rules('filter', '-I FORWARD -m set --match-set pairs dst,dst -j DROP'),
    ],
  },
  {
    name: 'set-net-iface',
    load: [
      ipset('create nets hash:net,iface', 'add nets 10.244.0.0/16,cali5'),
      rules('filter', '-I FORWARD -m set --match-set nets src,src -j DROP'),
    ],
  },
  {
    name: 'set-list',
    load: [
      ipset('create one hash:ip', 'add one 10.244.11.5', 'create all list:set', 'add all one'),
      rules('filter', '-I FORWARD -m set --match-set all src -j DROP'),
    ],
  },
  {
    name: 'set-negated',
    load: [
      ipset('create pods hash:net', 'add pods 10.244.0.0/16', 'add pods 172.18.0.0/16'),
      rules('filter', '-I FORWARD -m set ! --match-set pods src -m conntrack --ctstate NEW -j DROP'),
    ],
    isPurpose: true,
  },
  {name: 'multiport-ports', load: [rules('filter', '-I FORWARD -p tcp -m multiport --ports 80,8080 -j DROP')]},
  {name: 'multiport-sports', load: [rules('filter', '-I FORWARD -p tcp -m multiport --sports 8080 -s 10.244.11.4/32 -j DROP')]},
  {name: 'iprange-destinations', load: [rules('raw', '-A PREROUTING -m iprange --dst-range 10.96.1.2-10.96.1.3 -j DROP')]},
  {name: 'netmap', load: [rules('nat', '-I PREROUTING -d 10.96.1.2/32 -j NETMAP --to 10.97.1.2/32')]},
  {name: 'redirect-output', load: [rules('nat', '-I OUTPUT -p tcp --dport 80 -j REDIRECT --to-ports 15001')]},
  {name: 'nfqueue-bypass', load: [rules('filter', '-I FORWARD -j NFQUEUE --queue-num 5 --queue-bypass')], ...decided},
  {name: 'nfqueue', load: [rules('filter', '-I FORWARD -d 10.244.11.5/32 -j NFQUEUE --queue-num 5')]},
  {name: 'postrouting-drop', load: [rules('mangle', '-A POSTROUTING -o cali5 -j DROP')]},
  {name: 'snat-pods-outside', load: [rules('nat', '-I POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j SNAT --to-source 172.18.0.11')]},
  {name: 'security-drop', load: [rules('security', '-A FORWARD -d 10.244.12.0/24 -j DROP')]},
  {name: 'kube-forward-pod', load: [rules('filter', '-I KUBE-FORWARD -s 10.244.11.4/32 -j DROP')], modes: inIptables},
  {name: 'kube-postrouting-return', load: [rules('nat', '-I KUBE-POSTROUTING -j RETURN')], modes: inIptables},
  {name: 'input-node-ports', load: [rules('filter', '-A INPUT -p tcp --dport 30000:32767 -j DROP')]},
  {name: 'output-cluster-range', load: [rules('filter', '-A OUTPUT -d 10.96.0.0/12 -j DROP')]},
  {name: 'raw-output-cluster-range', load: [rules('raw', '-A OUTPUT -d 10.96.0.0/12 -j DROP')]},
  {name: 'forward-cluster-range', load: [rules('filter', '-I FORWARD -d 10.96.0.0/12 -j DROP')]},
  {name: 'forward-service-port', load: [rules('filter', '-I FORWARD -p tcp --dport 80 -j DROP')]},
  {name: 'new-not-syn', load: [rules('mangle', '-A PREROUTING -p tcp ! --syn -m conntrack --ctstate NEW -j DROP')]},
  {name: 'nat-accept-pods', load: [rules('nat', '-I PREROUTING -i cali+ -j ACCEPT')]},
  {name: 'nat-return-pods', load: [rules('nat', '-I PREROUTING -i cali4 -j RETURN')]},
  {name: 'postrouting-return-unmarked', load: [rules('nat', '-I POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN')]},
  {name: 'postrouting-return-marked', load: [rules('nat', '-I POSTROUTING -m mark --mark 0x4000/0x4000 -j RETURN')]},
  {name: 'string-unused', load: [rules('filter', '-I FORWARD -m string --string "evil" --algo bm -j DROP')], ...decided},
  {name: 'u32', load: [rules('filter', '-I FORWARD -m u32 --u32 "6&0xFF=17" -j DROP')]},
  {name: 'owner', load: [rules('filter', '-A OUTPUT -m owner --uid-owner 12345 -j DROP')]},
  {name: 'owner-root', load: [rules('filter', '-A OUTPUT -m owner --uid-owner 0 -d 10.244.0.0/16 -j DROP')]},
  {
    name: 'ecn-dscp',
    load: [rules('mangle', '-A FORWARD -j DSCP --set-dscp 10', '-A POSTROUTING -p tcp -j ECN --ecn-tcp-remove')],
    isIPv4Only: true,
  },
  {name: 'dscp-match', load: [rules('filter', '-I FORWARD -m dscp --dscp 46 -j DROP')]},
  {name: 'tos-checksum', load: [rules('mangle', '-A POSTROUTING -p udp --dport 68 -j CHECKSUM --checksum-fill')]},
  {
    name: 'tcp-flags-syn',
    load: [
      rules('mangle', '-A PREROUTING -p tcp --tcp-flags FIN,SYN FIN,SYN -j DROP', '-A PREROUTING -p tcp --tcp-flags ALL NONE -j DROP'),
    ],
  },
  {name: 'tcp-option', load: [rules('mangle', '-A PREROUTING -p tcp --syn -m tcpmss ! --mss 536:65535 -j DROP')]},
  {name: 'fragment', load: [rules('filter', '-I FORWARD -f -j DROP')], isIPv4Only: true},
  {
    name: 'conntrack-status',
    load: [
      rules(
        'filter',
        '-I FORWARD -m conntrack --ctstatus NONE -j LOG',
        '-I FORWARD -m conntrack --ctstatus CONFIRMED -m conntrack --ctstate NEW -j DROP',
      ),
    ],
  },
  {name: 'two-programs', load: [ufw('DROP'), nftChain('forward priority -10; policy accept;', 'ip daddr 10.244.0.0/16 accept')]},
  {
    name: 'two-programs-saved',
    load: [rules('filter', drop, '-I FORWARD -j ACCEPT'), elsewhere(rules('filter', ':INPUT DROP', '-A INPUT -j ACCEPT'))],
  },
  {
    name: 'user-chain-returns',
    load: [
      rules(
        'filter',
        ':MY -',
        '-I FORWARD -j MY',
        '-A MY -s 10.244.11.5/32 -j RETURN',
        '-A MY -d 10.244.11.4/32 -s 10.244.11.0/24 -j DROP',
      ),
    ],
  },
  {name: 'goto-returns', load: [rules('filter', drop, ':MY -', '-I FORWARD -g MY', '-A MY -d 10.244.11.0/24 -j ACCEPT')]},
  {
    name: 'istio-ambient',
    load: [
      ipset('create istio-inpod-probes-v4 hash:ip'),
      rules(
        'mangle',
        ':ISTIO_PRERT -',
        '-A PREROUTING -j ISTIO_PRERT',
        '-A ISTIO_PRERT -m mark --mark 0x539/0xfff -j CONNMARK --set-xmark 0x111/0xfff',
        '-A ISTIO_PRERT -s 169.254.7.127/32 -p tcp -m tcp -j ACCEPT',
      ),
      rules(
        'nat',
        ':ISTIO_POSTRT -',
        '-A POSTROUTING -j ISTIO_POSTRT',
        '-A ISTIO_POSTRT -m owner --socket-exists -p tcp -m set --match-set istio-inpod-probes-v4 dst -j SNAT --to-source 169.254.7.127',
      ),
    ],
    isIPv4Only: true,
  },
  {
    name: 'cilium-beside',
    load: [
      rules(
        'filter',
        ':CILIUM_FORWARD -',
        ':CILIUM_INPUT -',
        '-I FORWARD -m comment --comment "cilium-feeder: CILIUM_FORWARD" -j CILIUM_FORWARD',
        '-A CILIUM_FORWARD -o cilium_host -m comment --comment "cilium: any->cluster on cilium_host forward accept" -j ACCEPT',
        '-A CILIUM_FORWARD -i cilium_host -j ACCEPT',
        '-A CILIUM_FORWARD -i lxc+ -j ACCEPT',
      ),
      rules(
        'nat',
        ':CILIUM_POST_nat -',
        '-I POSTROUTING -j CILIUM_POST_nat',
        '-A CILIUM_POST_nat -s 10.0.1.0/24 ! -d 10.0.0.0/16 ! -o cilium_+ -j MASQUERADE',
      ),
    ],
  },
  {
    name: 'antrea',
    load: [
      rules(
        'filter',
        ':ANTREA-FORWARD -',
        '-I FORWARD -m comment --comment "Antrea: jump to Antrea forwarding rules" -j ANTREA-FORWARD',
        '-A ANTREA-FORWARD -i antrea-gw0 -j ACCEPT',
        '-A ANTREA-FORWARD -o antrea-gw0 -j ACCEPT',
      ),
      rules(
        'nat',
        ':ANTREA-POSTROUTING -',
        '-A POSTROUTING -j ANTREA-POSTROUTING',
        '-A ANTREA-POSTROUTING ! -o antrea-gw0 -m mark --mark 0x40/0x40 -j MASQUERADE',
      ),
    ],
  },
  {
    name: 'azure-ip-masq',
    load: [
      rules(
        'nat',
        ':IP-MASQ-AGENT -',
        '-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ-AGENT',
        '-A IP-MASQ-AGENT -d 10.244.12.0/24 -j RETURN',
        '-A IP-MASQ-AGENT -j MASQUERADE',
      ),
    ],
  },

  // Routes and rules of the kernel.
  {name: 'fwmark-blackhole', load: [sh('ip route add blackhole default table 100 && ip rule add fwmark 0x4000/0x4000 lookup 100 pref 90')]},
  {name: 'rule-from-pod-empty-table', load: [sh('ip rule add from 10.244.11.4 lookup 200 pref 90')]},
  {name: 'route-to-one-far-pod', load: [sh('ip route add unreachable 10.244.12.4')]},
  {
    name: 'nft-header-fields',
    load: [
      nftChain(
        'prerouting priority -300; policy accept;',
        ...['ip frag-off & 0x3fff != 0 drop', 'ip option lsrr exists drop', 'ip option rr exists drop', 'ip hdrlength > 5 drop'],
        ...[
          'tcp flags syn tcp option maxseg size 1-535 drop',
          'tcp option maxseg size < 536 drop',
          'tcp option maxseg size != 536-65535 drop',
        ],
      ),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {name: 'nft-segment-size-usual', load: [nftChain('forward priority 0; policy accept;', 'tcp option maxseg size > 500 drop')], ...decided},
  {
    name: 'nft-snat-map',
    load: [
      nft(
        'table ip s { chain post { type nat hook postrouting priority 90; policy accept; snat to ip saddr map { 10.244.11.4 : 198.18.0.7, 10.244.11.9 : 198.18.0.8 }; }; }',
      ),
    ],
    ...decided,
  },
  // Of addresses that two have, or that moved.
  {name: 'far-pod-behind-link-of-pod', load: [sh('ip route add 10.244.12.4 dev cali5')]},
  {name: 'far-pod-address-here', load: [sh('ip addr add 10.244.12.4/32 dev lo')]},
  {name: 'other-node-address-here', load: [sh('ip addr add 172.18.0.12/32 dev lo')]},
  {name: 'own-pod-by-other-node', load: [sh('ip route replace 10.244.11.4 via 172.18.0.12')]},
  // What a firewall keeps from addresses that no client of Services asks, or from outside alone, is no fault.
  {
    name: 'wg-quick-address',
    load: [
      sh('ip link add wg0 type veth peer name beyond; ip link set wg0 up; ip addr add 10.8.0.2/32 dev wg0'),
      rules('raw', '-I PREROUTING ! -i wg0 -d 10.8.0.2/32 -m addrtype ! --src-type LOCAL -j DROP'),
    ],
    ...decided,
  },
  {
    name: 'input-known-networks',
    load: [
      rules(
        'filter',
        ...[':INPUT DROP', '-A INPUT -i lo -j ACCEPT', '-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'],
        ...['-A INPUT -s 172.18.0.0/16 -j ACCEPT', '-A INPUT -s 10.244.0.0/16 -j ACCEPT'],
      ),
    ],
  },
  // What the first packet of a connection always or never has, and what the kernel knows beside rules.
  {name: 'length-of-syn', isAboutPods: true, load: [rules('filter', '-I FORWARD -p tcp --syn -m length --length 40:100 -j DROP')]},
  {
    name: 'length-of-no-syn',
    load: [
      rules('mangle', '-A PREROUTING -p tcp --syn -m length ! --length 40:100 -j DROP'),
      nftChain('forward priority 0; policy accept;', 'tcp flags & (fin | syn | rst | ack) == syn meta length > 120 drop'),
    ],
    ...decided,
  },
  {
    name: 'string-lacking',
    load: [rules('filter', '-I FORWARD -p tcp --dport 8080 --syn -m string ! --string "GET /" --algo bm -j DROP')],
    isAboutPods: true,
  },
  {name: 'nfqueue-of-nobody', isAboutPods: true, load: [rules('mangle', '-A FORWARD -j NFQUEUE --queue-balance 0:3')]},
  {
    name: 'policy-of-ipsec',
    load: [
      rules(
        'filter',
        '-I FORWARD -o eth0 -d 10.244.12.0/24 -j DROP',
        '-I FORWARD -o eth0 -d 10.244.12.0/24 -m policy --dir out --pol ipsec -j ACCEPT',
      ),
    ],
    isAboutPods: true,
  },
  {
    name: 'policy-of-none',
    load: [rules('filter', '-I FORWARD -i eth0 -s 10.244.12.0/24 -m policy --dir in --pol none -j DROP')],
  },
  {
    name: 'nft-ipsec-accepted',
    load: [nftChain('forward priority -5; policy accept;', 'iifname "eth0" meta ipsec exists accept', 'iifname "eth0" ct state new drop')],
    isAboutPods: true,
  },
  {
    name: 'nft-counted-set',
    load: [
      nft(`table inet acct {
 set seen { type ipv4_addr; size 65535; flags dynamic,timeout; timeout 1h; }
 chain f { type filter hook forward priority -5; policy accept; update @seen { ip saddr counter }; }
}
`),
    ],
    ...decided,
  },
  {
    name: 'calico-to-host-dropped',
    load: [
      rules(
        'filter',
        ...[':cali-INPUT -', ':cali-wl-to-host -', '-I INPUT -j cali-INPUT', '-A cali-INPUT -i cali+ -g cali-wl-to-host'],
        '-A cali-wl-to-host -m comment --comment "Configured DefaultEndpointToHostAction" -j DROP',
      ),
    ],
    isAboutPods: true,
  },
  // Where the pods are that are here.
  {
    name: 'pods-by-uplink',
    load: [sh('ip route replace 10.244.11.4 dev eth0; ip route replace 10.244.11.5 dev eth0')],
    isAboutPods: true,
  },
  {
    name: 'pods-network-by-uplink',
    load: [sh('ip route del 10.244.11.4; ip route del 10.244.11.5; ip route add 10.244.11.0/24 dev eth0')],
  },
  {
    name: 'promiscuous-bridge',
    load: [bridgeOfPods, sh('ip link set cni0 promisc on; for n in 4 5; do bridge link set dev cali$n hairpin off; done')],
    isIPv4Only: true,
  },
  {name: 'pod-address-here', isAboutPods: true, load: [sh('ip addr add 10.244.11.4/32 dev lo')]},
];
