import type {Severity} from '../model/finding.ts';
import type {Check} from './check-types.ts';

export const howToRestart = '(delete its pod, or restart the service that runs it): it rewrites all rules when it starts.';
export const restartIt = `Restart kube-proxy on this node ${howToRestart}`;

/** A new pod begins with an empty log. */
export function logFirst(what: string): string {
  return `Read the log of kube-proxy on this node for why it ${what}. Then restart it ${howToRestart}`;
}

/** Three lines each: code, name and usual severity; one line for the list of codes; what to do, in a sentence or two that begin with a verb. */
const catalog = `
ST101 no-ready-endpoint warning
  A Service that kube-proxy serves has no endpoint that it would use
  Start ready pods that match the selector, or delete the Service. kube-proxy refuses new connections by design.
ST102 port-without-endpoint warning
  A Service port's name and protocol occur in no EndpointSlice although the Service has endpoints
  Give the port of the Service, of its pods (a named targetPort) and of hand-made EndpointSlices the same name and protocol.
ST103 duplicate-endpoint warning
  The same address and port stand in several slices with conditions that disagree
  Find out which of the EndpointSlices is out of date, and who owns it (label endpointslice.kubernetes.io/managed-by). kube-proxy keeps one of the entries; which one is not always defined.
ST104 hints-ignored info
  Some endpoints carry topology hints but kube-proxy ignores them all
  Wait for the EndpointSlice controller to give hints to all endpoints; label nodes with topology.kubernetes.io/zone. Until then traffic goes to all zones.
ST105 address-family-mismatch warning
  An external IP or load-balancer IP is of a family that the Service does not have
  Make the Service dual-stack (ipFamilyPolicy: PreferDualStack) or remove the address: kube-proxy writes no rule for it.
ST106 node-address-as-external-ip warning
  externalIPs holds a node's own address
  Use an address that no node has. The Service intercepts this port of the node, and in IPVS mode every node binds the address.
ST107 not-served-by-kube-proxy info
  The Service is headless, ExternalName or given to another proxy: no rules are expected
  No action is needed if this is intended. If clients cannot reach it, check DNS or the other proxy.
ST108 local-policy-nowhere-local warning
  A Local traffic policy, and no usable endpoint is local to any node of the cluster
  Give hand-made endpoints a nodeName, or set the traffic policy to Cluster: with Local, every node drops this Service's traffic.
ST109 endpoint-on-unknown-node warning
  An endpoint's nodeName is no Node of the cluster: it is local nowhere
  Correct nodeName in the EndpointSlice, or find out why the Node was deleted while its pods are still endpoints.
ST110 node-port-collision warning
  Two Service ports claim the same address, protocol and port
  Change one of them: on each node the rule that happens to stand first wins.
ST111 nodes-excluded-from-load-balancers info
  Every node that could take the traffic of a load balancer has the label that excludes it from load balancers
  Remove the label from nodes that may get this traffic, or run endpoints on nodes without it. kubeadm and Talos put it on control plane nodes.
ST112 target-port-not-declared info
  The pods of a Service declare one port, and it is not the targetPort
  Compare targetPort with the port that the program in the container listens on. Declaring ports is optional: if it listens on targetPort, nothing is wrong.
ST113 policy-sees-node info
  A NetworkPolicy allows clients by their addresses, and sees those of nodes in their place
  Set externalTrafficPolicy: Local, so that the address of the client stays, or filter clients in front of the Service (loadBalancerSourceRanges). Do not allow the addresses of nodes: that allows all clients.
ST114 source-ranges-of-one-family warning
  loadBalancerSourceRanges name one family alone, and a load-balancer IP of the other one admits everybody
  Add the ranges of the other family. To admit nobody there, use a range of documentation such as 2001:db8::/128.
ST115 external-ip-with-source-ranges warning
  An address is external IP and load-balancer IP at once, so that iptables mode ignores loadBalancerSourceRanges
  Remove the address from externalIPs: the load-balancer IP serves it, and only there do the ranges hold.
ST116 headless-label-with-cluster-ip warning
  kube-proxy up to 1.35 does not serve a Service with a cluster IP and the label service.kubernetes.io/headless
  Remove the label service.kubernetes.io/headless from the Service: controllers set it on EndpointSlices, and Services need none.
ST117 endpoint-is-cluster-ip warning
  An endpoint is the cluster IP of a Service, and packets are translated once
  Write the addresses of the pods or servers into the EndpointSlice, or make the Service an ExternalName of the other one.
ST118 service-range-overlap warning
  The range of cluster IPs holds addresses of nodes or pods
  Give the cluster a Service range that no node or pod uses, or renumber what is inside it.
ST119 address-conflict warning
  Nodes or pods share an address or a pod network, or a node lacks its own address
  Find out what gave it out twice (the network plugin, the controller manager, a setting by hand), and recreate one of the two.
ST201 service-not-programmed error
  A Service port that a node should serve is not programmed on it
  ${logFirst('did not program the Service')}
ST202 missing-endpoint error
  An endpoint that should get traffic gets none on a node
  ${logFirst('stopped processing EndpointSlice updates')}
ST203 stale-endpoint error
  Traffic on a live path goes to an address that is no usable endpoint of the Service
  ${logFirst('stopped processing EndpointSlice updates')}
ST204 wrong-endpoint-address error
  The chain of an endpoint sends traffic to another address or port
  ${restartIt} kube-proxy never writes such a rule: find out what changed it.
ST205 stale-service error
  A Service port that is not in the API still answers on a node
  ${logFirst('did not process the deletion')}
ST206 missing-entry error
  One entry of a Service is not programmed while others are
  ${logFirst('did not program the entry')}
ST207 traffic-policy-mismatch error
  Endpoints are picked by another traffic policy than the configured one
  ${logFirst('did not apply the change of the traffic policy')}
ST208 uneven-balance warning
  Usable endpoints do not get equal shares of the traffic
  ${restartIt} kube-proxy gives equal shares: find out what changed the rules.
ST209 session-affinity-mismatch warning
  Session affinity is missing, extra, or has another timeout
  ${logFirst('did not apply the change of sessionAffinity')}
ST210 source-ranges-mismatch error
  Packets from outside loadBalancerSourceRanges are accepted, or packets from inside them are dropped
  ${logFirst('did not apply the change')} Until then, block the address at the load balancer or in the network.
ST211 masquerade-mismatch warning
  A packet is masqueraded where it should not be, or not masqueraded where it should be
  ${restartIt} If many nodes report this, compare clusterCIDR and masqueradeAll of kube-proxy with the pod network.
ST212 missing-reject error
  A Service without endpoints does not refuse connections: they hang or leave the node
  ${logFirst('did not write the rule')}
ST213 unexpected-reject error
  A rule of kube-proxy refuses or drops packets to a Service that has endpoints
  ${logFirst('stopped processing EndpointSlice updates')}
ST214 broken-jump error
  A rule jumps to a chain that is empty or missing
  ${restartIt} Since 1.27 kube-proxy rewrites an unchanged Service only in a full sync.
ST215 orphan-chain info
  Chains of kube-proxy that no rule jumps to
  No action is needed: kube-proxy removes them in its next full sync. KUBE-XLB chains under 1.28 or later stay until the node is rebooted and can block syncs.
ST216 unexpected-rule info
  A rule in kube-proxy's chains that kube-proxy would not have written
  Find out what writes into kube-proxy's chains. A restart of kube-proxy on this node removes the rule.
ST217 missing-rule info
  A rule that kube-proxy would have written is missing, and no other code describes it better
  ${logFirst('did not write the rule')}
ST218 duplicate-rule info
  The same rule is in a chain twice
  No action is needed now. If their number grows, compare the iptables versions of the node and of the kube-proxy image.
ST219 health-check-port-blocked warning
  Health checks of load balancers are not let through: the accept rule is missing, or another rule refuses them first
  ${logFirst('did not write the rule')}
ST301 services-chain-not-hooked error
  A base chain does not jump to kube-proxy's chains
  Restart kube-proxy on this node: it restores its jumps when it starts (from 1.27 on only then and in full syncs). Then find out what removed the jump: a firewall reload, or an agent that rewrites base chains.
ST302 postrouting-broken error
  The masquerade mark is never set, never matched or never acted on
  Restart kube-proxy on this node, and find out what changed the chain. Two agents with the same mark bit are a common cause (masqueradeBit).
ST303 forward-blocked error
  A packet that was already sent to a pod is dropped in FORWARD
  Accept the pod network in FORWARD, or set its policy to ACCEPT, in the tool that sets it (Docker, iptables-persistent, firewalld).
ST304 node-ports-unreachable error
  The jump to the node ports is missing, restricted to the wrong addresses, or shadowed
  Restart kube-proxy on this node. If the addresses are wrong, compare nodePortAddresses with the addresses of the node.
ST305 no-service-rules error
  A node holds none of kube-proxy's Service rules, or lost most of those that lead to Services
  Check whether kube-proxy runs on this node, and its log for errors of iptables-restore or nft: one invalid rule makes the whole transaction fail. Restart it after the cause is removed.
ST306 canary-missing info
  kube-proxy's canary chain is missing from a table: something flushed it
  Wait a minute: kube-proxy rewrites all rules when it notices. Then find out what flushes the table (a firewall reload, iptables-restore without --noflush).
ST401 entry-taken-by-other-rule error
  A third-party rule intercepts a Service's packets before kube-proxy's rules
  Find out which tool wrote the rule (a host port of a pod, a mesh, a firewall). Remove it, or give one of the two another port.
ST402 dropped-by-other-rule error
  A third-party rule drops or rejects a Service's packets
  Find out which tool wrote the rule (firewalld, ufw, a security agent), and add an exception for the traffic of Services there.
ST403 undecided-path warning
  A rule on a Service's path has a match or target that svc-trace cannot evaluate
  Check by hand whether the rule lets the packets pass. An ipset match can be evaluated if the bundle holds ipset-save.
ST501 two-backends error
  Service rules stand in both iptables-legacy and iptables-nft
  Find out which backend the running kube-proxy uses (iptables --version in its container), and flush kube-proxy's chains in the other one, or reboot the node.
ST502 other-mode-leftovers warning
  Rules or virtual servers of a proxy mode that is not running
  Clean up on this node: run kube-proxy --cleanup with the image and flags of its kube-proxy and start it again, or reboot the node.
ST503 mode-mismatch warning
  kube-proxy reports one mode, the kernel holds another
  Restart kube-proxy on this node and check its log for the mode that it chose. Remove the rules of the other mode (kube-proxy --cleanup, or a reboot).
ST504 cluster-cidr-mismatch warning
  The CIDR or interface in the masquerade rules does not cover the node's pods, or is not the configured one
  Compare clusterCIDR and detectLocalMode of kube-proxy with spec.podCIDRs of the nodes and with the pod network of the CNI. Restart kube-proxy after a correction.
ST505 kube-proxy-not-syncing warning
  kube-proxy reports that it is unhealthy, does not run, or its last sync is older than changes that it should have applied
  Check whether this node's kube-proxy runs, check its log for iptables-restore errors and for a watch that hangs, and restart it.
ST506 dump-unreliable warning
  The dump does not show the rules as they are, or is truncated
  Read the node again, with the tools that belong to its kube-proxy (run iptables-save or nft inside the kube-proxy container).
ST507 node-name-mismatch error
  The node's rules treat none of the API's local endpoints as local: kube-proxy runs under another node name
  Start kube-proxy with --hostname-override set to the name of the Node object (metadata.name).
ST508 stale-conntrack warning
  Live connection-tracking entries send a Service's packets to an address that is no endpoint
  Delete the entries on this node: conntrack -D -p PROTOCOL --orig-dst ADDRESS --orig-port-dst PORT. Until then clients that keep their source port get no answer, or that of another pod.
ST509 zone-unknown-to-kube-proxy warning
  For all Services with hints the node uses the endpoints that a node without a zone would use
  Restart kube-proxy on this node: it reads the zone label when it starts (a start-up race of 1.34 to 1.36, or a label that was set later).
ST510 service-name-too-long error
  The name of a Service port is longer than nft accepts, and kube-proxy cannot sync a family because of it
  Upgrade kube-proxy to 1.37, or give the Service or its port a shorter name: namespace, name and port together 126 characters.
ST511 localhost-node-ports-stuck error
  kube-proxy cannot sync a family: it cannot delete the chain that refused node ports on loopback addresses
  Delete the table on this node (nft delete table ip kube-proxy, or ip6); kube-proxy writes it again at its next sync, and until then no Service of the family is served.
ST512 mode-not-set info
  The proxy mode is not set, and the kernel is too old for nftables mode, the default from 1.40 on
  Set \`mode: iptables\` in the configuration of kube-proxy, or upgrade the kernel of the node to 5.13 or newer.
ST513 removed-endpoint-in-use info
  TCP connections are still open to an address that is no usable endpoint of the Service
  Nothing, if the pod is draining. If the pod was deleted, its clients wait for a timeout: restart them, or configure keep-alives and a shorter timeout.
ST514 endpoint-gets-nothing warning
  An endpoint gets none of the new connections on a node although the rules give it a share, and chance does not explain it
  Trace the Service on this node (svc-trace trace SERVICE --node NODE) and look for rules that take its connections elsewhere.
ST515 one-endpoint-gets-all info
  A node's connections to a Service all go to one of several endpoints: session affinity, few clients or long connections
  Nothing, if this is intended. kube-proxy balances connections, not requests: to spread load over long connections, balance in the client, or let clients reconnect periodically.
ST516 two-proxies warning
  Two programs serve Services on the node at once
  Keep one of them, and remove the DaemonSet, the static pod or the setting of the other. Then remove what it has left: ST502 names it.
ST601 forwarding-off error
  The node forwards no packets between its interfaces
  Turn forwarding on, and find out what turned it off: a hardening tool, a sysctl file, or a restart of the network service. Write it to a file in /etc/sysctl.d so that it stays.
ST602 bridged-pods-bypass-rules error
  Packets between pods on the same bridge bypass iptables and nftables
  Load the module br_netfilter and turn the switch on (kubeadm requires both), with files in /etc/modules-load.d and /etc/sysctl.d so that it stays.
ST603 hairpin-off warning
  A pod does not reach itself, or others of its node, through a Service, because bridge ports send nothing back or to each other
  Set hairpinMode in the configuration of the bridge plugin (/etc/cni/net.d), or take portIsolation out, which applies to new pods, and change the ports that are there.
ST604 reverse-path-drops warning
  Packets are dropped, or their answers may be, because their way back is by another interface
  Route replies by the interface that requests come in by; where packets are dropped, rp_filter of the interface may be 2 (loose) instead. The kernel uses the larger of the values of all and of the interface.
ST605 conntrack-table-full warning
  The table of tracked connections is full or nearly full
  Raise nf_conntrack_max (conntrack.maxPerCore in the settings of kube-proxy, which writes it when it starts), and find out which clients open so many connections: conntrack -L -o extended, or kubectl svc-trace top.
ST606 connections-not-tracked warning
  The kernel drops packets because it cannot track their connections
  For insert_failed: two packets of one UDP flow at the same time, as of DNS queries for A and AAAA (options single-request-reopen in resolv.conf, or a DNS cache on the node). For drop: see nf_conntrack_max. Watch the counts: conntrack -S.
ST607 node-ports-in-local-range warning
  Node ports are in the range from which the node picks ports for its own connections
  Reserve the node ports (net.ipv4.ip_local_reserved_ports), or move net.ipv4.ip_local_port_range away from the range of node ports (--service-node-port-range of the API server).
ST608 ipvs-switches-changed warning
  Switches of IPVS lose or delay connections
  Restart kube-proxy on this node: it sets them when it starts. Then find out what changed them.
ST609 every-node-answers-arp warning
  In IPVS mode every node answers ARP for load-balancer addresses that another program announces
  Set ipvs.strictARP in the configuration of kube-proxy and restart it, as MetalLB and kube-vip require for IPVS mode.
ST610 tunnel-larger-than-carrier warning
  The MTU of a tunnel between nodes leaves no room for its headers
  Set the MTU in the network plugin to that of the smallest carrier less the headers of the tunnel, and recreate the pods.
ST611 no-route-to-pods error
  The node has no route to pods, or its own processes have none to Services
  Check the network plugin on this node: its log, and whether it knows the other node. kube-proxy's rules do not matter here.
ST612 tunnel-masqueraded warning
  Packets in a tunnel are masqueraded a second time, because kube-proxy's mark stays on them
  Update the network plugin to a version that leaves marked packets to kube-proxy, or kube-proxy to one that clears its mark (1.16.13, 1.17.9, 1.18.6 or later). Until then, turn off checksum offload of the tunnel: ethtool -K flannel.1 tx-checksum-ip-generic off.
ST613 mtu-differs warning
  Packets between pods may be of another size on this node than on the others
  Set the same MTU on all nodes, in the network plugin or the network of the machines: the smallest that all of them can carry. Recreate the pods of the nodes where it changes.
ST614 loopback-routing-off warning
  Node ports do not answer on 127.0.0.1, because a switch that kube-proxy sets was turned off
  Find out what turned the switch off: a hardening tool, or a sysctl file. If nothing on the node needs node ports on 127.0.0.1, set iptables.localhostNodePorts of kube-proxy to false. If something does, turn the switch on.
ST701 setting-breaks-promise error
  With a setting of its kube-proxy, a node does not serve Services as the API says
  Correct the setting in the configuration of kube-proxy, and restart kube-proxy.
ST702 pods-not-recognized error
  By its settings, kube-proxy takes the node's pods for clients from outside, or others for its pods
  Set clusterCIDR of kube-proxy to the network of all pods (or detectLocalMode: NodeCIDR), and restart kube-proxy.
ST703 known-bug error
  A known bug of this version of kube-proxy breaks what the API promises
  Upgrade kube-proxy.
ST704 limit-of-mode info
  The proxy mode cannot do what the API promises
  Use iptables or nftables mode if the Services need it. Otherwise no action is needed.
ST705 api-newer-than-kube-proxy info
  Services use what this version of kube-proxy does not know
  Upgrade kube-proxy.
ST706 pod-address-lost info
  masqueradeAll hides the addresses of pods from the endpoints
  Set masqueradeAll to false unless the pod network needs it, and restart kube-proxy.
ST801 map-differs error
  The kernel's map does not have what Cilium's agent has in its table
  Read the log of the cilium-agent on this node for failed updates of the map, and compare its size with bpf-lb-map-max. Then restart it (delete its pod): it writes the map again.
ST802 agent-lost-api warning
  Cilium's agent has no connection to the API server, and follows no change, or says that it fails
  Read the log of the cilium-agent on this node for why it does not reach the API server, or what fails, and mend that.
ST803 wildcard-on-node-address error
  An entry in the map drops what is sent to an address of the node itself
  Upgrade Cilium to a patch of 1.19 that writes no such entries, or take the address of the node out of the Service that has it as a load-balancer IP.
ST804 slot-without-backend error
  A slot of the kernel's map leads to no backend: its connections are dropped
  Restart the cilium-agent on this node (delete its pod): it writes the map again. Then check its log for failed updates of the map.
ST805 service-refused error
  Cilium's agent refuses a whole Service, because one of its addresses belongs to another
  Give one of the two Services another address, or another port. If the API no longer has the other one, restart the cilium-agent on this node (delete its pod).
ST806 out-of-rotation info
  Health checks of Cilium took endpoints out of rotation
  Find out why the health checks of these endpoints fail from this node.
ST807 not-compared info
  Frontends of Cilium that the API's Services do not decide: local redirects, proxies, other clusters, older versions
  No action is needed: cilium-dbg service list, in the pod of the agent, shows them.
ST901 node-not-read warning
  A node could not be read
  Read the node with another --transport, or add its files to the bundle. --node selects other nodes.
ST902 family-not-read warning
  A family or table that is needed is missing from the dump
  Collect both iptables-save and ip6tables-save of the node, with all tables.
ST903 no-kube-proxy info
  The node's Services are served by something other than kube-proxy
  Use the tool of the program that serves Services on this node (cilium-dbg service list, ovn-nbctl lb-list).
ST904 changed-while-looking info
  A Service or its slices changed so shortly before the node was read that kube-proxy may not have followed yet
  Check again: findings that remain are not caused by timing.
`;

/** What the catalog says of a finding. */
type CatalogRow = Pick<Check, 'code' | 'name' | 'severity' | 'summary' | 'remedy'>;

const rows = new Map(
  [...catalog.matchAll(/^(\S+) (\S+) (\S+)\n {2}(.*)\n {2}(.*)$/gm)].map(
    ([, code = '', name = '', severity, summary = '', remedy = '']): [string, CatalogRow] => [
      code,
      {code, name, severity: severity as Severity, summary, remedy},
    ],
  ),
);

export function catalogRow(code: string): CatalogRow {
  const row = rows.get(code);
  if (row === undefined) throw new Error(`${code} is not in the catalog`);
  return row;
}

/** What the catalog says of a code, with how it is found. */
export function check(code: string, how: Pick<Check, 'cluster' | 'node' | 'nodes' | 'traffic'>): Check {
  return {...catalogRow(code), ...how};
}
