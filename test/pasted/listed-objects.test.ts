/** What `kubectl get` prints, pasted without rules, and logs whose lines are no cause. */
import {describe, expect, test} from 'vitest';
import {noDump} from '../../src/parse/pasted/split-text.ts';

const said = (...lines: readonly string[]) => noDump(Buffer.from([...lines, ''].join('\n')));

describe('a list of Services', () => {
  const heading = 'NAME         TYPE           CLUSTER-IP    EXTERNAL-IP   PORT(S)        AGE';
  const rows = [
    'kubernetes   ClusterIP      10.43.0.1     <none>        443/TCP        12d',
    'web          LoadBalancer   10.43.12.7    <pending>     80:31380/TCP   41m',
  ];

  test('names those that wait for an external IP, and what does not wait for it', () => {
    expect(said('$ kubectl get svc', heading, ...rows)).toMatch(
      /^is what kubectl prints, without rules\. web \(10\.43\.12\.7, 80:31380\/TCP\): no controller .* gave it an address.*node ports do not depend on that/,
    );
  });

  test('is read with namespaces and selectors, and without types', () => {
    const wide = ['NAMESPACE   ', '   SELECTOR'];
    const row = ['shop        ', '   app=web'];
    expect(said(wide.join(heading), row.join(rows[1]))).toContain('shop/web (10.43.12.7');
    const old = (line: string) => line.replace(/TYPE {11}|LoadBalancer {3}/, '');
    expect(said(old(heading), old(rows[1] ?? ''))).toContain('web (10.43.12.7, 80:31380/TCP)');
  });

  test('is said to show no rules where none waits, and the Endpoints without addresses are named', () => {
    expect(said(heading, rows[0] ?? '')).toMatch(/^is what kubectl prints, without rules\. To see/);
    expect(said('NAME   ENDPOINTS           AGE', 'web    10.42.0.7:8080      3m', 'db     <none>              3m')).toContain(
      'db: no endpoint: kube-proxy refuses connections by design',
    );
    expect(said('NAME    READY   STATUS    RESTARTS   AGE', 'web-1   1/1     Running   0          3m')).toContain('is neither');
  });
});

test('Endpoints whose <none> a page dropped have no addresses', () => {
  const list = [
    'NAMESPACE  NAME    ENDPOINTS         AGE',
    'shop       web                       3m',
    'shop       db      10.42.0.7:5432    3m',
  ];
  expect(said(...list)).toContain('without rules. shop/web: no endpoint: kube-proxy refuses');
  expect(said(...list)).not.toContain('shop/db');
});

test('endpoints of kubectl describe whose pods are not ready are told, and those of one that is are not', () => {
  const pod = (name: string, ready: string, ip: string) => `${name}   ${ready}   Running   0   3m   ${ip}   node-a   <none>   <none>`;
  const list = (...rows: readonly string[]) =>
    said(
      'NAME   READY   STATUS    RESTARTS   AGE   IP   NODE',
      ...rows,
      '',
      'Name:       web',
      'IP:  10.96.0.9',
      'Endpoints:  10.42.0.7:80',
    );
  expect(list(pod('web-1', '0/1', '10.42.0.7'))).toContain('the pods of web are not ready (web-1): EndpointSlices and kubectl describe');
  for (const row of [pod('web-1', '1/1', '10.42.0.7'), pod('web-2', '0/1', '10.42.0.8')]) expect(list(row)).not.toContain('are not ready');
});

test('addresses of a family that a Service does not have are told', () => {
  const object = (ips: string) => [
    'apiVersion: v1',
    'kind: Service',
    'metadata: {name: web}',
    `spec: {clusterIPs: [${ips}], ports: [{port: 80}]}`,
  ];
  const status = 'status: {loadBalancer: {ingress: [{ip: 192.0.2.9}, {ip: "fd00:9::9"}]}}';
  expect(said(...object('10.96.0.9'), status)).toContain('fd00:9::9 of web is of a family that the Service does not have');
  expect(said(...object('10.96.0.9, "fd00:1::9"'), status)).not.toContain('is of a family');
});

test('a route that refuses cluster IPs is told, but in IPVS mode, where the node has these', () => {
  const list = [
    'NAME         TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE',
    'kubernetes   ClusterIP   10.96.0.1    <none>        443/TCP   4d',
  ];
  const routes = (...more: readonly string[]) => ['default via 192.0.2.1 dev eth0', 'blackhole 10.96.0.0/23 proto bird', ...more];
  const refused = 'packets to 10.96.0.1 take the route "blackhole 10.96.0.0/23 proto bird": the kernel refuses what the node itself sends';
  expect(said(...list, '', ...routes())).toContain(refused);
  expect(said(...list, '', ...routes('10.96.0.1 via 192.0.2.2 dev eth0'))).not.toContain('blackhole');
  expect(said(...list, '', 'mode: ipvs', ...routes())).not.toContain('the kernel refuses');
});

