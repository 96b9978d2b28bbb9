import {describe, expect, test} from 'vitest';
import {failureIn, troubleIn} from '../../src/model/node/kube-proxy-failures.ts';
import {Redaction} from '../../src/redact/redaction.ts';

// Lines of public reports.
const lines: readonly (readonly [line: string, cause: string])[] = [
  [
    'E0812 07:01:02.000000       1 proxier.go:1432] "Failed to execute iptables-restore" err="exit status 4: Another app is currently holding the xtables lock; still 9s"',
    'another program holds the lock of iptables',
  ],
  ['Warning: Extension nfacct revision 0 not supported, missing kernel module?', 'the kernel lacks the module xt_nfacct'],
  ["iptables-restore v1.8.7 (legacy): Couldn't load match `statistic':No such file or directory", 'lacks an extension'],
  ['\texit status 2: ip6tables-restore v1.8.7 (nf_tables): unknown option "--xor-mark"', 'lacks an extension'],
  [
    'F0513 15:57:17.447425       1 server.go:495] open /proc/sys/net/netfilter/nf_conntrack_max: permission denied',
    'cannot set the limit of tracked connections',
  ],
  [
    'E0823 17:40:52.933169       1 server.go:558] "Error running ProxyServer" err="write /sys/module/nf_conntrack/parameters/hashsize: operation not supported"',
    'cannot set the limit of tracked connections',
  ],
  [
    'E0823 17:40:52.933169       1 server.go:558] "Error running ProxyServer" err="open /proc/sys/net/netfilter/nf_conntrack_max: no such file or directory"',
    'cannot set the limit of tracked connections',
  ],
  ["iptables v1.8.7 (nf_tables): table `nat' is incompatible, use 'nft' tool.", 'cannot read tables that a newer program wrote'],
  ['E1 run.go:74] "command failed" err="kube-proxy in nftables mode requires kernel 5.13 or later"', 'too old for nftables mode'],
  ["iptables v1.8.2 (legacy): can't initialize iptables table `nat': Table does not exist (do you need to insmod?)", 'no such table'],
  ["iptables-restore v1.8.2: host/network `' not found", 'a CIDR in its settings is not valid'],
  ["ip6tables-restore v1.6.0: host/network `192.0.2.77' not found", 'an address of the other'],
  [
    'E0101 00:00:00.000000       1 reflector.go:147] failed to list *v1.EndpointSlice: endpointslices.discovery.k8s.io is forbidden: User "system:kube-proxy" cannot list resource "endpointslices"',
    'does not let kube-proxy read',
  ],
  [
    'E0101 00:00:00.000000 1 reflector.go:205] Failed to list *core.Endpoints: endpoints is forbidden: User "system:serviceaccount:kube-system:default" cannot list endpoints at the cluster scope',
    'does not let kube-proxy read',
  ],
  [
    'E0101 00:00:00.000000       1 reflector.go:147] Failed to watch *v1.Service: Get "https://10.0.0.1:6443/api/v1/services": dial tcp 10.0.0.1:6443: connect: connection refused',
    'does not reach the API server',
  ],
  [
    'E0101 00:00:00.000000       1 reflector.go:147] Get "https://10.0.0.1:6443/api": x509: certificate has expired or is not yet valid',
    'do not accept the credentials',
  ],
  [
    'E0101 00:00:00.000000       1 server.go:1039] "Failed to retrieve node info" err="nodes \\"ip-10-0-0-1\\" not found"',
    'no Node of the name',
  ],
  ['E0101 proxier.go:104] Accept failed: accept tcp [::]:60995: too many open files', 'no file descriptors left'],
  ['F0101 server.go:495] "Error running ProxyServer" err="failed to create fsnotify watcher: too many open files"', 'no inotify instances'],
  ['F0101 listen tcp 0.0.0.0:10256: bind: address already in use', 'another process listens'],
  [
    'E0101 00:00:00.000000       1 proxier.go:1900] "nftables sync failed" err="/dev/stdin:7:1-2: Error: Could not process rule: No such file or directory"',
    'refuses its rules',
  ],
  [
    "iptables-restore v1.8.7 (legacy): Couldn't load target `KUBE-SVC-TCOU7JCQXEZGVUNU':No such file or directory",
    'another program deletes chains of kube-proxy',
  ],
  ["ip6tables-restore v1.8.5 (nf_tables): Couldn't load target `KUBE-MARK-DROP':No such file or directory", 'which kubelet creates'],
  [
    'E0101 00:00:00.000000       1 proxier.go:1225] "nftables sync failed" err="running nft: signal: segmentation fault (core dumped)"',
    'the nft in the image of kube-proxy crashes',
  ],
  ["iptables-restore v1.8.9 (nf_tables): invalid mask `64' specified", 'a CIDR in its settings is not valid'],
  ["iptables-restore v1.6.1: Couldn't find target `KUBE-SEP-TCOU7JCQXEZGVUNU'", 'another program deletes chains of kube-proxy'],
  ['Error: JSON support not compiled-in', 'cannot print JSON'],
  ['"command failed" err="can\'t use the IPVS proxier: error getting ipset version, error: exit status 1"', 'ipset does not run'],
  ['E1 ipset.go:156] Failed to make sure ip set: &{} exist, error: error creating ipset KUBE-LOOP-BACK, error: exit status 2', 'too old'],
  ['E1 ipset.go:168] Failed to add entry: 10.96.0.10,tcp:53 to ip set: KUBE-CLUSTER-IP, error: exit status 1', '/etc/protocols'],
  [
    'E1 proxier.go:1499] Failed to bind service address to dummy device "shop/web:": error bind address: fd00::1cb to interface: kube-ipvs0, err: permission denied',
    'has an IPv6 address',
  ],
  ["Failed to execute iptables-restore: exit status 2 (Bad argument `KUBE-SVC-574IYFDEANSYIEBF'", 'a CIDR in its settings is not valid'],
  ["modprobe: ERROR: could not insert 'ip_tables': Exec format error", 'modprobe of the image of kube-proxy cannot load'],
  ["modprobe: ERROR: could not insert 'ip_vs': Exec format error", 'a module is missing'],
  [
    '/dev/stdin:892:87-100: Error: Could not process rule: No such file or directory\nadd rule ip kube-proxy external-A fib saddr type local jump mark-for-masquerade\n   ^^^',
    'nft_fib_ipv4',
  ],
  ['E1 server.go:1] "Unable to select an IP" err="no default routes found in /proc/net/route"', 'no default route'],
  // Broken by the width of a terminal.
  [
    'E0301 10:00:00.000000       1 server.go:687] "Failed to retrieve node info" err="Get  \n\\"https://10.0.0.1:6443/api/v1/nodes/node-a\\": dial tcp 10.0.0.1:6443: connect: \nconnection refused"',
    'does not reach the API server',
  ],
  [
    'E0301 10:00:00.000000       1 server.go:687] "Failed to retrieve node IPs" err="context deadline exceeded"',
    'read the Node of its own name',
  ],
  [
    'E0301 10:00:00.000000     911 reflector.go:201] k8s.io/kubernetes/pkg/proxy/config/api.go:49: Failed to list *v1.Endpoints: Get http://10.0.0.1:8080/api/v1/endpoints?resourceV',
    'does not get Services and endpoints',
  ],
  [
    'E1007 13:57:26.145840       1 proxier.go:2016] "Failed to add IPVS service" err="no such file or directory" svcName="shop/web"',
    'lacks the modules of IPVS',
  ],
  ['proxier.go:1909] Failed to add IPVS service "default/kubernetes:https": no such file or directory', 'lacks the modules of IPVS'],
  [
    'W0101 10:00:00.000000       1 proxier.go:651] Failed to load kernel module ip_vs_wlc with modprobe: modprobe: FATAL: Module ip_vs_wlc not found in directory /lib/modules/5.4.0',
    'lacks the modules of IPVS',
  ],
  [
    'E0421 08:52:38.409850       1 proxier.go:1950] Failed to list IPVS destinations, error: parseIP Error ip=[100 73 75 130 0 0]',
    'kernels before 3.18',
  ],
  [
    'E0101 10:00:00.000000       1 run.go:74] "command failed" err="unable to create proxier: unable to initialize Netlink socket: Protocol not supported"',
    'nf_tables',
  ],
  [
    "F0101 10:00:00.000000       1 server.go:495] unable to create proxier: can't set sysctl net/ipv4/conf/all/route_localnet to 1: open /proc/sys/net/ipv4/conf/all/route_localnet: read-only file system",
    'lacks the rights on the node',
  ],
  [
    'E0101 10:00:00.000000       1 run.go:74] "command failed" err="tls: failed to verify certificate: x509: certificate is valid for 10.96.0.1, not 10.0.0.1"',
    'is not for the address',
  ],
  [
    'E0101 10:00:00.000000       1 reflector.go:138] Failed to watch *v1beta1.EndpointSlice: failed to list *v1beta1.EndpointSlice: the server could not find the requested resource',
    'does not serve a version of the API',
  ],
  [
    'E0101 10:00:00.000000       1 reflector.go:153] Failed to list *v1.Service: Get https://10.0.0.1:6443/api/v1/services: net/http: TLS handshake timeout',
    'does not reach the API server',
  ],
  [
    'F0101 10:00:00.000000       1 server.go:483] failed complete: open /var/lib/kube-proxy/config.conf: no such file or directory',
    'a file that kube-proxy is told to read',
  ],
];

