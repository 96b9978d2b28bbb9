import {meanings, meant, untranslatedText} from './captured-packets.ts';

/** Of a cluster IP. */
export const withoutPing =
  'cluster IPs do not answer ping, by design: the ports of the Service alone are translated, and in IPVS mode KUBE-IPVS-FILTER refuses the rest';

/** Of the address of a load balancer. */
export const balancerWithoutPing =
  'the address of a load balancer need not answer ping: rules translate the ports of the Service alone. curl to a port, and arping from the same network, show whether it is reached';

/** Of a node port. */
export const atLoopback =
  'nftables mode and IPVS mode serve none there, and a host whose nodes are containers or virtual machines (minikube, kind, Docker Desktop) is no node. The address of a node, minikube service NAME --url or kubectl port-forward leads there';

const noSession =
  'calico-node has no BGP session with $1: pods of those nodes are not reached from this one. A firewall stops TCP port 179, or calico took the address of another interface (IP_AUTODETECTION_METHOD)';

/** Of a firewall. */
const stoppedByIt =
  ' packets arrive, as the text says: its rules drop or refuse those of pods or of other nodes. The networks of pods and Services, their interfaces and the ports of the network plugin must pass it';

/** Of DNS. */
const unknownName = ': packets reach DNS, and the name, its namespace or the search domains of the client are not those of a Service';

