/** A failure of kube-proxy that its log shows, and what to do about it. */
export interface KnownFailure {
  readonly pattern: RegExp;
  readonly cause: string;
  readonly remedy: string;
  /** What it says of each of these: another line near it says why. */
  readonly explainedBy?: readonly KnownFailure[];
  /** A later line that shows that it is over. */
  readonly endedBy?: RegExp;
  /** Calico in eBPF mode does it, too. */
  readonly mayBeCalico?: true;
}

/** Three lines each: the pattern of a line of a log, the cause, and the remedy. */
function failures(text: TemplateStringsArray, ...values: readonly string[]): readonly KnownFailure[] {
  const rows = String.raw(text, ...values).matchAll(/^(\S.*)\n {2}(.*)\n {2}(.*)$/gm);
  return [...rows].map(([, pattern = '', cause = '', remedy = '']) => ({pattern: new RegExp(pattern, 'i'), cause, remedy}));
}

const kernelModules =
  'Install the kernel modules of the distribution (kernel-modules-extra on RHEL, linux-modules-extra on Ubuntu), load them, and let';

const noScheduler: KnownFailure = {
  pattern: /Could not create dummy VS\b.*\bscheduler=|(?:Add|add) virtual server.*scheduler.*(?:no such file|not found)/,
  cause: 'the kernel has no scheduler of IPVS of the name that the line has: it is misspelled, or its module is not there',
  remedy:
    'Correct ipvs.scheduler in the configuration of kube-proxy (rr, lc, sh and the like), or load the module of that name (modprobe ip_vs_NAME) on the node.',
};

const ofOtherFamily: readonly KnownFailure[] = failures`
bind address: \S+ to interface: \S+ \S+: permission denied
  a Service has an IPv6 address, and this kube-proxy serves IPv4 alone, or IPv6 is off on the node (net.ipv6.conf.all.disable_ipv6)
  Remove the IPv6 address from externalIPs and status.loadBalancer of the Service, or switch IPv6 on and set both families for kube-proxy.
`;