describe('the log of kube-proxy', () => {
  test.each(lines)('%s has a known cause', (line, cause) => {
    expect(failureIn(`I0101 00:00:00.000000       1 server.go:1] "Version info"\n${line}\n`)?.failure.cause).toContain(cause);
  });

  test('the last failure counts, without its time and place', () => {
    const log = [lines[4]?.[0], lines[0]?.[0], 'I0101 00:00:00.000000       1 config.go:226] "Shutting down"'].join('\n');
    expect(failureIn(log)?.line).toBe(
      '"Failed to execute iptables-restore" err="exit status 4: Another app is currently holding the xtables lock; still 9s"',
    );
  });

  test.each([
    '',
    'I0101 00:00:00.000000       1 shared_informer.go:320] Caches are synced for service config\n',
    'I0101 00:00:00.000000       1 conntrack.go:59] "Setting nf_conntrack_max" nfConntrackMax=786432\n',
    'W0101 00:00:00.000000       1 server.go:700] "nodePortAddresses is unset; NodePort connections will be accepted on all local IPs"\n',
    // What it removes of another mode is not there.
    "E0101 00:00:00.000000       1 proxier.go:430] Error removing iptables rules in ipvs proxier: exit status 2: Couldn't load target `KUBE-SERVICES':No such file or directory\n",
    // As journald and a container runtime write it.
    'Nov 26 12:00:00 node-a kube-proxy[812]: I1126 12:00:00.000000     812 proxier.go:1] "retrying after Operation not permitted"\n',
    '2026-11-26T12:00:00.1Z stderr F I1126 12:00:00.000000       1 proxier.go:1] "retrying after Operation not permitted"\n',
  ])('%j shows no failure', log => {
    expect(failureIn(log)).toBeNull();
  });
});

