/** What a text shows beside its rules is compared with them: lists of kubectl, kube-ipvs0, logs, traced packets, and connections. */
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {noDump} from '../../src/parse/pasted/split-text.ts';
import {serviceList} from '../../src/render/table/tree.ts';
import {headlineOf} from '../../src/render/verdict-line.ts';
import {plain} from '../render/report.ts';
import {said, snapshotOfText, traceText} from './trace-text.ts';

const server = (address: string, real = '  -> 10.244.1.5:8080             Masq    1      0          0\n') => `TCP  ${address} rr\n${real}`;
const servers = (...rows: readonly string[]) =>
  `# ipvsadm -Ln\nIP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\n${rows.join('')}`;
const services =
  '$ kubectl get svc\nNAME  TYPE       CLUSTER-IP   EXTERNAL-IP  PORT(S)       AGE\nweb   NodePort   10.96.1.1    <none>       80:30100/TCP  3d\n\n';
const endpoints = (list: string) => `$ kubectl get ep\nNAME  ENDPOINTS   AGE\nweb   ${list}   3d\n\n`;
const device = (...addresses: readonly string[]) =>
  `# ip addr show kube-ipvs0\n6: kube-ipvs0: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN\n${addresses.map(address => `    inet ${address}/32 scope global kube-ipvs0\n       valid_lft forever preferred_lft forever\n`).join('')}`;
const kubernetes =
  '-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/kubernetes:https cluster IP" -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y';
const chain = (...rules: readonly string[]) => ['# iptables -t nat -S KUBE-SERVICES', '-N KUBE-SERVICES', ...rules, ''].join('\n');

describe('a Service that kubectl lists', () => {
  const lacks = 'no entry for web (10.96.1.1, port 80), which kubectl lists';

  test('is missing in virtual servers and in KUBE-SERVICES that are shown whole', () => {
    expect(said(services + servers(server('10.96.0.1:443')))).toBe(`ipvsadm shows ${lacks}, unless another proxy serves it`);
    expect(said(services + chain(kubernetes))).toBe(
      `KUBE-SERVICES of table nat has ${lacks}, unless it has no endpoint, or another proxy serves it`,
    );
    expect(said(services + endpoints('10.244.1.5:8080') + chain(kubernetes))).toBe(
      `KUBE-SERVICES of table nat has ${lacks} with the endpoints 10.244.1.5:8080, unless another proxy serves it`,
    );
  });

  test.each([
    ['grep left some of them', services + servers(server('10.96.0.1:443')).replace('-Ln', '-Ln | grep -A1 10.96.0.1')],
    [
      'grep left some rules',
      services + chain(kubernetes).replace('-S KUBE-SERVICES', '-S | grep kubernetes').replace('-N KUBE-SERVICES\n', ''),
    ],
    ['it has no endpoint, which other rules refuse', services + endpoints('<none>') + chain(kubernetes)],
    ['they serve it', services + servers(server('10.96.1.1:80'))],
    ['it is headless', services.replace('10.96.1.1', 'None     ') + chain(kubernetes)],
  ])('is not said to be missing where %s', (_, text) => {
    expect(said(text)).toBe('');
  });

  test('is missing at its node port', () => {
    const rule = '-A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30200 -j KUBE-EXT-TCOU7JCQXEZGVUNU';
    const nodePorts = (text: string) => chain(text).replaceAll('KUBE-SERVICES', 'KUBE-NODEPORTS');
    expect(said(services + nodePorts(rule))).toBe(
      'KUBE-NODEPORTS of table nat has no entry for web (node port 30100), which kubectl lists, unless it has no endpoint, or another proxy serves it',
    );
    expect(said(services + nodePorts(rule.replace('30200', '30100')))).toBe('');
  });

  test('is refused although an endpoint is ready, where its real server has the weight 0', () => {
    const weightless = servers(server('10.96.1.1:80', '  -> 10.244.1.5:8080   Masq    0      0          0\n'));
    expect(said(services + endpoints('10.244.1.5:8080') + weightless)).toMatch(
      /^the rules refuse every packet to web \(.* or all have the weight 0\), and kubectl lists 10\.244\.1\.5:8080 as ready: [^;]* is Local$/,
    );
    for (const list of ['10.244.1.5:8080', '10.244.1.5:8080,10.244.2.5:8080', '[fd00::5]:8080'])
      expect(said(services + endpoints(list) + servers(server('10.96.1.1:80')))).toBe('');
    // EndpointSlices list endpoints that are not ready too.
    const slices = 'NAME        ADDRESSTYPE   PORTS   ENDPOINTS    AGE\nweb-x7k2p   IPv4          8080    10.244.1.5   3d\n\n';
    expect(said(services + slices + weightless)).toMatch(/^ipvs\/10\.96\.1\.1 /);
  });
});