/** Of rules that the node refuses, the more special ones first. The patterns are what kube-proxy, iptables, nft and Go print. */
const failuresOfRules: readonly KnownFailure[] = [
  ...failures`
(?:holding the xtables lock|xtables lock.*(?:timed? ?out|failed)|Resource temporarily unavailable.*xtables)
  another program holds the lock of iptables
  Find the program that runs iptables all the time or hangs in it (lsof /run/xtables.lock on the node), and stop it.
(?:ip6?tables|error (?:creating|checking|appending) (?:chain|rule)).*executable file not found
  there is no iptables where the program runs
  Install iptables there, or use the image that belongs to the version.
\bSet KUBE-[\w-]+ doesn't exist
  a set of ipset that the rules name is not there: another program deleted it, or kube-proxy could not make it
  Look for errors of ipset before this line, and for the program that runs ipset destroy or flush. A restart of kube-proxy makes the sets again.
nfacct.*(?:not supported|missing kernel module|failed|error|no such)|(?:couldn't load match|failed).*nfacct
  the kernel lacks the module xt_nfacct, which the rules of this kube-proxy match with (kubernetes#142068)
  Load the module xt_nfacct, or use a kube-proxy in which the probe was corrected.
`,
  ...failures`
Couldn't (?:load|find) target [\`']KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-
  another program deletes chains of kube-proxy between its syncs
  Find the program that deletes chains of kube-proxy (a network plugin that replaces kube-proxy, such as Calico in eBPF mode, or a firewall), and run only one of the two.
`.map(failure => ({...failure, mayBeCalico: true as const})),
  ...failures`
Couldn't (?:load|find) target [\`']KUBE-MARK-DROP'
  the chain KUBE-MARK-DROP is not there, which kubelet creates in each family that it knows
  Restart kubelet on this node, and check that it and kube-proxy are set for the same families.
unknown option "--(?:xor-mark|random-fully)"|Couldn't (?:load|find) (?:match|target) [\`'][^']+'|Extension \w+ revision \d+ not supported|missing kernel module
  the kernel or iptables of the node lacks an extension that the rules need, and one such rule makes the whole restore fail
  ${kernelModules} kube-proxy try again.
nf_conntrack(?:_max|/parameters/hashsize)?:? .*(?:no such file|read-only file system|permission denied|operation not (?:supported|permitted))
  kube-proxy cannot set the limit of tracked connections, and ends
  Load nf_conntrack on the node (modprobe nf_conntrack). If the node is a container, set conntrack.maxPerCore: 0 in the configuration of kube-proxy, so that it leaves the limit alone.
modprobe: ERROR: could not insert '(?!ip_vs)\w+': Exec format error
  the modprobe of the image of kube-proxy cannot load the modules of this kernel, mostly because they are compressed in another way
  Load the modules on the node itself, which has a modprobe of its own (ip_tables, iptable_nat, iptable_filter, iptable_mangle; ip6 likewise; for every boot in /etc/modules-load.d). kube-proxy then finds them.
Could not process rule: No such file or directory.*\bfib [sd]addr\b
  the kernel refuses rules with fib: mostly it lacks the modules nft_fib, nft_fib_ipv4 and nft_fib_ipv6
  ${kernelModules} kube-proxy try again (CONFIG_NFT_FIB_IPV4 and CONFIG_NFT_FIB_IPV6 of the kernel), or use iptables mode.
`,
  ...failures`
(?:can't use (?:the )?IPVS proxier(?!: error getting ipset)|IPVS proxier will not be used|Native loadbalancing will not work|(?:Running modprobe|modprobe: FATAL: Module) ip_vs\S* (?:failed|not found)|(?:add|get) IPVS service.*no such file or directory)
  the kernel lacks the modules of IPVS
  Load ip_vs, ip_vs_rr (or the module of the scheduler that is set), ip_vs_wrr, ip_vs_sh and nf_conntrack on the node, or set another mode in the configuration of kube-proxy.
`.map(failure => ({...failure, explainedBy: [noScheduler]})),
  ...failures`
parseIP Error ip=\[
  it cannot read real servers as kernels before 3.18 list them (kubernetes#89520), and does not change them
  Upgrade the kernel of the node (3.10 of RHEL 7 is such a one), or use a kube-proxy in which this was corrected.
(?:unable to initialize Netlink socket|Could not fetch rule set generation id: (?!Permission))
  the kernel does not know what iptables or nft ask of nf_tables: a module is missing, or the kernel is too old for the image
  Load nf_tables on the node. If that fails, use a newer kernel, or iptables-legacy and iptables mode.
(?:can't initialize ip6?tables table|Table does not exist \(do you need to insmod|modprobe: (?:FATAL|ERROR))
  the kernel has no such table of iptables: a module is missing
  ${kernelModules} kube-proxy try again; or use nftables mode, where the kernel has no iptables any more.
\bnft(?:ables)?\b.*signal: (?:segmentation fault|aborted|bus error|illegal instruction)
  the nft in the image of kube-proxy crashes, and crashes again after a restart
  Use an image of kube-proxy with a newer nft. A restart does not help: the nft crashes on tables that are on the node (nft list ruleset).
JSON support not compiled-in
  the nft in the image of kube-proxy cannot print JSON, which kube-proxy reads
  Use the image of kube-proxy that belongs to its version, or one whose nft was built with JSON.
(?:table|chain) \`\w+' .*?is incompatible, use 'nft' tool|(?:nft|netlink): .*(?:cache initialization failed|Assertion .* failed|core dumped|segmentation fault)
  the nft or iptables of the image cannot read tables that a newer program wrote
  Use an image of kube-proxy with a newer nft, or have the other program write its rules with an older one. The tables are in nft list ruleset.
in nftables mode requires (?:kernel|the nft)|could not find nftables binary
  the kernel or nft of the node is too old for nftables mode
  Use a node with Linux 5.13 and nft 1.0.1 or later, or set mode: iptables in the configuration of kube-proxy.
error getting ipset version
  ipset does not run: the image of kube-proxy lacks it or its libraries, or the kernel lacks ip_set
  Run ipset --version in the image of kube-proxy and on the node, and modprobe ip_set on the node.
(?:error creating ipset|Failed to make sure ip set)|ipset v\S+: Unknown argument
  ipset cannot create a set of IPVS mode: it is too old, the kernel lacks the type, or an older kube-proxy left one of that name with another type
  Create one by hand on the node (ipset create TRY hash:ip,port,ip comment; ipset destroy TRY): what it answers is the reason. Then update ipset, or load ip_set_hash_ipport, ip_set_hash_ipportip, ip_set_hash_ipportnet, ip_set_hash_ip and ip_set_bitmap_port. If that works, delete the set (ipset destroy).
`,
  ...ofOtherFamily,
  ...failures`
(?:cannot parse '\w+' as a protocol|Failed to add entry: .* to ip ?set)
  ipset cannot write entries of the sets that the rules of IPVS mode match with: mostly its image has no /etc/protocols
  Use an image of kube-proxy with /etc/protocols and /etc/services, or mount those of the node.
`.map(failure => ({...failure, explainedBy: ofOtherFamily})),
  ...failures`
\bip6tables\S* .*host/network \`[\d.]+(?:/\d+)?' not found|\biptables\S* .*host/network \`[\da-f]*:[\da-f:]*(?:/\d+)?' not found
  its rules of one family of addresses have an address of the other, and such a rule makes the whole restore fail
  Find the address that the line names in externalIPs, loadBalancerSourceRanges and status.loadBalancer of the Services (kubectl get services -A -o yaml), or in clusterCIDR and nodePortAddresses of kube-proxy, and remove it.
(?:invalid CIDR address|invalid mask \`|host/network \`[^']*' not found|Bad argument \`(?:-j|KUBE-SVC-\w+)'|clusterCIDR.*(?:invalid|must be))
  a CIDR in its settings is not valid, and a rule with it makes the whole restore fail
  Correct clusterCIDR (or --cluster-cidr) and nodePortAddresses in the configuration of kube-proxy.
(?:Error: Interface does not exist|iifname? .*\*.*(?:error|invalid)|bridgeInterface|interfaceNamePrefix)
  the interface or prefix by which it detects local traffic is not one that nft accepts
  Correct detectLocal in the configuration of kube-proxy: nftables mode before 1.33.6 and 1.34.2 cannot use InterfaceNamePrefix.
`,
];

