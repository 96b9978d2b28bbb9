import type {Mode} from './laboratory.ts';

/** Something that another program does on a node. */
export interface Step {
  /** `iptables`: text for iptables-restore; `sh`: a script, for switches and routes. */
  readonly tool: 'iptables' | 'nft' | 'ipset' | 'sh';
  readonly text: string;
  /** The backend of iptables: the one of kube-proxy, or the other one. In nftables mode the first is `nft`. */
  readonly backend?: 'own' | 'other';
}

/** Rules of other programs, or switches, on a node that is healthy without them. Whether they do harm is measured. */
export interface Scenario {
  readonly name: string;
  readonly load: readonly Step[];
  /** All, if it is left out. */
  readonly modes?: readonly Mode[];
  /** The kernel has nothing like it for IPv6. */
  readonly isIPv4Only?: true;
  /** It does what it is for, such as to ban a client outside or to close a pod: a finding that informs is enough. */
  readonly isPurpose?: true;
}

type Table = 'raw' | 'mangle' | 'nat' | 'filter' | 'security';

function rules(table: Table, ...lines: readonly string[]): Step {
  return {tool: 'iptables', text: `*${table}\n${lines.map(line => line.trim()).join('\n')}\nCOMMIT\n`};
}

function elsewhere(step: Step): Step {
  return {...step, backend: 'other'};
}

function nft(text: string): Step {
  return {tool: 'nft', text};
}

function ipset(...lines: readonly string[]): Step {
  return {tool: 'ipset', text: `${lines.join('\n')}\n`};
}

const inIptables: readonly Mode[] = ['nft', 'legacy'];
const inNftables: readonly Mode[] = ['nftables'];

function sh(text: string): Step {
  return {tool: 'sh', text};
}

/** One table of nftables with one base chain. */
function nftChain(hook: string, ...lines: readonly string[]): Step {
  return nft(`table inet firewall {\n chain ${hook.split(' ')[0]} {\n type filter hook ${hook}\n ${lines.join('\n ')}\n }\n}\n`);
}

const drop = ':FORWARD DROP';
const established = '-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT';

/** ufw as it is after `ufw enable`, with the policy for what is forwarded. */
function ufw(forward: string, ...routes: readonly string[]): Step {
  return rules(
    'filter',
    ...[':INPUT DROP', `:FORWARD ${forward}`, ':OUTPUT ACCEPT'],
    ...['before-input', 'user-input', 'before-forward', 'user-forward', 'reject-forward', 'track-forward', 'skip-to-policy-forward'].map(
      name => `:ufw-${name} -`,
    ),
    ...[
      '-A INPUT -j ufw-before-input',
      '-A FORWARD -j ufw-before-forward',
      '-A FORWARD -j ufw-reject-forward',
      '-A FORWARD -j ufw-track-forward',
    ],
    ...['-A ufw-before-input -i lo -j ACCEPT', '-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'],
    ...['-A ufw-before-input -m conntrack --ctstate INVALID -j DROP', '-A ufw-before-input -p icmp -m icmp --icmp-type 8 -j ACCEPT'],
    ...['-A ufw-before-input -j ufw-user-input', '-A ufw-user-input -p tcp -m tcp --dport 22 -j ACCEPT'],
    ...[
      '-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      '-A ufw-before-forward -p icmp -m icmp --icmp-type 8 -j ACCEPT',
    ],
    '-A ufw-before-forward -j ufw-user-forward',
    ...routes.map(route => `-A ufw-user-forward ${route}`),
  );
}

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

const client = '203.0.113.9';
const outsider = '203.0.113.77';

export const scenarios: readonly Scenario[] = [
  {name: 'nothing', load: []},

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
  {name: 'zone-of-all', load: [rules('raw', '-A PREROUTING -j CT --zone 7', '-A OUTPUT -j CT --zone 7')]},
  {name: 'replies-notrack', load: [rules('raw', '-A PREROUTING -i cali5 -p tcp --sport 8080 -j CT --notrack')]},
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
  {name: 'length-small', load: [rules('mangle', '-A FORWARD -p tcp -m length --length 0:39 -j DROP')]},
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

  // The kernel beside rules.
  {name: 'ip-forward-off', load: [sh('sysctl -qw net.ipv4.ip_forward=0')]},
  {name: 'rp-filter-strict', load: [sh('sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth0.rp_filter=1')], isIPv4Only: true},
  {name: 'eth0-forwarding-off', load: [sh('sysctl -qw net.ipv4.conf.eth0.forwarding=0')]},
  {name: 'pods-of-node-b-blackholed', load: [sh('ip route replace blackhole 10.244.12.0/24')]},
  {name: 'rule-prohibits-pod', load: [sh('ip rule add from 10.244.11.5 to 10.244.0.0/16 prohibit pref 100')]},
  {name: 'other-table-unused', load: [sh('ip route add default dev lo table 77 && ip rule add fwmark 0x77 lookup 77 pref 100')]},

  // nftables: what its rules can ask.
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
    name: 'nft-strong-host',
    load: [nftChain('prerouting priority -50; policy accept;', 'fib daddr type != { local, multicast, broadcast } drop')],
  },
  {name: 'nft-marked-postrouting', load: [nftChain('postrouting priority -150; policy accept;', 'meta mark & 0x4000 == 0x4000 drop')]},
  {name: 'nft-status-dnat-only', load: [nftChain('forward priority 0; policy drop;', 'ct status dnat accept')]},
  {name: 'nft-original-cluster-range', load: [nftChain('forward priority 0; policy accept;', 'ct original ip daddr 10.96.0.0/12 drop')]},
  {name: 'nft-original-others', load: [nftChain('forward priority 0; policy accept;', 'ct original ip daddr 10.97.0.0/16 drop')]},
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
  {name: 'nfqueue-bypass', load: [rules('filter', '-I FORWARD -j NFQUEUE --queue-num 5 --queue-bypass')]},
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
  {name: 'string-unused', load: [rules('filter', '-I FORWARD -m string --string "evil" --algo bm -j DROP')]},
  {name: 'u32', load: [rules('filter', '-I FORWARD -m u32 --u32 "6&0xFF=17" -j DROP')]},
  {name: 'owner', load: [rules('filter', '-A OUTPUT -m owner --uid-owner 12345 -j DROP')]},
  {name: 'owner-root', load: [rules('filter', '-A OUTPUT -m owner --uid-owner 0 -d 10.244.0.0/16 -j DROP')]},
  {name: 'ecn-dscp', load: [rules('mangle', '-A FORWARD -j DSCP --set-dscp 10', '-A POSTROUTING -p tcp -j ECN --ecn-tcp-remove')]},
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
  {
    name: 'rule-from-pod-other-gateway',
    load: [sh('ip route add 10.244.12.0/24 via 172.18.0.99 table 201 && ip rule add from 10.244.11.4 lookup 201 pref 90')],
  },
  {name: 'route-to-one-far-pod', load: [sh('ip route add unreachable 10.244.12.4')]},
];
