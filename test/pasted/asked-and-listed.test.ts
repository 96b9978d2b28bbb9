/** What clients ask is compared with what lists, manifests and settings of the same text have. */
import {describe, expect, test} from 'vitest';
import {noDump} from '../../src/parse/pasted/split-text.ts';

const answer = (...lines: readonly string[]) => noDump(Buffer.from(`${lines.join('\n')}\n`));
const tells = /: no endpoint|has no rules|does not reach|is not ready/;

const services = [
  'NAME   TYPE       CLUSTER-IP    EXTERNAL-IP   PORT(S)          AGE',
  'shop   NodePort   10.96.7.7     <none>        8080:31808/TCP   9d',
  '',
];
const endpoints = ['NAME   ENDPOINTS          AGE', 'shop   10.244.3.3:3000    9d', ''];
const curl = (host: string, port: number, why: string) => `curl: (7) Failed to connect to ${host} port ${port} after 2 ms: ${why}`;
const refused = 'Connection refused';
const late = 'Connection timed out';

describe('a client', () => {
  test.each([
    ['a node port', curl('192.0.2.20', 31808, refused), '31808 is the node port of shop'],
    ['a cluster IP', curl('10.96.7.7', 8080, refused), '10.96.7.7:8080 is shop'],
    ['a Service by its name', curl('shop.default.svc.cluster.local', 8080, refused), 'shop.default.svc.cluster.local:8080 is shop'],
    ['an endpoint', curl('10.244.3.3', 3000, refused), '10.244.3.3:3000 is an endpoint of shop'],
    ['an endpoint, in the words of Node.js', 'Error: connect ECONNREFUSED 10.244.3.3:3000', '10.244.3.3:3000 is an endpoint of shop'],
    [
      'a node port, by telnet',
      '$ telnet 192.0.2.20 31808\nTrying 192.0.2.20...\ntelnet: Unable to connect: Connection refused',
      '31808 is',
    ],
  ])('that %s refuses is told where nothing may listen, if there are endpoints', (_, line, what) => {
    const said = answer(...services, ...endpoints, line);
    expect(said).toContain(what);
    expect(said).toContain('no program of the pod listens at 10.244.3.3:3000');
    expect(answer(...services, line)).not.toContain('no program of the pod');
    if (!what.includes('endpoint')) expect(answer(...services, line)).toContain('it has no ready endpoint, or no program of its pods');
  });

  test('that asks for another port of the range of node ports is told which ones kubectl lists', () => {
    const said = answer(...services, curl('192.0.2.20', 31000, late));
    expect(said).toContain('kubectl lists no node port 31000, and 31808 (shop, port 8080)');
    expect(answer(...services.map(line => line.replace(':31808', '')), curl('192.0.2.20', 31000, refused))).not.toContain(
      'kubectl lists no',
    );
  });

  test('that asks for a node port at its own host, or at a node that is a container, is told what leads there', () => {
    for (const words of ['$ kind create cluster', 'I use Docker Desktop', '$ k3d cluster list', '$ minikube start'])
      expect(answer(...services, words, curl('127.0.0.1', 31808, refused))).toMatch(
        /31808 is the node port of shop, .* to which 127\.0\.0\.1 does not lead/,
      );
    // What the host is, a text without such words does not say.
    expect(answer(...services, 'kind: Service', curl('localhost', 31808, refused))).toMatch(
      /31808 is the node port of shop, asked at localhost: in iptables mode .* unless the Service has no ready endpoint, .*; nftables mode and IPVS mode serve none there/,
    );
    const none = ['$ kubectl get endpoints shop', 'NAME   ENDPOINTS   AGE', 'shop   <none>      9d', ''];
    expect(answer(...services, ...none, curl('localhost', 31808, refused))).not.toContain('asked at');
    expect(answer(...services, '$ minikube ip', curl('192.0.2.20', 31808, late))).toContain('192.0.2.20 does not lead');
    expect(answer(...services, curl('192.0.2.20', 31808, late))).toContain('by a firewall before the node, or by its rules');
  });

  test('that asks for a node port at an address of IPv6 is told that kubectl lists IPv4 alone', () => {
    const asks = (port: number, own = services) => answer(...own, `$ curl -g http://[2001:db8::9]:${port}`);
    expect(asks(31808)).toMatch(/31808 is the node port of shop, for which kubectl lists a cluster IP of IPv4: unless .* at 2001:db8::9/);
    expect(asks(31809)).not.toContain('node port');
    expect(
      asks(
        31808,
        services.map(line => line.replace('10.96.7.7', 'fd00::7  ')),
      ),
    ).not.toContain('node port');
  });

  test('that pings a cluster IP is told that none answers', () => {
    const ping = (host: string, lost: number) => [`PING ${host}`, '', `--- ${host} ping statistics ---`, `3 packets, ${lost}% packet loss`];
    const lookup = (address: string) => ['Server:   10.96.0.10', '', 'Name:   shop.default.svc.cluster.local', `Address: ${address}`, ''];
    const byDesign = 'cluster IPs do not answer ping, by design';
    expect(answer(...services, ...ping('10.96.7.7', 100))).toContain(byDesign);
    expect(answer(...lookup('10.96.7.7'), ...ping('10.96.7.7', 100))).toContain(byDesign);
    // That of a pod, by a headless Service.
    expect(answer(...lookup('10.244.3.3'), ...ping('10.244.3.3', 100))).not.toContain(byDesign);
    expect(answer(...services, ...ping('10.96.7.7', 0))).not.toContain(byDesign);
  });
});

