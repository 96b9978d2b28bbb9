import {drop, elsewhere, inIptables, ipset, nft, nftChain, rules, type Scenario, sh, shIn, type Step, ufw} from './steps.ts';

const decided = {isDecided: true} as const;

const secondUplink = (condition: string): Step =>
  sh(`ip link add eth1 type veth peer name beyond
ip link set eth1 up
ip link set beyond up
ip route add default dev eth1 table 101
ip rule add ${condition} lookup 101`);

/** Calico's doNotTrack rules of a host endpoint. */
function calicoUntracked(arrives: string, leaves: string): Step {
  return rules(
    'raw',
    ...[':cali-PREROUTING -', ':cali-OUTPUT -', ':cali-from-host-endpoint -', ':cali-to-host-endpoint -', ':cali-rpf-skip -'],
    ...['-I PREROUTING -j cali-PREROUTING', '-I OUTPUT -j cali-OUTPUT', '-A cali-PREROUTING -j MARK --set-xmark 0x0/0xf0000'],
    ...[
      '-A cali-PREROUTING -i cali+ -j MARK --set-xmark 0x40000/0x40000',
      '-A cali-PREROUTING -m mark --mark 0x40000/0x40000 -j cali-rpf-skip',
    ],
    '-A cali-PREROUTING -m mark --mark 0x40000/0x40000 -m rpfilter --validmark --invert -j DROP',
    ...[
      '-A cali-PREROUTING -m mark --mark 0x0/0x40000 -j cali-from-host-endpoint',
      '-A cali-PREROUTING -m mark --mark 0x10000/0x10000 -j ACCEPT',
    ],
    `-A cali-from-host-endpoint -p tcp -m multiport --dports 8080${arrives} -d 172.18.0.11/32 -j MARK --set-xmark 0x10000/0x10000`,
    '-A cali-from-host-endpoint -m mark --mark 0x10000/0x10000 -j NOTRACK',
    ...[
      '-A cali-OUTPUT -j MARK --set-xmark 0x0/0xf0000',
      '-A cali-OUTPUT -j cali-to-host-endpoint',
      '-A cali-OUTPUT -m mark --mark 0x10000/0x10000 -j ACCEPT',
    ],
    `-A cali-to-host-endpoint -p tcp -m multiport --sports 8080${leaves} -s 172.18.0.11/32 -j MARK --set-xmark 0x10000/0x10000`,
    '-A cali-to-host-endpoint -m mark --mark 0x10000/0x10000 -j NOTRACK',
  );
}

/** A second link between both nodes, by which the pods of each other one are routed or not. */
function secondLink(...routes: readonly ('there' | 'back')[]): readonly Step[] {
  const end = (name: string, own: string, peer: string): string =>
    `ip link set eth1 up
ip address add 192.0.2.${own}/24 dev eth1
ip neighbour add 192.0.2.${peer} lladdr 02:00:00:00:01:${peer} dev eth1 nud permanent
${routes.includes(name as 'there' | 'back') ? `ip route replace 10.244.${peer}.0/24 via 192.0.2.${peer} dev eth1` : ''}`;
  const made = 'ip link add eth1 address 02:00:00:00:01:11 type veth peer name eth1 address 02:00:00:00:01:12 netns $NODE_B';
  return [sh(`${made}\n${end('there', '11', '12')}`), shIn('node-b', end('back', '12', '11'))];
}

/** flannel's VXLAN between both nodes, and what its pods send to nodes, whose answers would take the tunnel. */
function overlayWith(there: {readonly id?: number; readonly port?: number} = {}): readonly Step[] {
  return [
    rules('nat', '-A POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE'),
    ...[
      {own: 11, peer: 12},
      {own: 12, peer: 11, ...there},
    ].map(({own, peer, id = 1, port = 8472}: {own: number; peer: number; id?: number; port?: number}) => {
      const text = `ip link add flannel.1 address 02:00:00:00:02:${own} mtu 1450 type vxlan id ${id} local 172.18.0.${own} dstport ${port} nolearning dev eth0
ip link set flannel.1 up
ip address add 10.244.${own}.0/32 dev flannel.1
ip neighbour add 10.244.${peer}.0 lladdr 02:00:00:00:02:${peer} dev flannel.1 nud permanent
bridge fdb append 02:00:00:00:02:${peer} dev flannel.1 dst 172.18.0.${peer}
ip route del 10.244.${peer}.0/24
ip route add 10.244.${peer}.0/24 via 10.244.${peer}.0 dev flannel.1 onlink`;
      return own === 11 ? sh(text) : shIn('node-b', text);
    }),
  ];
}

const overlay = overlayWith();