test.each(lines)('redacted, %j has the same cause', (line, cause) => {
  const redacted = new Redaction('key').message(failureIn(line)?.line ?? '');
  expect(failureIn(redacted)?.failure.cause).toContain(cause);
});

describe('a Node that kube-proxy does not find', () => {
  const missing = 'E0101 00:00:00.000000       1 server.go:1039] "Failed to retrieve node info" err="nodes \\"node-a\\" not found"';

  test('is a cause where no Node has the name', () => {
    expect(failureIn(missing, new Set(['node-b']))?.failure.cause).toContain('no Node of the name');
  });

  test('is none where the Node is there, or kube-proxy went on', () => {
    expect(failureIn(missing, new Set(['node-a']))).toBeNull();
    expect(failureIn(`${missing}\nI0101 00:00:01.000000       1 shared_informer.go:320] Caches are synced for service config`)).toBeNull();
  });

  test('in userspace mode a Service without an entry is told of a log alone', () => {
    const line = 'E1116 23:17:19.958712   11554 proxysocket.go:138] Failed to connect to balancer: missing service entry';
    expect(troubleIn(line)).toMatchObject({failure: {cause: expect.stringContaining('in userspace mode')}});
  });

  test('is told of a log alone where kube-proxy went on with 127.0.0.1', () => {
    const went = 'W0101 00:00:01.000000       1 proxier.go:249] invalid nodeIP, initialize kube-proxy with 127.0.0.1 as nodeIP';
    const using = 'I0101 00:00:02.000000       1 server.go:215] Using iptables Proxier.';
    // Old versions say it before.
    expect(troubleIn(`${using}\n${missing}\n${went}`)).toEqual(troubleIn(`${missing}\n${went}\n${using}`));
    const found = troubleIn(`${missing}\n${went}\n${using}`);
    expect(found).toMatchObject({failure: {cause: expect.stringContaining('found no Node of its name')}});
  });
});