describe('a tracked connection', () => {
  const tracked = (dst: string, from: string, port: number, protocol = 'tcp      6 90 SYN_SENT') =>
    `${protocol} src=192.0.2.9 dst=${dst} sport=5000 dport=${port} [UNREPLIED] src=${from} dst=192.0.2.9 sport=${port} dport=5000 mark=0 use=1`;
  const dns = tracked('10.96.0.10', '10.244.9.9', 53, 'udp      17 20');

  test('to a Service of the same text that no rule translated is told before the Service', () => {
    expect(answer(...services, ...endpoints, tracked('10.96.7.7', '10.96.7.7', 8080))).toMatch(
      /shows: of the tracked connection on line 7, no rule translated 10\.96\.7\.7, and rules are not asked again/,
    );
    // Nothing is translated to a Service without endpoints, and other ports belong to nobody.
    expect(answer(...services, 'NAME   ENDPOINTS   AGE', 'shop   <none>   9d', '', tracked('10.96.7.7', '10.96.7.7', 8080))).not.toMatch(
      /shows: of the tracked/,
    );
    expect(answer(...services, ...endpoints, tracked('10.96.7.7', '10.96.7.7', 9999))).not.toMatch(/shows: of the tracked/);
  });

  test('to another address that no rule translated is told beside what kubectl prints', () => {
    expect(answer(...services, tracked('203.0.113.7', '203.0.113.7', 80))).toContain(
      'without rules. Of the tracked connection on line 4, no rule translated 203.0.113.7',
    );
  });

  test('that asks DNS without an answer is told, in a sentence too, and no event of conntrack is', () => {
    const unanswered = 'requests to DNS go to 10.244.9.9:53, which has not answered';
    expect(answer(dns)).toContain(unanswered);
    expect(answer(`The entry was “${dns}” all day`)).toContain(unanswered);
    expect(answer(`[NEW] ${dns}`)).not.toContain('the tracked connection');
    expect(answer(dns.replace(' [UNREPLIED]', ''))).not.toContain(unanswered);
  });
});

test('a range that addresses of Services are in is told before what a client does not reach', () => {
  const settings = ['kind: KubeProxyConfiguration', 'clusterCIDR: 10.96.0.0/16'];
  expect(answer(...settings, ...services, curl('10.96.7.7', 8080, late))).toMatch(
    /shows: 10\.96\.0\.0\/16 \(clusterCIDR\).*which nodes and pods alone reach/,
  );
});

test.each([
  '[root@host2 ~]# nslookup example.org 10.96.0.10\n;; connection timed out; no servers could be reached',
  '$ dig @10.96.0.10 example.org\n\n; <<>> DiG 9.18 <<>>\n;; connection timed out; no servers could be reached',
  ';; communications error to 10.96.0.10#53: timed out',
])('the DNS of the cluster that does not answer is told by its cluster IP: %s', line => {
  const dns = [
    'NAME       TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)          AGE',
    'kube-dns   ClusterIP   10.96.0.10   <none>        53/UDP,53/TCP    5m',
    '',
  ];
  expect(answer(...dns, line)).toContain('10.96.0.10:53 is the cluster IP of kube-dns');
  expect(answer(...dns, line.replace('10.96.0.10', '192.0.2.53'))).not.toContain('is the cluster IP');
});