const told = meanings(String.raw`
\bip6?tables\S* .*-\w*(?:[LS]|list\S*)\s+(KUBE-[\w-]+).*?\bip6?tables\S*(?: v\S+ \S+)?: No chain/target/match by that name
  there is no chain $1: in iptables and IPVS mode kube-proxy has not written its rules, or wrote them to the other backend (iptables-nft-save and iptables-legacy-save show both)
(?:Error: No such file or directory.*)?\blist (?:table|chain|map|set) (ip6? kube-proxy)\b(?:.*Error: No such file or directory|(?<=Error: No such file or directory.{0,200}))
  there is no table $1, or not what was asked of it: kube-proxy does not run in nftables mode on this node, or has written no rules
^\d+\s+(\S+:\d+\S*)\s+(?:ClusterIP|NodePort|LoadBalancer|ExternalIPs|HostPort|LocalRedirect)\s+(?:$|\d+\s+\S+:\d+)
  the Cilium agent knows no backend of $1: it drops or refuses connections
^cpu=\d+\s.*?\binsert_failed=([1-9]\d*)
  the kernel dropped $1 packets of new flows, since another packet had taken their translation (insert_failed): mostly two DNS requests from one socket at once, one of which is sent again after 5 s. NodeLocal DNSCache or TCP avoids it
node "([^"]+)" pod cidr not assigned
  the Node $1 has no podCIDR, so that flannel gives its pods no network: kube-controller-manager gives one with --allocate-node-cidrs and --cluster-cidr (kubeadm init --pod-network-cidr)
subnet "([^"]+)" specified in the flannel net config doesn't contain "([^"]+)" PodCIDR of the "([^"]+)" node
  the network of flannel ($1) does not contain $2, the podCIDR of $3: pods of the node get no network. Network in the ConfigMap of flannel must be that of the cluster
"?([\w.-]+?)"? already has an IP address different from (\S+)
  $1 has the address of an earlier network, and pods of the node get none of $2: the plugin makes $1 again after ip link delete $1
BGP not established with ((?:(?:, ?)?(?:(?:\d+\.){3}\d{1,3}?(?=\d{4}-\d\d-|\D|$)|[\da-f]*:[\da-f:]+))+)
  ${noSession}
^[|\s]*([\d.]{7,}|[\da-f]*:[\da-f:]+)\s*\|\s*(?:node|global|[a-z-]+ )[^|]*\|\s*(?!up\b)\w+\s*\|
  ${noSession}
node IP: "([^"]+)" not found in the host's network interfaces
  no interface of the node has $1 any more, under which kubelet registers it: Services of its programs, such as the API server, lead to that address. --node-ip must be one that the node has
failed to add vxlanRoute \((\S+) -> \S+?\): ([a-z ]*[a-z])
  flannel cannot write the route to $1 ($2), and does not reach its pods: ip addr shows whether flannel.1 is up and has an address of the podCIDR of this node
lookup (\S+) on (\S+:53): no such host
  $2 answers, and knows no name $1${unknownName}
^\d+: (flannel\.\d+|flannel-wg|vxlan\.calico|wireguard\.cali|cilium_vxlan|antrea-tun0)\S*: <(?![^>]*\bUP\b)[^>]*>
  $1 is down, through which packets go to pods of other nodes: the network plugin sets it up when it starts, and its log on this node says why it did not
^(\S+)\s+(?:Not)?Ready\S*\s+\S+\s+\w+\s+v\d\S*\s+(10\.0\.[2-5]\.15)\s
  kubelet of $1 registers $2 as the address of its node, which each machine of VirtualBox has behind its NAT: what other nodes send to its pods or its kubelet does not arrive. --node-ip of kubelet must be the address by which they reach it
^([\w-]+) \(active\)\s+target: (?:default|DROP|%%REJECT%%)\s
  firewalld is active (zone $1) and refuses what passes the node, unless the interfaces or networks of pods (cni0, flannel.1, cali+) are in a zone that accepts: firewall-cmd --zone=trusted --add-source, for the networks of pods and of Services
^(?:kube-system\s+)?(kube-proxy|kube-router|kube-flannel\S*|calico-node|cilium|antrea-agent|aws-node|weave-net)\s+(\d+)\s+\d+\s+(?!\2\s)(\d+)\s+\d+\s+\d+\s
  $1 is ready on $3 of the $2 nodes where it should run: on the others rules and routes are those of before, or none. kubectl -n kube-system get pods -o wide shows which, and kubectl logs --previous why
daemonsets\S* "(kube-proxy)" not found
  there is no DaemonSet $1: unless another program serves Services (Cilium in place of kube-proxy, k3s with its own), no rule leads to their addresses
\bExternalName\s+<none>\s+(\S+)\s.*[Cc]ould not resolve host: (\S+)
  $2 is of type ExternalName: DNS answers with the name $1 in its place, which the client does not resolve, and no rule of kube-proxy is about it
\|\s*minikube\s*\|\s*(docker|podman)\s*\|[^|]*\|\s*([\d.]+)\s*\|
  the node of minikube is a container ($1): on macOS and Windows nothing of the host leads to its address $2. minikube service NAME --url, minikube tunnel or kubectl port-forward do
POD-SELECTOR\s+AGE\s+(?:\S+\s+)??([a-z0-9.-]+)\s+(?:<none>|[\w./-]+=\S*)\s+\d+[smhdy]
  NetworkPolicies are there ($1): of packets to or from pods that one selects (<none>: all of its namespace) those that none admits are dropped, whatever the rules of Services
\b(cilium_lb\w+) map\b.*\b(?:map is full|[Aa]rgument list too long)
  the map $1 of Cilium is full, so that its agent programs no further Service or endpoint on this node: bpf.lbMapMax (bpf-lb-map-max) must be larger
\btrace(?:route|path)6? to (10\.(?:96|43)\.\d+\.\d+)\b
  $1 is in the usual range of cluster IPs, which no host has: rules translate packets to the ports of a Service alone, and those of traceroute leave by the default route. curl to a port shows whether the Service answers
curl: \(52\) Empty reply from server
  a program took the connection of curl and ended it without an answer: packets get there and back, and what listens at the target port does not speak HTTP, or asks for TLS (https)
^(\S+)\s+NotReady\S*\s+\S+\s+\w+\s+v\d
  node $1 is not ready: its pods are no endpoints that are ready, and its rules may be those of before. kubectl describe node says why
cni plugin not initialized|cni config uninitialized|No networks found in /etc/cni/net\.d
  a node has no network plugin (/etc/cni/net.d is empty): its pods get no address and are no endpoints, and pods of other nodes do not reach it
plugin/loop: (?:Loop \(\S+ -> :\d+\) detected|Seen .* loop detected)
  CoreDNS sends requests to itself and ends: the resolv.conf that it forwards to names the resolver of the node itself (127.0.0.53). resolvConf of kubelet, or forward in the Corefile, must name other servers
(?:\[ERROR\] (?:plugin/errors: )?\d .*?|unreachable backend: |\b(?:A|AAAA|SRV|PTR|HINFO): )\b(?:read|dial) udp (?:\S+->)?(\S+):53: (i/o timeout|[a-z ]*(?:refused|unreachable|no route to host))
  CoreDNS forwards names outside of the cluster to $1, and gets no answer ($2): forward in the Corefile, or the resolv.conf that it reads, must name servers that pods reach (masqueraded by the network plugin), and not the Service of CoreDNS itself
(?:dial tcp|connect to) (\d+\.\d+\.\d+\.\d+)(?::| port )\d+.*?[Nn]etwork is unreachable
  no route leads to $1 where the client runs: the kernel refuses packets before it asks any rule. The node or pod needs a default route, wherever it leads (ip route)
\bIPVS: \w+: (\w+ \S+:\d+) - no destination available
  the virtual server $1 has no real server that takes connections, as the kernel says: there is none, or all have the weight 0 (ipvsadm -Ln)
^X-Squid-Error|\bNetwork Error \(tcp_error\)|<title>ERROR: The requested URL could not be retrieved
  an HTTP proxy answers in place of the Service, since the client's environment names one (http_proxy): no_proxy must have the networks of pods and Services
plugin/(?:errors|loop)?.*\bno next plugin found
  CoreDNS has nothing to forward names outside of the cluster to: its Corefile has no forward (or proxy), so that it answers SERVFAIL for them
(?:Using interface with name \S+ and address |public-ip[=:]\s*"?)(10\.0\.[2-5]\.15)\b|\b(10\.0\.[2-5]\.15)\b.*\bflannel|\bvxlan id \d+ local (10\.0\.[2-5]\.15)\b
  the network plugin takes $1 for the address of a node, which each machine of VirtualBox has behind its NAT: pods of other nodes are not reached. --iface of flannel, or IP_AUTODETECTION_METHOD of calico, must name the interface by which nodes reach each other
\bkubernetes\s+(10\.0\.[2-5]\.15):\d+
  the API server is announced at $1, which each machine of VirtualBox has behind its NAT: on other nodes its Service leads to the node itself. --advertise-address of kube-apiserver must be another one
[Ss]ervice "?([\w.-]+/[\w.-]+)"? does not have any active [Ee]ndpoint|(?:Endpoints|Service endpoints) not (?:available|found) for "?([\w.-]+/[\w.-]+)|Skipping service: no endpoints found.*?\b(?:serviceName|service)=([\w.-]+)
  $1 has no ready endpoint, as the ingress controller says: no pod that its selector matches is ready, or the port that the Ingress names has none
(?:[Ee]rror (?:getting|obtaining) (?:Endpoints for )?Service|service) "?([\w.-]+/[\w.-]+)"?.*? (?:no object matching key|was not found|does not exist)|Service not found for "?([\w.-]+/[\w.-]+)|<error: (?:endpoints|services?) "([^"]+)" not found>
  an Ingress names the Service $1, which does not exist in its namespace
while connecting to upstream.*? upstream: "\w+://127\.[\d.]+:
  nginx itself refuses: it has an address of its own in place of the Service of the Ingress: that Service, its port or its endpoints are not there (kubectl describe ingress), or the class of the Ingress is that of another controller
connect\(\) failed \(111: Connection refused\) while connecting to upstream.*? upstream: "\w+://((?!127\.)[\d.]+:\d+)
  nginx is refused by $1, an endpoint: no program of the pod listens at this port (targetPort), or it does on 127.0.0.1 alone
connect\(\) failed \(113: .*?\) while connecting to upstream.*? upstream: "\w+://((?!127\.)[\d.]+:\d+)
  nginx does not reach $1, an endpoint, and is told "no route to host": a firewall refuses what goes to the pod (REJECT, as firewalld writes it, on either node), or the pod is gone
upstream timed out \(110: .*?\) while connecting to upstream.*? upstream: "\w+://((?!127\.)[\d.]+:\d+)
  nginx gets no answer from $1, an endpoint: packets or answers are lost, by the network plugin or a firewall between nodes, or by a NetworkPolicy
failed to ensure load balancer(?: for service )?([\w./-]*): (.+?)[\s"'\`]*$
  the cloud gives the Service $1 no load balancer, which kube-proxy never does: $2
didn't have free ports for the requested pod ports
  a pod is not placed, since another pod has the port of the node that it asks for (hostPort). Those named svclb-… are of ServiceLB of k3s: two Services of type LoadBalancer cannot have one port, such as 80 and 443 of traefik
write to '(127\.[\d.]+)': Connection refused
  the resolv.conf of a pod names $1, which is the pod itself and not the resolver of the node: resolvConf of kubelet must name a file with other servers (/run/systemd/resolve/resolv.conf)
no available IPs|can't satisfy the requested IP|"?([\d.]+)"? is not allowed in (?:config|any pool)
  MetalLB gives the Service no address: its pools (IPAddressPool) have none that is free, that the Service may have, or that it asks for
failed to find plugin "([\w-]+)" in path
  the program $1 of the network plugin is not in /opt/cni/bin of the node, so that pods there get no address and are no endpoints
(/run/flannel/subnet\.env|/var/lib/calico/nodename): no such file
  the network plugin has not written $1 on the node: its pod there does not run or has failed (its log says why), and pods get no address
x509: certificate is valid for (.+?), not ([\w.:-]+)
  the API server is asked at $2, for which its certificate is not ($1): kubeadm init --apiserver-cert-extra-sans, or a new certificate after a change of the Service range
Invalid value: "?([\w.]+?)"?: (?:failed to allocate (?:\w+ )?(?:IP|port) \S+: )?provided (IP|port) is (already allocated|not in the valid range[^"\\]*)
  the API server refuses the Service, since the $2 that it asks for ($1) is $3
failed calling webhook .*?Post "?https://([\w-]+)\.([\w-]+)\.svc[:/].*?: (context deadline exceeded|net/http: request canceled|dial tcp \S+ i/o timeout)
  the API server gets no answer from the pods of $2/$1 ($3): it connects from the control plane, at the port of the pods and not at that of the Service. A firewall, or a control plane outside of the network of pods, stops it
UDP: bad checksum\. From ([\d.]+):\d+ to ([\d.]+):(?:8472|4789)\b
  $2 drops packets of VXLAN from $1, since their checksum of UDP is wrong: ethtool -K flannel.1 tx-checksum-ip-generic off (or of vxlan.calico) avoids it
failed to assign an IP address to container
  the network plugin of AWS has no free address for a pod: it is no endpoint, and does not start. The subnet is full, or the node has all addresses that its instance type may have
Failed to find (?:any valid )?interface .*?failed to find interface (\S+)
  flannel does not find the interface $1 (--iface) and ends: pods of the node get no network. Name one that the node has, or none
BIRD is not ready: Error querying BIRD
  BIRD of calico-node does not run, so that routes to pods of other nodes are missing: its log says why (a node without an address, or another BIRD on it)
Kernel's RPF check is set to 'loose'
  calico-node ends, since rp_filter is 2 (loose), and does not connect the pods of its node: set net.ipv4.conf.all.rp_filter to 1 or 0, or FELIX_IGNORELOOSERPF
\b(?:[Ee]xternal|assigned|[Ll]oad ?[Bb]alancer)[ -][Ii][Pp]s? (?:is |are |does |do )?not (?:ping|respond\w* to ping)
  ${balancerWithoutPing}
(?:FORWARD|[Ff]orward)['"\`]?(?: chain)?(?:'s)?(?: default)? policy (?:of iptables )?(?:is|was|set to|of|to) ['"\`]?DROP|(?:DROP|[Dd]rop) policy (?:on|of|for|in) (?:the |your |my )?(?:FORWARD|[Ff]orward)\b|policy of (?:the )?FORWARD(?: chain)? (?:is|was) DROP
  the policy of filter/FORWARD is DROP, as the text says: packets of pods that no rule accepts are dropped. Docker sets it; a network plugin, or iptables -P FORWARD ACCEPT, lets them pass
^(?!.*ExecStart).*(?:\biptables (?:-w )?(?:-P|--policy|-I)|--add-rule ipv[46] filter) (FORWARD|INPUT|DOCKER-USER) (?:.*-j )?ACCEPT
  the text lets $1 of table filter accept packets: where that helps, its policy (DROP, as Docker sets it for FORWARD) or a rule of a firewall stopped those of pods
\b(?:(?:[Dd]isabl|[Ss]topp|[Tt]urn|[Ff]lush)(?:ing|ed)(?: off)?|(?:[Ww]hen|[Ii]f|[Oo]nce|[Aa]fter) (?:[Ii]|we) (?:stop|disable|flush|turn off)) (?:the |my |all )*(firewalld|ufw|iptables|firewall)(?!.*?\?)(?:(?!n't| not | no )[^.])*?\b(?:fix|work|solv|resolv|help)
  without $1${stoppedByIt}
(?<!没有?|未|不)(?:开启|启用|打开|启动)了?\s?(?:防火墙|firewalld|ufw|iptables)[^。]{0,6}(?:后|之后|就)[^。]*(?:不了|无法|不通|失败|超时|不能)|(?:关闭|停止|关掉|禁用)了?\s?(?:防火墙|firewalld|ufw|iptables)[^。]{0,6}(?:后|之后|就)(?:(?!还是|仍|依然|不)[^。])*(?:正常|可以|好了|解决|通了)
  without the firewall${stoppedByIt}
unreachable backend: no upstream host
  CoreDNS has no server for names outside of the cluster that answers: those of forward in the Corefile, or of the resolv.conf that it reads, are not reached from its pod (a firewall, no masquerading)
Hairpin setup failed for pod "([^"_]+)_
  kubelet cannot let the pod $1 reach itself through its own Service (hairpin mode): the end of its log line says why
\bfrom (?:within |inside )?(?:the |a )?(?:[\w-]+ ){0,3}(?:pod|Pod|container) itself\b|\b[Pp]ods? (?:can ?not|can'?t|could ?n[o']t|is unable to|are unable to|does not|doesn't) (?:access|reach|connect to|talk to|resolve|visit|curl) (?:(?:the |its |a |this )?[Ss]ervice )?(?:itself|themselves|its own|their own)\b|[Pp]od\S{0,3}\s*(?:内|里|中)?\S{0,6}\s*(?:通过|经|用|使用|访问)[^。,，;；]{0,30}(?:自己|自身|本身)(?!搭|部署|创建|写|定义|编)[^。;；]{0,20}(?:不通|超时|失败|不了|无法|不能|拒绝)|(?:无法|不能|不通)[^。,，;；]{0,12}(?:访问|连接)[^。,，;；]{0,12}(?:自己|自身)(?!搭|部署|创建|写|定义|编)
  a pod that its own Service sends back to itself gets an answer only where its interface has hairpin mode (hairpinMode of the network plugin; cat /sys/class/net/cni0/brif/*/hairpin_mode) and such packets are masqueraded
\b(?:[Aa]ll?ow|[Oo]pen)\w*[^.]{0,40}\bTCP\b[^.]{0,40}\bnot UDP\b|\b(?:8472|4789)(?:/udp)?\b[^.]{0,40}\b(?:(?:was|is|were|are|being|got) (?:blocked|closed|dropped|filtered|not (?:open|allowed))|(?:wasn't|isn't) (?:open|allowed))|\b(?:missed|forgot|had|needed|failed) to (?:open|allow)\b[^.]{0,40}\b(?:8472|4789|UDP)\b
  a firewall between the nodes stops UDP, as the text says: packets to pods of other nodes go in UDP (VXLAN: port 8472 of flannel, 4789 of Calico)
\blisten\w* (?:only )?(?:on|at|to) ['"\`]*(?:localhost|127\.0\.0\.1)['"\`]* (?:and not|instead of|rather than|not) |\blisten\w* only (?:on|at|to) ['"\`]*(?:localhost|127\.0\.0\.1)
  a program that listens at 127.0.0.1 alone gets nothing that is sent to the address of its pod: it must listen at 0.0.0.0 (or ::)
\bcurl (?:-\S+ )*(?:https?://)?(?:localhost|127\.0\.0\.1):(?:<[^>]*[Pp]ort[^>]*>|\$\{?\w*PORT\w*\}?|3[0-2]\d{3}\b)[^.]*?(?:refused|timed out|time ?out)
  a node port is asked at 127.0.0.1: ${atLoopback}
(?:[Rr]esolved|[Ss]ol(?:ved|ution)|[Ff]ix(?:ed)?|[Ww]orks)\b[^.]*\biptables\W{1,3}(?:in|to) [Ll]egacy|update-alternatives --set iptables \S*iptables-legacy
  with iptables-legacy packets arrive, as the text says: kube-proxy, the network plugin and firewalls of a node must write to one backend of iptables (iptables-nft-save and iptables-legacy-save show both)
\biptables (?:- ?F|--flush)\b[^.]*?\b(?:recover|fix|work|(?:re)?solv|help)
  without the rules of iptables packets arrive, as the text says: one of another program stops them, and those of kube-proxy are written again. iptables-save before that shows which
panic: (?<=\w.{0,99}\Wpanic: )(runtime error: [a-z ]+[a-z])
  a program crashed ($1): if it is kube-proxy, it may have missed the update at which it did, and its rules are old until it is started again. A newer patch may have mended it
^["'/* ]*([\w.-]+/[\w.:-]+) has no endpoints\b
  a rule of kube-proxy refuses $1: for the kube-proxy of that node it has no endpoint
node\.kubernetes\.io/(exclude-from-external-load-balancers)
  a node with the label $1 serves no load balancer: clouds send nothing to it, and MetalLB announces no address from it (kubeadm gives it to control planes). Remove the label, or set ignoreExcludeLB of MetalLB
\b(?:TCP|UDP) connection from ([\d.]+):\d+ to ([\d.]+:\d+) blocked by Weave NPC
  NetworkPolicies keep $1 from $2, as weave-npc says: none admits that sender. An address that is of no pod stands for one whose packets were masqueraded (masqueradeAll, a wrong clusterCIDR), which no podSelector matches
Service ([\w.-]+) does not have a service port ([\w-]+)
  kubectl port-forward asks for port $2 of the Service $1, which has no such port: it names a port of the Service, and not that of the pods (targetPort)
clusterCIDR not specified, unable to distinguish
  kube-proxy has no clusterCIDR: it masquerades nothing of what comes to cluster IPs, so that nodes and hosts outside may get no answer from pods of other nodes (kubeadm init --pod-network-cidr sets it)
"localEndpoints": ?0\b
  a health check of kube-proxy says that its node has no endpoint of the Service, so that load balancers send nothing there: where a ready pod of it runs there, kube-proxy takes itself for another node (hostnameOverride must be the name of the Node)
["'\`(“]-A (FORWARD|INPUT) -j (REJECT|DROP)\b|\biptables (?:-w )?(?:-D|--delete) (FORWARD|INPUT) .*-j (REJECT|DROP)\b
  the text names a rule of $1 with $2: it stops every packet that no rule before it accepts, and so those of pods. Rules for the networks of pods and Services must come before it
(?:holding the xtables lock|lock /run/xtables\.lock)
  another program holds the lock of iptables, and kube-proxy or a network plugin writes no rules meanwhile: lsof /run/xtables.lock shows which
^\s*Chain FORWARD \(policy DROP ([1-9]\w*) packets
  the policy of filter/FORWARD dropped $1 packets that no rule of it accepted, which may be those of pods
\b(\w+_cache): neighbor table overflow
  the kernel has no place for more neighbors ($1) and drops packets to new ones: net.ipv4.neigh.default.gc_thresh1, 2 and 3 are too small for the pods and nodes
is forbidden: User "(system:[^"]+)" cannot (\w+) resource "(services|endpoints|endpointslices|nodes|pods|namespaces)"
  the API server does not let $1 $2 $3, so that the program does not follow them: rules of kube-proxy are old, DNS does not know Services, a network plugin does not connect the pods of its node. Its ClusterRole or ClusterRoleBinding is missing or too old
Post "?https?:\/\/[\w-]+\.([\w-]+)\.svc.*?no endpoints available for service "?(?:https?:)?([\w-]+)
  $1/$2 has no ready endpoint, and the API server finds none to connect to: no pod that its selector matches is ready
^(?!.*\.svc\b).*no endpoints available for service "?(?:https?:)?([\w-]+)
  $1 has no ready endpoint, and the API server finds none to connect to: no pod that its selector matches is ready
(?:[Cc]an ?no?t|[Cc]an't|[Uu]nable to|not able to) ping (?:a |the |my )?(?:[Cc]luster|[Ss]ervice)[ -]?(?:IP|ip)s?\b|\b(?:[Cc]luster|[Ss]ervice)[ -]?(?:IP|ip)s?\b.{0,60}?\bnot (?:\w+ )?(?:ping|respond\w* to ping|answer\w* ping)
  ${withoutPing}
\breply from unexpected source: (\S+)#\d+, expected (\S+)#\d+
  ${untranslatedText('$1', '$2')}
"reason":"notOwner".*?"service":"([^"]+)"
  the speaker of MetalLB on one node withdraws $1 (notOwner): another node announces it (event nodeAssigned), or none may: with externalTrafficPolicy Local one with a ready endpoint alone, and none that nodeSelectors of the L2Advertisement or the label exclude-from-external-load-balancers leave out
NAT: 1st level lookup addr=[\da-f]{8} port=(3[0-2]\d{3})\b.*\bnodeport miss\b
  Calico's eBPF mode has no node port $1 where a packet asks for it ("nodeport miss"): its tables lack the Service, or the node does not serve it at that address (calico-node -bpf nat dump)
^([\d.]+|[\da-f:]+) port (\d+) proto \d+ id \d+ count 0 local 0\b
  the rules of Calico's eBPF mode have no backend for $1, port $2, on this node (count 0): it drops or refuses connections. If the Service has ready endpoints, the log of calico-node says why it lacks them
^(?:[\da-f]{8}-\S+\s+\S+\s+)?(?:tcp|udp|sctp)\s+([\d.]+:\d+)\s*(?:$|(?:tcp|udp|sctp)\s|[\da-f]{8}-|\S*[$#] )
  a load balancer of OVN has no backend for $1 (ovn-nbctl lb-list): OVN-Kubernetes knows no endpoint for it, or, of a Local policy, none on that node
^\d+: kube-tunnel-if\S*: <(?![^>]*\bUP\b)[^>]*>
  kube-tunnel-if of a pod is down, to which kube-router sends what comes for an external IP with DSR (kube-router.io/service.dsr): the pod drops it. The log of kube-router on that node says why
[Tt]he (?:Endpoints|EndpointSlice) "?([\w.-]+)"? is invalid: .*?Invalid value: "?([^"\s]+?)"?: (m[au][\w ]*\w)
  the API server refuses the endpoints $1, since $2 $3: without them the Service has no endpoint. Programs of a node are asked at its own address, and must listen there
\[ip6?tables(?:-\w+)*\] <defunct>
  an iptables that kube-proxy started has ended, and its parent takes no notice (<defunct>): if that is kube-proxy, it hangs and writes no rules until it is started again
\biptables (?:-t filter )?(?:-D|--delete) KUBE-FORWARD\b.*\bINVALID\b|\b(?:[Rr]emov|[Dd]elet|[Dd]isabl)\w*\b[^.]{0,80}\bINVALID\b[^.]{0,80}\b(?:works?|solv\w+|fix\w*|helps?|resolv\w+)\b
  the text takes away the rule of KUBE-FORWARD that drops INVALID packets: where that helps, answers take another way than requests (asymmetric routes), and this node does not know the connection. Route both by one node, or set net.netfilter.nf_conntrack_tcp_be_liberal to 1 (kube-proxy from 1.29 on)
Skipped creating Hns LoadBalancer for cluster ip resources.*?clusterIP="([\d.]+)"
  kube-proxy on a Windows node makes no load balancer for the cluster IP $1: all endpoints are about to end, or, with externalTrafficPolicy Local and kube-proxy 1.26, none is on that node
([\d.]+)\.(3[0-2]\d{3}) > [\d.]+: sctp\b.{0,20}\[ABORT\]
  $1 itself answers SCTP at its port $2 with ABORT: if that is a node port, the node lacks its rules (iptables-save), or its kernel nf_conntrack_proto_sctp or nf_nat_proto_sctp
BPF dataplane mode enabled but not supported by the kernel
  Calico has switched its eBPF mode off, which needs a newer kernel: without kube-proxy beside it nobody serves Services there
(\S+) in \w+ has incorrect IP version \(service ([\w./-]+)\)
  kube-proxy leaves out $1 of $2, since it runs for the other family of addresses alone (nodes, networks of pods and Service ranges need both; up to 1.20 the feature gate IPv6DualStack, too)
TopologyAwareHintsDisabled\b.*?\b((?:Insufficient|Unable|Nodes|No) [\w ]*\w)
  the controller of EndpointSlices gives no topology hints ($1): connections go to all zones. Nodes need the label topology.kubernetes.io/zone, and each zone enough endpoints
\b(?:fwmark:|FwMark ?=|not from all fwmark) (0x[\da-f]*[89a-f][\da-f]{3})\b
  the mark $1 (as WireGuard gives to packets of its tunnel) has the bit 0x8000, whose packets KUBE-FIREWALL drops (kubelet up to 1.26): give WireGuard another one (FwMark)
\bIP (?!\S+ > \S+: ICMP time)\S+ > (\S+?): ICMP echo request.*?\bIP (\S+) > \S+: ICMP time exceeded in-transit
  $2 answers that what is sent to $1 has been on its way for too long: unless the client is traceroute, packets go round between $2 and a router, as none of its routes leads to the pod (ip route get $1, ip rule)
Address(?: \d+)?:\s+(\S+?)[:#]53\b.{0,40}\*\* server can't find (\S+): NXDOMAIN
  $1 answers, and knows no name $2${unknownName}
Address(?: \d+)?:\s+(\S+?)[:#]53\b.{0,40}\*\* server can't find (\S+): (?:SERVFAIL|REFUSED)
  $1 answers that it cannot resolve $2: packets reach DNS, and CoreDNS does not reach the API server or the servers that it forwards to, as its log says
`);

/** A rule of a dump, of which there may be a million. */
const isRule = /^(?:\[\d+:\d+\] )?-A |^:/;

/** What lines say, which terminals and logs break; one cause of several servers is told once. */
export function toldCauses(lines: readonly string[]): readonly string[] {
  const parts = lines.map(line => line.trim().replace(/^```.*/, ''));
  const entries = lines.flatMap((line, at) => {
    if (line === '' || isRule.test(line)) return [];
    const text = parts.slice(at, at + maxBroken).join(' ');
    return [...piecesOf(text.replaceAll('\\"', '"'))];
  });
  return meant(told, entries).map(({text}) => text);
}

/** Lines of one entry. */
const maxBroken = 3;

/** Some patterns look from each word to the end: an entry of any length would take the square of it. */
function* piecesOf(entry: string): Iterable<string> {
  let start = 0;
  while (entry.length - start > longestPiece) {
    const space = entry.lastIndexOf(' ', start + longestPiece);
    const end = space > start ? space : start + longestPiece;
    yield entry.slice(start, end);
    start = end;
  }
  yield entry.slice(start);
}

const longestPiece = 4000;
