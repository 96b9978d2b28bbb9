/** What on-call engineers paste first: a client, a list, some lines of a log or of tcpdump. */
import {describe, expect, test} from 'vitest';
import {noDump} from '../../src/parse/pasted/split-text.ts';
import {said} from './trace-text.ts';

const answer = (text: string) => noDump(Buffer.from(`${text}\n`));
const shows = /^has no rules, and shows: /;

describe('a client', () => {
  const lists =
    'NAME   TYPE        CLUSTER-IP    EXTERNAL-IP   PORT(S)   AGE\nweb    ClusterIP   10.96.7.2     <none>        80/TCP    3h\n';
  const curl = (code: number, ms: number, host = '10.96.7.2') =>
    `curl: (${code}) Failed to connect to ${host} port 80 after ${ms} ms: Couldn't connect to server`;

  test('of a newer curl says by the time that it took whether it was refused', () => {
    expect(answer(lists + curl(7, 1))).toContain('10.96.7.2:80 is web, and connections are refused');
    expect(answer(lists + curl(28, 130_022))).toContain('which nodes and pods alone reach');
    expect(answer(curl(7, 3055))).toContain('(no route to host, or no answer after 3055 ms)');
  });

  test('that does not reach a load balancer of Docker Desktop is told that nothing leads there', () => {
    const balancer = `${lists}echo   LoadBalancer   10.96.4.1   172.19.0.9   80:31602/TCP   4m\n`;
    const node = (kernel: string) =>
      'NAME  STATUS  ROLES  AGE  VERSION  INTERNAL-IP  EXTERNAL-IP  OS-IMAGE  KERNEL-VERSION\n' +
      `c1  Ready  control-plane  3d  v1.31.0  172.19.0.2  <none>  Debian GNU/Linux 12  ${kernel}\n`;
    const told = 'in the network of Docker, to which nothing leads from macOS and Windows';
    expect(answer(balancer + node('6.6.16-linuxkit') + curl(28, 75_002, '172.19.0.9'))).toContain(told);
    expect(answer(balancer + node('6.6.16') + curl(28, 75_002, '172.19.0.9'))).not.toContain(told);
  });

  test('that pings a load balancer is told that it need not answer, and not where no host has the address', () => {
    const balancer = 'web   LoadBalancer   10.96.7.2   192.0.2.171   80:31760/TCP   2h\n';
    const ping = (what: string) =>
      `PING 192.0.2.171 (192.0.2.171) 56(84) bytes of data.\nFrom 192.0.2.21 icmp_seq=1 Destination ${what} Unreachable`;
    expect(answer(balancer + ping('Port'))).toContain('the address of a load balancer need not answer ping');
    expect(answer(balancer + ping('Host'))).not.toContain('need not answer ping');
  });

  test('that DNS answers is told that packets reach it', () => {
    const lookup = (error: string) =>
      `Server:\t\t10.43.0.10\nAddress:\t10.43.0.10:53\n\n** server can't find db.shop.svc.cluster.local: ${error}`;
    expect(answer(lookup('SERVFAIL'))).toContain('10.43.0.10 answers that it cannot resolve db.shop.svc.cluster.local: packets reach DNS');
    expect(answer(lookup('NXDOMAIN'))).toContain('10.43.0.10 answers, and knows no name db.shop.svc.cluster.local');
  });
});