describe('the address of a load balancer', () => {
  const balanced = [
    'speaker-2fgtr of metallb-system runs',
    'NAME   TYPE           CLUSTER-IP    EXTERNAL-IP    PORT(S)          AGE',
    'shop   LoadBalancer   10.96.7.7     192.0.2.28     8080:31808/TCP   9d',
    '',
  ];

  test('that no packet reaches is asked where no speaker announces it', () => {
    for (const why of [late, 'No route to host'])
      expect(answer(...balanced, curl('192.0.2.28', 8080, why))).toContain('192.0.2.28 is the load-balancer address of shop, which nodes');
    expect(answer(...balanced, curl('192.0.2.28', 8080, refused))).not.toContain('no speaker announces');
  });

  test.each(['192.0.2.128', '192.0.2.8', '192.0.2.29'])('is told where a client asks for %s, one digit apart', asked => {
    expect(answer(...balanced, curl(asked, 8080, late))).toContain(
      `${asked} is asked at port 8080, and no list has it: the address that kubectl lists for that port is 192.0.2.28`,
    );
    expect(answer(...balanced, curl(asked, 8081, late))).not.toContain('no list has it');
  });

  test('is not meant where a client asks for another one', () => {
    expect(answer(...balanced, curl('192.0.2.141', 8080, late))).not.toContain('no list has it');
  });
});

describe('a name that a client asks for', () => {
  const [heading = '', shop = ''] = services;
  const listed = [heading, shop, 'mysql  ClusterIP  None          <none>        3306/TCP         9d', ''];

  test.each([
    "ERROR 2005 (HY000): Unknown MySQL server host 'carts' (-2)",
    'psql: error: could not translate host name "carts" to address: Name or service not known',
    'curl: (6) Could not resolve host: carts',
  ])('and no list has is told: %s', line => {
    expect(answer(...listed, line)).toContain('a client asks for the name carts, and kubectl lists no such Service (shop, mysql)');
  });

  test.each(['shop', 'mysql', 'node-a', 'shop.example.org'])('is none of them: %s', name => {
    const nodes = ['NAME     STATUS   ROLES    AGE   VERSION', 'node-a   Ready    <none>   33d   v1.20.2', ''];
    expect(answer(...nodes, ...listed, `curl: (6) Could not resolve host: ${name}`)).not.toContain('no such Service');
  });
});

test('a name of kube-proxy that no listed Node has is told', () => {
  const nodes = ['NAME     STATUS   ROLES    AGE   VERSION', 'node-a   Ready    <none>   33d   v1.20.2', ''];
  const process = (name: string) => `root  22974  0.2  /usr/local/bin/kube-proxy --cluster-cidr=10.244.0.0/16 --hostname-override=${name}`;
  expect(answer(...nodes, process('192.0.2.7'))).toContain(
    'kube-proxy takes itself for 192.0.2.7 (hostnameOverride), and kubectl lists no',
  );
  const config = (name: string) => `kind: KubeProxyConfiguration\nhostnameOverride: "${name}"`;
  expect(answer(...nodes, config('192.0.2.7'))).toContain('kube-proxy takes itself for 192.0.2.7');
  for (const name of ['', '$(NODE_NAME)', 'node-a']) expect(answer(...nodes, config(name))).not.toContain('takes itself');
  expect(answer(...nodes, process('node-a'))).not.toContain('takes itself');
  expect(answer(process('192.0.2.7'))).not.toContain('takes itself');
});

test('pods of two nodes with one address are told, and those in the network of one host are not', () => {
  const pods = (...rows: readonly string[]) => ['NAME   READY  STATUS   RESTARTS  AGE  IP  NODE', ...rows, ''];
  const lost = 'web-w724s  1/1  Terminating  0  44h  10.244.4.119  node-a';
  expect(answer(...pods(lost, 'web-wp7jk  1/1  Running  0  101s  10.244.4.119  node-b'))).toContain(
    'web-w724s (node-a, Terminating), web-wp7jk (node-b, Running) have the address 10.244.4.119',
  );
  for (const other of ['web-wp7jk  1/1  Running  0  101s  10.244.4.120  node-b', 'web-wp7jk  1/1  Running  0  101s  10.244.4.119  node-a'])
    expect(answer(...pods(lost, other))).not.toContain('have the address');
});

test('a health check without an endpoint is told with what it may mean', () => {
  const health = (count: number) => `$ curl http://node-a:32122/healthz\n{\n  "localEndpoints": ${count}\n}`;
  expect(answer(health(0))).toContain('a health check of kube-proxy says that its node has no endpoint of the Service');
  expect(answer(health(2))).not.toContain('health check');
});