test('rows of kubectl that grep left without their heading are read, and not those of other lists', () => {
  const [, row = ''] = services.split('\n').slice(1);
  expect(said(`${row}\n${servers(server('10.96.0.1:443'))}`)).toMatch(/no entry for web \(10\.96\.1\.1, port 80\)/);
  const stale = /^virtual server 10\.96\.1\.1:80 sends to 10\.244\.1\.5:8080, which is none of the endpoints that kubectl lists/;
  expect(said(`${row}\nweb   10.244.1.9:8080   3d\n${servers(server('10.96.1.1:80'))}`)).toMatch(stale);
  expect(said(`${row}\nweb   10.244.1.5:8080   3d\n${servers(server('10.96.1.1:80'))}`)).toBe('');
  expect(said(`shop   ${row}\n$ kubectl get ep -A\nshop   web   <none>   3d\n${chain(kubernetes)}`)).toBe('');
  expect(said(`shop   ${row}\n$ kubectl get netpol -A\nshop   web   <none>   3d\n${chain(kubernetes)}`)).toMatch(/no entry for shop\/web/);
});

describe('real servers of IPVS', () => {
  const list = services + endpoints('10.244.1.9:8080');
  const one = servers(server('10.96.1.1:80'));

  test('are compared with the endpoints of the Service that has the address, in a part of a list too', () => {
    const stale =
      'virtual server 10.96.1.1:80 sends to 10.244.1.5:8080, which is none of the endpoints that kubectl lists (10.244.1.9:8080)';
    expect(said(list + one)).toBe(stale);
    expect(said(list + one.replace('-Ln', '-Ln -t 10.96.1.1:80'))).toBe(stale);
    expect(said(list + one.replace('Masq    1 ', 'Masq    0 '))).not.toContain('sends to');
    expect(said(list + one.replaceAll('10.96.1.1', '10.96.9.9').replace('-Ln', '-Ln -t 10.96.9.9:80'))).toBe('');
  });

  test('of a Service without a ready endpoint are told, by the address of the Service', () => {
    expect(said(services + endpoints('<none>') + one)).toContain(
      'virtual server 10.96.1.1:80 sends to 10.244.1.5:8080, and kubectl lists no ready endpoint for it',
    );
  });

  test('that two lists show otherwise are told, with the line of each', () => {
    const part = one.replace('-Ln', '-Ln -t 10.96.1.1:80');
    expect(said(`${part}\nnode-b\n${servers(server('10.96.1.1:80', ''))}`)).toBe(
      'virtual server 10.96.1.1:80 has no real server on line 13, and 10.244.1.5:8080 on line 5: the lists are of several nodes or times, and some of them are out of date',
    );
    expect(said(`${part}\nnode-b\n${part}`)).toBe('');
  });
});

test('a connection of the node itself that waits shows that nothing masquerades it', () => {
  const row = (client: string) =>
    `IPVS connection entries\npro expire state       source             virtual            destination\nTCP 00:51  SYN_RECV    ${client}:37954   10.96.1.1:443     10.0.0.9:6443\n`;
  const list = servers(server('10.96.1.1:443'));
  expect(said(list + row('10.96.1.1'))).toContain(
    'The client is the node itself, and has the address of the virtual server: nothing masquerades',
  );
  expect(said(list + row('10.0.0.7'))).not.toContain('nothing masquerades');
});