/** What other programs write, and switches of the kernel, each as a whole. */
export const programs: readonly Scenario[] = [
  // Connection tracking, life times, and what marks packets for routes.
  {name: 'notrack-loopback', load: [rules('raw', '-A OUTPUT -o lo -j CT --notrack', '-A PREROUTING -i lo -j CT --notrack')]},
  {name: 'notrack-loopback-in', load: [rules('raw', '-A PREROUTING -i lo -j CT --notrack')]},
  {name: 'ipv6-off', load: [sh('sysctl -qw net.ipv6.conf.all.disable_ipv6=1')]},
  {name: 'loopback-down', load: [sh('ip link set lo down')]},
  {name: 'ttl-1-from-uplink', load: [rules('mangle', '-A PREROUTING -i eth0 -j TTL --ttl-set 1')]},
  {name: 'ttl-1-forwarded', load: [rules('mangle', '-A FORWARD -o eth0 -j TTL --ttl-set 1')]},
  {name: 'ttl-1-leaving', load: [rules('mangle', '-A POSTROUTING -o eth0 -j TTL --ttl-set 1')]},
  {name: 'ttl-1-of-node', load: [rules('mangle', '-A OUTPUT -p tcp -j TTL --ttl-set 1')]},
  {name: 'ttl-2-from-pod', load: [rules('mangle', '-A PREROUTING -i cali4 -j TTL --ttl-set 2')]},
  {name: 'ttl-less', load: [rules('mangle', '-A PREROUTING -i cali4 -j TTL --ttl-dec 1')], isIPv4Only: true, ...decided},
  {name: 'ttl-matched', load: [rules('filter', '-I FORWARD -m ttl --ttl-lt 2 -j DROP')], isIPv4Only: true, ...decided},
  {name: 'client-unreachable', load: [sh('ip route replace unreachable 203.0.113.9')], isPurpose: true, isIPv4Only: true},
  {
    name: 'clients-blackholed',
    load: [sh('ip route del 203.0.113.9; ip route add blackhole 203.0.113.0/24')],
    isPurpose: true,
    isIPv4Only: true,
  },
  {
    name: 'tos-routed',
    load: [rules('mangle', '-A PREROUTING -i cali4 -j TOS --set-tos 0x10/0xff'), secondUplink('tos 0x10')],
    isIPv4Only: true,
  },
  {
    name: 'dscp-routed-output',
    load: [rules('mangle', '-A OUTPUT -p tcp -j DSCP --set-dscp 4'), secondUplink('tos 0x10')],
    isIPv4Only: true,
  },
  // Matches of nftables whose answer the files of a node have.
  {
    name: 'nft-ct-helper',
    load: [nftChain('forward priority 0; policy accept;', 'ct helper "ftp" accept', 'ct helper "sip" drop')],
    ...decided,
  },
  {
    name: 'nft-interface-type',
    load: [nftChain('forward priority 0; policy accept;', 'meta iiftype ppp drop', 'meta oiftype != ether drop')],
    ...decided,
  },
  {
    name: 'nft-assured',
    load: [
      nftChain(
        'forward priority 0; policy accept;',
        'ct status & assured == 0 ct state established ct direction original ip daddr 10.244.11.5 tcp flags & (syn|rst) == 0 drop',
      ),
    ],
  },

  // firewalld as it writes nftables: zones with sources, policies, and masquerading.
  {
    name: 'firewalld-zones',
    load: [
      nft(`table inet firewalld {
  chain mangle_PREROUTING { type filter hook prerouting priority mangle + 10; policy accept; jump mangle_PREROUTING_ZONES; }
  chain mangle_PREROUTING_ZONES { ip saddr 10.244.0.0/16 goto mangle_PRE_trusted; iifname "eth0" goto mangle_PRE_public; goto mangle_PRE_public; }
  chain mangle_PRE_trusted { return; }
  chain mangle_PRE_public { return; }
  chain filter_PREROUTING { type filter hook prerouting priority filter + 10; policy accept; icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept; meta nfproto ipv6 fib saddr . mark . iif oif missing drop; }
  chain filter_INPUT { type filter hook input priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    jump filter_INPUT_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_INPUT_ZONES { ip saddr 10.244.0.0/16 goto filter_IN_trusted; iifname "eth0" goto filter_IN_public; goto filter_IN_public; }
  chain filter_IN_trusted { accept; }
  chain filter_IN_public { tcp dport 22 accept; tcp dport 8080 accept; meta l4proto { icmp, ipv6-icmp } accept; }
  chain filter_FORWARD { type filter hook forward priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    jump filter_FORWARD_ZONES
    reject with icmpx admin-prohibited
  }
  chain filter_FORWARD_ZONES { ip saddr 10.244.0.0/16 goto filter_FWD_trusted; iifname "eth0" goto filter_FWD_public; goto filter_FWD_public; }
  chain filter_FWD_trusted { accept; }
  chain filter_FWD_public { reject with icmpx admin-prohibited; }
}`),
    ],
  },
  {
    name: 'firewalld-masquerade',
    load: [
      nft(`table inet firewalld {
  chain nat_POSTROUTING { type nat hook postrouting priority srcnat + 10; policy accept; jump nat_POSTROUTING_ZONES; }
  chain nat_POSTROUTING_ZONES { oifname "eth0" goto nat_POST_external; goto nat_POST_external; }
  chain nat_POST_external { jump nat_POST_external_allow; }
  chain nat_POST_external_allow { meta nfproto ipv4 oifname != "lo" masquerade; meta nfproto ipv6 oifname != "lo" masquerade; }
}`),
    ],
  },
  {
    name: 'firewalld-strict-forward',
    load: [
      nft(`table inet firewalld {
  chain filter_FORWARD { type filter hook forward priority filter + 10; policy accept;
    ct state { established, related } accept
    iifname "lo" accept
    ct state invalid drop
    jump filter_FORWARD_POLICIES
    reject with icmpx admin-prohibited
  }
  chain filter_FORWARD_POLICIES { iifname "cali*" oifname "cali*" jump pods; iifname "cali*" oifname "eth0" jump pods; }
  chain pods { accept; }
}`),
    ],
  },
  {
    name: 'ufw-routed',
    load: [
      rules(
        'filter',
        ...[':INPUT DROP', ':FORWARD DROP', ':ufw-before-forward -', ':ufw-user-forward -', ':ufw-before-input -', ':ufw-user-input -'],
        ':ufw-not-local -',
        ...['-A INPUT -j ufw-before-input', '-A FORWARD -j ufw-before-forward'],
        ...['-A ufw-before-input -i lo -j ACCEPT', '-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'],
        ...['-A ufw-before-input -m addrtype --dst-type LOCAL -j ufw-user-input', '-A ufw-before-input -j ufw-not-local'],
        ...['-A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN', '-A ufw-not-local -j DROP'],
        ...['-A ufw-user-input -p tcp --dport 22 -m conntrack --ctstate NEW -m recent --set --name DEFAULT --rsource'],
        '-A ufw-user-input -p tcp --dport 22 -m conntrack --ctstate NEW -m recent --update --seconds 30 --hitcount 6 --name DEFAULT --rsource -j DROP',
        '-A ufw-user-input -p tcp --dport 8080 -j ACCEPT',
        ...['-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT', '-A ufw-before-forward -j ufw-user-forward'],
        ...['-A ufw-user-forward -i cali4 -j ACCEPT', '-A ufw-user-forward -i eth0 -o cali4 -j ACCEPT'],
      ),
    ],
  },
  {
    name: 'ufw-limit-node-ports',
    load: [
      rules(
        'filter',
        '-I FORWARD -p tcp --dport 8080 -m conntrack --ctstate NEW -m recent --set --name np --rsource',
        '-I FORWARD 2 -p tcp --dport 8080 -m conntrack --ctstate NEW -m recent --update --seconds 30 --hitcount 6 --name np --rsource -j DROP',
      ),
    ],
  },
  {
    name: 'netavark-node-port',
    load: [
      nft(`table inet netavark {
  chain FORWARD { type filter hook forward priority filter; policy accept; ct state invalid drop; jump NETAVARK-ISOLATION-1; ip daddr 10.88.0.0/16 ct state established,related accept; ip saddr 10.88.0.0/16 accept; }
  chain NETAVARK-ISOLATION-1 { iifname "podman0" oifname != "podman0" jump NETAVARK-ISOLATION-2; }
  chain NETAVARK-ISOLATION-2 { oifname "podman1" drop; }
  chain POSTROUTING { type nat hook postrouting priority srcnat; policy accept; meta mark & 0x00002000 == 0x00002000 masquerade; ip saddr 10.88.0.0/16 jump nv_net; }
  chain nv_net { ip daddr 10.88.0.0/16 accept; ip daddr != 224.0.0.0/4 masquerade; }
  chain PREROUTING { type nat hook prerouting priority dstnat - 10; policy accept; fib daddr type local jump NETAVARK-HOSTPORT-DNAT; }
  chain OUTPUT { type nat hook output priority -110; policy accept; fib daddr type local jump NETAVARK-HOSTPORT-DNAT; }
  chain NETAVARK-HOSTPORT-DNAT { tcp dport 30080 jump nv_dnat; }
  chain nv_dnat { ip saddr 10.88.0.0/16 tcp dport 30080 jump SETMARK; tcp dport 30080 dnat ip to 10.88.0.5:80; }
  chain SETMARK { meta mark set meta mark | 0x00002000; }
}`),
    ],
  },
  {
    name: 'portmap-nftables',
    load: [
      nft(`table inet cni_hostport {
  chain hostports { tcp dport 8081 dnat ip to 10.244.11.5:8080 comment "id"; }
  chain hostip_hostports { ip daddr 172.18.0.11 tcp dport 30080 dnat ip to 10.244.11.5:8080 comment "id"; }
  chain prerouting { type nat hook prerouting priority dstnat; policy accept; jump hostip_hostports; fib daddr type local jump hostports; }
  chain output { type nat hook output priority -100; policy accept; jump hostip_hostports; fib daddr type local jump hostports; }
  chain masquerading { type nat hook postrouting priority srcnat; policy accept; ip saddr 10.244.11.5 ip daddr 10.244.11.5 masquerade comment "id"; }
}`),
    ],
  },
  {
    name: 'kube-router-whole',
    load: [
      ipset(
        ...['create kube-router-svip hash:ip', 'add kube-router-svip 10.96.1.1', 'create KUBE-DST-2FAIIK2E4RIPMTGF hash:ip'],
        ...['add KUBE-DST-2FAIIK2E4RIPMTGF 10.244.11.5', 'create KUBE-SRC-AA hash:ip', 'add KUBE-SRC-AA 10.244.11.4'],
      ),
      rules(
        'filter',
        ...[
          ':KUBE-ROUTER-INPUT -',
          ':KUBE-ROUTER-FORWARD -',
          ':KUBE-ROUTER-OUTPUT -',
          ':KUBE-POD-FW-WKW -',
          ':KUBE-NWPLCY-WQ -',
          ':KUBE-NWPLCY-COMMON -',
        ],
        ...['INPUT', 'FORWARD', 'OUTPUT'].map(chain => `-I ${chain} -m comment --comment "kube-router netpol" -j KUBE-ROUTER-${chain}`),
        '-A KUBE-ROUTER-INPUT -d 10.96.0.0/12 -m comment --comment "allow traffic to primary cluster IP range" -j RETURN',
        '-A KUBE-ROUTER-INPUT -p tcp -m addrtype --dst-type LOCAL -m multiport --dports 30000:32767 -j RETURN',
        ...['INPUT', 'FORWARD', 'OUTPUT'].map(chain => `-A KUBE-ROUTER-${chain} -d 10.244.11.5/32 -j KUBE-POD-FW-WKW`),
        ...['INPUT', 'FORWARD', 'OUTPUT'].map(chain => `-A KUBE-ROUTER-${chain} -s 10.244.11.5/32 -j KUBE-POD-FW-WKW`),
        ...[
          '-A KUBE-POD-FW-WKW -m conntrack --ctstate INVALID -j DROP',
          '-A KUBE-POD-FW-WKW -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
        ],
        ...[
          '-A KUBE-POD-FW-WKW -d 10.244.11.5/32 -m addrtype --src-type LOCAL -j ACCEPT',
          '-A KUBE-POD-FW-WKW -d 10.244.11.5/32 -j KUBE-NWPLCY-WQ',
        ],
        ...['-A KUBE-POD-FW-WKW -s 10.244.11.5/32 -j KUBE-NWPLCY-COMMON', '-A KUBE-NWPLCY-COMMON -j MARK --set-xmark 0x10000/0x10000'],
        '-A KUBE-NWPLCY-WQ -p tcp -m set --match-set KUBE-SRC-AA src -m set --match-set KUBE-DST-2FAIIK2E4RIPMTGF dst -m tcp --dport 8080 -j MARK --set-xmark 0x10000/0x10000',
        ...[
          '-A KUBE-POD-FW-WKW -m mark ! --mark 0x10000/0x10000 -m limit --limit 10/min -j NFLOG --nflog-group 100',
          '-A KUBE-POD-FW-WKW -m mark ! --mark 0x10000/0x10000 -j REJECT',
        ],
        ...['-A KUBE-POD-FW-WKW -j MARK --set-xmark 0x0/0x10000', '-A KUBE-POD-FW-WKW -j MARK --set-xmark 0x20000/0x20000'],
        ...['INPUT', 'FORWARD', 'OUTPUT'].map(chain => `-A KUBE-ROUTER-${chain} -m mark --mark 0x20000/0x20000 -j ACCEPT`),
      ),
    ],
    isPurpose: true,
  },
  {name: 'calico-untracked', load: [calicoUntracked(' -i eth0', ' -o eth0')]},
  {name: 'calico-untracked-any-interface', load: [calicoUntracked('', '')]},
  {
    name: 'calico-nftables',
    load: [
      nft(`table ip calico {
  map filter-cali-fw-dispatch { type ifname : verdict; elements = { "cali4" : goto filter-cali-fw-4, "cali5" : goto filter-cali-fw-5 }; }
  map filter-cali-tw-dispatch { type ifname : verdict; elements = { "cali4" : goto filter-cali-tw-4, "cali5" : goto filter-cali-tw-5 }; }
  chain filter-cali-fw-4 { ct state established,related accept; ct state invalid drop; meta mark set mark & 0xfffeffff; jump allow; meta mark & 0x00010000 == 0x00010000 return; drop; }
  chain filter-cali-fw-5 { ct state established,related accept; ct state invalid drop; meta mark set mark & 0xfffeffff; jump allow; meta mark & 0x00010000 == 0x00010000 return; drop; }
  chain filter-cali-tw-4 { ct state established,related accept; ct state invalid drop; meta mark set mark & 0xfffeffff; jump allow; meta mark & 0x00010000 == 0x00010000 return; drop; }
  chain filter-cali-tw-5 { ct state established,related accept; ct state invalid drop; meta mark set mark & 0xfffeffff; jump pol; meta mark & 0x00010000 == 0x00010000 return; drop; }
  chain allow { meta mark set mark | 0x00010000; }
  chain pol { ip saddr 10.244.11.4 tcp dport { 8080 } meta mark set mark | 0x00010000; }
  chain filter-FORWARD { type filter hook forward priority 0; policy accept; iifname "cali*" iifname vmap @filter-cali-fw-dispatch; oifname "cali*" oifname vmap @filter-cali-tw-dispatch; meta mark & 0x00010000 == 0x00010000 accept; }
}`),
    ],
    isPurpose: true,
  },
  {
    name: 'antrea-node-port',
    load: [
      ipset('create ANTREA-NODEPORT-IP hash:ip,port', 'add ANTREA-NODEPORT-IP 172.18.0.11,tcp:30081'),
      rules(
        'nat',
        ...[
          ':ANTREA-PREROUTING -',
          ':ANTREA-OUTPUT -',
          ':ANTREA-POSTROUTING -',
          '-I PREROUTING -j ANTREA-PREROUTING',
          '-I OUTPUT -j ANTREA-OUTPUT',
        ],
        ...['PREROUTING', 'OUTPUT'].map(
          chain => `-A ANTREA-${chain} -m set --match-set ANTREA-NODEPORT-IP dst,dst -j DNAT --to-destination 169.254.0.252`,
        ),
        ...['-I POSTROUTING -j ANTREA-POSTROUTING', '-A ANTREA-POSTROUTING -s 169.254.0.253/32 -j MASQUERADE'],
      ),
    ],
    isIPv4Only: true,
  },
  {
    name: 'weave-whole',
    load: [
      ipset(
        'create weaver-no-masq-local hash:net',
        'add weaver-no-masq-local 10.244.0.0/16',
        'create weave-ingress hash:ip',
        'add weave-ingress 10.244.11.4',
      ),
      rules(
        'nat',
        ...[
          ':WEAVE -',
          '-A POSTROUTING -j WEAVE',
          '-A WEAVE -m set --match-set weaver-no-masq-local dst -m comment --comment "Prevent SNAT to locally running containers" -j RETURN',
        ],
        ...[
          '-A WEAVE -s 10.244.0.0/16 -d 224.0.0.0/4 -j RETURN',
          '-A WEAVE ! -s 10.244.0.0/16 -d 10.244.0.0/16 -j MASQUERADE',
          '-A WEAVE -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE',
        ],
      ),
      rules(
        'filter',
        ...[
          ':WEAVE-NPC -',
          ':WEAVE-NPC-INGRESS -',
          '-A FORWARD -o cali+ -j WEAVE-NPC',
          '-A FORWARD -o cali+ -m state --state NEW -j NFLOG --nflog-group 86',
          '-A FORWARD -o cali+ -j DROP',
        ],
        ...['-A WEAVE-NPC -m state --state RELATED,ESTABLISHED -j ACCEPT', '-A WEAVE-NPC -m state --state NEW -j WEAVE-NPC-INGRESS'],
        '-A WEAVE-NPC-INGRESS -m set --match-set weave-ingress dst -j ACCEPT',
      ),
    ],
  },
  {
    name: 'tailscale-subnet-router',
    load: [
      sh(`ip link add tailscale0 type veth peer name beyond
ip link set tailscale0 up
ip addr add 100.101.102.103/32 dev tailscale0
ip route add 10.244.12.0/24 dev tailscale0 table 52
ip rule add fwmark 0x80000/0xff0000 lookup main pref 5210
ip rule add fwmark 0x80000/0xff0000 lookup default pref 5230
ip rule add fwmark 0x80000/0xff0000 unreachable pref 5250
ip rule add lookup 52 pref 5270`),
    ],
  },
  {
    name: 'tailscale-other-routes',
    load: [
      sh(`ip link add tailscale0 type veth peer name beyond
ip link set tailscale0 up
ip addr add 100.101.102.103/32 dev tailscale0
ip route add 100.64.0.9 dev tailscale0 table 52
ip rule add fwmark 0x80000/0xff0000 lookup main pref 5210
ip rule add fwmark 0x80000/0xff0000 unreachable pref 5250
ip rule add lookup 52 pref 5270`),
      nft(`table ip filter-ts {
  chain forward { type filter hook forward priority 0; policy accept; iifname "tailscale0" meta mark set meta mark & 0xff00ffff | 0x00040000; meta mark & 0x00ff0000 == 0x00040000 accept; oifname "tailscale0" ip saddr 100.64.0.0/10 drop; oifname "tailscale0" accept; }
  chain post { type nat hook postrouting priority 100; policy accept; meta mark & 0x00ff0000 == 0x00040000 masquerade; }
}`),
    ],
    ...decided,
  },
  {
    name: 'zerotier-overlap',
    load: [
      sh(
        'ip link add ztabc type veth peer name beyond; ip link set ztabc up; ip addr add 10.147.17.3/24 dev ztabc; ip route add 10.244.12.0/25 dev ztabc metric 5000',
      ),
    ],
  },
  {
    name: 'wireguard-post-up',
    isPurpose: true,
    load: [
      sh('ip link add wg0 type veth peer name beyond; ip link set wg0 up; ip addr add 10.8.0.1/24 dev wg0'),
      rules('filter', '-A FORWARD -i wg0 -j ACCEPT', '-A FORWARD -o wg0 -j ACCEPT'),
      rules('nat', '-A POSTROUTING -o eth0 -j MASQUERADE'),
    ],
  },
  {
    name: 'fail2ban-nft-node',
    load: [
      nft(`table inet f2b-table {
  set addr-set-recidive { type ipv4_addr; elements = { 172.18.0.12, 192.0.2.77 }; }
  chain f2b-chain { type filter hook input priority filter - 1; policy accept; meta l4proto { tcp } ip saddr @addr-set-recidive reject with icmpx port-unreachable; }
}`),
    ],
  },
  {
    name: 'neutron',
    load: [
      rules(
        'filter',
        ...[
          ':neutron-filter-top -',
          ':neutron-openvswi-FORWARD -',
          ':neutron-openvswi-INPUT -',
          ':neutron-openvswi-local -',
          ':neutron-openvswi-sg-chain -',
          ':neutron-openvswi-sg-fallback -',
        ],
        ...[
          '-A FORWARD -j neutron-filter-top',
          '-A FORWARD -j neutron-openvswi-FORWARD',
          '-A INPUT -j neutron-openvswi-INPUT',
          '-A neutron-filter-top -j neutron-openvswi-local',
        ],
        '-A neutron-openvswi-FORWARD -m physdev --physdev-out tap0a1b2c3d-4e --physdev-is-bridged -j neutron-openvswi-sg-chain',
        '-A neutron-openvswi-FORWARD -m physdev --physdev-in tap0a1b2c3d-4e --physdev-is-bridged -j neutron-openvswi-sg-chain',
        ...['-A neutron-openvswi-sg-chain -j neutron-openvswi-sg-fallback', '-A neutron-openvswi-sg-fallback -j DROP'],
      ),
      rules('raw', '-A PREROUTING -m physdev --physdev-in qvb0a1b2c3d-4e -j CT --zone 4097'),
    ],
    ...decided,
  },
  {
    name: 'aws-pod-security-group',
    load: [
      sh(`ip link add vlan1 type veth peer name beyond
ip link set vlan1 up
ip route add default dev vlan1 table 101
ip rule add iif vlan1 lookup 101 pref 10
ip rule add iif cali5 lookup 101 pref 10`),
    ],
  },
  {
    name: 'node-local-dns-address',
    // Over IPv6 the node masquerades with that address.
    isIPv4Only: true,
    load: [
      sh(
        'ip link add nodelocaldns type veth peer name beyond; ip link set nodelocaldns up; ip addr add 169.254.20.10/32 dev nodelocaldns; ip addr add 10.96.1.2/32 dev nodelocaldns',
      ),
      rules(
        'raw',
        ...['udp', 'tcp'].flatMap(protocol => [
          `-A PREROUTING -d 10.96.1.2/32 -p ${protocol} --dport 53 -j NOTRACK`,
          `-A OUTPUT -s 10.96.1.2/32 -p ${protocol} --sport 53 -j NOTRACK`,
        ]),
      ),
      rules('filter', '-A INPUT -d 10.96.1.2/32 -p udp --dport 53 -j ACCEPT', '-A OUTPUT -s 10.96.1.2/32 -p udp --sport 53 -j ACCEPT'),
    ],
    ...decided,
  },
  {
    name: 'keepalived-not-accepted',
    load: [
      sh('ip addr add 198.51.100.10/32 dev eth0'),
      nft(`table inet keepalived {
  set vips { type ipv4_addr; elements = { 198.51.100.10 }; }
  chain in { type filter hook input priority -1; policy accept; ip daddr @vips ip protocol != vrrp drop; }
  chain out { type filter hook output priority -1; policy accept; ip saddr @vips ip protocol != vrrp drop; }
}`),
    ],
    isIPv4Only: true,
  },
  {
    name: 'oracle-cloud-image',
    load: [
      rules(
        'filter',
        ...['-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT', '-A INPUT -p icmp -j ACCEPT', '-A INPUT -i lo -j ACCEPT'],
        ...[
          '-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT',
          '-A INPUT -j REJECT',
          '-A FORWARD -j REJECT',
          ':InstanceServices -',
          '-A OUTPUT -d 169.254.0.0/16 -j InstanceServices',
        ],
        '-A InstanceServices -d 169.254.0.2/32 -p tcp -m owner --uid-owner 0 -m tcp --dport 3260 -j ACCEPT',
        '-A InstanceServices -d 169.254.0.0/16 -p tcp -j REJECT --reject-with tcp-reset',
      ),
    ],
    isIPv4Only: true,
  },
  {
    name: 'container-optimized',
    load: [
      rules(
        'filter',
        ...[':INPUT DROP', ':FORWARD DROP', ':OUTPUT DROP'],
        ...[
          '-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT',
          '-A INPUT -i lo -j ACCEPT',
          '-A INPUT -p icmp -j ACCEPT',
          '-A INPUT -p tcp -j ACCEPT',
          '-A INPUT -p udp -j ACCEPT',
        ],
        ...['-A FORWARD -p tcp -j ACCEPT', '-A FORWARD -p udp -j ACCEPT', '-A FORWARD -p icmp -j ACCEPT'],
        ...['-A OUTPUT -m state --state NEW,RELATED,ESTABLISHED -j ACCEPT', '-A OUTPUT -o lo -j ACCEPT'],
      ),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {
    name: 'cis-hardening',
    load: [
      rules(
        'filter',
        ...[
          ':INPUT DROP',
          ':FORWARD DROP',
          ':OUTPUT DROP',
          '-A INPUT -i lo -j ACCEPT',
          '-A OUTPUT -o lo -j ACCEPT',
          '-A INPUT -s 127.0.0.0/8 -j DROP',
        ],
        ...[
          '-A OUTPUT -p tcp -m state --state NEW,ESTABLISHED -j ACCEPT',
          '-A INPUT -p tcp -m state --state ESTABLISHED -j ACCEPT',
          '-A INPUT -p tcp --dport 22 -m state --state NEW -j ACCEPT',
        ],
      ),
    ],
  },
  {
    name: 'synproxy',
    load: [
      rules('raw', '-A PREROUTING -i eth0 -p tcp --syn --dport 8080 -j CT --notrack'),
      rules(
        'filter',
        '-I INPUT -i eth0 -p tcp --dport 8080 -m conntrack --ctstate INVALID,UNTRACKED -j SYNPROXY --sack-perm --timestamp --wscale 7 --mss 1460',
        '-I INPUT 2 -m conntrack --ctstate INVALID -j DROP',
      ),
    ],
  },
  {name: 'pod-forwarding-off', load: [sh('sysctl -qw net.ipv4.conf.cali5.forwarding=0')]},
  {
    name: 'pods-strict',
    load: [
      sh(
        'sysctl -qw net.ipv4.conf.cali4.rp_filter=1 net.ipv4.conf.cali5.rp_filter=1 net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2',
      ),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {
    name: 'all-strict-uplink-loose',
    load: [sh('sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth0.rp_filter=2'), secondUplink('from 203.0.113.0/24')],
    isIPv4Only: true,
    isPurpose: true,
  },
  {name: 'arp-ignore-8', load: [sh('sysctl -qw net.ipv4.conf.all.arp_ignore=8')], isIPv4Only: true},
  {
    name: 'tcp-strict-tracking',
    load: [sh('sysctl -qw net.netfilter.nf_conntrack_tcp_loose=0 net.netfilter.nf_conntrack_tcp_be_liberal=1')],
    ...decided,
  },
  {
    name: 'early-demux-off',
    load: [sh('sysctl -qw net.ipv4.ip_early_demux=0 net.ipv4.conf.all.accept_local=1')],
    isIPv4Only: true,
    ...decided,
  },
  {name: 'ipv6-off-for-pod', load: [sh('sysctl -qw net.ipv6.conf.cali5.disable_ipv6=1')], isIPv6Only: true},
  {
    name: 'private-networks-unreachable',
    load: [sh('for net in 10.0.0.0/8 172.16.0.0/12; do ip route add unreachable $net metric 4278198272; done')],
  },
  {
    name: 'prefix-translated',
    load: [rules('mangle', '-A POSTROUTING -s 10.244.11.0/24 -o eth1 -j SNPT --src-pfx fd00:1:1::/64 --dst-pfx fd00:2:2::/64')],
    isIPv6Only: true,
    ...decided,
  },
  {
    name: 'icmp-filtered',
    load: [
      rules(
        'filter',
        ...['INPUT', 'FORWARD', 'OUTPUT'].map(chain => `-I ${chain} -p ipv6-icmp -m icmp6 --icmpv6-type 137 -j DROP`),
        '-I FORWARD -p ipv6-icmp --icmpv6-type 2 -j DROP',
      ),
    ],
    isIPv6Only: true,
    ...decided,
  },
  {
    name: 'router-advertised-default',
    load: [sh('ip route add default via 172.18.0.12 dev eth0 metric 50')],
  },
  {
    name: 'metadata-protected',
    load: [
      rules('filter', '-I FORWARD -d 169.254.169.254/32 -j DROP', '-I FORWARD -m addrtype --dst-type BROADCAST -j DROP'),
      rules('nat', '-I PREROUTING -d 169.254.169.254/32 -p tcp --dport 80 -j DNAT --to-destination 127.0.0.1:8181'),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {
    name: 'lxd',
    load: [
      nft(`table inet lxd {
  chain pstrt.lxdbr0 { type nat hook postrouting priority srcnat; policy accept; ip saddr 10.120.0.0/24 ip daddr != 10.120.0.0/24 masquerade; }
  chain fwd.lxdbr0 { type filter hook forward priority filter; policy accept; ip version 4 oifname "lxdbr0" accept; ip version 4 iifname "lxdbr0" accept; }
  chain in.lxdbr0 { type filter hook input priority filter; policy accept; iifname "lxdbr0" udp dport { 53, 67 } accept; }
}`),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {
    name: 'redirected-by-mesh',
    load: [
      rules(
        'nat',
        ...[
          ':ISTIO_OUTPUT -',
          ':ISTIO_REDIRECT -',
          '-A OUTPUT -p tcp -j ISTIO_OUTPUT',
          '-A ISTIO_OUTPUT -o lo ! -d 127.0.0.1/32 -m owner --uid-owner 1337 -j RETURN',
        ],
        ...[
          '-A ISTIO_OUTPUT -m owner --gid-owner 1337 -j RETURN',
          '-A ISTIO_OUTPUT -d 127.0.0.1/32 -j RETURN',
          '-A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001',
        ],
      ),
    ],
    ...decided,
  },
  {
    name: 'cluster-match-nodes',
    load: [
      rules(
        'mangle',
        '-A PREROUTING -i eth0 -m cluster --cluster-total-nodes 2 --cluster-local-node 1 --cluster-hash-seed 7 -j MARK --set-mark 0xff',
        '-A PREROUTING -i eth0 -m mark ! --mark 0xff -j DROP',
      ),
    ],
  },
  {name: 'quota-large', load: [rules('filter', drop, '-I FORWARD -m quota --quota 500000000000 -j ACCEPT')]},
  {name: 'quota-then-drop', load: [elsewhere(rules('filter', '-A FORWARD -m quota --quota 900000000000 -j RETURN', '-A FORWARD -j DROP'))]},
  {name: 'teed', load: [rules('mangle', '-A PREROUTING -p tcp --dport 8080 -j TEE --gateway 172.18.0.99')]},
  {
    name: 'services-set',
    load: [
      ipset('create svc hash:ip,port,ip', 'add svc 10.244.11.5,tcp:8080,10.244.11.4'),
      rules('filter', '-I FORWARD -m set --match-set svc dst,dst,src -j DROP'),
    ],
  },
  {name: 'masq-bit-cleared', load: [rules('mangle', '-A POSTROUTING -j MARK --set-xmark 0x0/0x4000')]},
  {
    name: 'mark-saved-and-restored',
    load: [rules('mangle', '-A PREROUTING -j CONNMARK --restore-mark', '-A POSTROUTING -j CONNMARK --save-mark')],
  },
  {name: 'pod-route-source', load: [sh('ip route replace 10.244.12.0/24 via 172.18.0.12 src 172.18.0.11')], ...decided},
  {
    name: 'kube-mark-masq-emptied',
    load: [rules('nat', '-I KUBE-POSTROUTING -m mark --mark 0x4000/0x4000 -s 10.244.11.4/32 -j RETURN')],
    modes: inIptables,
  },
  {
    name: 'uplink-in-bridge',
    load: [
      sh(`ip link add br0 address 02:00:00:00:00:11 type bridge
ip link set br0 up
ip addr del 172.18.0.11/16 dev eth0
ip link set eth0 master br0
ip addr add 172.18.0.11/16 dev br0
ip route add default via 172.18.0.1 dev br0
ip route add 203.0.113.9 via 172.18.0.1
ip route add 10.244.12.0/24 via 172.18.0.12
ip neigh add 172.18.0.1 lladdr 02:00:00:00:00:01 dev br0 nud permanent
ip neigh add 172.18.0.12 lladdr 02:00:00:00:00:12 dev br0 nud permanent`),
    ],
    isIPv4Only: true,
  },
  {
    name: 'nft-zone-original',
    load: [nftChain('prerouting priority raw; policy accept;', 'iifname "eth0" ct original zone set 7')],
    ...decided,
  },
  {
    name: 'nft-dup',
    load: [
      nft(
        'table ip o {\n chain p { type filter hook prerouting priority -150; policy accept; ip daddr 10.96.0.0/12 dup to 172.18.0.99; }\n}\n',
      ),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {name: 'bird-blackhole', load: [sh('ip route add blackhole 10.244.11.0/26 proto 80; ip route add blackhole 10.244.11.0/24')], ...decided},
  {name: 'local-rule-moved', load: [sh('ip rule add pref 100 lookup local; ip rule del pref 0; ip rule add pref 1000 l3mdev')], ...decided},
  {
    name: 'nft-reject-prerouting',
    load: [
      nftChain(
        'prerouting priority -150; policy accept;',
        'ip saddr 10.244.11.5 ip daddr 10.96.1.1 reject with tcp reset',
        'iifname "eth0" tcp dport 30081 reject',
      ),
    ],
  },
  {
    name: 'swarm-ingress',
    load: [
      rules(
        'nat',
        ...[':DOCKER-INGRESS -', '-I PREROUTING -m addrtype --dst-type LOCAL -j DOCKER-INGRESS'],
        ...['-A DOCKER-INGRESS -p tcp -m tcp --dport 30080 -j DNAT --to-destination 172.18.0.2:30080', '-A DOCKER-INGRESS -j RETURN'],
      ),
    ],
  },
  {
    name: 'home-router',
    load: [
      rules(
        'filter',
        ...['-A FORWARD -i eth0 -o cali+ -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT', '-A FORWARD -i cali+ -o eth0 -j ACCEPT'],
        '-A FORWARD -j DROP',
      ),
      rules('nat', '-A POSTROUTING -o eth0 -j MASQUERADE'),
    ],
  },
  {
    name: 'csf',
    load: [
      rules(
        'filter',
        ':INPUT DROP',
        ':OUTPUT DROP',
        ':FORWARD ACCEPT',
        ':LOCALINPUT -',
        ':LOCALOUTPUT -',
        ':INVALID -',
        ':LOGDROPOUT -',
        '-A INPUT ! -i lo -j LOCALINPUT',
        '-A INPUT -i lo -j ACCEPT',
        '-A INPUT ! -i lo -p tcp -j INVALID',
        '-A INPUT ! -i lo -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
        '-A INPUT ! -i lo -p tcp -m conntrack --ctstate NEW -m tcp --dport 8080 -j ACCEPT',
        '-A OUTPUT ! -o lo -j LOCALOUTPUT',
        '-A OUTPUT -o lo -j ACCEPT',
        '-A OUTPUT ! -o lo -p tcp -j INVALID',
        '-A OUTPUT ! -o lo -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
        '-A OUTPUT ! -o lo -p tcp -m conntrack --ctstate NEW -m tcp --dport 443 -j ACCEPT',
        '-A OUTPUT ! -o lo -j LOGDROPOUT',
        '-A LOGDROPOUT -j REJECT',
        '-A INVALID -m conntrack --ctstate INVALID -j DROP',
        '-A INVALID -p tcp --tcp-flags FIN,SYN,RST,PSH,ACK,URG NONE -j DROP',
        '-A INVALID -p tcp ! --syn -m conntrack --ctstate NEW -j DROP',
        '-A LOCALINPUT -s 192.0.2.66/32 ! -i lo -j DROP',
      ),
    ],
  },
  {
    name: 'kube-vip-egress',
    load: [
      sh('ip addr add 198.51.100.40/32 dev lo'),
      rules(
        'mangle',
        ':KUBE-VIP-EGRESS -',
        '-A PREROUTING -j KUBE-VIP-EGRESS',
        '-A KUBE-VIP-EGRESS -d 10.244.0.0/16 -j RETURN',
        '-A KUBE-VIP-EGRESS -d 10.96.0.0/12 -j RETURN',
        '-A KUBE-VIP-EGRESS -s 10.244.11.4/32 -j MARK --set-xmark 0x40/0x40',
      ),
      rules('nat', '-A POSTROUTING -m mark --mark 0x40/0x40 -j SNAT --to-source 198.51.100.40'),
    ],
  },
  {name: 'node-ports-from-balancer', load: [rules('raw', '-A PREROUTING ! -s 172.18.0.0/16 -p tcp -m tcp --dport 30000:32767 -j DROP')]},
  {
    name: 'nft-route-chain-other-table',
    load: [
      secondUplink('fwmark 0x77'),
      nft(
        'table inet r { chain out { type route hook output priority mangle; policy accept; ip daddr 10.244.12.0/24 meta mark set 0x77; }; }',
      ),
    ],
  },
  {
    name: 'nft-dnat-map',
    load: [
      nft(
        'table ip early { chain pre { type nat hook prerouting priority -110; policy accept; dnat to tcp dport map { 80 : 10.244.11.5, 81 : 10.244.11.4 }; }; }',
      ),
    ],
  },
  {
    name: 'nft-dnat-address-and-port',
    load: [
      nft(
        'table ip early { chain pre { type nat hook prerouting priority -110; policy accept; dnat ip to ip daddr . tcp dport map { 10.96.1.2 . 80 : 10.244.11.4 . 8080 }; }; }',
      ),
    ],
  },
  {
    name: 'masquerade-low-ports',
    load: [
      rules('nat', '-I POSTROUTING -d 10.244.12.0/24 -p tcp -j MASQUERADE --to-ports 20000-30000'),
      rules('filter', '-I FORWARD -p tcp --dport 20000:25000 -j DROP'),
    ],
  },
  {
    name: 'nft-typeof-set',
    load: [
      nft(
        'table inet o {\n set s { typeof ip saddr . tcp dport; flags interval; elements = { 10.244.12.0/24 . 8080 }; }\n chain f { type filter hook forward priority 0; policy accept; ip saddr . tcp dport @s drop; }\n}\n',
      ),
    ],
  },
  {
    name: 'nft-interface-and-address',
    load: [
      nft(
        'table inet o {\n set s { type ifname . ipv4_addr; elements = { "cali4" . 10.96.1.2 }; }\n chain f { type filter hook prerouting priority -150; policy accept; iifname . ip daddr @s drop; }\n}\n',
      ),
    ],
  },
  {
    name: 'set-bitmap-ip',
    load: [
      ipset('create bi bitmap:ip range 10.244.11.0/24', 'add bi 10.244.11.5'),
      rules('filter', '-I FORWARD -m set --match-set bi src -m conntrack --ctstate NEW -j DROP'),
    ],
    isIPv4Only: true,
  },
  {
    name: 'set-nomatch-one',
    load: [
      ipset('create nm hash:net', 'add nm 10.244.11.0/24', 'add nm 10.244.11.4/32 nomatch'),
      rules('filter', '-I FORWARD -m set --match-set nm src -m conntrack --ctstate NEW -j DROP'),
    ],
  },
  {
    name: 'mark-or-and',
    load: [
      rules(
        'mangle',
        '-A PREROUTING -i cali4 -j MARK --or-mark 0x4000',
        '-A PREROUTING -i cali4 -j MARK --and-mark 0xffffbfff',
        '-A PREROUTING -i cali5 -j MARK --xor-mark 0x20',
      ),
    ],
    ...decided,
  },
  {name: 'cluster-ips-local', load: [sh('ip route add local 10.96.0.0/12 dev lo')]},
  {
    name: 'ovn-node-port',
    load: [
      rules(
        'nat',
        ':OVN-KUBE-NODEPORT -',
        '-I PREROUTING -j OVN-KUBE-NODEPORT',
        '-I OUTPUT -j OVN-KUBE-NODEPORT',
        '-A OVN-KUBE-NODEPORT -p tcp -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j DNAT --to-destination 10.96.1.3:80',
      ),
    ],
  },
  {
    name: 'nft-ipv6-solicit-accepted',
    load: [
      nftChain(
        'input priority 0; policy drop;',
        'ct state established,related accept',
        'iif lo accept',
        'icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert } ip6 hoplimit 255 accept',
        'tcp dport { 22, 8080 } accept',
      ),
      sh('ip -6 neighbour flush nud permanent'),
    ],
    isIPv6Only: true,
  },
  {
    name: 'ovn-itp',
    load: [
      sh(
        'ip link add ovn-k8s-mp0 type veth peer name beyond; ip link set ovn-k8s-mp0 up; ip link set beyond up; ip route add 10.96.0.0/12 dev ovn-k8s-mp0 table 7; ip rule add fwmark 0x1745ec lookup 7 pref 30',
      ),
      rules(
        'mangle',
        ':OVN-KUBE-ITP -',
        '-A OUTPUT -j OVN-KUBE-ITP',
        '-A OVN-KUBE-ITP -d 10.96.1.2/32 -p tcp -m tcp --dport 80 -j MARK --set-xmark 0x1745ec',
      ),
    ],
  },
  {
    name: 'linkerd-first',
    load: [
      rules(
        'nat',
        ':PROXY_INIT_OUTPUT -',
        '-I OUTPUT -j PROXY_INIT_OUTPUT',
        '-A PROXY_INIT_OUTPUT -o lo -j RETURN',
        '-A PROXY_INIT_OUTPUT -p tcp -m multiport --dports 8080,30080 -j RETURN',
        '-A PROXY_INIT_OUTPUT -p tcp -d 10.96.0.0/12 -j REDIRECT --to-ports 4140',
      ),
    ],
  },
  {
    name: 'ufw-docker',
    load: [
      ufw('DROP', '-s 10.244.0.0/16 -j ACCEPT', '-p tcp --dport 8080 -j ACCEPT'),
      rules(
        'filter',
        ':DOCKER-USER -',
        ':ufw-docker-logging-deny -',
        '-I FORWARD -j DOCKER-USER',
        '-A DOCKER-USER -s 10.0.0.0/8 -j RETURN',
        '-A DOCKER-USER -s 172.16.0.0/12 -j RETURN',
        '-A DOCKER-USER -p udp -m udp --sport 53 --dport 1024:65535 -j RETURN',
        '-A DOCKER-USER -d 10.0.0.0/8 -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j ufw-docker-logging-deny',
        '-A ufw-docker-logging-deny -m limit --limit 3/min --limit-burst 10 -j LOG',
        '-A ufw-docker-logging-deny -j DROP',
        '-A DOCKER-USER -j RETURN',
      ),
    ],
  },
  {
    name: 'azure-npm',
    load: [
      ipset(
        'create azure-npm-2064349730 hash:net',
        'add azure-npm-2064349730 10.244.11.4',
        'create azure-npm-src hash:net',
        'add azure-npm-src 10.244.0.0/16',
      ),
      rules(
        'filter',
        ':AZURE-NPM -',
        ':AZURE-NPM-ACCEPT -',
        ':AZURE-NPM-INGRESS -',
        ':AZURE-NPM-INGRESS-ALLOW-MARK -',
        ':AZURE-NPM-EGRESS -',
        '-I FORWARD -m conntrack --ctstate NEW -j AZURE-NPM',
        '-A AZURE-NPM -j AZURE-NPM-INGRESS',
        '-A AZURE-NPM -j AZURE-NPM-EGRESS',
        '-A AZURE-NPM -j AZURE-NPM-ACCEPT',
        '-A AZURE-NPM-ACCEPT -j ACCEPT',
        '-A AZURE-NPM-INGRESS -m set --match-set azure-npm-2064349730 dst -m set --match-set azure-npm-src src -j AZURE-NPM-INGRESS-ALLOW-MARK',
        '-A AZURE-NPM-INGRESS -m set --match-set azure-npm-2064349730 dst -m mark ! --mark 0x4000 -j DROP',
        '-A AZURE-NPM-INGRESS-ALLOW-MARK -j MARK --set-xmark 0x4000/0xffffffff',
        '-A AZURE-NPM-INGRESS-ALLOW-MARK -j AZURE-NPM-EGRESS',
      ),
    ],
    isPurpose: true,
  },
  {
    name: 'sysctls-harmless',
    load: [
      sh(
        'sysctl -qw net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.all.src_valid_mark=1 net.ipv4.fwmark_reflect=1 net.ipv4.tcp_fwmark_accept=1 net.ipv4.ip_nonlocal_bind=1 net.ipv4.conf.all.log_martians=1 net.ipv4.tcp_timestamps=0 net.ipv4.conf.all.arp_filter=1 net.ipv4.conf.all.drop_unicast_in_l2_multicast=1 net.ipv4.fib_multipath_hash_policy=1; echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range; echo 30000-32767 > /proc/sys/net/ipv4/ip_local_reserved_ports',
      ),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {
    name: 'forward-port-first',
    load: [
      nft(
        'table inet pf {\n chain pre { type nat hook prerouting priority dstnat - 10; policy accept; iifname "eth0" tcp dport 30080 dnat ip to 10.244.11.5:8080; }\n}\n',
      ),
    ],
    isIPv4Only: true,
  },
  {
    name: 'rt-nexthop',
    load: [nftChain('forward priority 0; policy accept;', 'rt ip nexthop 172.18.0.12 tcp dport 8080 drop')],
    isIPv4Only: true,
  },
  {
    name: 'rt-mtu',
    load: [
      nftChain(
        'forward priority mangle; policy accept;',
        'oifname "eth0" tcp flags syn tcp option maxseg size set rt mtu',
        'rt ip nexthop 172.18.0.99 drop',
      ),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {name: 'nat-input-snat', load: [rules('nat', '-A INPUT -s 10.244.0.0/16 -j SNAT --to-source 172.18.0.50')], isPurpose: true},
  {
    name: 'calico-pre-dnat',
    load: [
      ipset('create cali40s:known hash:net', 'add cali40s:known 172.18.0.0/16', 'add cali40s:known 10.244.0.0/16'),
      rules(
        'mangle',
        ':cali-PREROUTING -',
        ':cali-from-host-endpoint -',
        ':cali-fh-eth0 -',
        ':cali-pi-known -',
        '-I PREROUTING -j cali-PREROUTING',
        '-A cali-PREROUTING -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
        '-A cali-PREROUTING -m mark --mark 0x10000/0x10000 -j ACCEPT',
        '-A cali-PREROUTING -j cali-from-host-endpoint',
        '-A cali-from-host-endpoint -i eth0 -g cali-fh-eth0',
        '-A cali-fh-eth0 -j MARK --set-xmark 0x0/0x20000',
        '-A cali-fh-eth0 -m mark --mark 0x0/0x20000 -j cali-pi-known',
        '-A cali-fh-eth0 -m mark --mark 0x10000/0x10000 -j RETURN',
        '-A cali-fh-eth0 -m comment --comment "Drop if no policies passed packet" -m mark --mark 0x0/0x20000 -j DROP',
        '-A cali-pi-known -m set --match-set cali40s:known src -j MARK --set-xmark 0x10000/0x10000',
        '-A cali-pi-known -m mark --mark 0x10000/0x10000 -j RETURN',
      ),
    ],
    isPurpose: true,
  },
  {
    name: 'hygiene',
    load: [
      rules('raw', '-A PREROUTING -p tcp -m tcp --dport 80 -j TRACE', '-A PREROUTING -m pkttype --pkt-type broadcast -j DROP'),
      rules(
        'mangle',
        '-A PREROUTING -m conntrack --ctstate INVALID -j DROP',
        '-A PREROUTING -p tcp ! --syn -m conntrack --ctstate NEW -j DROP',
        '-A PREROUTING -p tcp -m conntrack --ctstate NEW -m tcpmss ! --mss 536:65535 -j DROP',
        '-A PREROUTING -p tcp --tcp-flags ALL NONE -j DROP',
        '-A PREROUTING -s 127.0.0.0/8 ! -i lo -j DROP',
        '-A PREROUTING -s 240.0.0.0/5 -j DROP',
        '-A PREROUTING -s 169.254.0.0/16 -j DROP',
      ),
      rules(
        'filter',
        '-A INPUT -p tcp --tcp-flags RST RST -m limit --limit 2/s --limit-burst 2 -j ACCEPT',
        '-A INPUT -m pkttype --pkt-type multicast -j DROP',
      ),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {
    name: 'docker-network-overlaps',
    load: [sh('ip link add docker0 type bridge; ip link set docker0 up; ip addr add 10.244.12.1/25 dev docker0')],
    isIPv4Only: true,
  },
  // Of two equal routes the first counts.
  {
    name: 'docker-network-of-nodes',
    load: [
      sh('ip link add br-1 type bridge; ip link set br-1 up; ip addr add 172.18.0.254/16 dev br-1'),
      rules('nat', '-A POSTROUTING -s 172.18.0.0/16 ! -o br-1 -j MASQUERADE'),
      rules('filter', '-A FORWARD -i br-1 ! -o br-1 -j DROP'),
    ],
    ...{isIPv4Only: true, ...decided},
  },
  {
    name: 'snat-to-vip-of-subnet',
    load: [
      sh('ip addr add 172.18.0.100/32 dev eth0'),
      rules('nat', '-I POSTROUTING -s 10.244.11.0/24 -d 10.244.12.0/24 -j SNAT --to-source 172.18.0.100'),
    ],
    isIPv4Only: true,
    isPurpose: true,
  },
  {
    name: 'vrrp-macvlan',
    load: [
      sh(
        'ip link add vrrp.51 link eth0 address 00:00:5e:00:01:33 type macvlan mode private; ip link set vrrp.51 up; ip addr add 198.51.100.10/32 dev vrrp.51; sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.vrrp/51.accept_local=1',
      ),
    ],
    isIPv4Only: true,
    ...decided,
  },
  {name: 'far-pods-on-link', load: [sh('ip route add 10.244.12.0/25 dev eth0')], isIPv4Only: true},
  {name: 'node-behind-link-of-pod', load: [sh('ip route add 172.18.0.12/32 dev cali4')], isIPv4Only: true},
  {
    name: 'drawn-source-ports',
    load: [nftChain('forward priority 0; policy accept;', 'iifname "eth0" tcp dport 8080 tcp sport 1024-20000 drop')],
  },
  // What carries packets of pods between nodes, and links beside the one of the nodes' addresses.
  {name: 'overlay', load: overlay, ...decided},
  {name: 'overlay-dropped-on-arrival', load: [...overlay, rules('filter', '-I INPUT -p udp --dport 8472 -j DROP')]},
  {name: 'overlay-of-another-id', load: overlayWith({id: 4096})},
  {name: 'overlay-of-another-port', load: overlayWith({port: 4789})},
  {name: 'overlay-down', load: [...overlay, sh('ip link set flannel.1 down')], isIPv4Only: true},
  {name: 'overlay-refused-to-leave', load: [...overlay, rules('filter', '-I OUTPUT -p udp --dport 8472 -j REJECT')]},
  {name: 'overlay-of-a-banned-node', load: [...overlay, rules('raw', '-I PREROUTING -s 172.18.0.12/32 -p udp -j DROP')]},
  {
    name: 'overlay-untracked',
    load: [...overlay, rules('raw', ...['PREROUTING', 'OUTPUT'].map(chain => `-I ${chain} -p udp --dport 8472 -j CT --notrack`))],
    ...decided,
  },
  {name: 'second-link-of-pods', load: secondLink('there', 'back'), ...decided},
  {
    name: 'second-link-there-loose',
    load: [...secondLink('there'), sh('sysctl -qw net.ipv4.conf.all.rp_filter=2')],
    isIPv4Only: true,
    ...decided,
  },
  {
    name: 'second-link-strict-there',
    load: [...secondLink('there'), shIn('node-b', 'sysctl -qw net.ipv4.conf.all.rp_filter=1')],
    isIPv4Only: true,
  },
  {
    name: 'second-link-forwarding-off',
    load: [...secondLink('there', 'back'), sh('sysctl -qw net.ipv4.conf.eth1.forwarding=0')],
    isIPv4Only: true,
  },
  {
    name: 'second-link-drops-replies',
    load: [...secondLink('there', 'back'), rules('filter', '-I FORWARD -i eth1 -m conntrack --ctstate ESTABLISHED -j DROP')],
  },
  // What is sent to node ports arrives by the link of the node's address, whatever leads back to the pods.
  {
    name: 'second-link-refuses-by-uplink',
    load: [...secondLink('there', 'back'), rules('filter', '-I FORWARD -i eth0 -s 10.244.12.0/24 -j DROP')],
  },
  {
    name: 'second-link-refuses-node-ports',
    load: [
      ...secondLink('there', 'back'),
      rules('filter', '-I FORWARD -i eth1 -m conntrack --ctorigdst 172.18.0.11 --ctdir ORIGINAL -j DROP'),
    ],
    ...decided,
  },
  {
    name: 'node-by-second-link-refused',
    load: [...secondLink(), sh('ip route add 172.18.0.12/32 dev eth1'), rules('filter', '-I INPUT -i eth1 -p tcp --dport 8080 -j DROP')],
    isIPv4Only: true,
    ...decided,
  },
  // By ARP a node answers for any address that it has, by IPv6 for those of the interface alone.
  {name: 'node-by-second-link', load: [...secondLink(), sh('ip route add 172.18.0.12/32 dev eth1')]},
  {name: 'far-pods-on-link-alone', load: [sh('ip route replace 10.244.12.0/24 dev eth0')]},
  {name: 'far-pods-thrown', load: [sh('ip route replace throw 10.244.12.0/24')]},
  {name: 'rule-prohibits-cluster-ips', load: [sh('ip rule add to 10.96.0.0/12 prohibit pref 100')]},
  {name: 'rule-for-cluster-ips-of-a-pod', load: [sh('ip rule add iif cali4 to 10.96.0.0/12 blackhole pref 100')], ...decided},
  {name: 'uplink-down-and-up', load: [sh('ip link set eth0 down; ip link set eth0 up')], isIPv4Only: true},
  {name: 'second-address', load: [sh('ip address add 172.18.0.77/16 dev eth0')], ...decided},
  {name: 'snat-status', load: [rules('filter', '-I FORWARD -m conntrack --ctstate SNAT -j DROP')]},
  {name: 'snat-to-other-node', load: [rules('nat', '-I POSTROUTING -s 10.244.11.4/32 -d 10.244.12.0/24 -j SNAT --to-source 172.18.0.12')]},
  {name: 'snat-to-a-pod', load: [rules('nat', '-I POSTROUTING -o cali5 -j SNAT --to-source 10.244.11.4')]},
  {name: 'traced', load: [rules('raw', '-I PREROUTING -j TRACE'), rules('filter', '-I FORWARD -j NFLOG')], ...decided},
  {name: 'nft-few-hops', load: [nftChain('forward priority 0; policy accept;', 'ip ttl { 0, 1 } drop')], ...decided},
  {
    name: 'nft-other-protocols',
    load: [nftChain('forward priority 0; policy accept;', 'meta protocol vlan drop', 'ether type arp drop', 'meta pkttype other drop')],
    ...decided,
  },
  {
    name: 'nft-original-node-port',
    load: [nftChain('forward priority 0; policy accept;', 'meta l4proto tcp ct original proto-dst 30080 drop')],
  },
  {
    name: 'local-ports-closed',
    load: [rules('mangle', '-A PREROUTING -p tcp -m multiport --dports 30081,30082 -m addrtype --dst-type LOCAL -j DROP')],
  },
  {name: 'replies-to-one-pod', load: [rules('filter', '-I FORWARD -m conntrack --ctorigsrc 10.244.11.4 --ctdir REPLY -j DROP')]},
  {
    name: 'set-of-ports',
    load: [
      ipset('create pr bitmap:port range 8000-9000', 'add pr 8080'),
      rules('filter', '-I FORWARD -i eth0 -p tcp -m set --match-set pr dst -j DROP'),
    ],
  },
  {name: 'rule-by-uplink', load: [sh('ip rule add iif eth0 to 10.244.11.0/24 blackhole pref 50')]},
  {name: 'rule-of-nodes', load: [sh('ip rule add from 172.18.0.0/16 to 10.244.0.0/16 unreachable pref 50')]},
];