test('of a Service without a selector and without endpoints it is said who writes them', () => {
  const service = ['Name:       legacy', 'Namespace:  shop', 'Selector:   app=web', 'Endpoints:  <none>'];
  expect(said(...service.map(line => line.replace('app=web', '<none>')))).toContain('Without a selector its endpoints are those of');
  expect(said(...service)).not.toContain('Without a selector');
});

describe('a log without a line that names kube-proxy', () => {
  const failed = (type: string, path = 'k8s.io/client-go/informers/factory.go:160') =>
    `E0102 03:04:05.000001       1 reflector.go:147] ${path}: Failed to list *v1.${type}: Unauthorized`;

  test('is its own where it lists what kube-proxy alone lists', () => {
    expect(said(failed('Service'), failed('EndpointSlice'))).toMatch(/^is a log of kube-proxy alone, which says: .*credentials/);
    expect(said(failed('Service'), failed('Pod'))).toContain('is neither');
    const other = 'k8s.io/client-go@v0.30.1/informers/factory.go:160';
    expect(said(failed('Service', other), failed('EndpointSlice', other))).toContain('is neither');
  });

  test('is its own where nft refuses a rule of its table', () => {
    const refused = (table: string) => [
      '/dev/stdin:12:60-80: Error: Could not process rule: No such file or directory',
      `add rule ip ${table} nodeport-ips fib saddr type local jump mark-for-masquerade`,
    ];
    expect(said(...refused('kube-proxy'))).toMatch(/^is a log of kube-proxy alone, which says: .*nft_fib/);
    expect(said(...refused('mine'))).toContain('is neither');
  });
});

describe('a log of kube-proxy', () => {
  const panic = [
    'panic: runtime error: invalid memory address or nil pointer dereference',
    '[signal SIGSEGV: segmentation violation code=0x1 addr=0x50 pc=0x2bafa28]',
    '',
    'goroutine 116 [running]:',
  ];

  test('that is a panic of its own says that it crashed', () => {
    expect(said(...panic, 'k8s.io/kubernetes/pkg/proxy/ipvs.(*Proxier).syncProxyRules(0xc00e8845a0)')).toMatch(
      /^is a log of kube-proxy alone, which says: panic: .* \(kube-proxy crashed/,
    );
  });

  test('is not taken for one where another program panics', () => {
    expect(said(...panic, 'github.com/coredns/coredns/plugin/forward.(*Forward).ServeDNS(0xc00e8845a0)')).toContain('is neither');
  });

  test.each([
    [
      'an address that is gone from kube-ipvs0',
      'E1129 01:11:44.765396       1 proxier.go:1622] Failed to unbind service addr fe80::1 from dummy interface kube-ipvs0: error unbind address: fe80::1 from interface: kube-ipvs0, err: cannot assign requested address',
    ],
    [
      'a real server that is gone',
      `E0612 07:34:01.163310       1 graceful_termination.go:183] Try delete rs "10.96.0.10:53/UDP/10.244.1.12:53" err: Failed to delete rs "10.96.0.10:53/UDP/10.244.1.12:53", can't find the real server`,
    ],
  ])('is said to be no cause where it tells of %s', (_, line) => {
    expect(said(line)).toMatch(/which says: .*no packet is affected\): Look for another cause/);
  });
});