test('virtual servers without a real server are told in lines of a list, unless a filter took these', () => {
  const rows = 'TCP  203.0.113.10:443 lc\nTCP  10.96.1.2:1112 lc\n  -> 10.244.1.28:1112             Masq    1      0          0\n\n';
  expect(said(rows)).toMatch(/^no real server is shown for 203\.0\.113\.10:443: unless the text leaves some out, connections are refused/);
  expect(said('TCP  203.0.113.10:443 rr\n\n')).toMatch(
    /^no real server is shown for 203\.0\.113\.10:443: .* Local external traffic policy/,
  );
  expect(said(`# ipvsadm -Ln | grep 443\n${rows}`)).toBe('');
  expect(said(rows.replace('lc\nTCP', 'lc\n...\nTCP'))).toBe('');
  const shown = /^no real server is shown for 203\.0\.113\.10:443: /;
  expect(said(`# ipvsadm -Ln | less\n${rows}`)).toMatch(shown);
  expect(said(`${rows.trimEnd()}\n...\n`)).toMatch(shown);
});

test('an external IP that no rule has is told, whatever its type', () => {
  const row = 'NAME  TYPE       CLUSTER-IP   EXTERNAL-IP  PORT(S)  AGE\nweb   ClusterIP  10.96.0.1    192.0.2.7    443/TCP  3d\n\n';
  expect(said(row + chain(kubernetes))).toMatch(
    /^KUBE-SERVICES of table nat has no entry for web \(192\.0\.2\.7, port 443\), which kubectl lists/,
  );
  expect(said(row + chain(kubernetes, kubernetes.replace('10.96.0.1', '192.0.2.7').replace('cluster', 'external')))).toBe('');
});

describe('an address of a load balancer', () => {
  const row =
    'NAME  TYPE          CLUSTER-IP   EXTERNAL-IP    PORT(S)       AGE\nweb   LoadBalancer  10.96.0.1    192.0.2.7      443:30100/TCP  3d\n\n';
  const lacks = /no entry for web \(192\.0\.2\.7, port 443\)/;
  const described = (mode: string) => `Name:  web\nIP:  10.96.0.1\nLoadBalancer Ingress:  192.0.2.7${mode}\nPort:  https  443/TCP\n\n`;

  test('is missing in rules that are shown whole where its ipMode can be no other than VIP', () => {
    expect(said(`MetalLB announces it\n${row}${chain(kubernetes)}`)).toMatch(lacks);
    expect(said(`node-a  Ready  master  3d  v1.21.3\n\n${row}${chain(kubernetes)}`)).toMatch(lacks);
    expect(said(described(' (VIP)') + chain(kubernetes))).toMatch(lacks);
  });

  test.each([
    ['its ipMode is not known', row + chain(kubernetes)],
    ['it is that of iptables that has such a version', `# Generated by iptables-save v1.8.9\n${row}${chain(kubernetes)}`],
    ['its ipMode is Proxy', described(' (Proxy)') + chain(kubernetes)],
    [
      'they serve it',
      `MetalLB\n${row}${chain(kubernetes, kubernetes.replace('10.96.0.1', '192.0.2.7').replace('cluster', 'loadbalancer'))}`,
    ],
  ])('is not where %s', (_, text) => {
    expect(said(text)).toBe('');
  });
});

