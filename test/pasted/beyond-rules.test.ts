/** What a text shows of routes, of the list of all Services, of sets and of base chains is compared with its rules. */
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {noDump} from '../../src/parse/pasted/split-text.ts';
import {said, snapshotOfText} from './trace-text.ts';

const servers = (...addresses: readonly string[]) =>
  `# ipvsadm -Ln\nIP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\n${addresses.map(address => `TCP  ${address} rr\n  -> 10.244.1.5:8080             Masq    1      0          0\n`).join('')}`;

describe('an endpoint', () => {
  const routes = (...rows: readonly string[]) =>
    ['$ ip route', 'default via 192.168.0.1 dev eth0', '10.244.0.0/24 dev cni0 proto kernel scope link src 10.244.0.1', ...rows, ''].join(
      '\n',
    );
  const others = '10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink';

  test('to which no route leads, while routes lead to other nodes, takes the default route', () => {
    expect(said(servers('10.96.0.10:53') + routes(others))).toBe(
      'packets to 10.244.1.5:8080 take the default route ("default via 192.168.0.1 dev eth0"), as no other leads there: they do not reach the pods of another node',
    );
    const table =
      'Kernel IP routing table\nDestination     Gateway         Genmask         Flags Metric Ref    Use Iface\n0.0.0.0         192.168.0.1     0.0.0.0         UG    100    0        0 eth0\n10.244.2.0      192.168.0.12    255.255.255.0   UG    0      0        0 eth0\n';
    expect(said(`${servers('10.96.0.10:53')}$ route -n\n${table}`)).toMatch(/^packets to 10\.244\.1\.5:8080 take the default route/);
    expect(said(servers('10.96.0.10:53') + routes('unreachable 10.244.1.0/24 proto static'))).toMatch(
      /^packets to 10\.244\.1\.5:8080 take the route "unreachable 10\.244\.1\.0\/24 proto static"/,
    );
  });

  test.each([
    ['a route leads there', routes(others, '10.244.1.0/24 via 10.244.1.0 dev flannel.1 onlink')],
    ['the network of a cloud routes all pods', routes()],
    ['grep left some of the routes', routes(others).replace('ip route', 'ip route | grep -v cali')],
    ['two nodes are shown', routes(others) + routes(others)],
    ['one route was asked for', '$ ip route get 10.244.2.7\n10.244.2.7 via 10.244.2.0 dev flannel.1 src 10.244.0.0 uid 0\n'],
  ])('is not said to have no route where %s', (_, text) => {
    expect(said(servers('10.96.0.10:53') + text)).toBe('');
  });
});

describe('a Service of the rules', () => {
  const list = (...rows: readonly string[]) =>
    [
      '$ kubectl get svc -A',
      'NAMESPACE  NAME        TYPE          CLUSTER-IP   EXTERNAL-IP    PORT(S)       AGE',
      'default    kubernetes  ClusterIP     10.96.0.1    <none>         443/TCP       40d',
      ...rows,
      '',
    ].join('\n');

  test('that the list of all Services does not have was left behind', () => {
    expect(said(list() + servers('10.96.0.1:443', '10.99.12.7:80'))).toBe(
      'the rules serve 10.99.12.7:80, which the list of all Services does not have: left behind, or the list is older',
    );
    const rule =
      '-A KUBE-SERVICES -d 10.96.7.7/32 -p tcp -m comment --comment "shop/old:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-TCOU7JCQXEZGVUNU\n';
    expect(said(list() + rule)).toBe(
      'the rules serve shop/old:http (10.96.7.7), which the list of all Services does not have: left behind, or the list is older',
    );
  });

  test.each([
    ['the list is of one namespace', list().replaceAll('NAMESPACE  ', '').replaceAll('default    ', '')],
    ['grep left some Services', list().replace('-A', '-A | grep -v web')],
    ['rows are left out', list('...')],
    ['it is a load balancer', list('web        front       LoadBalancer  10.96.1.5    10.99.12.7     80:30080/TCP  3d')],
    ['an address is shortened', list('web        front       LoadBalancer  10.96.1.5    10.99.12.7,10... 80:30080/TCP  3d')],
    ['a Service shows one address of two', list('web        six         ClusterIP     fd00::5      <none>         80/TCP        3d')],
  ])('is not said to be left behind where %s', (_, text) => {
    expect(said(text + servers('10.96.0.1:443', '10.99.12.7:80'))).not.toContain('left behind');
  });
});