describe('tcpdump', () => {
  const sctp = (from: string, to: string, chunk: string) => `10:12:01.1 IP ${from} > ${to}: sctp (1) [${chunk}] [init tag: 331]\n`;

  test('shows a node port that the node itself answers with ABORT', () => {
    const told = '192.0.2.11 itself answers SCTP at its port 31987 with ABORT';
    expect(answer(sctp('192.0.2.11.31987', '192.0.2.1.47606', 'ABORT'))).toContain(told);
    expect(answer(sctp('192.0.2.11.2905', '192.0.2.1.47606', 'ABORT'))).not.toMatch(shows);
  });

  test('shows a node between which and a router packets go round', () => {
    const asked = '18:02:11.4 IP 172.16.9.137 > 172.16.9.176: ICMP echo request, id 4, seq 1, length 64\n';
    expect(answer(`${asked}18:02:11.5 IP 172.16.9.216 > 172.16.9.137: ICMP time exceeded in-transit, length 92`)).toContain(
      '172.16.9.216 answers that what is sent to 172.16.9.176 has been on its way for too long',
    );
  });
});

describe('a line of a program', () => {
  test.each([
    [
      'kube-proxy on Windows that leaves a cluster IP out',
      'I0215 20:11:02.2 4180 proxier.go:1297] "Skipped creating Hns LoadBalancer for cluster ip resources. Reason : all endpoints are terminating" clusterIP="10.114.9.31" nodeport=31440',
      'makes no load balancer for the cluster IP 10.114.9.31',
    ],
    [
      'kube-proxy of one family',
      'E1216 07:31:29.5 1 utils.go:235] 2001:db8::a006 in clusterIP has incorrect IP version (service shop/six).',
      'kube-proxy leaves out 2001:db8::a006 of shop/six',
    ],
    [
      'Calico without its eBPF mode',
      '[ERROR][74] felix/daemon.go 337: BPF dataplane mode enabled but not supported by the kernel.  Disabling BPF mode.',
      'without kube-proxy beside it nobody serves Services there',
    ],
    [
      'the controller of EndpointSlices',
      'Warning  TopologyAwareHintsDisabled  3m32s (x15 over 3m46s)  endpoint-slice-controller  Insufficient Node information: zone not specified on one or more nodes, addressType: IPv4',
      'gives no topology hints (Insufficient Node information)',
    ],
    ['WireGuard whose mark is one of kubelet', '  fwmark: 0xca6c', 'the mark 0xca6c (as WireGuard gives'],
  ])('of %s is told', (_, line, what) => {
    expect(answer(line)).toContain(what);
  });

  test('about a mark of WireGuard without the bit of kubelet is not', () => {
    expect(answer('  fwmark: 0x100')).not.toMatch(shows);
  });
});

describe('what to paste next', () => {
  test.each([
    [
      'Windows',
      'E0628 16:57:08.6 1180 hnsV2.go:36] Hns endpoint not created\ncurl: (7) Failed to connect to 10.96.7.2 port 80: Connection refused',
      'hnsdiag list loadbalancers',
    ],
    ['Cilium', '$ cilium version\ncurl: (7) Failed to connect to 10.96.7.2 port 80: Connection refused', 'cilium-dbg service list'],
    [
      'OVN',
      '$ kubectl get pods | grep ovnkube-node\ncurl: (7) Failed to connect to 10.96.7.2 port 80: Connection refused',
      'ovn-nbctl lb-list',
    ],
  ])('of a node of %s is not the rules of kube-proxy alone', (_, text, command) => {
    expect(answer(text)).toContain(command);
  });
});

describe('a martian', () => {
  const line = (to: string, from: string) => `kernel: IPv4: martian source ${to} from ${from}, on dev cni0\n`;

  test('with the address of the node as its source was sent back to it', () => {
    const own = '    inet 192.0.2.30/31 scope global eth0\n';
    expect(answer(own + line('10.60.3.7', '192.0.2.30').replace('cni0', 'eth0'))).toContain(
      'and comes in by eth0, and has an address of this node as its source: the packet left it, and a router sent it back',
    );
  });

  test('of one sender is told once, whatever it asks for', () => {
    const told = answer(line('10.60.3.7', '10.244.1.4') + line('10.60.3.8', '10.244.1.4'));
    expect(told).toContain('the kernel drops what 10.244.1.4 sends to 10.60.3.7, 10.60.3.8 and comes in by cni0');
    expect(told.match(/the kernel drops/g)).toHaveLength(1);
  });
});