describe('endpoints that kubectl prints as', () => {
  const rules = [
    '$ sudo iptables-save | grep web',
    '-A KUBE-SERVICES -d 10.96.1.1/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-TCOU7JCQXEZGVUNU',
    '-A KUBE-SVC-TCOU7JCQXEZGVUNU -m comment --comment "shop/web:http" -j KUBE-SEP-5V2UTJDVBQ73MZHD',
    '-A KUBE-SEP-5V2UTJDVBQ73MZHD -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.1.9:8080',
    '',
  ].join('\n');
  const slice = (address: string) =>
    `apiVersion: v1\nitems:\n- addressType: IPv4\n  apiVersion: discovery.k8s.io/v1\n  endpoints:\n  - addresses:\n    - ${address}\n  kind: EndpointSlice\n  metadata:\n    labels:\n      kubernetes.io/service-name: web\n    name: web-x7k2p\n    namespace: shop\n  ports:\n  - port: 8080\nkind: List\n`;
  const json = (address: string) =>
    `${JSON.stringify({apiVersion: 'v1', kind: 'Endpoints', metadata: {name: 'web', namespace: 'shop'}, subsets: [{addresses: [{ip: address}], ports: [{port: 8080}]}]}, null, 4)}\n`;
  const table = (address: string) =>
    `$ kubectl get endpointslices\nNAME        ADDRESSTYPE   PORTS   ENDPOINTS    AGE\nweb-x7k2p   IPv4          8080    ${address}   3d\n`;

  test.each([
    ['YAML', slice],
    ['JSON', json],
    ['a table of EndpointSlices', table],
  ])('%s show which one of the rules is stale', (_, list) => {
    expect(said(list('10.244.1.5') + rules)).toBe(
      'shop/web:http sends to 10.244.1.9:8080, which is none of the endpoints that kubectl lists (10.244.1.5:8080)',
    );
    expect(said(list('10.244.1.9') + rules)).toBe('');
  });

  test('anything are not compared with an endpoint whose chain is not shown', () => {
    const text = table('10.244.1.5') + rules.replace(/-A KUBE-SEP.*\n/, '');
    expect(said(text)).toBe('');
    expect(traceText(snapshotOfText(text)).findings.map(({code}) => code)).not.toContain('ST203');
  });

  test('YAML whose fields are of other types tell nothing', () => {
    expect(said(slice('10.244.1.5').replace(/ports:\n.*\n/, 'ports: 5\n') + rules)).toBe('');
    expect(said(`apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  selector:\n  ports: 80\n${rules}`)).toBe('');
  });
});

describe('kube-ipvs0', () => {
  test('lacks an address of a virtual server, and of a Service that kubectl lists', () => {
    const lacks = /^kube-ipvs0 lacks 10\.96\.1\.1, which is the address of virtual servers: packets of pods pass the node by/;
    expect(said(servers(server('10.96.0.1:443'), server('10.96.1.1:80')) + device('10.96.0.1'))).toMatch(lacks);
    expect(said(servers(server('10.96.0.1:443')) + services + device('10.96.0.1'))).toMatch(/kube-ipvs0 lacks 10\.96\.1\.1/);
    // A virtual server with a name may be any of the Services.
    expect(said(servers(server('node-a:https'), server('10.96.0.1:443'), server('10.96.9.9:80')) + services)).not.toContain('no entry for');
  });

  test('a node port without a real server is told to be of a Local policy, or of a Service without endpoints', () => {
    const bare = 'TCP  192.0.2.10:30080 rr\n';
    const list =
      'NAME  TYPE      CLUSTER-IP  EXTERNAL-IP  PORT(S)       AGE\nweb   NodePort  10.96.1.1   <none>       80:30080/TCP  3d\n\n';
    const local = /192\.0\.2\.10 \(node port 30080\) refuses .* Local traffic policy/;
    expect(said(list + servers(server('10.96.1.1:80')) + bare)).toMatch(local);
  });

  test.each([
    ['it has all', device('10.96.0.1', '10.96.1.1')],
    ['another interface has it', `${device('10.96.0.1')}7: dummy0: <UP> mtu 1500\n    inet 10.96.1.1/32 scope global dummy0\n`],
    ['the command left some out', device('10.96.0.1').replace('show kube-ipvs0', 'show | grep -A2 kube-ipvs0')],
  ])('lacks nothing where %s', (_, list) => {
    expect(said(servers(server('10.96.0.1:443'), server('10.96.1.1:80'), server('172.18.0.11:30100')) + list)).toBe('');
  });
});

describe('the log of kube-proxy', () => {
  const opened = (text: string) => `I1105 02:56:50.065117   28276 proxier.go:1680] ${text}\n`;
  const words = /opened node port 30100 of shop\/web:http, and no rule of this text has it/;

  test('says that a node port was opened that no rule has', () => {
    for (const text of [
      'Opened local port "nodePort for shop/web:http" (:30100/tcp)',
      String.raw`"Opened local port" port="\"nodePort for shop/web:http\" (:30100/tcp4)"`,
    ]) {
      expect(said(opened(text) + chain(kubernetes))).toMatch(words);
      const list = serviceList(traceText(snapshotOfText(opened(text) + chain(kubernetes))), {...plain, width: 999});
      expect(list).toMatch(/\n\nThe text shows: the log says that .*\n\n1 Service;/);
    }
    const rule = '-A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30100 -j KUBE-EXT-TCOU7JCQXEZGVUNU\n';
    expect(said(opened('Opened local port "nodePort for shop/web:http" (:30100/tcp)') + rule)).toBe('');
  });

  test('has its cause in the first line of check', () => {
    const text = `${chain(kubernetes)}E0412 08:20:11.3   1 reflector.go:138] k8s.io/client-go/informers/factory.go:134: Failed to watch *v1.Service: failed to list *v1.Service: Unauthorized\n$ kubectl logs kube-proxy-x7k2p\n`;
    expect(headlineOf(diagnose(snapshotOfText(text), {toolVersion: '0.0.0'}))).toContain(
      'do not accept the credentials of each other (ST505)',
    );
  });
});