describe('KUBE-IPVS-FILTER', () => {
  const returns = (set: string) => `RETURN     0    --  0.0.0.0/0            0.0.0.0/0            match-set ${set} dst,dst\n`;
  const filter = (...sets: readonly string[]) =>
    `# iptables -nL KUBE-IPVS-FILTER\nChain KUBE-IPVS-FILTER (1 references)\ntarget     prot opt source               destination\n${sets.map(returns).join('')}REJECT     0    --  0.0.0.0/0            0.0.0.0/0            ctstate NEW match-set KUBE-IPVS-IPS dst reject-with icmp-port-unreachable\n\n`;
  const set = (name: string, type: string, ...members: readonly string[]) =>
    `Name: ${name}\nType: ${type}\nRevision: 6\nHeader: family inet hashsize 1024 maxelem 65536\nNumber of entries: ${members.length}\nMembers:\n${members.map(member => `${member}\n`).join('')}\n`;
  const sets =
    set('KUBE-EXTERNAL-IP-LOCAL', 'hash:ip,port', '203.0.113.40,tcp:443') +
    set('KUBE-LOAD-BALANCER', 'hash:ip,port', '203.0.113.41,tcp:443') +
    set('KUBE-IPVS-IPS', 'hash:ip', '10.96.0.1', '203.0.113.40', '203.0.113.41');

  test('KUBE-LOOP-BACK that is listed alone lacks real servers', () => {
    const list = (command: string) =>
      `# ipvsadm -Ln\nIP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\nTCP  10.96.1.1:80 rr\n  -> 10.244.0.12:8080             Masq    1      0          0\n# ${command}\n`;
    const loops = (port: number) => set('KUBE-LOOP-BACK', 'hash:ip,port,ip', `10.244.0.12,tcp:${port},10.244.0.12`);
    expect(said(list('ipset list KUBE-LOOP-BACK') + loops(53))).toContain('KUBE-LOOP-BACK does not have 10.244.0.12:8080');
    expect(said(list('ipset list KUBE-LOOP-BACK') + loops(8080))).toBe('');
    expect(said(list('ipset list') + loops(53))).toBe('');
  });

  test('refuses an address with a port that none of the sets before has', () => {
    const refuses =
      'KUBE-IPVS-FILTER refuses 203.0.113.40,tcp:443: KUBE-IPVS-IPS has the address, and none of the sets that are asked before has it with the port (KUBE-EXTERNAL-IP-LOCAL is not asked)';
    expect(said(filter('KUBE-LOAD-BALANCER') + sets)).toBe(refuses);
    expect(said(filter('KUBE-LOAD-BALANCER', 'KUBE-EXTERNAL-IP') + sets)).toBe(
      `${refuses}, unless KUBE-EXTERNAL-IP has it, which is not shown`,
    );
    expect(said(filter('KUBE-LOAD-BALANCER', 'KUBE-EXTERNAL-IP-LOCAL') + sets)).toBe('');
  });

  test('refuses external IPs of a Local policy where it does not ask for their set', () => {
    const before = filter('KUBE-LOAD-BALANCER', 'KUBE-EXTERNAL-IP');
    const policy = 'When changing the `externalTrafficPolicy` to `Local` clients outside are refused.\n';
    expect(said(policy + before)).toMatch(/^KUBE-IPVS-FILTER refuses external IPs of Services with the external traffic policy Local: /);
    expect(said(`  externalTrafficPolicy: Local\n${before}`)).toContain('since 1.28.6, 1.29.2 and 1.30');
    expect(said(`  externalTrafficPolicy: Cluster\n${before}`)).toBe('');
    expect(said(policy + filter('KUBE-EXTERNAL-IP', 'KUBE-EXTERNAL-IP-LOCAL'))).toBe('');
  });
});