describe('rules', () => {
  const service = (mark: string) =>
    [
      '# iptables-save | grep registry',
      mark,
      '-A KUBE-SERVICES -d 10.254.71.5/32 -p tcp -m comment --comment "default/registry: cluster IP" -m tcp --dport 5000 -j KUBE-SVC-DHXK4DVKAN4QVG4L',
      '-A KUBE-SVC-DHXK4DVKAN4QVG4L -m comment --comment "default/registry:" -j KUBE-SEP-LRWNAAQ2VQKTCDWY',
      '-A KUBE-SEP-LRWNAAQ2VQKTCDWY -p tcp -m comment --comment "default/registry:" -m tcp -j DNAT --to-destination 172.16.97.9:5000',
      '',
    ].join('\n');

  test('of a search that mark nothing for masquerading are told where nodes get no answer', () => {
    const complaint = 'The cluster IP times out from the nodes.\n';
    const mark =
      '-A KUBE-SERVICES ! -s 172.16.0.0/16 -d 10.254.71.5/32 -p tcp -m comment --comment "default/registry: cluster IP" -m tcp --dport 5000 -j KUBE-MARK-MASQ';
    const told = 'no rule marks what comes to cluster IPs for masquerading';
    expect(said(complaint + service(''))).toContain(told);
    expect(said(service(''))).not.toContain(told);
    expect(said(complaint + service(mark))).not.toContain(told);
    expect(said(complaint + service('').replace('grep registry', 'grep KUBE-S'))).not.toContain(told);
  });

  test('of another program that lead to a cluster IP are told, in the other backend too', () => {
    const legacy =
      '# iptables-legacy -t nat -S\n-P PREROUTING ACCEPT\n-A PREROUTING -d 100.125.34.8/32 -j DNAT --to-destination 10.254.71.5\n';
    expect(said(legacy + service(''))).toContain(
      'a rule translates 100.125.34.8 to 10.254.71.5, the cluster IP of default/registry, and a packet is translated once',
    );
  });
});

const pods = (...rows: readonly string[]) => ['NAME   READY   STATUS   RESTARTS   AGE   IP   NODE', ...rows].join('\n');
const control = ['apiserver', 'scheduler', 'controller-manager'].map(name => `kube-${name}-m1   1/1   Running   0   15m   192.0.2.1   m1`);
const late = 'curl: (28) Failed to connect to 192.0.2.12 port 31080: Connection timed out';
const local = (policy: string) =>
  `kind: Service\nmetadata:\n  name: web\nspec:\n  clusterIP: 10.96.5.20\n  externalTrafficPolicy: ${policy}\n  ports:\n  - nodePort: 31080\n    port: 80\n    protocol: TCP\n\n$ curl 192.0.2.12:31080\n${late}\n`;
const dns = (address: string) =>
  `NAME   TYPE   CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nkube-dns   ClusterIP   10.96.0.10   <none>   53/UDP,53/TCP   20d\n$ cat /etc/resolv.conf\nnameserver ${address}\n$ nslookup kubernetes.default\n;; connection timed out; no servers could be reached\n`;
const slices = (address: string) =>
  `$ kubectl get endpoints\nNAME   ENDPOINTS          AGE\nweb    10.244.1.7:8080   10m\n${pods(`web-5c9d6b6c9c-7zq2x   1/1   Running   0   5m   ${address}   n1`)}\n`;

const query = (at: string, to: string) => `10:00:${at} IP 10.244.1.7.40001 > ${to}.53: 1234+ A? kubernetes.default. (54)\n`;
const unknown = (name: string) =>
  `$ kubectl get svc -n shop\nNAME   TYPE   CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nfrontend   ClusterIP   10.96.44.3   <none>   80/TCP   4d\n$ curl http://${name}\ncurl: (6) Could not resolve host: ${name}\n`;