describe('objects as YAML, without rules', () => {
  const slice = (conditions: string) =>
    `apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: web-x7k2p\n  labels:\n    kubernetes.io/service-name: web\nendpoints:\n- addresses: [10.244.1.5]\n  conditions: {${conditions}}\nports:\n- port: 8080\n`;
  const refused = 'web: no endpoint: kube-proxy refuses connections by design';

  test('show a Service without a ready endpoint', () => {
    expect(noDump(Buffer.from('apiVersion: v1\nkind: Endpoints\nmetadata:\n  name: web\nsubsets: []\n'))).toContain(refused);
    expect(noDump(Buffer.from(slice('ready: false')))).toContain(refused);
    // It is sent to where no other is ready.
    for (const other of ['ready: true', 'ready: false, serving: true, terminating: true'])
      expect(noDump(Buffer.from(slice(other)))).not.toContain(refused);
    expect(noDump(Buffer.from(`${slice('ready: false')}---\n${slice('ready: true')}`))).not.toContain(refused);
  });

  test.each([
    'kind: Service\nspec:\n  selector:\n  ports: 80\n',
    'kind: Endpoints\nsubsets: [null]\n',
    'kind: Deployment\nspec:\n  template:\n    metadata:\n      labels:\n    spec:\n      containers: [null, {ports: containerPort}]\n',
    'kind: NetworkPolicy\nmetadata: 7\nspec: {policyTypes: 5, ingress:}\n',
  ])('are told beside one whose fields are of other types (%j)', odd => {
    const client = 'curl: (28) Failed to connect to 10.96.1.1 port 80 after 9 ms: Connection timed out\n';
    expect(noDump(Buffer.from(`apiVersion: v1\n${odd}---\n${slice('ready: false')}`))).toContain(refused);
    expect(noDump(Buffer.from(`${client}apiVersion: v1\n${odd}`))).toContain('a program that does not reach 10.96.1.1:80');
  });

  test('show a port that the endpoints do not have by its name', () => {
    const objects = (name: string) =>
      Buffer.from(
        `apiVersion: v1\nkind: Endpoints\nmetadata:\n  name: db\nsubsets:\n- addresses:\n  - ip: 192.0.2.7\n  ports:\n  - port: 5432\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: db\nspec:\n  ports:\n  - port: 5432\n${name}`,
      );
    expect(noDump(objects('    name: sql\n'))).toContain('port sql of db has no endpoint: the ports of its endpoints are without a name');
    expect(noDump(objects(''))).toContain('is neither');
  });

  test('are compared with a Service that is described, and with no pod of its name', () => {
    const described = (port: string, ...rest: readonly string[]) => ['Name: db', 'Namespace: shop', ...rest, `Port:   ${port}  5432/TCP`];
    const endpoints = [
      '',
      'kind: Endpoints',
      'metadata:',
      '  name: db',
      'subsets:',
      '- addresses: [{ip: 192.0.2.7}]',
      '  ports: [{port: 5432}]',
    ];
    const lacks = 'port sql of shop/db has no endpoint: the ports of its endpoints are without a name';
    expect(said(...described('sql', 'IP: 10.96.3.3'), ...endpoints)).toContain(lacks);
    expect(said(...described('<unset>', 'IP: 10.96.3.3'), ...endpoints)).not.toContain('has no endpoint');
    expect(said(...described('sql', 'Node: w1', 'IP: 10.244.1.3'), ...endpoints)).not.toContain('has no endpoint');
  });

  test('show pods without the port that a slice beside theirs has, and no Service without ports', () => {
    const slice = (id: string, ports: string, address: string) => `web-${id}   IPv4   ${ports}   ${address}   9m`;
    const heading = 'NAME        ADDRESSTYPE   PORTS     ENDPOINTS    AGE';
    const without = slice('b2c3d', '<unset>', '10.244.1.5');
    expect(said(heading, slice('x7k2p', '8080', '10.244.1.4'), without)).toContain('10.244.1.5 of web has no port (<unset>): no container');
    expect(said(heading, without)).not.toContain('<unset>');
  });

  test('show a selector that matches no pod of the text', () => {
    const objects = (app: string, namespace = '') =>
      Buffer.from(
        `apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  namespace: shop\nspec:\n  selector:\n    app: web\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: api\n${namespace}spec:\n  template:\n    metadata:\n      labels:\n        app: ${app}\n`,
      );
    const unmatched = 'no pod of this text has the labels of the selector of shop/web (app=web): Deployment api has app=webapp';
    expect(noDump(objects('webapp'))).toContain(unmatched);
    expect(noDump(objects('web'))).toContain('is neither');
    expect(noDump(objects('webapp', '  namespace: other\n'))).toContain('is neither');
  });
});