test('packets that the policy of FORWARD dropped are told by its counter', () => {
  const chain = (policy: string) =>
    `Chain FORWARD (policy ${policy} bytes)\n pkts bytes target     prot opt in     out     source               destination\n 1532   92K cali-FORWARD  all  --  *      *       0.0.0.0/0            0.0.0.0/0\n\n`;
  expect(said(chain('DROP 1532 packets, 92K'))).toContain('the policy of filter/FORWARD dropped 1532 packets that no rule of it accepted');
  for (const policy of ['DROP 0 packets, 0', 'ACCEPT 1532 packets, 92K']) expect(said(chain(policy))).toBe('');
});

test('session affinity is told where somebody sees one endpoint alone', () => {
  const picks = ['AAAAAAAAAAAAAAAA', 'BBBBBBBBBBBBBBBB'].map(
    name =>
      `-A KUBE-SVC-ZNSSLI3AQWWJ3FJA -m comment --comment "shop/web:http -> 10.244.1.5:80" -m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-${name} --mask 255.255.255.255 --rsource -j KUBE-SEP-${name}\n`,
  );
  const plain = picks.map(rule => rule.replace(/-m recent.*--rsource /, ''));
  const kept = 'shop/web:http has session affinity by client IP (10800 s): all connections of one address';
  expect(said(`All requests always land on one pod.\n${picks.join('')}`)).toContain(kept);
  expect(said(picks.join(''))).not.toContain('affinity');
  expect(said(`All requests always land on one pod.\n${plain.join('')}`)).not.toContain('affinity');
});

test('a Service whose namespace was left out of the comments is named', () => {
  const rule = (comment: string) =>
    `-A KUBE-SERVICES -p tcp -m comment --comment "${comment}" -m addrtype --dst-type LOCAL -m tcp --dport 31218 -j REJECT --reject-with icmp-port-unreachable\n`;
  expect(said(rule('web:http has no endpoints'))).toBe(
    'unnamed/web:http (node port 31218) refuses connections: for kube-proxy it has no endpoint',
  );
  expect(said(rule('kubernetes service portals'))).toBe('');
});

test('a PREROUTING without the jump to KUBE-SERVICES is told where it is whole, and nothing else serves Services', () => {
  const listed =
    'Chain PREROUTING (policy ACCEPT)\ntarget     prot opt source      destination\nPREROUTING_ZONES  all  --  0.0.0.0/0  0.0.0.0/0\n';
  const text = `$ iptables -nL PREROUTING -t nat\n${listed}`;
  expect(said(text)).toMatch(/^PREROUTING of table nat does not lead to KUBE-SERVICES: /);
  expect(said(`${text}Warning: iptables-legacy tables present, use iptables-legacy to see them\n`)).toContain('those of iptables-legacy');
  for (const other of ['nat | tail -n 5', 'mangle']) expect(said(text.replace('nat', other))).toBe('');
  expect(
    said(`${text}\n$ iptables -t nat -nL CILIUM_PRE_nat\n${listed.replace('PREROUTING (policy ACCEPT)', 'CILIUM_PRE_nat (1 references)')}`),
  ).toBe('');
});