test('a pod that does not answer ping is told with its name: no rule of a Service is asked', () => {
  const pods = [
    'NAME    READY   STATUS    RESTARTS   AGE   IP           NODE',
    'dns-5   1/1     Running   0          3d    10.244.0.20  node-b',
    '',
  ];
  const ping = (lost: number) => [
    'PING 10.244.0.20 (10.244.0.20): 56 data bytes',
    '--- 10.244.0.20 ping statistics ---',
    `5 packets transmitted, ${lost === 0 ? 5 : 0} packets received, ${lost}% packet loss`,
  ];
  expect(answer(...pods, ...ping(100))).toContain('pod dns-5 does not answer ping at its own address (10.244.0.20)');
  expect(answer(...pods, ...ping(0))).not.toContain('does not answer');
});

describe('manifests', () => {
  const service = [
    'apiVersion: v1',
    'kind: Service',
    'metadata:',
    '  name: shop',
    'spec:',
    '  clusterIP: 10.96.7.7',
    '  ports:',
    '  - port: 80',
    '---',
  ];
  const ingress = (port: number) => [
    'kind: Ingress',
    'apiVersion: networking.k8s.io/v1',
    'metadata:',
    '  name: front',
    'spec:',
    '  rules:',
    `  - http: {paths: [{backend: {service: {name: shop, port: {number: ${port}}}}}]}`,
  ];

  test('show an Ingress that names a port which the Service does not have', () => {
    expect(answer(...service, ...ingress(8080))).toContain('Ingress front sends to port 8080 of shop, which has 80');
    expect(answer(...service, ...ingress(80))).not.toContain('Ingress front');
    // An issue or an article has its margin.
    expect(answer(...[...service, ...ingress(8080)].map(line => `    ${line}`))).toContain('Ingress front sends to port 8080');
  });

  test('show a target port that a plain image of a known program does not have', () => {
    const pods = (image: string, rest = '') =>
      `apiVersion: v1\nkind: Pod\nmetadata:\n  name: front\n  labels: {app: front}\nspec:\n  containers:\n  - image: ${image}\n    name: front\n${rest}---\n`;
    const target = (port: number) =>
      `apiVersion: v1\nkind: Service\nmetadata:\n  name: front\nspec:\n  selector: {app: front}\n  ports:\n  - port: ${port}\n`;
    expect(answer(pods('nginx:1.27') + target(8099))).toContain(
      'has an image that listens by default on 80: unless a program listens on 8099',
    );
    expect(answer(pods('docker.io/library/nginx') + target(8099))).toContain('by default on 80');
    for (const text of [
      pods('nginx') + target(80),
      pods('example/nginx-exporter') + target(8099),
      pods('nginx', '    volumeMounts: [{name: conf, mountPath: /etc/nginx/conf.d}]\n') + target(8099),
    ])
      expect(answer(text)).not.toContain('by default');
  });

  test('show a policy that admits pods of its own namespace alone, where somebody waits', () => {
    const policy = (peer: string) =>
      `kind: NetworkPolicy\napiVersion: networking.k8s.io/v1\nmetadata:\n  name: near\n  namespace: pay\nspec:\n  podSelector: {}\n  ingress:\n  - from:\n    - ${peer}\n`;
    const near = 'podSelector: {matchLabels: {app: front}}';
    expect(answer(policy(near), '504 Gateway Time-out')).toContain(
      'NetworkPolicy near admits pods with app=front of namespace pay, its own, alone',
    );
    for (const text of [policy(`{${near}, namespaceSelector: {}}`), policy('ipBlock: {cidr: 192.0.2.0/24}')])
      expect(answer(text, '504 Gateway Time-out')).not.toContain('NetworkPolicy near admits pods with');
    expect(answer(policy(near))).not.toContain('NetworkPolicy near');
  });

  test('that comes from outside is told of policies that admit pods alone', () => {
    const policy = (peer: string) =>
      `kind: NetworkPolicy\napiVersion: networking.k8s.io/v1\nmetadata:\n  name: near\nspec:\n  podSelector: {}\n  ingress:\n  - from:\n    - ${peer}\n`;
    const [near, late] = ['podSelector: {matchLabels: {app: front}}', 'the NodePort gives: 504 Gateway Time-out'];
    expect(answer(policy(near), late)).toContain('NetworkPolicy near admits pods alone: a client outside of the cluster');
    for (const text of [`${policy(near)}    - ipBlock: {cidr: 0.0.0.0/0}`, policy('ipBlock: {cidr: 192.0.2.0/24}')])
      expect(answer(text, late)).not.toContain('admits pods alone');
    expect(answer(policy(near))).not.toContain('admits pods alone');
  });

  test('is told that a policy admits a node port, in place of the port of the pod', () => {
    const policy = (port: number) =>
      `kind: NetworkPolicy\napiVersion: networking.k8s.io/v1\nmetadata:\n  name: near\nspec:\n  podSelector: {}\n  ingress:\n  - ports:\n    - port: ${port}\n---\n`;
    const service =
      'apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  type: NodePort\n  ports:\n  - port: 80\n    nodePort: 30644\n';
    expect(answer(policy(30644) + service)).toContain('NetworkPolicy near admits port 30644, which is the node port of web');
    expect(answer(policy(80) + service)).not.toContain('NetworkPolicy near admits');
  });
});

