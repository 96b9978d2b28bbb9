/**
 * Whether a text consists only of words that no user of a cluster chose: numbers, times, and words of iptables, nft, ipset, IPVS, conntrack,
 * `ip` and Kubernetes. Whatever joins its words does not count: `icmp-port-unreachable` is three.
 */
export function isKnownText(text: string): boolean {
  let known = knownTexts.get(text);
  if (known === undefined) {
    known = (text.match(wordPattern) ?? []).every(word => numeric.test(word) || words.has(word.toLowerCase()));
    if (knownTexts.size < 100_000) knownTexts.set(text, known);
  }
  return known;
}

const knownTexts = new Map<string, boolean>();

/** Letters of other alphabets are no known words. */
const wordPattern = /[A-Za-z0-9\u0080-\uffff]+/g;

/** One letter, `80`, `0x4000`, `1h30m`, `512kb`, `v1`, `go1`, `19T03`, `06Z`, `el9`. */
const numeric = /^(?:[a-z]|0x[\da-f]+|(?:v|go|el|fc|amzn)?\d+|(?:\d+(?:[mun]?s|m|h|d|w|[kmg]b?))+|\d+T\d+|\d+Z)$/i;

/** A version, with those parts of its end that are known: `v1.29.4-eks-036c24b` is kept as `v1.29.4-eks`. */
export function knownVersion(text: string): string {
  const [, begin = '', rest = ''] = /^((?:containerd:\/\/|cri-o:\/\/|docker:\/\/|Kubernetes )?v?\d+(?:\.\d+)*)(.*)$/s.exec(text) ?? [];
  if (begin === '') return isKnownText(text) ? text : 'unknown';
  return begin + (rest.match(/[-+.~_:$%][A-Za-z0-9\u0080-\uffff]*/g) ?? []).filter(isKnownText).join('');
}

/** The words of a list that is written as a text. */
export function wordSet(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}