test('a log in a frame is read', () => {
  const line = '│   /dev/stdin:892:87-100: Error: Could not process rule: No such file or directory   │\n';
  const rule = '│   add rule ip kube-proxy external-A fib saddr type local jump mark-for-masquerade   │\n';
  expect(noDump(Buffer.from(line + rule))).toMatch(/^is a log of kube-proxy alone, which says: .* \(the kernel refuses rules with fib/);
});

test('a Service whose endpoints are listed as none is not missed, though its EndpointSlice has one that is not ready', () => {
  const slices =
    '$ kubectl get endpointslices\nNAME        ADDRESSTYPE   PORTS   ENDPOINTS    AGE\nweb-x7k2p   IPv4          8080    10.244.1.5   3d\n\n';
  const lists = (ends: string) =>
    `NAME  TYPE       CLUSTER-IP   EXTERNAL-IP  PORT(S)  AGE\nweb   ClusterIP  10.96.1.1    <none>       80/TCP   3d\n\n${ends}${slices}`;
  const rule =
    '# iptables -t nat -S KUBE-SERVICES\n-N KUBE-SERVICES\n-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/kubernetes:https cluster IP" -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y\n';
  expect(said(lists('NAME  ENDPOINTS   AGE\nweb   <none>   3d\n\n') + rule)).toBe('');
  expect(said(lists('') + rule)).toMatch(/unless it has no ready endpoint, or another proxy serves it$/);
});

test('a real server that gets packets of TCP, and from which none comes back, is told', () => {
  const stats = (kind: string, ...out: readonly string[]) =>
    `# ipvsadm -Ln --stats\nIP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port               Conns   InPkts  OutPkts  InBytes OutBytes\n  -> RemoteAddress:Port\n${kind}  10.96.1.1:80                 820     5120     2460   412100   990000\n${out.map((sent, at) => `  -> 10.244.${at}.5:8080                 410     2250        ${sent}   112000        0\n`).join('')}`;
  expect(said(stats('TCP', '2460', '0'))).toBe(
    '10.244.1.5:8080 got 2250 packets for 10.96.1.1:80, and none came back through this node: it does not answer, or its answers take another way',
  );
  expect(said(stats('TCP', '2460', '12'))).toBe('');
  // A log needs no answer.
  expect(said(stats('UDP', '2460', '0'))).toBe('');
});

describe('a UDP flow to an entry that rules translate', () => {
  const rules =
    '-A KUBE-NODEPORTS -p udp -m comment --comment "shop/dns:dns" -m udp --dport 30053 -j KUBE-SVC-TCOU7JCQXEZGVUNU\n-A KUBE-SERVICES -d 10.96.1.1/32 -p udp -m comment --comment "shop/dns:dns cluster IP" -m udp --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU\n-A KUBE-SVC-TCOU7JCQXEZGVUNU -m comment --comment "shop/dns:dns" -j KUBE-SEP-5V2UTJDVBQ73MZHD\n-A KUBE-SEP-5V2UTJDVBQ73MZHD -p udp -m comment --comment "shop/dns:dns" -m udp -j DNAT --to-destination 10.244.1.9:53\n';
  const flow = (to: string, port: number, by: string) =>
    `udp      17 29 src=10.10.0.7 dst=${to} sport=2048 dport=${port} [UNREPLIED] src=${by} dst=10.10.0.7 sport=${port} dport=2048 mark=0 use=1\n`;
  const stuck = 'is tracked without translation';

  test('is told if none translated it', () => {
    expect(said(rules + flow('10.96.1.1', 53, '10.96.1.1'))).toMatch(
      new RegExp(`^1 UDP flow to 10\\.96\\.1\\.1:53 ${stuck}: rules are asked`),
    );
    expect(said(rules + flow('192.168.0.9', 30_053, '192.168.0.9'))).toMatch(
      new RegExp(`^1 UDP flow to 192\\.168\\.0\\.9:30053 ${stuck}, unless 192\\.168\\.0\\.9 is the address of another node: `),
    );
  });

  test('is healthy if one did, and of no Service if none would', () => {
    expect(said(rules + flow('10.96.1.1', 53, '10.244.1.9'))).not.toContain(stuck);
    expect(said(rules + flow('192.168.0.9', 514, '192.168.0.9'))).not.toContain(stuck);
  });
});

test('what iptables says to another program is told', () => {
  expect(
    noDump(
      Buffer.from(
        "+ iptables -t nat -I PREROUTING -p TCP --dport 80 -j DNAT --to 10.43.70.41:80\niptables v1.8.4 (legacy): can't initialize iptables table `nat': Table does not exist (do you need to insmod?)\n",
      ),
    ),
  ).toMatch(/^has no rules, and what a command says: .* \(the kernel has no such table of iptables: a module is missing\)/);
});

test('a load balancer of a Local policy with real servers that its node port lacks is told, and a cluster IP is not', () => {
  const server = (at: string, ...ends: readonly string[]) =>
    `TCP  ${at} rr\n${ends.map(end => `  -> ${end}              Masq    1      0          0\n`).join('')}`;
  const list = server('192.0.2.11:32713', '10.244.1.5:80') + server('198.51.100.7:80', '10.244.1.5:80', '10.244.2.5:80');
  const policy = 'externalTrafficPolicy: Local\n';
  expect(said(policy + list)).toContain('198.51.100.7:80 sends to 10.244.2.5:80 too, and node port 32713 to 10.244.1.5:80 alone');
  expect(said(list)).not.toContain('sends to');
  const listed =
    'NAME  TYPE          CLUSTER-IP    EXTERNAL-IP  PORT(S)       AGE\nweb   LoadBalancer  198.51.100.7  <pending>    80:32713/TCP  3d\n\n';
  expect(said(policy + listed + list)).not.toContain('sends to');
});

test('a list of addresses that the text ends before does not lack any', () => {
  const servers = 'TCP  10.96.1.1:80 rr\n  -> 10.244.1.5:80              Masq    1      0          0\n';
  const device = '6: kube-ipvs0: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN\n';
  expect(said(`${servers}$ ip addr\n${device}`)).not.toContain('lacks');
  expect(said(`${servers}$ ip addr\n${device}    link/ether 2a:ba:0a:f2:11:c8 brd ff:ff:ff:ff:ff:ff\n`)).toContain(
    'kube-ipvs0 lacks 10.96.1.1',
  );
});

test('rules of a pod that lead to the proxy of a service mesh lack no jump to KUBE-SERVICES', () => {
  const text = [
    '# iptables -t nat -S',
    '-P PREROUTING ACCEPT',
    '-N ISTIO_REDIRECT',
    '-A PREROUTING -j ISTIO_REDIRECT',
    '-A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports 15001',
    '',
  ].join('\n');
  expect(said(text)).toMatch(/^the rules are those of a pod, and not of a node: .*\(port 15001\)/);
  expect(said(text.replaceAll('ISTIO_REDIRECT', 'MY-PORTS'))).toMatch(/^PREROUTING of table nat does not lead to KUBE-SERVICES/);
});

test('what stops packets is told before the lack of kube-proxy in a text', () => {
  const text = `*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j REJECT --reject-with icmp-host-prohibited\nCOMMIT\n`;
  expect(said(text)).toMatch(/^"-A FORWARD -j REJECT .* stops all packets, .*PREROUTING of table nat does not lead to KUBE-SERVICES/);
});

test('chains of kube-proxy to which base chains jump, and which are not in a text, are named', () => {
  const jump = '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES\n';
  const reason = (text: string) => diagnose(snapshotOfText(text), {toolVersion: '0.0.0'}).nodes[0]?.reason;
  expect(reason(jump)).toContain('1 rule in 1 chain of table nat, which do not show KUBE-SERVICES, to which they jump');
  expect(reason(`${jump}-N KUBE-SERVICES\n`)).not.toContain('do not show');
});

test('a client that reaches no server is told beside rules that do not show table nat', () => {
  const client = 'dial tcp 10.96.0.1:443: i/o timeout\n';
  const filter = '*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -j KUBE-FORWARD\nCOMMIT\n';
  expect(said(client + filter)).toContain('a program does not reach 10.96.0.1:443 (i/o timeout): table nat,');
  expect(said(`${client}${filter}*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n`)).not.toContain(
    'table nat, in which',
  );
});

test('what the node itself does not answer is not told to be refused by a rule', () => {
  const answer = noDump(Buffer.from('dial tcp 127.0.0.1:6443: connect: connection refused\n'));
  expect(answer).toContain('the port of the API server: nothing listens there. To see');
});