const runtime = (ip: string) => pods(`web-1   1/1   Running   0   1h   ${ip}   n1`, 'web-2   1/1   Running   0   1h   10.244.2.4   n2');
const ranged = (field: string) =>
  `  "${field}": ["10.0.0.0/8"],\ncurl: (28) Failed to connect to 203.0.113.10 port 80: Connection timed out\n`;
const maker = (port: number) =>
  `apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  namespace: shop\nspec:\n  ports:\n  - port: 8080\n    targetPort: 80\n  selector:\n    app: web\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  template:\n    metadata:\n      labels:\n        app: web\n    spec:\n      containers:\n      - name: a\n        image: shop/web:1\n        ports:\n        - containerPort: ${port}\n`;

describe('a text of commands alone', () => {
  test.each<readonly [what: string, says: string, text: string]>([
    [
      'nodes of VirtualBox',
      'kubelet of m1, w1 registers 10.0.2.15',
      'm1 Ready <none> 10d v1.28.2 10.0.2.15 <none>\nw1 Ready <none> 10d v1.28.2 10.0.2.15 <none>\n',
    ],
    [
      'firewalld',
      'firewalld is active (zone public) and refuses what passes the node',
      'public (active)\n  target: default\n  interfaces: eth0\n',
    ],
    [
      'a DaemonSet',
      'kube-proxy is ready on 2 of the 3 nodes',
      'NAME DESIRED CURRENT READY\nkube-proxy   3   3   2   3   2   kubernetes.io/os=linux   9d\n',
    ],
    ['no DaemonSet', 'there is no DaemonSet kube-proxy', 'Error from server (NotFound): daemonsets.apps "kube-proxy" not found\n'],
    ['no pod of kube-proxy', 'no pod of kube-proxy is listed', pods(...control)],
    ['an answer that is empty', 'a program took the connection of curl', 'curl: (52) Empty reply from server\n'],
    [
      'a node port of a Local policy',
      '31080 is the node port of web, whose external traffic policy is Local: a node without',
      local('Local'),
    ],
    ['another resolver', 'asks 10.254.0.10:53 for names, and the cluster IP of kube-dns is 10.96.0.10', dns('10.254.0.10')],
    [
      'endpoints of other pods',
      'lists ready pods web-5c9d6b6c9c-7zq2x (10.244.1.17), and the endpoints of web are of no pod that it lists (10.244.1.7)',
      slices('10.244.1.17'),
    ],
    [
      'a kubeconfig that is not there',
      'a file that kube-proxy is told to read is not there',
      'E0101 10:00:00.000000       1 server.go:666] "Error running ProxyServer" err="stat /var/lib/kube-proxy/kubeconfig.conf: no such file or directory"\n',
    ],
    [
      'requests of DNS without an answer',
      '10.244.1.7 sent the same request to 10.244.0.4:53 2 times: the packets do not arrive',
      ['01.1', '06.1'].map(at => query(`${at}0`, '10.96.0.10') + query(`${at}5`, '10.244.0.4')).join(''),
    ],
    [
      'a name that no Service has',
      'asks for the name web.shop, and kubectl lists no such Service in namespace shop (frontend)',
      unknown('web.shop.svc'),
    ],
    [
      'an external name',
      'web is of type ExternalName: DNS answers with the name web.example.com in its place',
      'web   ExternalName   <none>   web.example.com   80/TCP   4d\n$ curl http://web\ncurl: (6) Could not resolve host: web\n',
    ],
    ['a manifest', 'shop/web sends to port 80 (targetPort), and Deployment web declares 3000', maker(3000)],
    [
      'a full map of Cilium',
      'the map cilium_lb4_services_v2 of Cilium is full',
      'level=error msg="Error while inserting service in LB map" error="Unable to update element for cilium_lb4_services_v2 map: argument list too long"\n',
    ],
    [
      'a traceroute',
      '10.96.5.5 is in the usual range of cluster IPs',
      'traceroute to 10.96.5.5 (10.96.5.5), 30 hops max, 60 byte packets\n',
    ],
    [
      'a node of minikube',
      'the node of minikube is a container (docker): on macOS and Windows nothing of the host leads to its address 192.168.49.2',
      '| minikube | docker    | docker  | 192.168.49.2 | 8443 | v1.28.3 | Running |     1 | *      |\n',
    ],
    [
      'a list of policies',
      'NetworkPolicies are there (default-deny)',
      'NAMESPACE   NAME           POD-SELECTOR   AGE\nshop        default-deny   <none>         3d\n',
    ],
    ['the bridge of a runtime', 'pods of n1 have addresses of the bridge that podman', runtime('10.88.0.4')],
    ['source ranges', 'loadBalancerSourceRanges of the text admit 10.0.0.0/8', ranged('loadBalancerSourceRanges')],
    [
      'a set that is gone',
      'a set of ipset that the rules name is not there',
      'E1110 12:00:00.000000       1 proxier.go:1016] "Failed to sync IPVS rules" err="exit status 2: Set KUBE-LOOP-BACK doesn\'t exist."\n',
    ],
  ])('with %s says: %s', (_, says, text) => {
    expect(noDump(Buffer.from(text))).toContain(says);
  });

  test.each<readonly [what: string, text: string, not: string]>([
    ['nodes with addresses of their own', 'm1 Ready <none> 10d v1.28.2 192.0.2.1 <none>\n', 'kubelet of'],
    ['a zone that accepts', 'trusted (active)\n  target: ACCEPT\n', 'firewalld'],
    ['a DaemonSet that is ready', 'kube-proxy   3   3   3   3   3   kubernetes.io/os=linux   9d\n', 'kube-proxy is ready'],
    ['a pod of kube-proxy', pods(...control, 'kube-proxy-4fhcj   1/1   Running   0   3d   192.0.2.1   m1'), 'no pod of kube-proxy'],
    ['a node port of a Cluster policy', local('Cluster'), 'policy is Local'],
    ['the resolver of the cluster', dns('10.96.0.10'), 'for names'],
    [
      'requests of DNS with an answer',
      `${query('01.10', '10.244.0.4')}10:00:01.12 IP 10.244.0.4.53 > 10.244.1.7.40001: 1234 1/0/0 A 10.96.0.1 (70)\n${query('06.10', '10.244.0.4')}10:00:06.12 IP 10.244.0.4.53 > 10.244.1.7.40001: 1234* 1/0/0 A 10.96.0.1 (70)\n`,
      'sent the same',
    ],
    ['a name that a Service has', unknown('frontend.shop.svc.cluster.local'), 'no such Service'],
    ['a name of another namespace', unknown('web.prod'), 'no such Service'],
    [
      'a server that CoreDNS asks',
      dns('10.96.0.10').replace(/;; .*/, 'read udp 10.244.0.5:4000->192.168.1.1:53: i/o timeout'),
      'for names',
    ],
    ['pods of one network', runtime('10.244.1.4'), 'addresses of the bridge'],
    ['a runtime that serves one node', runtime('10.88.0.4').replace(/web-2.*/, ''), 'addresses of the bridge'],
    ['ranges of something else', ranged('podCIDRs'), 'loadBalancerSourceRanges'],
    ['a manifest that fits', maker(80), 'declares'],
    ['endpoints of its pods', slices('10.244.1.7'), 'of no pod'],
    [
      'rules of another mode that are not cleaned up',
      'E0907 08:37:31.600000       1 proxier.go:733] "Error cleaning up nftables rules" err="could not run nftables command: Error: Could not process rule: Operation not supported"\n',
      'refuses its rules',
    ],
  ])('with %s does not', (_, text, not) => {
    expect(noDump(Buffer.from(text))).not.toContain(not);
  });
});