describe('a traced packet', () => {
  const line = (place: string, destination = 'DST=10.96.1.1', port = 80) =>
    `May  8 15:51:07 node-a kernel: [3098.5] TRACE: ${place} IN=eth0 OUT= SRC=10.244.1.3 ${destination} LEN=60 ID=28265 DF PROTO=TCP SPT=14024 DPT=${port} SEQ=1726 ACK=0 SYN\n`;
  const start = line('raw:PREROUTING:policy:2') + line('nat:PREROUTING:rule:1') + line('nat:KUBE-SEP-5V2UTJDVBQ73MZHD:rule:2');
  const sent = (place: string) => line(place, 'DST=10.244.2.5', 8080);
  const lead = 'the trace of 10.244.1.3 → 10.96.1.1:80, sent on to 10.244.2.5:8080, ends at';

  test('says where it ends, without any rules', () => {
    expect(noDump(Buffer.from(start + sent('filter:FORWARD:policy:4')))).toContain(
      `${lead} the policy of filter/FORWARD: no line follows, so that it was dropped or refused there`,
    );
    expect(noDump(Buffer.from(start + sent('filter:FORWARD:policy:4') + sent('nat:POSTROUTING:policy:3')))).toContain(
      `${lead} the policy of nat/POSTROUTING: it leaves this node`,
    );
  });

  test('says that no rule translated it, where it came to the node itself', () => {
    expect(noDump(Buffer.from(start + line('filter:INPUT:rule:3')))).toContain(
      'the trace of 10.244.1.3 → 10.96.1.1:80, which no rule translated, ends at rule 3 of filter/INPUT: it is dropped there, or',
    );
  });

  test('names the rule of its last line, where the text has its chain', () => {
    const rules = '# iptables -S FORWARD\n-P FORWARD DROP\n-A FORWARD -i docker0 -j ACCEPT\n-A FORWARD -d 10.244.2.0/24 -j DROP\n';
    expect(said(start + sent('filter:FORWARD:rule:2') + rules)).toContain(
      `${lead} rule 2 of filter/FORWARD: -A FORWARD -d 10.244.2.0/24 -j DROP: no line follows`,
    );
    expect(said(start + sent('filter:FORWARD:policy:3') + rules)).toContain(`${lead} the policy of filter/FORWARD, which is DROP`);
  });

  test('is that of nft monitor trace and of xtables-monitor too', () => {
    const nft =
      'trace id 5c2a ip raw pre packet: iif "eth0" ether saddr 02:42:ac:12:00:01 ip saddr 10.244.1.3 ip daddr 10.96.1.1 tcp sport 5 tcp dport 80\ntrace id 5c2a inet fw forward rule tcp dport 8080 drop (verdict drop)\n';
    expect(noDump(Buffer.from(nft))).toContain(
      'the trace of 10.244.1.3 → 10.96.1.1:80 ends at a rule of inet fw forward: tcp dport 8080 drop (verdict drop)',
    );
    const xtables = ' TRACE: 2 fc475095 filter:FORWARD:rule:0x4:DROP  -4 -t filter -A FORWARD -d 10.244.2.0/24 -j DROP\n';
    expect(noDump(Buffer.from(xtables))).toContain(
      'the trace of a packet ends at a rule of filter/FORWARD: -A FORWARD -d 10.244.2.0/24 -j DROP',
    );
  });
});