/** Words in lower case; their order has no meaning. */
const words: ReadonlySet<string> = wordSet(`
  8021ad 8021q aa abort above accept accepted ack acked acksent action active activeconn add addr address addrs addrtype adl adm admin adv
  advertisement advmss af11 af12 af13 af21 af22 af23 af31 af32 af33 af41 af42 af43 after ah ahlen ahres ahspi aks alarm alert algo all
  allmulti alpha always amd64 amt and announce any anycast api app append application apply apps apr arm arm64 arp arptables assured au
  audit aug auth authentication auto automedia aws ax azure babel backup balance balancing bareudp base batch bcast be before beta bgp bin
  binary binding bird bit bitmap bits blackhole blink blocking bm bogus bond bonding boolean boot both bpf bps bps1 bps2 bridge bridged
  bridgeinterface broadcast bucket bucketsize build bundle burst bypass bytecode bytes cake calicoisup call careof carrier cfi cgroup
  cgroups cgroupsv2 cgroupv1 cgroupv2 chain chaintoolong change changes check checksum chunk cidr ciliumisup clamp clash class classid
  classify clean cleanup client clientip clientipconfig close closed closereq closing cloud clsact cluster clustercidr clusterip clusterips
  clustermac cmtp code codel combine comment commit compiler complete concat concurrent condition conf config configmap confirmed conn
  connbytes connection connections connlabel connlimit connmark conns connsecmark conntrack containersnotready containersready contig
  contiguous continue cookie core cos cost count counter counters cpi cprange cps cpu create crit critical cs0 cs1 cs2 cs3 cs4 cs5 cs6 cs7
  ct ctdir ctevents ctexpire ctmask ctorigdst ctorigdstport ctorigsrc ctorigsrcport ctproto ctrepldst ctrepldstport ctreplsrc ctreplsrcport
  ctstate ctstatus cwnd cwr daddr dadfailed daemon data dataack datagram date datestart datestop day days dccp ddp dead debug dec decrement
  default dei del delay delete deleted deletes delta deltas deprecated dest destination destroy detached dev devgroup device devices df dh
  dhcp dir direction dirty disable disabled discovery diskpressure dl dnat dnd dnpt do doff domain done dormant down dport dports drop
  dropped dscp dst dstip dstlen dstmac dstmask dstnat dstpfx dstport dummy dup duration dying dynamic dynset each early ece echo echoed
  ecmp ecn ecne ecr ect ect0 ect1 edit ef effective egp egress eigrp eks eksbuild elem elements else emerg emergency empty encap encoding
  end endpoint endpoints endpointslice endpointslicecontroller energy entries entry eq err error errors erspan esp espspi established ether
  etherip ethernet eui64 event every ewma ewmalog exact exceeded excl exclude excluded exist exists exit expectation expected expevents
  expiration expire expires export expr external externaldns externalip externalname exthdr facility fail failed failure failures fallback
  false family fanout fast fastopen fc feb fib field fields fifo file fill filter fin fin1 fin2 first flag flag1 flag2 flag3 flags
  flannelisup flatcar flow flowlabel flowtable flush fo for forceadd forward forwarded forwarding found fq fqdn frag fragfirst fragid
  fraglast fraglen fragment fragments fragmore fragres fri friday from ftp full fullconenat fully fwd fwm fwmark fwmask gate gated gateway
  gateways gb gbytes gc gcinterval gcp generic geneve genid genmask genre geoip get ggp gid git gke global go goto gre gretap group groups
  gt hairpin handle handler hard hash hashlimit hashmode hashsize hbh hdr hdrlength header heartbeat help helper helpers hex hfsc hh high
  hip hitcount hl hlen hmark hmp home hook hop hoplimit hopopt hops host hostgroup hostname hosts hostset hour hours hsr htable htb hton
  http https htype hwe iat icase icmp icmp6 icmpv6 icmpx id idletimer idp idpr if iface ifb ifgroup ifindex ifla ifname igmp ignore igp ih
  iif iifgroup iifkind iifname iiftype iks imm immediate in inact inactconn inactive inbound inbps inbytes inc index inet inet6 inf
  infiniband info ingress inherit init initialized initval inpkts inpps input inrush insecure insert int integer interface
  interfacenameprefix interfaces internal internaldns internalip interval intra inv invalid inverse invert io ip ip4 ip6 ip6gre ip6gretap
  ip6tables ip6tnl ipcomp ipcompspi ipencap ipgre ipip ipip6 ipmark ipproto iprange ips ipsec iptables ipv ipv4 ipv6 ipv6header ipvlan ipvs
  ipvsadm ipvtap is isatty isis iso jan jhash journal json jul jump jun k3s k3s1 k3s2 k3s3 k3s4 k8s kb kbytes keepalived kernel kernelspace
  kerneltz key kind kmp kube kubeadm kubelet kubelethasdiskpressure kubelethasinsufficientmemory kubelethasnodiskpressure
  kubelethassufficientmemory kubelethassufficientpid kubeletnotready kubeletready kubeproxy kubeproxyconfiguration kubernetes l2 l2tp l3
  l3mdev l3proto l4 l4proto l7 label labels last latency layer7 lb lblc lblcr lc le learn learning leave led left len length lephb level
  lib liberal life limit line link linkdown linkinfo linkmode links linux linuxkit list listen listening lladdr lo load loadbalancer local
  localaddress localhost localmark localnet localtz log logical lookup loop loopback loose low lower lowerlayerdown lowlatency lshift lsid
  lsrr lt lts mac macdecode macvlan macvtap main major manet mangle manip map mar mark mask masq masquerade master match max maxelem
  maximize maxseg may mb mbytes mcast medium membership memorypressure merge meta metainfo meter method metric mh microseconds microsoft
  min minikube minimize minor minute minutes missing mld mngtmpaddr mobility mod mode modprobe module mon monday month monthdays more mpls
  mptcp mq mqprio mrouted msec mss mtu multicast multiport name nat native natseqinfo nd ne neighbor nested net netdev netfilter netkit
  netlink netmap netmask network networking networks networkunavailable new next nexthdr nexthop nexthops nf nfacct nfct nflog nfmask nfnl
  nfproto nfqueue nft nftables nftrace nh nhid nlgroup nlmon no noarp nodad node nodecidr nodemask nodeport nodeports nodes nodest
  nodestatusneverupdated nodestatusunknown nodst noflush nomatch nonce none none1 nonxt noop nop noprefixroute noqueue normal
  noroutecreated not notice notify notpresent notrack notrailers nov now nowait nowhere nowildcard nps npt nq ns nsec nsid nth ntk ntoh
  null num number numbers numeric numgen object oct oem of off offload offset oif oifgroup oifkind oifname oiftype on once onlink only op
  opcode openr openshift openvswitch oper operstate ops optimistic optimize option options opts or oracle order orig origdst original os
  osf ospf ospfigp other out outbound outbps outbytes outpkts outpps output over overflow ovf own owner packet packets pad panic parameter
  parent partial pass passive path payload pcp pe peer pending per performance perm permaddr persistent pervasive pfifo pfx physdev pid
  pidpressure pim ping pinned pipe pkt pktloc pkts pkttype platform pmtu pod podcompleted podfailed podreadytostartcontainers podscheduled
  point pointopoint pol policy pop port ports portsel position postrouting ppc64le ppid ppp pppoe pps pps1 pps2 precedence pref preferclose
  preferdualstack preferred prefersamenode prefersamezone prefix prefixlen prefsrc prerouting primary prio priority privacy probability
  problem process programming prohibit prohibited promisc promiscuity prot proto protobuf protocol protoinfo proxy proxyconfig psd psh psid
  ptr pup push qinq qos qthreshold quantile quench query queue queued queues quiescent quota ra random range raspi rate rateest rateest1
  rateest2 raw rawpost rc rc1 rc2 rcheck rd rdest rdp reached ready real realm realms realtime reap rebuild recd recent reconcile
  reconciler record recv redir redirect reduction ref references register reject related relative release reliability remoteaddress remove
  rename replace replied replies reply report req reqid request requests required requiredualstack rerouting res reserved reset resolve
  resource response rest restore result retrans retry return reuse reverse right rip riscv64 rke2 rke2r1 rke2r2 rke2r3 rke2r4 rnd rohc root
  rotate route routecreated router routers routes routing rp rpfilter rr rshift rsource rspf rst rsvp rt rt0 rt2 rtadv rtclassid rto rtt
  rttl rule rules ruleset running rx s390x sa sack sack0 sack1 sack2 sack3 sackok saddr same sample sat saturday save saved sched scheduler
  schedulers schema scope sctp sdif sdifname search sec seclabel secmark secmarks second secondary seconds secpath secret security sed seed
  seen seg segs segsleft selctx select selinux send sent sep seq seqadj seqno sequence server service servicecidr serving sess session set
  sets sfq sgid sh shift shim6 shutdown sid singlestack sip sit site size skb skbinfo skbmark skbprio skbqueue skgid skip skmark skuid
  slave smtp snaplen snat snpt socket socketpair soft solicit solicitation sort source spec spi spnum sport sports src srcip srclen srcmac
  srcmask srcnat srcpfx srcport srh ssh ssn ssrr st stable stage stale standard start stat state states static statistic statistics stats
  status stderr stdin stdout stmt stolen stop stopped stp str strict string strip subcounters subnet subtype succeeded sum sun sunday
  suppress sure sv svc swab swap switch symhash syn syn2 sync syncack syncs synproxy synrecv synsent sysctl syslog system table tables tag
  tags talos tap target tbf tcp tcpmss tcpoptstrip team tee telnet template temporary tentative terminating test testing text th thread
  thresh threshold throughput throw thu thursday time timeout timeoutseconds timestamp timestamps timestart timestop tls tlshost tlv to
  token tokens too tos total tp4 tproxy trace traffic transaction transparent transport trap tree trigger true ts tsecr tsn tsval ttl ttlb
  tue tuesday tun tunl tunnel tunnels tuple tw two twos tx txqlen type typeof types u32 udp udplite uid ulog unary uncached unicast unit
  unknown unlimited unreach unreachable unreplied unresolved unset unspec until untracked unused up update upper upto urg urgent urgptr url
  us usec used useful user userspace usr v1alpha1 v1alpha2 v1beta1 v1beta2 v1beta3 v2beta1 va vaddr val valid validmark value vcan vdir
  vendor verb verbose verdict verdicts verify version veth vhost via vip virtual vlan vmap vmethod vn vnd vport vportctl vproto vrf vrrp vs
  vtag vti vti6 vxlan wait warn warning wed wednesday week weekday weekdays weekend weight wesp wildcard window windows wireguard with
  without wlc wrr wscale wsl2 x86 xdp xfrm xlate xmark xns xor xorp xresolve xset xt xtables xtp yaml year years ymd zebra zero zone
`);