/** The API server answered. */
const isServed = /Caches are synced\b.*\b(?:service|endpoint)|Successfully retrieved (?:node|NodeIP)/;

/** kube-proxy found its Node, or did without. */
export const isStarted =
  /Caches are synced|Successfully retrieved (?:node|NodeIP)|invalid nodeIP, initializ|[sS]yncProxyRules|Using \w+ Proxier|\b[sS]et(?:ting)? .*nf_conntrack_max|Starting [\w ]+ config/;

const checkServer = 'Check the server in the kubeconfig of kube-proxy, and the way there from this node (curl -k https://SERVER/healthz).';

/** Of kube-proxy itself, and of the API server. */
const otherFailures: readonly KnownFailure[] = [
  ...failures`
is forbidden: User .* cannot (?:list|watch|get|create|patch) 
  the API server does not let kube-proxy read Services, EndpointSlices or Nodes
  Bind the ClusterRole system:node-proxier to the user that the line names.
(?:you must be root|Operation not permitted|can't open lock file.*Permission denied|Permission denied \(you must|/proc/sys/\S+: (?:read-only|permission denied))
  kube-proxy lacks the rights on the node
  Set securityContext.privileged: true on its container, and look for SELinux or AppArmor denials.
x509: (?:certificate is valid for|cannot validate certificate for)
  the certificate of the API server is not for the address at which kube-proxy asks it
  Set server in the kubeconfig of kube-proxy to a name or address that the line names, or renew the certificate with this one.
the server could not find the requested resource
  the API server does not serve a version of the API that this kube-proxy asks for
  Use the kube-proxy of the version of the API server: it may be up to three minors older, and never newer.
(?:x509: |Unauthorized|the server has asked for the client to provide credentials)
  the API server and kube-proxy do not accept the credentials of each other
  Renew the certificate or the token in the kubeconfig of kube-proxy, and check the clock of the node.
`,
  ...failures`
(?<!Dial failed: )dial tcp \S+: (?:(?:connect|getsockopt): )?(?:connection refused|i/o timeout|no route to host|network is unreachable)|dial tcp: lookup \S+|(?:failed to (?:list|watch)|Get \\?"?https:).*(?:TLS handshake timeout|deadline exceeded|Client\.Timeout exceeded)
  kube-proxy does not reach the API server
  ${checkServer}
`.map(failure => ({...failure, endedBy: isServed})),
  ...failures`
(?:failed to select a host interface|Unable to select an IP|no default routes? found)
  the node has no default route, by which kube-proxy finds its address
  Give the node a default route, or set bindAddress (--bind-address) of kube-proxy to the address of the node.
Unable to find HNS Network
  kube-proxy on a Windows node writes no rules, since the network of the network plugin is not there under the name that it looks for
  Start the network plugin of that node first, and give kube-proxy the name of its network (KUBE_NETWORK; Get-HnsNetwork lists them).
`,
  ...failures`
nodes? \\?"[^"]*" not found
  there is no Node of the name under which kube-proxy runs
  Start kube-proxy with --hostname-override set to the name of the Node object (metadata.name).
`.map(failure => ({...failure, endedBy: isStarted})),
  ...failures`
(?:strict decoding error|unknown flag|unable to decode|error unmarshaling|failed to load config|invalid configuration)
  kube-proxy does not understand its configuration or a flag
  Correct the field or flag that the line names: fields of newer versions are errors in older ones.
(?:failed complete|command failed|invalid configuration|Error running ProxyServer).*(?:: |err=")(?:open|stat) \S+: no such file or directory
  a file that kube-proxy is told to read is not there
  Mount the file that the line names, or correct --config and clientConnection.kubeconfig.
\b(?:accept|dial|socket|open) .*too many open files
  the process has no file descriptors left, of which each connection takes one
  Find out which connections it holds (ss -tnp on the node), and raise its limit of open files (LimitNOFILE, ulimit -n).
too many open files
  the node has no inotify instances or files left
  Raise fs.inotify.max_user_instances and fs.inotify.max_user_watches on the node.
`,
  ...failures`
^panic: |Observed a panic: 
  kube-proxy crashed by a fault of its own code, and writes no rules until it is started again
  Use the newest patch release of its version. The lines below name the function, by which known bugs are found.
`.map(failure => ({...failure, endedBy: isServed})),
  ...failures`
bind: address already in use
  another process listens on a port of kube-proxy or on a node port
  Find the process (ss -ltnp on the node): often a second kube-proxy. Stop it, or give it another port. Of node ports that work, kube-proxy 1.23.0 says it without harm (kubernetes#107170).
`,
];