test('connections of IPVS that wait for an answer, and what the kernel says, name the virtual server', () => {
  const waiting = 'TCP 00:57  SYN_RECV    10.244.1.3:40112   10.96.1.1:80      10.244.1.5:8080\n';
  expect(said(`# ipvsadm -Lnc\n${waiting}${servers(server('10.96.1.1:80'))}`)).toMatch(
    /^1 connection to 10\.96\.1\.1:80 waits for 10\.244\.1\.5:8080: it does not answer/,
  );
  const persistent = `TCP  10.96.1.1:80 rr persistent 10800\n  -> 10.244.1.5:8080              Masq    0      0          3\n`;
  expect(said(`# ipvsadm -Ln\n${persistent}# ipvsadm -Lnc\n${waiting}`)).toMatch(
    /10\.244\.1\.5:8080, which does not answer and has the weight 0: .* session affinity \("persistent"\) still leads/,
  );
  const kernel = '[ 1234.5] IPVS: rr: TCP 10.96.1.1:80 - no destination available\n';
  const empty = 'the virtual server TCP 10.96.1.1:80 has no real server that takes connections';
  expect(said(kernel + servers(server('10.96.0.1:443')))).toContain(empty);
  expect(noDump(Buffer.from(kernel))).toContain(empty);
});

test('a UDP flow to an endpoint to which no rule sends is told', () => {
  const flow = (to: string) =>
    `udp      17 29 src=10.244.2.3 dst=10.96.1.1 sport=58730 dport=53 [UNREPLIED] src=${to} dst=10.244.2.3 sport=53 dport=58730 use=1\n`;
  const rules = (end: string) =>
    [
      '# iptables-save | grep dns',
      '-A KUBE-SERVICES -d 10.96.1.1/32 -p udp -m comment --comment "shop/dns:dns cluster IP" -m udp --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU',
      ...(end === '' ? [] : ['-A KUBE-SVC-TCOU7JCQXEZGVUNU -m comment --comment "shop/dns:dns" -j KUBE-SEP-5V2UTJDVBQ73MZHD', end]),
      '',
    ].join('\n');
  const endpoint = '-A KUBE-SEP-5V2UTJDVBQ73MZHD -p udp -m comment --comment "shop/dns:dns" -m udp -j DNAT --to-destination 10.244.1.9:53';
  expect(said(flow('10.244.1.5') + rules(endpoint))).toMatch(
    /^1 UDP flow to 10\.96\.1\.1:53 goes to 10\.244\.1\.5:53, to which no rule sends/,
  );
  expect(said(flow('10.244.1.9') + rules(endpoint))).toBe('');
  expect(said(flow('10.244.1.5') + rules(''))).toBe('');
});

test('connections of conntrack that wait for an answer name their endpoint', () => {
  const flow =
    'tcp      6 92 SYN_SENT src=10.244.2.17 dst=10.96.0.1 sport=40100 dport=443 [UNREPLIED] src=172.18.0.2 dst=10.244.2.17 sport=6443 dport=40100 use=1\n';
  expect(said(flow + chain(kubernetes))).toMatch(/^1 connection to 10\.96\.0\.1:443 waits for 172\.18\.0\.2:6443: it does not answer/);
  expect(said(flow.replace('SYN_SENT', 'ESTABLISHED') + chain(kubernetes))).toBe('');
});

test('POSTROUTING that is whole and does not lead to KUBE-POSTROUTING is told', () => {
  const text = (...rules: readonly string[]) =>
    ['# iptables -t nat -S', '-P POSTROUTING ACCEPT', '-N KUBE-SERVICES', kubernetes, ...rules, ''].join('\n');
  const flannel = '-A POSTROUTING -s 10.244.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE';
  expect(said(text(flannel))).toMatch(/^POSTROUTING of table nat does not lead to KUBE-POSTROUTING/);
  for (const other of ['KUBE-POSTROUTING', 'cali-POSTROUTING']) expect(said(text(flannel, `-A POSTROUTING -j ${other}`))).toBe('');
  expect(said(text(flannel).replace('-S', '-S | grep -v cali'))).toBe('');
  const alone =
    '# iptables -t nat -S POSTROUTING\n-P POSTROUTING ACCEPT\n-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG\n';
  expect(said(alone)).toContain('does not lead to KUBE-POSTROUTING: in iptables and IPVS mode packets that need it are not masqueraded');
  expect(said(alone.replaceAll('FLANNEL-POSTRTG', 'FIREWALL'))).toBe('');
});