describe('networks', () => {
  const init = (pods: string, range = '10.96.0.0/12') => `kubeadm init --service-cidr=${range} --pod-network-cidr=${pods}`;
  const flannel = (own: string) => `FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=${own}.3.1/24`;
  const node = 'w1   Ready   <none>   9d   v1.31.2   192.168.4.9   <none>   Ubuntu';

  test('that should be one and are two are told', () => {
    expect(answer(init('10.224.0.0/16'), flannel('10.224'))).toContain(
      'network of flannel is 10.244.0.0/16 (FLANNEL_NETWORK), and the cluster gives nodes networks of 10.224.0.0/16 (--pod-network-cidr)',
    );
    expect(answer(init('10.244.0.0/16'), flannel('10.244'))).toMatch(/^is neither/);
  });

  test('that should be apart and overlap are told', () => {
    expect(answer(init('10.100.0.0/16'))).toMatch(/range of Services, 10\.96\.0\.0\/12 .* that of pods, 10\.100\.0\.0\/16 .*, overlap/);
    expect(answer(init('192.168.0.0/16'), node)).toContain(
      '192.168.0.0/16 (--pod-network-cidr), the network of pods, holds 192.168.4.9 (node w1)',
    );
    expect(answer(init('10.244.0.0/16'), node)).toMatch(/^is neither/);
  });
});

describe('pods', () => {
  const pending = [
    'NAME   TYPE           CLUSTER-IP   EXTERNAL-IP   PORT(S)        AGE',
    'shop   LoadBalancer   10.43.7.7    <pending>     80:31380/TCP   4m',
    '',
  ];
  const heading = 'NAME   READY   STATUS   RESTARTS   AGE';

  test('of ServiceLB that are not placed are why a Service has no address', () => {
    expect(answer(...pending, heading, 'svclb-shop-x7k2p   0/1   Pending   0   4m')).toMatch(
      /ServiceLB of k3s gives no address, since its pod svclb-shop-x7k2p is Pending/,
    );
    expect(answer(...pending, heading, 'svclb-other-x7k2p   0/1   Pending   0   4m')).toContain('no controller');
  });

  test('of a network plugin that are nowhere are told where those of DNS wait', () => {
    const pods = (...names: readonly string[]) => [
      heading,
      'coredns-5d-x7k2p   0/1   Pending   0   4m',
      ...names.map(name => `${name}   1/1   Running   0   4m`),
    ];
    const none = 'no pod of a network plugin is listed';
    expect(answer(...pods('kube-apiserver-cp'))).toContain(none);
    expect(answer(...pods('kube-apiserver-cp', 'kube-flannel-ds-x7k2p'))).not.toContain(none);
    expect(answer(...pods())).not.toContain(none);
  });

  test('that are not ready are told beside a Service without endpoints', () => {
    const empty = ['NAME   ENDPOINTS   AGE', 'shop   <none>      4m', ''];
    expect(answer(...empty, heading, 'shop-5d-x7k2p   0/1   ImagePullBackOff   0   4m')).toContain('shop-5d-x7k2p (ImagePullBackOff)');
    expect(answer(...empty, heading, 'shop-5d-x7k2p   1/1   Running   0   4m', 'init-x7k2p   0/1   Completed   0   4m')).not.toContain(
      'x7k2p',
    );
  });

  test('are compared with a selector by labels that the command asked for, which are not all', () => {
    const service = (selector: string) => ['Name: shop', 'Namespace: default', `Selector: ${selector}`, 'Endpoints: <none>', ''];
    const pods = ['$ kubectl get pods -l app=shop', heading, 'shop-5d-x7k2p   0/1   CrashLoopBackOff   9   4m'];
    expect(answer(...service('app=shop'), ...pods)).toContain('matches are not ready: shop-5d-x7k2p (CrashLoopBackOff)');
    expect(answer(...service('app=shop,tier=front'), ...pods)).not.toContain('no pod of this text');
    const described = ['Name: shop-5d-x7k2p', 'Namespace: default', 'Node: w1/192.0.2.20', 'Labels: app=shopping', '        tier=front'];
    expect(answer(...service('app=shop'), ...described)).toContain('pod shop-5d-x7k2p has app=shopping, tier=front');
    expect(answer(...service('app=shopping,tier=front'), ...described)).not.toContain('no pod of this text');
  });

  test('whose condition Ready is False are told, and nodes are not taken for pods', () => {
    const condition = ['status:', '  conditions:', '  - lastProbeTime: null', '    status: "False"', '    type: Ready'];
    expect(answer(...condition, '  containerStatuses:', '  - ready: true')).toContain('its condition Ready is False');
    expect(answer(...condition)).not.toContain('its condition Ready');
  });
});