test('a pod whose readiness probe fails is told beside a Service without endpoints', () => {
  const event =
    '  Warning  Unhealthy  2m  kubelet  Readiness probe failed: Get "http://10.244.1.5:8080/": dial tcp 10.244.1.5:8080: connect: connection refused\n';
  expect(noDump(Buffer.from(`NAME   ENDPOINTS   AGE\nweb    <none>      41m\n\n${event}`))).toMatch(
    /shows: a pod is not ready, and so is no endpoint of its Services \(Readiness probe failed: Get .* web: no endpoint: /,
  );
});

test('a port of a cluster IP that somebody asks at the node is told apart from its node port', () => {
  const list =
    'NAME   TYPE       CLUSTER-IP   EXTERNAL-IP   PORT(S)          AGE\nweb    NodePort   10.96.1.1    <none>        8080:31555/TCP   18d\n\n';
  const curl = (port: number) =>
    `$ curl http://localhost:${port}/\ncurl: (7) Failed to connect to localhost port ${port}: Connection refused\n`;
  expect(noDump(Buffer.from(list + curl(8080)))).toContain('8080 is the port of web at its cluster IP: at nodes it is 31555');
  expect(noDump(Buffer.from(list + curl(31_555)))).not.toContain('at its cluster IP');
});

test('elements of maps without their table are told where they refuse', () => {
  const element = (verdict: string) =>
    `$ nft list ruleset | grep 10.96.1.1\n    10.96.1.1 . tcp . 80 comment "shop/web:http" : ${verdict},\n`;
  expect(noDump(Buffer.from(element('goto reject-chain')))).toContain('shop/web:http (tcp 80) is refused');
  expect(noDump(Buffer.from(element('goto service-ABC-shop/web/tcp/http')))).not.toContain('is refused');
});

test('external IPs that are addresses of nodes are named, and not those that a load balancer of nodes has', () => {
  const row = (type: string) => `web   ${type}   10.96.1.1    192.0.2.9    80:31811/TCP   4m`;
  const nodes =
    '\nNAME   STATUS   ROLES    AGE   VERSION   INTERNAL-IP   EXTERNAL-IP\nnode-b   NotReady   <none>   23d   v1.21.3   192.0.2.9   <none>\n';
  expect(noDump(Buffer.from(row('NodePort') + nodes))).toContain('externalIPs of web has 192.0.2.9, the address of node node-b');
  expect(noDump(Buffer.from(row('LoadBalancer') + nodes))).not.toContain('externalIPs');
});

test('Endpoints in which programs write who leads are no Services without endpoints', () => {
  const rows = [
    'NAMESPACE   NAME   ENDPOINTS   AGE',
    'kube-system   kube-scheduler   <none>   5d',
    'kube-system   example.com-nfs   <none>   5d',
  ];
  expect(said(...rows)).not.toContain('no endpoint');
  expect(said(...rows, 'kube-system   metrics   <none>   5d')).toContain('kube-system/metrics: no endpoint');
});

test('a program that is not served is told beside a list, and pods of DNS in the range of Services are', () => {
  const rows = ['NAMESPACE   NAME   ENDPOINTS   AGE', 'kube-system   kube-dns   10.96.0.46:53   5d', ''];
  const error = 'Get "https://10.96.0.1:443/version": dial tcp 10.96.0.1:443: i/o timeout';
  expect(said(...rows, error)).toMatch(
    /endpoint of kube-system\/kube-dns has 10\.96\.0\.46, and 10\.96\.0\.1 \(default\/kubernetes\) is a cluster IP/,
  );
  expect(said(...rows, error)).toContain('A program does not reach 10.96.0.1:443 (i/o timeout)');
  expect(said(...rows.map(row => row.replace('10.96.0.46', '10.244.0.46')), error)).not.toContain('overlap');
});

test('Services of the same pods and ports are told, and not those of one database', () => {
  const list = (...names: readonly string[]) =>
    said(
      'NAME   TYPE        CLUSTER-IP    EXTERNAL-IP   PORT(S)   AGE   SELECTOR',
      ...names.map((name, at) => `${name}   ClusterIP   10.43.8.${at}   <none>        42/TCP    3d    app=jobs`),
    );
  expect(list('php', 'workers')).toContain('php, workers have one selector (app=jobs)');
  expect(list('db', 'db-readonly')).not.toContain('one selector');
});

test('Endpoints that are not ready are named, and so is a list that has their pod as ready', () => {
  const object =
    'apiVersion: v1\nkind: Endpoints\nmetadata:\n  name: db\nsubsets:\n- notReadyAddresses:\n  - ip: 10.42.0.9\n  ports:\n  - port: 5432\n';
  const pod = (ready: number) => `db-0   ${ready}/1   Running   0   3d   10.42.0.9   w1`;
  expect(said(object, pod(0))).toMatch(/None of the addresses of db is ready \(10\.42\.0\.9\)(?!, and)/);
  expect(said(object, pod(1))).toContain('and kubectl lists the pod as ready');
});

test('Endpoints that no controller copies are told, unless they are those of a leader', () => {
  const object = (more: string) =>
    `apiVersion: v1\nkind: Endpoints\nmetadata:\n  name: db\n  labels:\n    endpointslice.kubernetes.io/skip-mirror: "true"\n${more}subsets:\n- addresses:\n  - ip: 192.0.2.4\n  ports:\n  - port: 5432\n`;
  expect(said(object(''))).toContain('Endpoints db have the label endpointslice.kubernetes.io/skip-mirror');
  expect(said(object('  annotations:\n    control-plane.alpha.kubernetes.io/leader: "{}"\n'))).not.toContain('skip-mirror');
});