test('a chain of a Service that is whole and holds no rule is told, and drawn', () => {
  const chain = 'KUBE-SVC-TCOU7JCQXEZGVUNU';
  const rule = `-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment "kube-system/kube-dns:dns cluster IP" -m udp --dport 53 -j ${chain}`;
  const text = (...end: readonly string[]) => ['*nat', ':KUBE-SERVICES - [0:0]', `:${chain} - [0:0]`, rule, ...end, ''].join('\n');
  const nowhere = `chain ${chain} picks no endpoint`;
  expect(said(text('COMMIT'))).toBe(
    `kube-system/kube-dns:dns (cluster IP 10.96.0.10:53): ${nowhere}, so that its packets are not translated`,
  );
  // The end of the table may be missing.
  expect(said(text())).toBe('');
});

test('the rule of kube-proxy up to 1.1 in POSTROUTING masquerades, and no clusterCIDR is told where somebody complains of nodes', () => {
  const old = '-A POSTROUTING -m mark --mark 0x4d415351 -j MASQUERADE';
  const cluster = '-A KUBE-SERVICES -d 10.96.3.3/32 -p tcp -m comment --comment "shop/web: cluster IP" -m tcp --dport 80';
  const text = (complaint: string, ...rules: readonly string[]) =>
    [complaint, '# iptables-save -t nat', '*nat', ':POSTROUTING ACCEPT [0:0]', ':KUBE-SERVICES - [0:0]', old, ...rules, 'COMMIT', ''].join(
      '\n',
    );
  const jump = `${cluster} -j KUBE-SVC-4N57TFCL4MD7ZTDA`;
  const nodes = 'Nodes can only reach pods of their own.';
  expect(said(text(nodes, jump))).toMatch(/^no rule marks what comes to cluster IPs for masquerading: kube-proxy has no clusterCIDR/);
  expect(said(text('All is well.', jump))).toBe('');
  expect(said(text(nodes, `${cluster} ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ`, jump))).toBe('');
});

test('tables of kube-proxy that are empty in nftables mode are told', () => {
  const table = (family: string, content = '') => `table ${family} kube-proxy {\n${content}}\n`;
  expect(said(table('ip') + table('ip6'))).toMatch(/^table ip kube-proxy and table ip6 kube-proxy are empty: kube-proxy of this node/);
  // One family is served, and the end of a table may be missing.
  expect(said(table('ip', '\tchain services {\n\t}\n') + table('ip6'))).not.toContain('empty');
  expect(said(table('ip').replace('}', ''))).not.toContain('empty');
});

test('a chain of nftables whose policy drops what pods send is told', () => {
  const table = (...rules: readonly string[]) =>
    `table inet fw {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy drop;\n${rules.map(rule => `\t\t${rule}\n`).join('')}\t}\n}\n`;
  const usual = 'ct state established,related accept';
  expect(said(table(usual, 'iifname "wg0" accept'))).toMatch(
    /^the policy of inet fw forward is drop, and no rule of it accepts packets between pods/,
  );
  for (const rule of ['iifname "cni0" accept', 'ip saddr 10.244.0.0/16 accept', 'jump pods']) expect(said(table(usual, rule))).toBe('');
});

test('a connection that is tracked without translation is told although its endpoints are not shown', () => {
  const rule =
    '-A KUBE-SERVICES -d 192.0.2.5/32 -p tcp -m comment --comment "shop/web:http loadbalancer IP" -m tcp --dport 80 -j KUBE-EXT-TCOU7JCQXEZGVUNU\n';
  const flow = (source: string) =>
    `tcp      6 48 SYN_SENT src=203.0.113.7 dst=192.0.2.5 sport=63302 dport=80 [UNREPLIED] src=${source} dst=203.0.113.7 sport=80 dport=63302 mark=0 use=1\n`;
  const codes = (text: string) => traceText(snapshotOfText(text)).findings.map(({code}) => code);
  expect(codes(flow('192.0.2.5') + rule)).toEqual(['ST508']);
  expect(codes(flow('10.244.1.5') + rule)).toEqual([]);
});