describe('state of a node', () => {
  test('shows peers of BGP that are not connected, by broken rows too', () => {
    const row = (peer: string, state: string, info: string) => `| ${peer}   | node-to-node mesh | ${state} | 17:19:38 | ${info} |`;
    const rest = '|                |                   |       |          | refused                        |';
    expect(answer(row('192.0.2.9', 'start', 'Active Socket: Connection'), rest, row('192.0.2.8', 'up   ', 'Established'))).toContain(
      'no BGP session with 192.0.2.9: ',
    );
    expect(answer(row('192.0.2.8', 'up   ', 'Established'))).toMatch(/^is neither/);
    // calico writes no blank before the time of its log.
    expect(answer('BIRD is not ready: BGP not established with 192.0.2.9,192.0.2.92019-10-02 14:51:02')).toContain(
      'no BGP session with 192.0.2.9, 192.0.2.9: ',
    );
  });

  test('shows the interface of a tunnel that is down, and a node that is not ready', () => {
    const link = (name: string, flags: string) => `4: ${name}: <${flags}> mtu 1450 qdisc noop state DOWN group default`;
    expect(answer(link('flannel.1', 'BROADCAST,MULTICAST'))).toContain('flannel.1 is down');
    for (const text of [
      link('flannel.1', 'BROADCAST,MULTICAST,UP,LOWER_UP'),
      link('tunl0@NONE', 'NOARP'),
      link('cni0', 'NO-CARRIER,BROADCAST,UP'),
    ])
      expect(answer(text)).toMatch(/^has interfaces, in which nothing is known to be wrong/);
    expect(answer('w1   NotReady   <none>   9d   v1.31.2')).toContain('node w1 is not ready');
  });

  test('shows a pod that does not ask the DNS of the cluster', () => {
    const read = (...conf: readonly string[]) => ['$ kubectl exec box -- cat /etc/resolv.conf', ...conf, ''];
    const failed = "nslookup: can't resolve 'shop'";
    expect(answer(failed, ...read('nameserver 192.0.2.53', 'options ndots:5'))).toContain('names 192.0.2.53 and no domain of the cluster');
    expect(answer(failed, ...read('search default.svc.cluster.local', 'nameserver 10.96.0.10'))).not.toContain('resolv.conf of a pod');
    expect(answer(...read('nameserver 192.0.2.53'))).not.toContain('resolv.conf of a pod');
    // By design.
    expect(
      answer(failed, '$ kubectl exec -it coredns-5d78c9869d-x2k7p -- sh', '/ # cat /etc/resolv.conf', 'nameserver 192.0.2.53'),
    ).not.toContain('resolv.conf of a pod');
    expect(answer(failed, '[root@w1 ~]# cat /etc/resolv.conf', 'nameserver 192.0.2.53')).not.toContain('resolv.conf of a pod');
  });

  test('shows a packet that was lost before another one was answered', () => {
    const packet = (at: string, rest: string) => `11:20:${at} IP ${rest}, length 0`;
    const syn = '10.244.0.9.41000 > 10.244.2.4.80: Flags [S], seq 70';
    const answered = '10.244.2.4.80 > 10.244.0.9.41000: Flags [S.], seq 5, ack 71';
    expect(answer(packet('01.10', syn), packet('02.12', syn), packet('02.13', answered))).toContain('2 times before an answer came');
    // One packet on two interfaces.
    expect(answer(packet('01.99', syn), packet('02.01', syn), packet('02.03', answered))).toMatch(
      /^has captured packets, in which nothing/,
    );
  });
});

