import {conditions} from './conditions.ts';
import {programs} from './programs.ts';
import {
  drop,
  elsewhere,
  established,
  inIptables,
  inNftables,
  ipset,
  nft,
  nftChain,
  rules,
  type Scenario,
  sh,
  shIn,
  type Step,
  ufw,
} from './steps.ts';

/** What Docker up to 27 writes, with the policy that FORWARD has then. */
function docker(policy: string): readonly Step[] {
  return [
    rules(
      'nat',
      ':DOCKER -',
      '-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER',
      '-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER',
      '-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE',
      '-A DOCKER -i docker0 -j RETURN',
    ),
    rules(
      'filter',
      ...[`:FORWARD ${policy}`, ':DOCKER -', ':DOCKER-ISOLATION-STAGE-1 -', ':DOCKER-ISOLATION-STAGE-2 -', ':DOCKER-USER -'],
      ...[
        '-A FORWARD -j DOCKER-USER',
        '-A FORWARD -j DOCKER-ISOLATION-STAGE-1',
        '-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      ],
      ...['-A FORWARD -o docker0 -j DOCKER', '-A FORWARD -i docker0 ! -o docker0 -j ACCEPT', '-A FORWARD -i docker0 -o docker0 -j ACCEPT'],
      ...['-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2', '-A DOCKER-ISOLATION-STAGE-1 -j RETURN'],
      ...['-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP', '-A DOCKER-ISOLATION-STAGE-2 -j RETURN', '-A DOCKER-USER -j RETURN'],
    ),
  ];
}

/** Two next hops to the pods of node-b, of which one leads nowhere. */
function twoHops(...lines: readonly string[]): Step {
  const second = [
    'link add eth1 type veth peer name beyond',
    'link set eth1 up',
    'link set beyond up',
    'address add 192.0.2.2/24 dev eth1',
  ];
  const routes = ['route del 10.244.12.0/24', 'route add 10.244.12.0/24 nexthop via 172.18.0.12 nexthop via 192.0.2.1'];
  return sh([...[...second, ...routes].map(line => `ip ${line}`), ...lines].join('\n'));
}

/** What Docker 28 writes: direct access to containers is dropped in raw, and FORWARD has chains of its own. */
const docker28 = [
  rules('raw', '-A PREROUTING -d 172.17.0.2/32 ! -i docker0 -j DROP'),
  rules(
    'filter',
    ...[
      ':DOCKER -',
      ':DOCKER-BRIDGE -',
      ':DOCKER-CT -',
      ':DOCKER-FORWARD -',
      ':DOCKER-USER -',
      '-A FORWARD -j DOCKER-USER',
      '-A FORWARD -j DOCKER-FORWARD',
    ],
    ...[
      '-A DOCKER ! -i docker0 -o docker0 -j DROP',
      '-A DOCKER-BRIDGE -o docker0 -j DOCKER',
      '-A DOCKER-CT -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    ],
    ...['-A DOCKER-FORWARD -j DOCKER-CT', '-A DOCKER-FORWARD -j DOCKER-BRIDGE', '-A DOCKER-FORWARD -i docker0 -j ACCEPT'],
  ),
];

/** Calico with workloads that have no policy; what it does not know is dropped. */
function calico(...workloads: readonly string[]): Step {
  const chains = ['FORWARD', 'from-wl-dispatch', 'to-wl-dispatch', ...workloads.flatMap(name => [`fw-${name}`, `tw-${name}`])];
  return rules(
    'filter',
    ...chains.map(name => `:cali-${name} -`),
    ...['-I FORWARD -m comment --comment "cali:wUHhoiAYhphO9Mso" -j cali-FORWARD', '-A cali-FORWARD -j MARK --set-xmark 0x0/0xe0000'],
    ...['-A cali-FORWARD -i cali+ -j cali-from-wl-dispatch', '-A cali-FORWARD -o cali+ -j cali-to-wl-dispatch'],
    ...workloads.flatMap(name => [
      `-A cali-from-wl-dispatch -i ${name} -g cali-fw-${name}`,
      `-A cali-to-wl-dispatch -o ${name} -g cali-tw-${name}`,
    ]),
    ...['from', 'to'].map(way => `-A cali-${way}-wl-dispatch -m comment --comment "Unknown interface" -j DROP`),
    ...workloads.flatMap(name =>
      ['fw', 'tw'].flatMap(way => [
        `-A cali-${way}-${name} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
        `-A cali-${way}-${name} -m conntrack --ctstate INVALID -j DROP`,
        `-A cali-${way}-${name} -j MARK --set-xmark 0x10000/0x10000`,
        `-A cali-${way}-${name} -m mark --mark 0x10000/0x10000 -j RETURN`,
      ]),
    ),
  );
}

/** kube-router's firewall of one pod, which is open or closed. */
function kubeRouter(address: string, isOpen: boolean): Step {
  const chain = 'KUBE-POD-FW-A2GHZCXPUMJZ4QMF';
  return rules(
    'filter',
    ...[
      ':KUBE-ROUTER-FORWARD -',
      `:${chain} -`,
      ':KUBE-NWPLCY-DEFAULT -',
      '-I FORWARD 1 -m comment --comment "kube-router netpol" -j KUBE-ROUTER-FORWARD',
    ],
    ...[`-A KUBE-ROUTER-FORWARD -d ${address}/32 -j ${chain}`, `-A KUBE-ROUTER-FORWARD -s ${address}/32 -j ${chain}`],
    ...[`-A ${chain} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`, `-A ${chain} -j KUBE-NWPLCY-DEFAULT`],
    ...(isOpen ? ['-A KUBE-NWPLCY-DEFAULT -j MARK --set-xmark 0x10000/0x10000'] : []),
    ...[`-A ${chain} -m mark ! --mark 0x10000/0x10000 -j REJECT --reject-with icmp-port-unreachable`],
    ...[`-A ${chain} -j MARK --set-xmark 0x0/0x10000`, `-A ${chain} -j MARK --set-xmark 0x20000/0x20000`],
  );
}

const firewalldNft = (...zones: readonly string[]): Step =>
  nft(`table inet firewalld {
  chain filter_INPUT { type filter hook input priority 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    tcp dport 22 accept
    reject with icmpx type admin-prohibited
  }
  chain filter_FORWARD { type filter hook forward priority 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    ${zones.join('\n    ')}
    reject with icmpx type admin-prohibited
  }
}
`);

const flannel = [
  rules(
    'nat',
    ...[
      ':FLANNEL-POSTRTG -',
      '-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG',
      '-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN',
    ],
    ...[
      '-A FLANNEL-POSTRTG -s 10.244.11.0/24 -d 10.244.0.0/16 -j RETURN',
      '-A FLANNEL-POSTRTG -s 10.244.0.0/16 -d 10.244.11.0/24 -j RETURN',
    ],
    ...[
      '-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.11.0/24 -j RETURN',
      '-A FLANNEL-POSTRTG -s 10.244.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE --random-fully',
    ],
    '-A FLANNEL-POSTRTG ! -s 10.244.0.0/16 -d 10.244.0.0/16 -j MASQUERADE --random-fully',
  ),
  rules(
    'filter',
    ':FLANNEL-FWD -',
    '-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD',
    '-A FLANNEL-FWD -s 10.244.0.0/16 -j ACCEPT',
    '-A FLANNEL-FWD -d 10.244.0.0/16 -j ACCEPT',
  ),
];

const awsCni = [
  rules(
    'mangle',
    '-A PREROUTING -i eth0 -m comment --comment "AWS, primary ENI" -m addrtype --dst-type LOCAL --limit-iface-in -j CONNMARK --set-xmark 0x80/0x80',
    '-A PREROUTING -i eni+ -m comment --comment "AWS, primary ENI" -j CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80',
  ),
  rules(
    'nat',
    ...[
      ':AWS-SNAT-CHAIN-0 -',
      ':AWS-CONNMARK-CHAIN-0 -',
      '-A PREROUTING -i eni+ -m state --state NEW -j AWS-CONNMARK-CHAIN-0',
      '-A POSTROUTING -j AWS-SNAT-CHAIN-0',
    ],
    ...[
      '-A AWS-CONNMARK-CHAIN-0 -d 10.0.0.0/8 -j RETURN',
      '-A AWS-CONNMARK-CHAIN-0 -j CONNMARK --set-xmark 0x80/0x80',
      '-A AWS-SNAT-CHAIN-0 -d 10.0.0.0/8 -j RETURN',
    ],
    '-A AWS-SNAT-CHAIN-0 ! -o vlan+ -m addrtype ! --dst-type LOCAL -j SNAT --to-source 172.18.0.11 --random-fully',
  ),
];

const tailscale = [
  rules(
    'filter',
    ...[
      ':ts-forward -',
      ':ts-input -',
      '-I FORWARD -j ts-forward',
      '-I INPUT -j ts-input',
      '-A ts-forward -i tailscale0 -j MARK --set-xmark 0x40000/0xff0000',
    ],
    ...[
      '-A ts-forward -m mark --mark 0x40000/0xff0000 -j ACCEPT',
      '-A ts-forward -s 100.64.0.0/10 -o tailscale0 -j DROP',
      '-A ts-forward -o tailscale0 -j ACCEPT',
    ],
    ...['-A ts-input -s 100.101.102.103/32 -i lo -j ACCEPT', '-A ts-input -s 100.64.0.0/10 ! -i tailscale0 -j DROP'],
  ),
  rules('nat', ':ts-postrouting -', '-I POSTROUTING -j ts-postrouting', '-A ts-postrouting -m mark --mark 0x40000/0xff0000 -j MASQUERADE'),
];

const libvirt = rules(
  'filter',
  ...[
    ':LIBVIRT_FWI -',
    ':LIBVIRT_FWO -',
    ':LIBVIRT_FWX -',
    '-A FORWARD -j LIBVIRT_FWX',
    '-A FORWARD -j LIBVIRT_FWI',
    '-A FORWARD -j LIBVIRT_FWO',
    '-A LIBVIRT_FWX -i virbr0 -o virbr0 -j ACCEPT',
  ],
  ...[
    '-A LIBVIRT_FWI -d 192.168.122.0/24 -o virbr0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    '-A LIBVIRT_FWI -o virbr0 -j REJECT --reject-with icmp-port-unreachable',
  ],
  ...['-A LIBVIRT_FWO -s 192.168.122.0/24 -i virbr0 -j ACCEPT', '-A LIBVIRT_FWO -i virbr0 -j REJECT --reject-with icmp-port-unreachable'],
);

const portmap = (port: number): Step =>
  rules(
    'nat',
    ...[':CNI-HOSTPORT-DNAT -', ':CNI-DN-0af1d2c3b4e5f60718293 -', ':CNI-HOSTPORT-SETMARK -', ':CNI-HOSTPORT-MASQ -'],
    ...['PREROUTING', 'OUTPUT'].map(chain => `-I ${chain} -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT`),
    ...[
      '-I POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ',
      '-A CNI-HOSTPORT-SETMARK -j MARK --set-xmark 0x2000/0x2000',
    ],
    ...[
      '-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE',
      `-A CNI-HOSTPORT-DNAT -p tcp -m multiport --dports ${port} -j CNI-DN-0af1d2c3b4e5f60718293`,
    ],
    ...[`-A CNI-DN-0af1d2c3b4e5f60718293 -s 10.244.11.0/24 -p tcp -m tcp --dport ${port} -j CNI-HOSTPORT-SETMARK`],
    `-A CNI-DN-0af1d2c3b4e5f60718293 -p tcp -m tcp --dport ${port} -j DNAT --to-destination 10.244.11.5:8080`,
  );

const masqueradeAgent = rules(
  'nat',
  ...[
    ':IP-MASQ -',
    '-A POSTROUTING -m addrtype ! --dst-type LOCAL -j IP-MASQ',
    '-A IP-MASQ -d 169.254.0.0/16 -j RETURN',
    '-A IP-MASQ -d 10.0.0.0/8 -j RETURN',
  ],
  ...['-A IP-MASQ -d 172.16.0.0/12 -j RETURN', '-A IP-MASQ -j MASQUERADE'],
);

const kubelet = rules(
  'filter',
  ...[':KUBE-FIREWALL -', ':KUBE-KUBELET-CANARY -', '-A INPUT -j KUBE-FIREWALL', '-A OUTPUT -j KUBE-FIREWALL'],
  '-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
);

const crowdsec = (address: string): readonly Step[] => [
  ipset('create crowdsec-blacklists hash:net timeout 300', `add crowdsec-blacklists ${address} timeout 300`),
  rules(
    'filter',
    ':CROWDSEC_CHAIN -',
    '-I INPUT -j CROWDSEC_CHAIN',
    '-I FORWARD -j CROWDSEC_CHAIN',
    '-A CROWDSEC_CHAIN -m set --match-set crowdsec-blacklists src -j DROP',
  ),
];

const crowdsecNft = (address: string): Step =>
  nft(`table ip crowdsec {
  set crowdsec-blacklists { type ipv4_addr; flags timeout; elements = { ${address} timeout 4h } }
  chain crowdsec-chain-input { type filter hook input priority -10; policy accept; ip saddr @crowdsec-blacklists drop; }
  chain crowdsec-chain-forward { type filter hook forward priority -10; policy accept; ip saddr @crowdsec-blacklists drop; }
}
`);

const fail2ban = rules(
  'filter',
  ':f2b-sshd -',
  '-I INPUT -p tcp -m multiport --dports 22 -j f2b-sshd',
  '-A f2b-sshd -s 203.0.113.9/32 -j REJECT --reject-with icmp-port-unreachable',
  '-A f2b-sshd -j RETURN',
);

const nftDnat = (from: string, to: string): Step =>
  nft(`table ip early { chain prerouting { type nat hook prerouting priority -110; ip daddr ${from} tcp dport 80 dnat to ${to}; }; }`);

/** Both pods as ports of one bridge, which reach each other without the node as their router. */
const onBridge: readonly Step[] = [
  sh(`ip link add cni0 address 02:ee:ee:ee:ee:ee type bridge
ip link set cni0 up
sysctl -qw net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1
ip route add 10.244.11.0/24 dev cni0 src 172.18.0.11
for pod in 4 5; do
  ip link set cali$pod master cni0
  bridge link set dev cali$pod hairpin on
  ip route del 10.244.11.$pod dev cali$pod
  ip neighbour add 10.244.11.$pod lladdr 02:00:00:00:00:0$pod dev cni0 nud permanent
done`),
  ...(
    [
      ['pod4', 5],
      ['pod5', 4],
    ] as const
  ).map(([place, peer]) =>
    shIn(
      place,
      `ip route add 10.244.11.0/24 dev eth0\nip neighbour add 10.244.11.${peer} lladdr 02:00:00:00:00:0${peer} dev eth0 nud permanent`,
    ),
  ),
];

const client = '203.0.113.9';
const outsider = '203.0.113.77';

export const scenarios: readonly Scenario[] = [
  {name: 'nothing', isAboutPods: true, load: []},

  // What programs write.
  {name: 'ufw-forward-accept', load: [ufw('ACCEPT')]},
  {name: 'ufw-deny-routed', load: [ufw('DROP')]},
  {name: 'ufw-allow-pods', load: [ufw('DROP', '-s 10.244.0.0/16 -j ACCEPT', '-d 10.244.0.0/16 -j ACCEPT')]},
  {name: 'ufw-other-backend', load: [elsewhere(ufw('DROP'))]},
  {name: 'firewalld-nft', load: [firewalldNft()]},
  {name: 'firewalld-nft-trusted-pods', load: [firewalldNft('ip saddr 10.244.0.0/16 accept', 'ip daddr 10.244.0.0/16 accept')]},
  {
    name: 'firewalld-iptables',
    load: [
      rules(
        'filter',
        established,
        '-A FORWARD -i lo -j ACCEPT',
        '-A FORWARD -m conntrack --ctstate INVALID -j DROP',
        '-A FORWARD -j REJECT --reject-with icmp-host-prohibited',
      ),
    ],
  },
  {name: 'docker-accept', load: docker('ACCEPT')},
  {name: 'docker-drop', load: docker('DROP')},
  {name: 'docker-drop-other-backend', load: docker('DROP').map(elsewhere)},
  {name: 'docker-28', load: docker28},
  {name: 'calico', load: [calico('cali4', 'cali5')]},
  {name: 'calico-one-missing', load: [calico('cali4')]},
  {name: 'calico-other-backend-one-missing', load: [elsewhere(calico('cali5'))]},
  {name: 'kube-router-open', load: [kubeRouter('10.244.11.4', true)]},
  {name: 'kube-router-closed', load: [kubeRouter('10.244.11.4', false)], isPurpose: true},
  {name: 'flannel', load: flannel},
  {name: 'aws-vpc-cni', load: awsCni},
  {name: 'portmap', load: [portmap(8081)]},
  {name: 'portmap-on-node-port', load: [portmap(30_080)]},
  {
    name: 'node-local-dns',
    load: [
      rules('raw', ...['PREROUTING', 'OUTPUT'].map(chain => `-A ${chain} -d 169.254.20.10/32 -p udp -m udp --dport 53 -j NOTRACK`)),
      rules('filter', '-A INPUT -d 169.254.20.10/32 -p udp -m udp --dport 53 -j ACCEPT'),
    ],
  },
  {name: 'ip-masq-agent', load: [masqueradeAgent]},
  {name: 'tailscale', load: tailscale},
  {name: 'libvirt', load: [libvirt]},
  {name: 'kubelet', load: [kubelet]},
  {
    name: 'wg-quick',
    load: [
      rules(
        'raw',
        '-I PREROUTING ! -i wg0 -d 10.8.0.2 -m addrtype ! --src-type LOCAL -m comment --comment "wg-quick(8) rule for wg0" -j DROP',
      ),
    ],
  },
  {
    name: 'weave',
    load: [
      rules(
        'filter',
        ':WEAVE-NPC -',
        '-A FORWARD -o weave -j WEAVE-NPC',
        '-A FORWARD -o weave -j DROP',
        '-A WEAVE-NPC -m state --state RELATED,ESTABLISHED -j ACCEPT',
      ),
    ],
  },
  {name: 'crowdsec-outsider', load: crowdsec(outsider)},
  {name: 'crowdsec-client', load: crowdsec(client), isPurpose: true},
  {name: 'crowdsec-pod', load: crowdsec('10.244.11.5')},
  {name: 'crowdsec-nft-outsider', load: [crowdsecNft(outsider)]},
  {name: 'crowdsec-nft-client', load: [crowdsecNft(client)], isPurpose: true},
  {name: 'fail2ban', load: [fail2ban]},

  // Other rule systems.
  {name: 'nft-forward-drop', load: [nftChain('forward priority 0; policy drop;')]},
  {name: 'nft-forward-established-only', load: [nftChain('forward priority 0; policy drop;', 'ct state established,related accept')]},
  {
    name: 'nft-forward-accepts-pods',
    load: [nftChain('forward priority 0; policy drop;', 'ip saddr 10.244.0.0/16 accept', 'ip daddr 10.244.0.0/16 accept')],
  },
  {name: 'nft-forward-new-only', load: [nftChain('forward priority 0; policy drop;', 'ct state new accept')]},
  {
    name: 'nft-input-drop',
    load: [nftChain('input priority 0; policy drop;', 'ct state established,related accept', 'iif lo accept', 'tcp dport 22 accept')],
  },
  {name: 'nft-input-drop-all', load: [nftChain('input priority 0; policy drop;', 'tcp dport 22 accept')]},
  {
    name: 'nft-output-drop',
    load: [nftChain('output priority 0; policy drop;', 'ct state established accept', 'ip daddr 172.18.0.0/16 accept')],
  },
  {name: 'nft-dnat-other-pod', load: [nftDnat('10.96.1.2', '10.244.11.4:8080')]},
  {name: 'nft-dnat-nowhere', load: [nftDnat('10.96.1.2', '10.244.11.99:8080')]},
  {name: 'nft-dnat-unused', load: [nftDnat('10.96.1.200', '10.244.11.99:8080')]},
  {name: 'other-backend-raw-drop', load: [elsewhere(rules('raw', '-A PREROUTING -s 10.244.11.4/32 -j DROP'))]},
  {
    name: 'other-backend-accepts',
    load: [elsewhere(rules('filter', established, '-A FORWARD -s 10.244.0.0/16 -j ACCEPT', '-A INPUT -p tcp --dport 22 -j ACCEPT'))],
  },
  {name: 'other-backend-output-drop', load: [elsewhere(rules('filter', '-A OUTPUT -d 10.244.0.0/16 -j DROP'))]},
  {
    name: 'netdev-ingress-client',
    load: [nft(`table netdev n { chain i { type filter hook ingress device "eth0" priority 0; ip saddr ${client} drop; }; }`)],
    isPurpose: true,
  },
  {
    name: 'netdev-ingress-pod',
    load: [nft('table netdev n { chain i { type filter hook ingress device "cali5" priority 0; tcp dport 80 drop; }; }')],
  },

  // Interfaces.
  // Clients outside lose cluster IPs with endpoints in the network of other nodes alone, which nobody promised them.
  {
    name: 'forward-of-pods-alone',
    load: [rules('filter', '-I FORWARD -s 10.244.0.0/16 -j ACCEPT', '-I FORWARD 2 -d 10.244.0.0/16 -j ACCEPT', '-I FORWARD 3 -j DROP')],
  },
  {name: 'forward-drop-cali-accepts', load: [rules('filter', drop, '-A FORWARD -i cali+ -j ACCEPT', '-A FORWARD -o cali+ -j ACCEPT')]},
  {name: 'forward-drop-from-cali-only', load: [rules('filter', drop, established, '-A FORWARD -i cali+ -j ACCEPT')]},
  {
    name: 'forward-drop-bridge-missing',
    load: [rules('filter', drop, established, '-A FORWARD -i cni0 -j ACCEPT', '-A FORWARD -o cni0 -j ACCEPT')],
  },
  {name: 'out-eth0-drop', load: [rules('filter', '-I FORWARD -o eth0 -m conntrack --ctstate NEW -j DROP')]},
  {name: 'in-eth1-drop', load: [rules('filter', '-I FORWARD -i eth1 -j DROP', '-I FORWARD -o docker0 -j DROP')]},
  {name: 'in-cali4-drop', load: [rules('mangle', '-A PREROUTING -i cali4 -m conntrack --ctstate NEW -j DROP')]},
  {name: 'not-in-eth0-drop', load: [rules('filter', '-I FORWARD ! -i eth0 -o cali5 -j DROP')]},

  // Senders.
  {name: 'ban-client-raw', load: [rules('raw', `-A PREROUTING -s ${client} -j DROP`)], isPurpose: true},
  {name: 'ban-outsider-raw', load: [rules('raw', `-A PREROUTING -s ${outsider} -j DROP`)]},
  {name: 'ban-client-mangle', load: [rules('mangle', `-A PREROUTING -s ${client} -j DROP`)], isPurpose: true},
  {name: 'ban-client-forward', load: [rules('filter', `-I FORWARD -s ${client} -j REJECT`)], isPurpose: true},
  {
    name: 'ban-network-ipset',
    load: [
      ipset('create banned hash:net', 'add banned 203.0.113.0/24'),
      rules('filter', '-I FORWARD -m set --match-set banned src -j DROP'),
    ],
    isPurpose: true,
  },
  {name: 'ban-everyone-outside', load: [rules('filter', '-I FORWARD -i eth0 ! -s 10.244.0.0/16 -m conntrack --ctstate NEW -j DROP')]},
  {name: 'half-of-the-pods', load: [rules('filter', '-I FORWARD -s 10.244.11.4/31 -d 10.244.0.0/16 -m conntrack --ctstate NEW -j DROP')]},
  {name: 'one-pod-raw', load: [rules('raw', '-A PREROUTING -s 10.244.11.5/32 -d 10.96.0.0/12 -j DROP')]},
  {name: 'no-pod-in-range', load: [rules('raw', '-A PREROUTING -s 10.244.11.64/26 -d 10.96.0.0/12 -j DROP')]},
  {name: 'far-pods-at-node-ports', load: [rules('mangle', '-A PREROUTING -s 10.244.12.0/24 -p tcp -m tcp --dport 30000:32767 -j DROP')]},
  {name: 'far-pods-to-one-pod', load: [rules('filter', '-I FORWARD -s 10.244.12.0/24 -d 10.244.11.5/32 -j DROP')]},
  {name: 'node-b-input', load: [rules('raw', '-A PREROUTING -s 172.18.0.12/32 -d 10.244.0.0/16 -j DROP')]},
  {name: 'node-output-to-pods', load: [rules('filter', '-A OUTPUT -d 10.244.11.0/24 -j DROP')]},
  {name: 'source-ports-high', load: [rules('raw', '-A PREROUTING -i eth0 -p tcp -m tcp --sport 32768:65535 --dport 30000:32767 -j DROP')]},
  {name: 'source-ports-low', load: [rules('raw', '-A PREROUTING -i eth0 -p tcp -m tcp --sport 1:1023 -j DROP')]},
  {name: 'return-in-services', load: [rules('nat', '-I KUBE-SERVICES -s 10.244.11.4/32 -j RETURN')], modes: inIptables},
  {name: 'return-in-services-nobody', load: [rules('nat', '-I KUBE-SERVICES -s 10.99.0.0/16 -j RETURN')], modes: inIptables},
  {name: 'return-in-node-ports', load: [rules('nat', `-I KUBE-NODEPORTS -s ${client} -j RETURN`)], modes: inIptables, isPurpose: true},
  {name: 'drop-in-forward-client', load: [rules('filter', `-I KUBE-FORWARD -s ${client} -j DROP`)], modes: inIptables, isPurpose: true},
  {name: 'drop-in-forward-nobody', load: [rules('filter', '-I KUBE-FORWARD -s 10.244.11.64/26 -j DROP')], modes: inIptables},
  {name: 'drop-in-forward-node', load: [rules('filter', '-I KUBE-FORWARD -s 172.18.0.12/32 -j DROP')], modes: inIptables},
  {name: 'drop-in-forward-pod', load: [rules('filter', '-I KUBE-FORWARD -s 10.244.11.4/32 -j DROP')], modes: inIptables},
  {name: 'return-in-services-nftables', load: [nft('insert rule ip kube-proxy services ip saddr 10.244.11.4 return')], modes: inNftables},
  {
    name: 'return-in-services-nobody-nftables',
    load: [nft('insert rule ip kube-proxy services ip saddr 10.99.0.0/16 return')],
    modes: inNftables,
  },

  // Replies.
  {name: 'one-pod-may-not-answer', load: [rules('filter', '-I FORWARD -s 10.244.11.5/32 -m conntrack --ctstate ESTABLISHED -j DROP')]},
  {name: 'established-dropped', load: [rules('mangle', '-A FORWARD -m conntrack --ctstate ESTABLISHED -j DROP')]},
  {name: 'new-only-accepted', load: [rules('filter', drop, '-I FORWARD -m conntrack --ctstate NEW -j ACCEPT', '-I FORWARD 2 -j DROP')]},
  {name: 'egress-acl-before-established', load: [rules('filter', '-I FORWARD -s 10.244.11.4/32 ! -d 10.96.0.0/12 -j DROP')]},
  {
    name: 'forward-drop-no-established',
    load: [rules('filter', drop, '-I FORWARD -d 10.244.0.0/16 -p tcp -m tcp --dport 8080 -j ACCEPT', '-I FORWARD 2 -j DROP')],
  },
  {
    name: 'established-first',
    load: [
      rules(
        'filter',
        drop,
        '-I FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
        '-A FORWARD -d 10.244.0.0/16 -j ACCEPT',
        '-A FORWARD -s 10.244.0.0/16 -j ACCEPT',
      ),
    ],
  },
  {name: 'zone-of-one-side', load: [rules('raw', '-A PREROUTING -i cali5 -j CT --zone 7')]},
  {name: 'zone-of-uplink', load: [rules('raw', '-A PREROUTING -i eth0 -j CT --zone 7')]},
  {name: 'zone-of-all', load: [rules('raw', '-A PREROUTING -j CT --zone 7', '-A OUTPUT -j CT --zone 7')]},
  {name: 'replies-notrack', load: [rules('raw', '-A PREROUTING -i cali5 -p tcp --sport 8080 -j CT --notrack')]},
  // One of the ports from which clients connect: replies to it are lost, about one in 28,000.
  {name: 'notrack-client-port', load: [rules('raw', '-A PREROUTING -p tcp --dport 51820 -j CT --notrack')]},
  {name: 'notrack-client-port-out', load: [rules('raw', '-A OUTPUT -p tcp --sport 51820 -j CT --notrack')]},
  {name: 'notrack-unused', load: [rules('raw', '-A PREROUTING -p udp --dport 4789 -j CT --notrack')]},

  // The source address, and marks.
  {name: 'masquerade-all-to-pods', load: [rules('nat', '-A POSTROUTING -d 10.244.0.0/16 -j MASQUERADE')]},
  {name: 'masquerade-outside', load: [rules('nat', '-A POSTROUTING -s 10.244.0.0/16 ! -d 10.0.0.0/8 -j MASQUERADE')]},
  {name: 'other-mark-0x4000', load: [rules('mangle', '-A PREROUTING -i eth0 -j MARK --set-xmark 0x4000/0x4000')]},
  {name: 'other-mark-0x40000', load: [rules('mangle', '-A PREROUTING -i eth0 -j MARK --set-xmark 0x40000/0x40000')]},
  {name: 'snat-not-of-the-node', load: [rules('nat', '-A POSTROUTING -d 10.244.12.0/24 -j SNAT --to-source 192.0.2.50')]},
  {name: 'snat-local-pods-not-of-the-node', load: [rules('nat', '-A POSTROUTING -d 10.244.11.5/32 -j SNAT --to-source 192.0.2.50')]},
  {name: 'accept-pods-before-masquerade', load: [rules('nat', '-I POSTROUTING -s 10.244.0.0/16 -d 10.244.0.0/16 -j ACCEPT')]},
  {name: 'connmark-restore', load: [rules('mangle', '-A POSTROUTING -j CONNMARK --restore-mark')]},
  {name: 'mark-without-mask', load: [rules('mangle', '-A FORWARD -i cali+ -j MARK --set-mark 0x1')]},
  {name: 'connmark-save', load: [rules('mangle', '-A POSTROUTING -o eth0 -j CONNMARK --set-xmark 0x10/0xff')]},

  // Single ones.
  {
    name: 'mark-drop-of-others',
    load: [
      rules(
        'nat',
        ':KUBE-MARK-DROP -',
        '-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000',
        '-I PREROUTING -s 10.244.11.5/32 -j KUBE-MARK-DROP',
      ),
      rules(
        'filter',
        ':KUBE-FIREWALL -',
        '-A INPUT -j KUBE-FIREWALL',
        '-I FORWARD -m mark --mark 0x8000/0x8000 -j DROP',
        '-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP',
      ),
    ],
  },
  {
    name: 'kube-firewall-drops-all',
    load: [
      rules(
        'filter',
        ':KUBE-FIREWALL -',
        '-A INPUT -j KUBE-FIREWALL',
        '-A OUTPUT -j KUBE-FIREWALL',
        '-A KUBE-FIREWALL -m comment --comment "kubernetes firewall for dropping marked packets" -j DROP',
      ),
    ],
  },
  {name: 'ttl-1', load: [rules('mangle', '-A PREROUTING -i cali4 -j TTL --ttl-set 1')]},
  {name: 'ttl-64', load: [rules('mangle', '-A PREROUTING -i cali4 -j TTL --ttl-set 64')]},
  {
    name: 'limit-tiny',
    load: [
      rules(
        'filter',
        '-I FORWARD -p tcp -m tcp --syn -m limit --limit 1/min --limit-burst 2 -j ACCEPT',
        '-I FORWARD 2 -p tcp -m tcp --syn -j DROP',
      ),
    ],
  },
  {
    name: 'hashlimit-huge',
    load: [
      rules(
        'filter',
        '-I FORWARD -p tcp -m hashlimit --hashlimit-above 100000/sec --hashlimit-burst 100000 --hashlimit-mode srcip --hashlimit-name huge -j DROP',
      ),
    ],
  },
  {name: 'connlimit-huge', load: [rules('filter', '-I FORWARD -p tcp --syn -m connlimit --connlimit-above 50000 -j REJECT')]},
  {name: 'length-small', load: [rules('mangle', '-A FORWARD -p tcp -m length --length 0:39 -j DROP')], isDecided: true},
  {
    name: 'tproxy-nobody',
    load: [
      rules('mangle', '-A PREROUTING -i cali4 -p tcp -m tcp --dport 80 -j TPROXY --on-port 15001 --on-ip 127.0.0.1 --tproxy-mark 0x1/0x1'),
    ],
  },
  {name: 'mss-clamped', load: [rules('mangle', '-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu')]},
  {
    name: 'logged',
    load: [
      rules(
        'filter',
        '-I FORWARD -m limit --limit 3/min -j LOG --log-prefix "forward: "',
        '-I FORWARD -m conntrack --ctstate INVALID -j DROP',
      ),
    ],
  },
  {name: 'time-never', load: [rules('filter', '-I FORWARD -d 10.244.11.5/32 -m time --datestop 2001-01-01 -j DROP')]},
  {
    name: 'random-drop',
    load: [rules('filter', '-I FORWARD -d 10.244.11.5/32 -p tcp --syn -m statistic --mode random --probability 0.5 -j DROP')],
  },
  {
    name: 'random-replies-dropped',
    load: [nftChain('forward priority -10; policy accept;', 'ip daddr 10.244.11.5 numgen random mod 10 < 8 drop')],
  },
  {name: 'snat-two-ports', load: [rules('nat', '-I POSTROUTING -s 10.244.11.0/24 -p tcp -j SNAT --to-source 172.18.0.11:6000-6001')]},

  // The kernel beside rules.
  {name: 'ip-forward-off', load: [sh('sysctl -qw net.ipv4.ip_forward=0')]},
  {name: 'rp-filter-strict', load: [sh('sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth0.rp_filter=1')], isIPv4Only: true},
  {name: 'eth0-forwarding-off', load: [sh('sysctl -qw net.ipv4.conf.eth0.forwarding=0')]},
  {name: 'pods-of-node-b-blackholed', load: [sh('ip route replace blackhole 10.244.12.0/24')]},
  // The node's own connections are routed before any rule is asked.
  {name: 'no-default-route', load: [sh('ip route del default')]},
  {name: 'no-default-route-but-one', load: [sh('ip route del default && ip route add 10.96.0.0/12 dev eth0')]},
  {
    name: 'default-route-in-other-table',
    load: [sh('ip route del default && ip route add default dev eth0 table 9 && ip rule add lookup 9 pref 40000')],
  },
  {name: 'cluster-ips-blackholed', load: [sh('ip route add blackhole 10.96.0.0/12')]},
  {name: 'rule-prohibits-pod', load: [sh('ip rule add from 10.244.11.5 to 10.244.0.0/16 prohibit pref 100')]},
  {name: 'other-table-unused', load: [sh('ip route add default dev lo table 77 && ip rule add fwmark 0x77 lookup 77 pref 100')]},
  // Interfaces to pods that are down, or have no carrier.
  {name: 'pod-link-down', load: [sh('ip link set cali5 down')]},
  {name: 'pod-without-carrier', load: [shIn('pod5', 'ip link set eth0 down')]},
  {name: 'pod-route-missing', load: [sh('ip route del 10.244.11.5 dev cali5')]},
  {name: 'next-hop-dead', load: [twoHops('ip link set eth1 down')]},
  {name: 'next-hop-without-carrier', load: [twoHops('ip link set beyond down')]},
  {
    name: 'next-hop-without-carrier-ignored',
    load: [twoHops('sysctl -qw net.ipv4.conf.eth1.ignore_routes_with_linkdown=1; ip link set beyond down')],
  },
  {name: 'route-without-carrier', load: [twoHops('ip route replace 10.244.12.0/24 via 192.0.2.1', 'ip link set beyond down')]},
  ...conditions,
  ...programs,

  // Endpoints in the network of their node.
  {name: 'host-endpoint-closed-to-pods', load: [rules('filter', '-A INPUT -s 10.244.11.0/24 -p tcp -m tcp --dport 8080 -j REJECT')]},
  {name: 'host-endpoint-of-node-b-dropped', load: [rules('filter', '-I FORWARD -d 172.18.0.12/32 -p tcp -m tcp --dport 8080 -j DROP')]},

  // Pods on a bridge.
  {name: 'pods-on-a-bridge', load: onBridge, isIPv4Only: true},
  {name: 'port-that-blocks', load: [...onBridge, sh('bridge link set dev cali5 state 0')], isIPv4Only: true},
  {
    name: 'port-of-another-bridge',
    load: [...onBridge, rules('filter', '-I FORWARD -m physdev --physdev-in tap0a1b2c3d --physdev-is-bridged -j DROP')],
    isIPv4Only: true,
    isDecided: true,
  },
  {name: 'port-out-of-bridge', load: [...onBridge, sh('ip link set cali4 nomaster')], isIPv4Only: true},
  {
    name: 'isolated-ports',
    load: [...onBridge, sh('for port in cali4 cali5; do bridge link set dev $port isolated on; done')],
    isIPv4Only: true,
  },
];