describe('ports that two rules publish', () => {
  const dnat = (port: number) => `\t\ttcp dport 8080 counter packets 1 bytes 60 dnat to 10.244.9.${port}:80\n`;
  const table = (match: string) =>
    `table ip nat {\n\tchain CNI-HOSTPORT-DNAT {\n\t\t${match} counter packets 1 bytes 60 jump CNI-DN-aa\n\t\tip protocol tcp tcp dport 8080 counter packets 0 bytes 0 jump CNI-DN-bb\n\t}\n\tchain CNI-DN-aa {\n${dnat(58)}\t}\n\tchain CNI-DN-bb {\n${dnat(77)}\t}\n}\n`;

  test('are found where nft prints them', () => {
    expect(said(table('ip protocol tcp tcp dport 8080'))).toMatch(
      /^2 rules of CNI-HOSTPORT-DNAT publish port 8080\/tcp: CNI-DN-aa is the first/,
    );
    expect(said(table('ip protocol tcp tcp dport 8081'))).toBe('');
    expect(said(table('ip daddr 192.0.2.1 tcp dport 8080'))).toBe('');
  });
});

test('a host port takes the packets of a virtual server where it is asked before KUBE-SERVICES', () => {
  const nat = (...hooks: readonly string[]) =>
    [
      ...['# iptables -t nat -S', '-P PREROUTING ACCEPT', '-N CNI-HOSTPORT-DNAT', '-N CNI-DN-aa'],
      ...hooks.map(hook => `-A PREROUTING ${hook}`),
      ...['-A CNI-HOSTPORT-DNAT -j CNI-DN-aa', '-A CNI-DN-aa -p tcp -m tcp --dport 443 -j DNAT --to-destination 10.244.1.7:443', ''],
    ].join('\n');
  const [ports, portals] = ['-m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT', '-j KUBE-SERVICES'];
  const shown = servers(server('10.96.0.1:443'));
  expect(said(nat(ports, portals) + shown)).toMatch(
    /^packets to the virtual server 10\.96\.0\.1:443 are sent to 10\.244\.1\.7:443, .* by a rule before kube-proxy's chains: "-A CNI-DN-aa /,
  );
  expect(said(nat(portals, ports) + shown)).toBe('');
  expect(said(nat(ports, portals) + servers(server('10.96.0.1:6443')))).toBe('');
});

describe('a policy of FORWARD that drops', () => {
  const forward = (...rules: readonly string[]) => ['# iptables -S FORWARD', '-P FORWARD DROP', ...rules, ''].join('\n');
  const [own, docker] = ['-A FORWARD -j KUBE-FORWARD', '-A FORWARD -i docker0 ! -o docker0 -j ACCEPT'];

  test('is named where no rule accepts packets between pods', () => {
    for (const text of [forward(own), forward(own, docker)]) expect(said(text)).toMatch(/^the policy of filter\/FORWARD is DROP/);
  });

  test('is named where rows without interfaces are those of Docker', () => {
    const row = (target: string, more = '') => `${target}  all  --  0.0.0.0/0  0.0.0.0/0  ${more}`;
    const listed = (...rows: readonly string[]) =>
      ['# iptables -nL FORWARD', 'Chain FORWARD (policy DROP)', 'target     prot opt source               destination', ...rows, ''].join(
        '\n',
      );
    const [established, jump, accept] = [row('ACCEPT', 'ctstate RELATED,ESTABLISHED'), row('DOCKER'), row('ACCEPT')];
    expect(said(listed(established, jump, accept, accept))).toMatch(/^the policy of filter\/FORWARD is DROP/);
    for (const rows of [[established, jump, accept, accept, accept], [accept], [jump, accept]]) expect(said(listed(...rows))).toBe('');
  });

  test.each([
    ['a rule of pods accepts', forward(own, '-A FORWARD -s 10.244.0.0/16 -j ACCEPT')],
    ['a plugin has a chain', forward(own, '-A FORWARD -j cali-FORWARD')],
    ['it accepts', forward(own).replace('DROP', 'ACCEPT')],
    ['grep left some rules', forward(own).replace('-S FORWARD', '-S FORWARD | grep KUBE')],
  ])('is not where %s', (_, text) => {
    expect(said(text)).toBe('');
  });
});
