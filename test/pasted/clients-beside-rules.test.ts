/** A program that does not reach a server is told where the rules of the same text send what comes to it. */
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {noDump} from '../../src/parse/pasted/split-text.ts';
import {said, snapshotOfText} from './trace-text.ts';

const refused = (asked: string) => `$ curl ${asked}\ncurl: (7) Failed connect to ${asked}; Connection refused\n`;
const late = (host: string, port: number) =>
  `$ curl ${host}:${port}\ncurl: (28) Failed to connect to ${host} port ${port}: Connection timed out\n`;

const nat = [
  '$ iptables -t nat -S | grep shop/web',
  '-A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -j KUBE-EXT-TCOU7JCQXEZGVUNU',
  '-A KUBE-EXT-TCOU7JCQXEZGVUNU -j KUBE-SVC-TCOU7JCQXEZGVUNU',
  '-A KUBE-SERVICES -d 10.96.7.7/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-TCOU7JCQXEZGVUNU',
  '-A KUBE-SVC-TCOU7JCQXEZGVUNU -m comment --comment "shop/web:http -> 10.244.1.5:8080" -j KUBE-SEP-AAAAAAAAAAAAAAAA',
  '-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.1.5:8080',
  '',
].join('\n');

const ipvs =
  '$ ipvsadm -Ln\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\nTCP  192.0.2.10:30338 rr\n  -> 10.244.1.5:8080              Masq    1      0          0\n';

const nft = [
  'table ip kube-proxy {',
  '\tmap service-ips {',
  '\t\ttype ipv4_addr . inet_proto . inet_service : verdict',
  '\t\telements = { 10.96.7.7 . tcp . 80 : goto service-TCOU7JCQ-shop/web/tcp/http }',
  '\t}',
  '}',
  '',
].join('\n');

describe('a program that does not reach', () => {
  test.each([
    ['a cluster IP, by which nothing is answered', nat + late('10.96.7.7', 80), 'to 10.244.1.5:8080: packets or their answers are lost'],
    [
      'a cluster IP, with no route to host',
      `${nat}dial tcp 10.96.7.7:80: connect: no route to host\n`,
      'to 10.244.1.5:8080: a firewall refuses them on the way or there',
    ],
    ['a cluster IP that refuses', nat + refused('10.96.7.7:80'), 'comes for shop/web:http to 10.244.1.5:8080: no program listens there'],
    ['a node port that refuses', nat + refused('192.0.2.10:30080'), 'comes for shop/web:http to 10.244.1.5:8080: no program listens there'],
    ['an endpoint', nat + refused('10.244.1.5:8080'), 'it is an endpoint of shop/web:http, asked without a rule of a Service'],
    ['another port', nat + refused('10.96.7.7:81'), 'no entry of a Service that the text shows has this address and port'],
    ['a virtual server', ipvs + refused('192.0.2.10:30338'), 'to 10.244.1.5:8080: no program listens there'],
    ['a node port of IPVS at the loopback', ipvs + refused('127.0.0.1:30338'), '(192.0.2.10:30338) and not at 127.0.0.1'],
    [
      'a node port of nftables at the loopback',
      nft.replace('service-ips', 'service-nodeports').replace(/10\.96\.7\.7 \. tcp \. 80/, 'tcp . 30080') + refused('127.0.0.1:30080'),
      'it is a node port, which nftables mode serves at the addresses of the set nodeport-ips and not at 127.0.0.1',
    ],
    ['a Service whose chain is missing', nft + late('10.96.7.7', 80), 'chain service-TCOU7JCQ-shop/web/tcp/http is not in this text'],
    [
      'a server, beside rules of table filter',
      `$ iptables -S\n-P FORWARD ACCEPT\n${refused('10.96.7.7:80')}`,
      'table nat, in which kube-proxy translates Services, is not shown',
    ],
  ])('%s, is told what the rules do with what it sends', (_, text, what) => {
    expect(said(text)).toContain(what);
  });

  test('a Service that its rules refuse is told once', () => {
    const closed =
      '-A KUBE-SERVICES -d 10.96.7.7/32 -p tcp -m comment --comment "shop/web:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable\n';
    expect(said(closed + refused('10.96.7.7:80'))).toMatch(/^shop\/web:http .* refuses connections: for kube-proxy it has no endpoint$/);
  });
});

describe('a text in which nothing is known to be wrong names what to paste next', () => {
  const reason = (text: string) => diagnose(snapshotOfText(text), {toolVersion: '0.0.0'}).nodes[0]?.reason ?? '';

  test.each([
    [
      'the chain that an entry leads to',
      nat.replace(/^-A KUBE-EXT.*\n/m, ''),
      'shop/web:http (node port 30080) leads to chain KUBE-EXT-TCOU7JCQXEZGVUNU, which is not in this text (iptables -t nat -S KUBE-EXT-TCOU7JCQXEZGVUNU)',
    ],
    ['a chain of nftables', nft, '(nft list chain ip kube-proxy service-TCOU7JCQ-shop/web/tcp/http)'],
    [
      'where Services are entered',
      nat.replace(/^-A KUBE-(?:NODE|SERV|EXT).*\n/gm, ''),
      'these rules show no address and port of a Service: paste all that iptables-save prints',
    ],
    ['the objects of the Services', nat, 'paste with these rules what kubectl get svc,endpoints -A -o wide prints'],
  ])('%s', (_, text, what) => {
    expect(reason(text)).toContain(`without them the expected rules are unknown: ${what.startsWith('(') ? '' : what}`);
    expect(reason(text)).toContain(what);
  });

  test.each([
    [
      'settings of the kernel',
      '* Applying /etc/sysctl.d/k8s.conf ...\nnet.ipv4.ip_forward = 1\n',
      'has settings of the kernel, in which nothing is known',
    ],
    ['packets', 'U 10.244.0.9:41000 -> 10.244.2.4:53 hello\n', 'has captured packets, in which nothing is known'],
    ['a node port, of that node', refused('192.0.2.10:30080'), 'in IPVS mode) prints on 192.0.2.10'],
    ['a program in IPVS mode', `kube-proxy works in ipvs mode\n${refused('10.96.7.7:80')}`, 'paste what ipvsadm -Ln prints there'],
    [
      'a log of health checks',
      'E1120 13:53:53.641275       1 healthcheck.go:317] Failed to start node healthz on 0.0.0.0:10256: bind: address already in use\n',
      'is a log of kube-proxy alone, which says',
    ],
    [
      'commands that kube-proxy runs',
      'I0610 22:03:26.856 1 iptables.go:442] running iptables: iptables [-w 5 -N KUBE-NODE-PORT -t nat]\n',
      'is a log of kube-proxy alone, without an error',
    ],
  ])('without rules: %s', (_, text, what) => {
    expect(noDump(Buffer.from(text))).toContain(what);
  });
});