/** All that are known, those that say more first. */
export const knownFailures: readonly KnownFailure[] = [
  ...failuresOfRules,
  ...otherFailures,
  ...failures`
(?:can't determine this node's IP|Failed to retrieve node (?:info|IPs?))
  kube-proxy could not read the Node of its own name
  Compare the name under which it runs (--hostname-override, else the host name) with metadata.name of the Nodes. ${checkServer}
`.map(failure => ({...failure, explainedBy: otherFailures, endedBy: isStarted})),
  ...failures`
failed to (?:list|watch) \*(?!v1\.(?:Pod|Namespace|Secret|ConfigMap)\b)\S+
  kube-proxy does not get Services and endpoints from the API server
  ${checkServer}
`.map(failure => ({...failure, explainedBy: otherFailures, endedBy: isServed})),
  ...failures`
^(?!.*cleaning up ).*(?:(?:iptables|ip6tables|nft)(?:-restore)?.*(?:line \d+ failed|exit status \d)|Failed to execute iptables-restore|nftables sync failed|Could not process rule|Device or resource busy)
  the kernel or iptables refuses its rules, and all changes with them
  Find the rule in the lines after this one in the log. Rules of kube-proxy that contradict each other are rewritten when it is restarted.
`.map(failure => ({...failure, explainedBy: failuresOfRules})),
];

const otherCause = 'Look for another cause: compare ipvsadm -Ln with the EndpointSlices. A restart of kube-proxy ends such lines.';

/** What an administrator should mend although kube-proxy writes its rules. */
export const lesserFailures: readonly KnownFailure[] = [
  ...failures`
missing br-netfilter module or unset (?:sysctl )?br-nf-call-iptables
  what pods on one bridge send to each other skips the rules: a pod does not reach a cluster IP by an endpoint on its own node
  Load br_netfilter on the node and set net.bridge.bridge-nf-call-iptables to 1, in /etc/modules-load.d and /etc/sysctl.d too.
unknown proxy mode, assuming iptables
  the mode in its configuration is none that it knows (misspelled, with a space, or of a newer version), and it runs in iptables mode
  Correct mode (--proxy-mode): iptables, ipvs or nftables.
(?:Failed to unbind service|unbind address: \S+ from interface)
  what it wants to remove from kube-ipvs0 is gone already, or is the address that the kernel gave it: no packet is affected
  ${otherCause}
invalid nodeIP, initializ\w+ kube-proxy with 127\.0\.0\.1
  it found no Node of its name when it started, and goes on with 127.0.0.1 as the address of the node: if the Node has another name, no endpoint is on this node for it, and Services with a Local traffic policy are dropped
  Start kube-proxy with --hostname-override set to the name of the Node object (metadata.name), or again once the Node is there.
can't set sysctl net/ipv4/vs/\w+, kernel version must be at least
  the kernel is older than a switch of IPVS that kube-proxy sets: it goes on without it
  Rules are written all the same. On such a kernel a client that uses a port again may still be sent to a pod that is gone: upgrade the kernel where connections time out after pods were replaced.
in (?:endpointslice|clusterIP|endpoints?) has incorrect IP version
  it serves the other family of addresses alone, and leaves those of this Service out
  Turn dual stack on for kube-proxy too (by default from 1.21 on), with a clusterCIDR and node addresses of both families.
can't find the real server
  a real server that it wants to remove is gone already, and it tries again every minute: no packet is affected
  ${otherCause}
missing (?:service entry|endpoints)
  in userspace mode kube-proxy serves the port of the Service, and knows neither its entry nor an endpoint of it: it missed updates, or there is none
  Compare with kubectl get endpoints. If the Service has some, restart kube-proxy: it reads all of them again.
Dial failed: dial tcp|failed to connect to an endpoint
  in userspace mode kube-proxy itself connects to the endpoint, which does not accept the connection
  Check that its pods listen on that port (targetPort), and that this node reaches them.
(?:looking for path of conntrack|"conntrack": executable file not found)
  the program conntrack is not there, so that UDP clients keep an endpoint that is gone
  Install conntrack (conntrack-tools) where kube-proxy runs, or use its own image.
`,
];