test('a client that reaches nothing is told whose port it asks, and weave is not taken for IPVS', () => {
  const weave = '-> 192.0.2.8:6783     retrying    dial tcp4 :0->192.0.2.8:6783: getsockopt: connection timed out';
  expect(answer('$ weave status connections', weave)).toMatch(
    /does not reach 192\.0\.2\.8:6783 \(connection timed out\), the port of weave: .* firewall/,
  );
  // A page broke the line before it.
  expect(answer('no response from https://10.43.0.33:443: Get https://10.43', '  tcp 10.43.0.33:443: connect: no route to host')).toContain(
    'does not reach 10.43.0.33:443 (no route to host)',
  );
  expect(answer('dial tcp 10.43.0.1:443: connect: no route to host')).toContain('If this is the cluster IP of default/kubernetes');
});

test('one text may show several things, and a healthy list shows none', () => {
  const said = answer(...services, curl('10.96.7.7', 80, refused), 'w1   NotReady   <none>   9d   v1.31.2');
  expect(said).toContain('node w1 is not ready');
  expect(said).toContain('a client asks for 10.96.7.7:80');
  expect(answer(...services, ...endpoints)).not.toMatch(tells);
  // A page that drops blanks.
  expect(answer(...services.map(line => line.replaceAll(/ +/g, ' ')), curl('10.96.7.7', 80, refused))).toContain('shop has TCP 8080 alone');
});

test('a client that gets no answer is told what the text shows of its way', () => {
  expect(answer(...services, curl('192.0.2.20', 31808, 'No route to host'))).toMatch(
    /31808 is the node port of shop, and "no route to host" is the answer of a firewall on 192\.0\.2\.20 or before it/,
  );
  expect(answer(...services, 'ssh: connect to host 10.96.7.7 port 31808: Connection timed out')).toContain('shop has TCP 8080 alone');
  const lost = ['$ nslookup example.org 10.244.9.7', ';; connection timed out; no servers could be reached'];
  expect(answer(...lost, '64 bytes from 10.244.9.7: icmp_seq=1 ttl=63 time=0.3 ms')).toContain('it answers ping, so that packets find it');
  expect(answer(...lost, '64 bytes from 10.244.9.8: icmp_seq=1 ttl=63 time=0.3 ms')).not.toContain('answers ping');
});

test('a lookup without a server asks that of the resolv.conf of the same text', () => {
  const lookup = ['$ kubectl exec web -- nslookup shop', ';; connection timed out; no servers could be reached'];
  const resolver = (address: string) => ['search default.svc.cluster.local', `nameserver ${address}`];
  expect(answer(...lookup, ...resolver('10.96.0.10'))).toContain('does not reach 10.96.0.10:53 (timed out), the port of DNS');
  expect(answer(...lookup, ...resolver('10.96.0.10'), ...resolver('192.0.2.1'))).not.toContain(':53');
});

test('an address that words call a cluster IP is compared with the network of pods', () => {
  const settings = ['kind: KubeProxyConfiguration', 'clusterCIDR: 10.245.0.0/16'];
  const holds = 'holds 10.245.7.7 (a cluster IP, as the text says)';
  expect(answer(...settings, 'The Cluster IP answers ping, and nothing else:', '[root@w1 ~]# ping 10.245.7.7')).toContain(holds);
  expect(answer(...settings, 'my cluster-ip (10.245.7.7) hangs')).toContain(holds);
  expect(answer(...settings, 'pod 10.245.7.7 answers, its cluster IP does not')).not.toContain('holds');
  expect(answer(...settings, 'The pod answers:', '[root@w1 ~]# ping 10.245.7.7')).not.toContain('holds');
});

describe('the log of kube-proxy', () => {
  const list = ['NAME   ENDPOINTS                           AGE', 'shop   10.244.3.3:3000,10.244.4.4:3000    9d', ''];
  test.each([
    ['of old', (ends: string) => `I0827 02:49:15.403572  1 endpoints.go:234] Setting endpoints for "default/shop:http" to [${ends}]`],
    [
      'of today',
      (ends: string) =>
        `I0827 02:49:15.403572  1 endpointslicecache.go:303] "Setting endpoints for service port name" portName="default/shop:http" endpoints=[${ends.split(' ').map(end => `"${end}"`)}]`,
    ],
  ])('%s has endpoints that kubectl does not list', (_, line) => {
    expect(answer(...list, line('10.244.3.3:3000 10.244.9.9:3000'))).toContain(
      'kube-proxy takes 10.244.9.9:3000 for an endpoint of default/shop:http, as its log says',
    );
    expect(answer(...list, line('10.244.9.9:3000'), line('10.244.3.3:3000'))).not.toContain('takes');
    expect(answer(line('10.244.9.9:3000'))).not.toContain('takes');
  });
});