test('that the API server was not reached is no cause once it was', () => {
  const refused =
    'E0101 00:00:00.000000       1 reflector.go:147] Get "https://10.0.0.1:6443/api": dial tcp 10.0.0.1:6443: connect: connection refused';
  const synced = 'I0101 00:00:09.000000       1 shared_informer.go:320] "Caches are synced" controller="service config"';
  expect(failureIn(`${refused}\n${synced}`)).toBeNull();
  expect(failureIn(`${refused}\nI0101 00:00:05.000000       1 node.go:135] Successfully retrieved node IP: 192.0.2.3`)).toBeNull();
  expect(failureIn(`${synced}\n${refused}`)?.failure.cause).toBe('kube-proxy does not reach the API server');
});

test('why its own Node was not read stands in another line', () => {
  const unread = 'W0301 10:00:01.000000       1 server.go:1] "Can\'t determine this node\'s IP, assuming loopback"';
  const refused = 'E0301 10:00:00.000000       1 server.go:1] "x" err="dial tcp 10.0.0.1:6443: connect: connection refused"';
  expect(failureIn(`${refused}\n${unread}`)?.failure.cause).toBe('kube-proxy does not reach the API server');
});

test('a message is quoted with the bracket that closes it on the next line', () => {
  const log =
    'E0301 10:00:00.000000       1 proxier.go:1507] Failed to execute iptables-restore: exit status 1 (iptables-restore: line 53 failed\n)\n';
  expect(failureIn(log)?.line).toBe('Failed to execute iptables-restore: exit status 1 (iptables-restore: line 53 failed)');
});

test('where kube-proxy only says that its rules are refused, the line near it is quoted that says why', () => {
  const refused = 'E0101 00:00:00.000000       1 proxier.go:1564] "Failed to execute iptables-restore" err="exit status 2"';
  const why = "iptables-restore v1.8.9 (nf_tables): invalid mask `64' specified";
  expect(failureIn([why, refused].join('\n'))?.line).toBe(why);
  expect(failureIn([refused, why, refused].join('\n'))?.line).toBe(why);
  expect(failureIn([why, ...Array.from({length: 60}, () => 'I0101 something'), refused].join('\n'))?.line).toContain('Failed to execute');
});
