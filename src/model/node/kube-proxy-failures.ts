/** The name of the log of kube-proxy in a bundle. */
export const kubeProxyLog = 'kube-proxy.log';

/** A failure of kube-proxy that its log shows, and what to do about it. */
export interface KnownFailure {
  readonly pattern: RegExp;
  readonly cause: string;
  readonly remedy: string;
}

const kernelModules =
  'Install the kernel modules of the distribution (kernel-modules-extra on RHEL, linux-modules-extra on Ubuntu), load them, and let';

/** The more special ones first. The patterns are what kube-proxy, iptables, nft and Go print. */
const knownFailures: readonly KnownFailure[] = [
  {
    pattern: /.*(?:holding the xtables lock|xtables lock.*(?:timed? ?out|failed)|Resource temporarily unavailable.*xtables).*/i,
    cause: 'another program holds the lock of iptables',
    remedy: 'Find the program that runs iptables all the time or hangs in it (lsof /run/xtables.lock on the node), and stop it.',
  },
  {
    pattern: /.*nfacct.*(?:not supported|missing kernel module|failed|error|no such).*|.*(?:couldn't load match|failed).*nfacct.*/i,
    cause: 'the kernel lacks the module xt_nfacct, which the rules of this kube-proxy match with (kubernetes#142068)',
    remedy: 'Load the module xt_nfacct, or use a kube-proxy in which the probe was corrected.',
  },
  {
    pattern:
      /.*unknown option "--(?:xor-mark|random-fully)".*|.*Couldn't load (?:match|target) `[^']+'.*|.*Extension \w+ revision \d+ not supported.*|.*missing kernel module.*/i,
    cause: 'the kernel or iptables of the node lacks an extension that the rules need, and one such rule makes the whole restore fail',
    remedy: `${kernelModules} kube-proxy try again.`,
  },
  {
    pattern:
      /.*nf_conntrack(?:_max|\/parameters\/hashsize)?:? .*(?:no such file|read-only file system|permission denied|operation not (?:supported|permitted)).*/i,
    cause: 'kube-proxy cannot set the limit of tracked connections, and ends',
    remedy:
      'Load nf_conntrack on the node (modprobe nf_conntrack). If the node is a container, set conntrack.maxPerCore: 0 in the configuration of kube-proxy, so that it leaves the limit alone.',
  },
  {
    pattern: /.*(?:can't initialize ip6?tables table|Table does not exist \(do you need to insmod|modprobe: (?:FATAL|ERROR)).*/i,
    cause: 'the kernel has no such table of iptables: a module is missing',
    remedy: `${kernelModules} kube-proxy try again; or use nftables mode, where the kernel has no iptables any more.`,
  },
  {
    pattern:
      /.*table `\w+' is incompatible, use 'nft' tool.*|.*(?:nft|netlink): .*(?:cache initialization failed|Assertion .* failed|core dumped|segmentation fault).*/i,
    cause: 'the nft or iptables of the image cannot read tables that a newer program wrote',
    remedy:
      'Use an image of kube-proxy with a newer nft, or have the other program write its rules with an older one. The tables are in nft list ruleset.',
  },
  {
    pattern: /.*in nftables mode requires (?:kernel|the nft).*|.*could not find nftables binary.*/i,
    cause: 'the kernel or nft of the node is too old for nftables mode',
    remedy: 'Use a node with Linux 5.13 and nft 1.0.1 or later, or set mode: iptables in the configuration of kube-proxy.',
  },
  {
    pattern:
      /.*(?:can't use (?:the )?IPVS proxier|IPVS proxier will not be used|Native loadbalancing will not work|Running modprobe ip_vs failed).*/i,
    cause: 'the kernel lacks the modules of IPVS',
    remedy:
      'Load ip_vs, ip_vs_rr, ip_vs_wrr, ip_vs_sh and nf_conntrack on the node, or set another mode in the configuration of kube-proxy.',
  },
  {
    pattern: /.*(?:invalid CIDR address|host\/network `[^']*' not found|Bad argument `-j'|clusterCIDR.*(?:invalid|must be)).*/i,
    cause: 'a CIDR in its settings is not valid, and a rule with it makes the whole restore fail',
    remedy: 'Correct clusterCIDR (or --cluster-cidr) and nodePortAddresses in the configuration of kube-proxy.',
  },
  {
    pattern: /.*(?:Error: Interface does not exist|iifname? .*\*.*(?:error|invalid)|bridgeInterface|interfaceNamePrefix).*/i,
    cause: 'the interface or prefix by which it detects local traffic is not one that nft accepts',
    remedy:
      'Correct detectLocal in the configuration of kube-proxy: nftables mode before 1.33.6 and 1.34.2 cannot use InterfaceNamePrefix.',
  },
  {
    pattern: /.*is forbidden: User .* cannot (?:list|watch|get|create|patch) resource.*/i,
    cause: 'the API server does not let kube-proxy read Services, EndpointSlices or Nodes',
    remedy: 'Bind the ClusterRole system:node-proxier to the user that the line names.',
  },
  {
    pattern: /.*(?:you must be root|Operation not permitted|can't open lock file.*Permission denied|Permission denied \(you must).*/i,
    cause: 'kube-proxy lacks the rights on the node',
    remedy: 'Set securityContext.privileged: true on its container, and look for SELinux or AppArmor denials.',
  },
  {
    pattern: /.*(?:x509: |Unauthorized|the server has asked for the client to provide credentials).*/i,
    cause: 'the API server and kube-proxy do not accept the credentials of each other',
    remedy: 'Renew the certificate or the token in the kubeconfig of kube-proxy, and check the clock of the node.',
  },
  {
    pattern:
      /.*dial tcp \S+: (?:connect: )?(?:connection refused|i\/o timeout|no route to host|network is unreachable).*|.*dial tcp: lookup \S+.*/i,
    cause: 'kube-proxy does not reach the API server',
    remedy: 'Check the server in the kubeconfig of kube-proxy, and the way there from this node (curl -k https://SERVER/healthz).',
  },
  {
    pattern: /.*(?:nodes? "[^"]*" not found|can't determine this node's IP|Failed to retrieve node (?:info|IPs?)).*/i,
    cause: 'there is no Node of the name under which kube-proxy runs',
    remedy: 'Start kube-proxy with --hostname-override set to the name of the Node object (metadata.name).',
  },
  {
    pattern: /.*(?:strict decoding error|unknown flag|unable to decode|error unmarshaling|failed to load config|invalid configuration).*/i,
    cause: 'kube-proxy does not understand its configuration or a flag',
    remedy: 'Correct the field or flag that the line names: fields of newer versions are errors in older ones.',
  },
  {
    pattern: /.*too many open files.*/i,
    cause: 'the node has no inotify instances or files left',
    remedy: 'Raise fs.inotify.max_user_instances and fs.inotify.max_user_watches on the node.',
  },
  {
    pattern: /.*bind: address already in use.*/i,
    cause: 'another process listens on a port of kube-proxy or on a node port',
    remedy: 'Find the process (ss -ltnp on the node): often a second kube-proxy. Stop it, or give it another port.',
  },
  {
    pattern:
      /.*(?:(?:iptables|ip6tables|nft)(?:-restore)?.*(?:line \d+ failed|exit status \d)|Failed to execute iptables-restore|nftables sync failed|Could not process rule|Device or resource busy).*/i,
    cause: 'the kernel or iptables refuses its rules, and all changes with them',
    remedy:
      'Find the rule in the lines after this one in the log. Rules of kube-proxy that contradict each other are rewritten when it is restarted.',
  },
];

/** The last line of a log that shows a known failure; null if none does. */
export function failureIn(log: string): {readonly line: string; readonly failure: KnownFailure} | null {
  for (const line of log.split('\n').reverse()) {
    // Lines of klog begin with the severity and the time: what is only information is no failure.
    if (/^I\d{4} /.test(line)) continue;
    // Its beginning says what failed; the patterns would take long for a line of megabytes.
    const start = line.slice(0, maxTested);
    const failure = knownFailures.find(({pattern}) => pattern.test(start));
    if (failure !== undefined) return {line: withoutHead(start), failure};
  }
  return null;
}

/** Without the time, the process and the place in the source. */
function withoutHead(line: string): string {
  const text = line.replace(/^.*?[EWF]\d{4} [\d:.]+ +\d+ \S+\] /, '').trim();
  return text.length > maxQuoted ? `${text.slice(0, maxQuoted)}…` : text;
}

const maxQuoted = 200;
const maxTested = 2000;