test('rows without a chain do not hide what else a text shows', () => {
  const row = 'KUBE-SVC-AAAAAAAAAAAAAAAA  tcp  --  0.0.0.0/0  10.96.7.7\n';
  expect(answer(row)).toMatch(/^has rows of iptables -L without the heading that names their chain, as on line 1: [^.]*$/);
  expect(answer(row, ...services, curl('10.96.7.7', 80, refused))).toMatch(
    /^has rows .* The text shows: a client asks for 10\.96\.7\.7:80/,
  );
});

test('what is shown alone is told with what belongs to it', () => {
  expect(answer('Name: KUBE-CLUSTER-IP', 'Type: hash:ip,port', 'Number of entries: 1', 'Members:', '10.96.0.1,tcp:443')).toMatch(
    /^has sets \(ipset\), .* paste what .*ipvsadm -Ln/,
  );
  expect(answer('[ERROR] plugin/errors: 2 example.org. A: plugin/loop: no next plugin found')).toContain('its Corefile has no forward');
  expect(answer('main.go:205] Using interface with name eth0 and address 10.0.2.15')).toContain('the network plugin takes 10.0.2.15');
  expect(answer('    vxlan id 1 local 10.0.2.15 dev enp0s3 srcport 0 0 dstport 8472 nolearning')).toContain(
    'the network plugin takes 10.0.2.15',
  );
  expect(answer('    vxlan id 1 local 192.168.56.10 dev enp0s8 srcport 0 0 dstport 8472 nolearning')).not.toContain('plugin takes');
  const endpoints = (address: string) => answer('NAME         ENDPOINTS           AGE', `kubernetes   ${address}:6443   1h`);
  expect(endpoints('10.0.2.15')).toContain('the API server is announced at 10.0.2.15');
  expect(endpoints('10.0.2.150')).not.toContain('is announced at');
  expect(answer('<BIG>Network Error (tcp_error)</BIG>')).toContain('an HTTP proxy answers in place of the Service');
  expect(answer('# firewall-cmd --permanent --direct --add-rule ipv4 filter FORWARD 1 -o docker0 -j ACCEPT')).toContain(
    'the text lets FORWARD of table filter accept packets',
  );
  expect(answer('iptables -A INPUT -p tcp --dport 22 -j ACCEPT')).not.toContain('accept packets');
  expect(answer('main.go:205] Using interface with name eth1 and address 192.168.56.2')).not.toContain('plugin takes');
});

test('a row of a table is read where its age was left out, and the address of a control plane is that of a node', () => {
  const heading = 'NAME   TYPE           CLUSTER-IP   EXTERNAL-IP   PORT(S)        AGE\n';
  expect(answer(`${heading}web    LoadBalancer   10.96.1.1    <pending>     80:30538/TCP`)).toContain(
    'web (10.96.1.1, 80:30538/TCP): no controller',
  );
  const kubeadm = (node: string) =>
    answer('localAPIEndpoint:', `  advertiseAddress: "${node}"`, 'networking:', '  podSubnet: "192.168.0.0/16"');
  expect(kubeadm('192.168.56.101')).toContain('192.168.0.0/16 (podSubnet), the network of pods, holds 192.168.56.101 (a node)');
  expect(kubeadm('192.0.2.101')).not.toContain('holds');
});

test('a Service of DNS without pods among all pods is told', () => {
  const list = (command: string, pod: string) =>
    answer(
      command,
      'NAMESPACE     NAME             READY   STATUS    RESTARTS   AGE',
      `kube-system   ${pod}   1/1     Running   0          7d`,
      '',
      '$ kubectl get svc -A',
      'kube-system   kube-dns   ClusterIP   10.96.0.10   <none>   53/UDP   8d',
    );
  expect(list('$ kubectl get pods --all-namespaces', 'web-5d-x2k7p')).toContain('no pod of DNS among all pods');
  expect(list('$ kubectl get pods --all-namespaces', 'coredns-5d-x2k7p')).not.toContain('no pod of DNS');
  expect(list('$ kubectl get pods --all-namespaces | grep web', 'web-5d-x2k7p')).not.toContain('no pod of DNS');
});
