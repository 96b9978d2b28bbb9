/** What texts without rules tell: captures, logs of other programs, kernels, routes and events. */
import {describe, expect, test} from 'vitest';
import {noDump} from '../../src/parse/pasted/split-text.ts';
import {said} from './trace-text.ts';

const answer = (text: string) => noDump(Buffer.from(text));
const shows = /^has no rules, and shows: /;

describe('a capture', () => {
  const line = (at: string, from: string, to: string, rest: string) => `11:20:${at} IP ${from} > ${to}: ${rest}, win 64240, length 0\n`;
  const [client, server] = ['10.244.0.9.41000', '10.244.2.4.8080'];
  const syn = (at: string) => line(at, client, server, 'Flags [S], seq 7001');

  test('shows a server that does not answer where a client repeats its SYN', () => {
    const repeated = syn('01.10') + syn('02.11') + syn('04.12');
    expect(answer(repeated)).toMatch(/shows: 10\.244\.0\.9 sent the same SYN to 10\.244\.2\.4:8080 3 times: the packets do not/);
    expect(answer(repeated + line('04.13', server, client, 'Flags [S.], seq 5, ack 7002'))).toContain('before an answer came');
    // Rules beside the capture do not hide it.
    expect(said(`*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n${repeated}`)).toContain('sent the same SYN to 10.244.2.4:8080');
  });

  test.each([
    ['one SYN is seen on each interface', syn('01.10') + syn('01.11') + syn('01.12')],
    ['a SYN is answered', syn('01.10') + line('01.11', server, client, 'Flags [S.], seq 5, ack 7002')],
    ['a connection is reset later', syn('01.10') + line('09.11', server, client, 'Flags [R.], seq 88, ack 99')],
    [
      'a tunnel has checksums that the network card completes',
      '11:20:01.1 IP 192.0.2.1.9 > 192.0.2.2.6081: [bad udp cksum 0x1 -> 0x2!] Geneve\n',
    ],
    ['a host is asked for', '11:20:01.1 IP 10.244.0.9 > 10.244.2.4: ICMP echo request, id 1, seq 1, length 64\n'],
  ])('tells nothing where %s', (_, text) => {
    expect(answer(text)).not.toMatch(shows);
  });

  test('shows that nothing translated an answer that a client resets, where it sends its SYN again', () => {
    const reset =
      syn('01.10') + line('01.11', server, client, 'Flags [S.], seq 5, ack 7002') + line('01.12', client, server, 'Flags [R], seq 7002');
    expect(answer(reset + syn('02.11'))).toContain(
      'the answer to a request to another address came from 10.244.2.4: nothing translated it back',
    );
    // Health checks of load balancers reset what is answered.
    expect(answer(reset)).not.toMatch(shows);
    expect(answer(reset + syn('02.11').replace('seq 7001', 'seq 9001'))).not.toMatch(shows);
    // Its answer had come.
    expect(answer(reset + syn('02.11'))).not.toContain('sent the same SYN');
  });

  test('shows what is refused, too large, or has a wrong checksum in VXLAN', () => {
    expect(answer(syn('01.10') + line('01.11', server, client, 'Flags [R.], seq 0, ack 7002'))).toContain(
      '10.244.2.4:8080 refuses connections',
    );
    const icmp = (rest: string) => `11:20:01.1 IP 192.0.2.7 > 10.244.0.9: ICMP ${rest}, length 36\n`;
    expect(answer(icmp('10.96.0.10 udp port 53 unreachable'))).toContain('192.0.2.7 answers that udp port 53 of 10.96.0.10 is unreachable');
    expect(answer(icmp('10.244.2.4 unreachable - need to frag (mtu 1400)'))).toContain(
      'packets to 10.244.2.4 are larger than the 1400 bytes',
    );
    expect(answer('    192.0.2.1.9 > 192.0.2.2.8472: [bad udp cksum 0x1 -> 0x2!] OTV, flags [I]\n')).toContain(
      'packets of VXLAN to 192.0.2.2',
    );
  });

  test('shows full segments that are sent again on a connection that smaller ones pass', () => {
    const full = (at: string, seq = '1:1449') => line(at, server, client, `Flags [.], seq ${seq}, ack 518`).replace(/0$/m, '1448');
    const open = syn('01.10') + line('01.11', server, client, 'Flags [S.], seq 5, ack 7002');
    const lost = open + full('01.20') + full('01.21', '1449:2897') + full('01.50') + full('02.10');
    expect(answer(lost)).toMatch(/shows: 10\.244\.2\.4 sent the same 1448 bytes to 10\.244\.0\.9:41000 3 times.* MTU of pods is larger/);
    expect(answer(lost + full('02.20', '1449:2897'))).not.toContain('MTU');
    expect(answer(open + full('01.20') + full('01.20') + full('01.20'))).not.toContain('MTU');
  });

  test('shows the endpoint that does not answer, and not the cluster IP that is translated to it, without a clock too', () => {
    const sent = (to: string, from = client) =>
      [100, 1200, 3300].map(time => `${from} > ${to}: Flags [S], seq 7001, win 64240, options [TS val ${time} ecr 0], length 0`);
    const both = sent('10.96.7.7.80').flatMap((line, at) => [line, sent(server, '192.0.2.5.41000')[at] ?? '']);
    expect(answer(both.join('\n'))).toMatch(/shows: 192\.0\.2\.5 sent the same SYN to 10\.244\.2\.4:8080 3 times: (?!.*10\.96\.7\.7)/);
    const row = 'web   ClusterIP   10.96.7.7   <none>   80/TCP   4d\n';
    expect(answer(`${row}${sent('10.96.7.7.80').join('\n')}\n`)).toContain(
      '3 times: it is the cluster IP of web, and no translated packet is in the capture',
    );
  });

  test('shows an answer that nothing translates back in the middle of a connection', () => {
    const packet = (from: string, to: string, flags: string) => line('05.1', from, to, `Flags [${flags}], ack 7`);
    const vip = '10.96.7.7.80';
    const known = packet(vip, client, '.') + packet(client, vip, 'P.');
    const lost = packet(server, client, '.') + packet(client, server, 'R');
    expect(answer(known + lost)).toContain(
      'packets of the connection of 10.244.0.9 to 10.96.7.7 come from 10.244.2.4, and the client resets',
    );
    // A capture of all interfaces has each packet before and after the translation.
    for (const text of [lost, known + lost + packet(client, vip, 'R'), known + packet(client, server, 'P.') + lost])
      expect(answer(text)).not.toMatch(shows);
  });

  test('shows requests of ping without an answer, and the nodes between which a tunnel carries them', () => {
    const ping = (seq: number, outer = '') => `11:20:0${seq}.1 IP ${outer}10.244.0.9 > 10.244.2.4: ICMP echo request, id 7, seq ${seq}\n`;
    const lost = (outer?: string) => answer([1, 2, 3].map(seq => ping(seq, outer)).join(''));
    expect(lost()).toContain('10.244.0.9 sent 3 requests of ping to 10.244.2.4 without an answer: packets do not arrive');
    expect(lost('192.0.2.1 > 192.0.2.2: IP ')).toContain('they leave as IPIP from 192.0.2.1 to 192.0.2.2');
    const reply = '11:20:01.2 IP 10.244.2.4 > 10.244.0.9: ICMP echo reply, id 7, seq 1\n';
    expect(answer([1, 2, 3].map(seq => ping(seq)).join('') + reply)).not.toMatch(shows);
  });

  test('shows a trace that ends where an endpoint is chosen, and no other chain of kube-proxy', () => {
    const step = (at: string) => `TRACE: ${at} IN=eth0 OUT= SRC=192.0.2.9 DST=10.96.7.7 ID=1 PROTO=TCP SPT=9 DPT=80 SEQ=1 SYN\n`;
    const start = step('raw:PREROUTING:policy:2');
    expect(answer(start + step('nat:KUBE-SEP-6ZKB2XGYTR5GZ2QN:rule:2'))).toMatch(/ends at nat\/KUBE-SEP-\S+, which .*rp_filter is 1/);
    expect(answer(start + step('nat:KUBE-SVC-6ZKB2XGYTR5GZ2QN:rule:2'))).not.toMatch(shows);
  });

  test('shows connections that wait, without rules too', () => {
    expect(answer('TCP 00:56  SYN_RECV    192.0.2.9:51812  10.96.8.8:80   10.244.3.17:80\n')).toContain(
      '1 connection to 10.96.8.8:80 waits for 10.244.3.17:80',
    );
    expect(answer('TCP 14:56  ESTABLISHED 192.0.2.9:51812  10.96.8.8:80   10.244.3.17:80\n')).not.toMatch(shows);
  });
});

describe('a line of another program', () => {
  const forbidden = (user: string, resource: string) =>
    `E0602 02:11:25.2 1 reflector.go:138] ${resource} is forbidden: User\n   "${user}" cannot list resource "${resource}" in API group ""\n`;

  test('says which role is lacking, on a broken line too', () => {
    expect(answer(forbidden('system:serviceaccount:kube-system:coredns', 'endpointslices'))).toMatch(
      /shows: the API server does not let system:serviceaccount:kube-system:coredns list endpointslices, so that .* DNS does not know Services/,
    );
    expect(answer(forbidden('system:serviceaccount:kube-flannel:flannel', 'nodes'))).toContain('does not connect the pods of its node');
    expect(answer(forbidden('system:serviceaccount:kube-system:coredns', 'secrets'))).not.toMatch(shows);
    expect(answer(forbidden('jane', 'pods'))).not.toMatch(shows);
  });

  test.each([
    ['  812 ?  Z  0:00  \\_ [iptables-restore] <defunct>', 'it hangs and writes no rules until it is started again'],
    ['`iptables -D KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP`', 'answers take another way than requests (asymmetric routes)'],
    ['After I deleted the rule for INVALID packets everything works', 'answers take another way than requests (asymmetric routes)'],
    ['The default FORWARD policy of iptables is DROP', 'the policy of filter/FORWARD is DROP, as the text says'],
    ['no endpoints available for service "cart"', 'cart has no ready endpoint, and the API server finds none'],
    ['Post "https://hook.shop.svc:443/x": no endpoints available for service "hook"', 'shop/hook has no ready endpoint'],
    ['error: failed to acquire lease: node "w1" pod cidr not assigned', 'the Node w1 has no podCIDR'],
    ['`error: Service cart does not have a service port 8888`', 'kubectl port-forward asks for port 8888 of the Service cart'],
    ['TCP connection from 10.44.0.1:5004 to 10.39.0.4:80 blocked by Weave NPC.', 'NetworkPolicies keep 10.44.0.1 from 10.39.0.4:80'],
    [
      'it logs: proxier.go:254] clusterCIDR not specified, unable to distinguish between internal and external traffic',
      'kube-proxy has no clusterCIDR',
    ],
    [
      `failed to acquire lease: subnet "10.244.0.0/16" specified in the flannel net config doesn't contain "10.1.0.0/24" PodCIDR of the "w1" node`,
      'the network of flannel (10.244.0.0/16) does not contain 10.1.0.0/24, the podCIDR of w1',
    ],
    [
      'failed to set bridge addr: "cni0" already has an IP address different from 10.244.1.1/24',
      'cni0 has the address of an earlier network',
    ],
    ['[FATAL] plugin/loop: Loop (127.0.0.1:58992 -> :53) detected for zone "."', 'CoreDNS sends requests to itself'],
    [
      'calico/node is not ready: BIRD is not ready: BGP not established with 192.0.2.7,192.0.2.8',
      'no BGP session with 192.0.2.7, 192.0.2.8: ',
    ],
    [
      `failed to validate nodeIP: node IP: "192.0.2.7" not found in the host's network interfaces`,
      'no interface of the node has 192.0.2.7',
    ],
    [
      'failed to add vxlanRoute (10.42.0.0/24 -> 10.42.0.0): network is down',
      'flannel cannot write the route to 10.42.0.0/24 (network is down)',
    ],
    ['dial tcp: lookup web.shop on 10.96.0.10:53: no such host', '10.96.0.10:53 answers, and knows no name web.shop: '],
    ['message:Network plugin returns error: cni plugin not initialized', 'a node has no network plugin'],
    [
      '[ERROR] plugin/errors: 2 web. A: read udp 10.244.1.3:4780->192.0.2.53:53: i/o timeout\n[ERROR] plugin/errors: 2 web. A: read udp 10.244.1.3:4781->192.0.2.54:53: i/o timeout',
      'CoreDNS forwards names outside of the cluster to 192.0.2.53, 192.0.2.54, and gets no answer (i/o timeout)',
    ],
    [
      'Get "https://10.96.0.1:443/api": dial tcp 10.96.0.1:443: connect: network is unreachable',
      'no route leads to 10.96.0.1 where the client',
    ],
    [
      'failed to call webhook: Post \\"https://hook.shop.svc:443/mutate?timeout=10s\\": no endpoints available for service \\"hook\\"',
      'shop/hook has no ready endpoint',
    ],
    ['no endpoints available for service "https:kubernetes-dashboard:"', 'kubernetes-dashboard has no ready endpoint'],
    [
      'failed calling webhook "hook.io": failed to call webhook: Post "https://hook.shop.svc:443/x?timeout=10s": context deadline exceeded',
      'the API server gets no answer from the pods of shop/hook (context deadline exceeded)',
    ],
    ['UDP: bad checksum. From 192.0.2.9:27503 to 192.0.2.7:8472 ulen 75', '192.0.2.7 drops packets of VXLAN from 192.0.2.9'],
    ["Kernel's RPF check is set to 'loose'.  This would allow", 'calico-node ends, since rp_filter is 2 (loose)'],
    ['add cmd: failed to assign an IP address to container', 'the network plugin of AWS has no free address for a pod'],
    ['Failed to find any valid interface to use: failed to find interface eth1', 'flannel does not find the interface eth1'],
    ['BIRD is not ready: Error querying BIRD: unable to connect', 'BIRD of calico-node does not run'],
    ['kubernetes 1.27 can not ping cluster ip', 'cluster IPs do not answer ping, by design'],
    ['W1009 controller.go:769] Service "cms/web" does not have any active Endpoint.', 'cms/web has no ready endpoint, as the ingress'],
    ['front.example   /   web:80 (<error: endpoints "web" not found>)', 'an Ingress names the Service web, which does not exist'],
    [
      'connect() failed (111: Connection refused) while connecting to upstream, client: 192.0.2.1, upstream: "http://10.244.1.3:8080/"',
      'nginx is refused by 10.244.1.3:8080, an endpoint',
    ],
    [
      'upstream timed out (110: Operation timed out) while connecting to upstream, upstream: "http://10.244.1.3:8080/"',
      'nginx gets no answer from 10.244.1.3:8080',
    ],
    ["0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports.", 'a pod is not placed, since another pod'],
    ["nslookup: write to '127.0.0.53': Connection refused", 'the resolv.conf of a pod names 127.0.0.53'],
    ['Failed to allocate IP for "shop/web": no available IPs', 'MetalLB gives the Service no address'],
    ['failed to find plugin "bridge" in path [/opt/cni/bin]', 'the program bridge of the network plugin is not in /opt/cni/bin'],
    ['open /run/flannel/subnet.env: no such file or directory', 'the network plugin has not written /run/flannel/subnet.env'],
    ['x509: certificate is valid for 10.96.0.1, 192.0.2.9, not 10.43.0.1', 'the API server is asked at 10.43.0.1, for which'],
    [
      'The Service "web" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated',
      'since the port that it asks for (30080) is already allocated',
    ],
    ['level=warning msg="Endpoints not available for shop/web"', 'shop/web has no ready endpoint, as the ingress controller says'],
    [
      'msg="Skipping service: no endpoints found" ingress=front namespace=shop serviceName=web servicePort=80',
      'web has no ready endpoint, as the ingress controller says',
    ],
    ['level=error msg="Service not found for shop/web"', 'an Ingress names the Service shop/web, which does not exist'],
    ['[FATAL] plugin/loop: Seen "HINFO IN 12.34." more than twice, loop detected', 'CoreDNS sends requests to itself'],
    [
      'connect() failed (111: Connection refused) while connecting to upstream, upstream: "http://127.0.0.1:8181/"',
      'nginx itself refuses: it has an address of its own in place of the Service',
    ],
    [
      'Error creating load balancer (will retry): failed to ensure load balancer for service shop/web: no suitable subnets',
      'the cloud gives the Service shop/web no load balancer, which kube-proxy never does: no suitable subnets',
    ],
    [
      '{"event":"serviceWithdrawn","ip":["192.0.2.9"],"reason":"notOwner","service":"shop/web"}',
      'the speaker of MetalLB on one node withdraws shop/web (notOwner): another node announces it',
    ],
    ['10.96.0.10 port 53 proto 17 id 3 count 0 local 0', "the rules of Calico's eBPF mode have no backend for 10.96.0.10, port 53"],
    ['c7fd1c1e-4e43    Service_shop/web    tcp        172.30.4.5:80', 'a load balancer of OVN has no backend for 172.30.4.5:80'],
    ['5: kube-tunnel-if@NONE: <NOARP> mtu 1480 qdisc noop state DOWN', 'kube-tunnel-if of a pod is down, to which kube-router'],
    [
      'The Endpoints "db" is invalid: subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8)',
      'the API server refuses the endpoints db, since 127.0.0.1 may not be in the loopback range: ',
    ],
    ['HINFO: unreachable backend: no upstream host', 'CoreDNS has no server for names outside of the cluster that answers'],
    ['just the pod cant access the service itself by nodeport', 'a pod that its own Service sends back to itself'],
    [
      'match.go:259] Using interface with name enp0s8 and address 10.0.3.15',
      'the network plugin takes 10.0.3.15 for the address of a node',
    ],
    ['the external IP is not pinging', 'the address of a load balancer need not answer ping'],
    ['kernel: neighbour: arp_cache: neighbor table overflow!', 'the kernel has no place for more neighbors (arp_cache)'],
  ])('"%s" is told', (line, text) => {
    expect(answer(`${line}\n`)).toContain(text);
    expect(answer(`we looked for ${line.slice(0, 12)} and found none\n`)).not.toMatch(shows);
  });

  test.each([
    ['a name that DNS does not know', '[ERROR] plugin/errors: 2 web. A: read udp 10.244.1.3:4780->192.0.2.53:5353: i/o timeout'],
    ['a webhook that refuses what it is asked', 'failed calling webhook "hook.io": Post "https://hook.shop.svc:443/x": denied the request'],
    ['IPv6 that is not there', 'dial tcp [2001:db8::1]:443: connect: network is unreachable'],
    ['a rule for INVALID packets', 'there is a rule of KUBE-FORWARD that drops INVALID packets'],
    ['a map of Calico with a backend', '10.96.0.10 port 53 proto 17 id 3 count 2 local 0'],
    ['a load balancer of OVN with a backend', 'c7fd1c1e-4e43    Service_shop/web    tcp        172.30.4.5:80       10.128.2.9:8080'],
    ['a checksum of another protocol', 'UDP: bad checksum. From 192.0.2.9:5353 to 192.0.2.7:5353 ulen 75'],
  ])('%s is not', (_, line) => expect(answer(`${line}\n`)).not.toMatch(shows));
});

test('two hosts that answer ARP for one address are told', () => {
  const [first, second] = ['02:00:00:00:00:01', '02:00:00:00:00:02'];
  for (const form of [
    (mac: string) => `Unicast reply from 192.0.2.40 [${mac.toUpperCase()}]  0.882ms\n`,
    (mac: string) => `60 bytes from ${mac} (192.0.2.40): index=0 time=120.1 usec\n`,
    (mac: string) => `11:20:01.1 ARP, Reply 192.0.2.40 is-at ${mac}, length 28\n`,
    (mac: string) => `{"caller":"arp.go:102","ip":"192.0.2.40","msg":"got ARP request","responseMAC":"${mac}","senderIP":"192.0.2.1"}\n`,
  ]) {
    expect(answer(form(first) + form(second))).toContain(`${first}, ${second} answer ARP for 192.0.2.40`);
    expect(answer(form(first) + form(first))).not.toMatch(shows);
  }
});

test('an address for which nobody answers ARP is told where a client hears that the host is unreachable', () => {
  const asks = ['Who has 10.244.0.30?  Tell 10.244.0.1', 'who-has 10.244.0.30 tell 10.244.0.1, length 28'].map(
    line => `ARP, Request ${line}\n`,
  );
  const lost = '11:20:09.1 IP 10.244.0.1 > 10.244.0.22: ICMP host 10.244.0.30 unreachable, length 92\n';
  for (const ask of asks) {
    expect(answer(ask.repeat(3) + lost)).toContain('10.244.0.1 asks for 10.244.0.30 by ARP 3 times, and nobody answers');
    for (const text of [ask.repeat(3), ask + lost, `${ask.repeat(3)}${lost}ARP, Reply 10.244.0.30 is-at 02:00:00:00:00:01\n`])
      expect(answer(text)).not.toContain('nobody answers');
  }
});

test.each([
  ['w2   192.0.2.12   false   true', 'Cilium does not reach node w2 (192.0.2.12)'],
  ['c1/w2   192.0.2.12,2001:db8::2   unreachable   unreachable', 'Cilium does not reach node c1/w2 (192.0.2.12)'],
  ['w2   192.0.2.12   reachable   unreachable', 'Cilium reaches node w2 (192.0.2.12) and not the pods there'],
  ['w2 (localhost)   192.0.2.12   reachable   reachable', null],
])('the health of nodes that Cilium lists as "%s" is told', (row, told) => {
  const text = answer(`Cluster health:   1/3 reachable   (2024-01-01T00:00:00Z)\n  Name   IP   Node   Endpoints\n  ${row}\n`);
  if (told === null) expect(text).not.toMatch(shows);
  else expect(text).toContain(told);
});

test('rules that node-local-dns writes again are told, and not those of its start', () => {
  const rule = (chain: string) => `[INFO] Added back nodelocaldns rule - {raw ${chain} [-p tcp -d 169.254.25.10 --dport 53 -j NOTRACK]}\n`;
  expect(answer(rule('OUTPUT') + rule('OUTPUT'))).toContain('another program removes them');
  expect(answer(rule('OUTPUT') + rule('PREROUTING'))).not.toMatch(shows);
});

test.each([
  ['开启防火墙后 coredns 启动不了', true],
  ['关闭防火墙之后就正常了', true],
  ['关闭防火墙后还是不可以访问', false],
  ['没有开启防火墙, 之后也无法访问', false],
])('"%s" tells of a firewall: %s', (text, isTold) => {
  expect(answer(`${text}\n`).includes('without the firewall packets arrive')).toBe(isTold);
});

test('a node that is registered under an address of another network is told where it is not reached', () => {
  const node = (name: string, ip: string) => `${name}   Ready   <none>   9d   v1.28.2   ${ip}   <none>   Ubuntu 22.04\n`;
  const failed = 'Error: Get "https://192.168.0.7:10250/x": dial tcp 192.168.0.7:10250: connect: no route to host\n';
  expect(answer(node('w1', '10.13.1.31') + node('w2', '192.168.0.7') + failed)).toContain(
    '192.168.0.7 is the address under which node w2 is registered, and other nodes have addresses of another network (10.13.1.31)',
  );
  expect(answer(node('w1', '192.168.0.6') + node('w2', '192.168.0.7') + failed)).not.toContain('registered');
});

test('dig that gets no answer names the server that it asked', () => {
  const text =
    '$ dig @10.96.0.10 web.shop\n\n; <<>> DiG 9.11 <<>> @10.96.0.10 web.shop\n; (1 server found)\n;; global options: +cmd\n;; connection timed out; no servers could be reached\n';
  expect(answer(text)).toContain('does not reach 10.96.0.10:53 (timed out)');
});

test('ports of a bridge without hairpin mode are told', () => {
  const off = /hairpin_mode of the ports of the bridge is 0/;
  for (const text of [
    '# cat /sys/devices/virtual/net/docker0/brif/veth*/hairpin_mode\n0\n0\n',
    '# for i in /sys/class/net/cni0/brif/*; do echo $i; cat $i/hairpin_mode; done\n/sys/class/net/cni0/brif/veth1\n0\n',
    '/sys/class/net/cni0/brif/veth1/hairpin_mode:0\n',
  ]) {
    expect(answer(text)).toMatch(off);
    expect(answer(text.replace(/0\n$/, '1\n'))).not.toMatch(off);
  }
});

test.each([
  ['Pod 通过自己的 Service 访问自己不通', true],
  ['容器内无法访问自身 Service 的 ClusterIP', true],
  ['pod 无法访问自己搭建的 mysql', false],
  ['Pod 可以通过 service 访问自己', false],
])('"%s" tells of a pod that does not reach itself: %s', (text, isTold) => {
  expect(answer(`${text}\n`).includes('hairpin mode')).toBe(isTold);
});

test('strict filtering of interfaces of Cilium is told, where that of all is larger, too', () => {
  const switches = (all: number, own: number, name = 'lxc12') =>
    answer(`net.ipv4.conf.all.rp_filter = ${all}\nnet.ipv4.conf.${name}.rp_filter = ${own}\n`);
  for (const text of [switches(1, 0), switches(0, 1)]) expect(text).toContain('rp_filter is 1 for lxc12');
  for (const text of [switches(0, 0), switches(2, 1), switches(1, 1, 'cali12')]) expect(text).not.toMatch(shows);
});

test('a table before the main one that takes an address of pods is told', () => {
  const rules = '0:\tfrom all lookup local\n5270:\tfrom all lookup 52\n32766:\tfrom all lookup main\n$ ip route show table 52\n';
  const route = '10.244.0.0/16 dev tailscale0\n100.64.0.5 dev tailscale0\n';
  const get = (to: string) => `$ ip route get ${to}\n${to} dev tailscale0 table 52 src 100.64.0.9 uid 0\n`;
  expect(answer(rules + route + get('10.244.2.7'))).toContain('by a route of table 52 10.244.2.7 takes tailscale0');
  expect(answer(rules + route + get('100.64.0.5'))).not.toMatch(shows);
});

test('pods to which only the default route leads are told on a node with a tunnel', () => {
  const pod = (ip: string, node: string) => `web-${node}  1/1  Running  0  12m  ${ip}  ${node}  <none>  <none>\n`;
  const pods = pod('10.244.1.7', 'w1') + pod('10.244.2.9', 'w2');
  const routes = 'default via 192.0.2.1 dev eth0\n10.244.1.0/24 dev cni0 proto kernel scope link src 10.244.1.1\n';
  const tunnel = '4: flannel.1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1450\n';
  expect(answer(pods + tunnel + routes)).toContain('packets to 10.244.2.9 take the default route');
  for (const text of [pods + routes, `${pods}${tunnel}${routes}10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink\n`])
    expect(answer(text)).not.toMatch(shows);
});

test('packets of pods that the reverse-path filter drops are told, and no ARP or other interface', () => {
  const martian = (device: string, type: string, from = '10.0.0.113') =>
    `kernel: IPv4: martian source 10.0.0.253 from ${from}, on dev ${device}\nkernel: ll header: 00000000: 8a 95 96 c7 1f 85 0a 50 d2 29 32 ba ${type}\n`;
  expect(answer(martian('lxc3c160', '08 00'))).toContain('the kernel drops what 10.0.0.113 sends to 10.0.0.253 and comes in by lxc3c160');
  const asked = (said: string) => `$ ip route get 10.0.0.113 from 192.0.2.9 iif ens3\n${said}\n`;
  expect(answer(asked('RTNETLINK answers: Invalid cross-device link'))).toContain(
    'drops what 192.0.2.9 sends to 10.0.0.113 and comes in by ens3',
  );
  expect(answer(asked('10.0.0.113 from 192.0.2.9 dev veth3'))).not.toMatch(shows);
  for (const text of [martian('lxc3c160', '08 06'), martian('eth0', '08 06'), martian('cni0', '08 00', '10.0.0.253')])
    expect(answer(text)).not.toMatch(shows);
});

test('a route that sends the network of own pods away is told, and no route of another node', () => {
  const start = 'default via 192.0.2.1 dev eth0\n';
  const own = '10.244.3.0/24 dev cni0 proto kernel scope link src 10.244.3.1\n';
  const away = '10.244.3.0/24 via 192.0.2.9 dev eth0\n';
  expect(answer(start + away + own)).toContain('10.244.3.0/24 is the network of pods of this node');
  for (const text of [start + own, `${start}${own}${start}${away}`, `${start}${own}\n${away}`]) expect(answer(text)).not.toMatch(shows);
});

test('a rule that stops all packets is told where somebody quotes it, or takes it away', () => {
  for (const text of [
    'before I took out "-A FORWARD -j REJECT --reject-with icmp-host-prohibited"',
    'the culprit is `-A INPUT -j DROP`, it seems',
    'sudo iptables -D FORWARD -j REJECT --reject-with icmp-host-prohibited',
  ])
    expect(answer(text)).toMatch(/the text names a rule of (?:FORWARD|INPUT) with (?:REJECT|DROP): it stops every packet/);
  for (const text of [
    '"-A INPUT -p tcp --dport 25 -j DROP" is mine',
    '`-A FORWARD -j KUBE-FORWARD` is there',
    'iptables -D FORWARD -j ACCEPT',
  ])
    expect(answer(text)).not.toContain('names a rule');
});

test('a program that waits for the lock of iptables is told, whose log it is', () => {
  const line = (said: string) => `E0407 07:08:13.007655       1 policy_sync.go:253] Aborting sync: exit status 4 (${said})\n`;
  for (const said of [
    'Another app is currently holding the xtables lock. Perhaps you want to use the -w option?',
    "Can't lock /run/xtables.lock: Resource temporarily unavailable",
  ])
    expect(answer(line(said))).toContain('another program holds the lock of iptables');
  expect(answer(line('iptables: Invalid argument'))).not.toContain('lock of iptables');
});

test('upstream servers of CoreDNS that do not answer are told without the head of its log, and once', () => {
  const said = answer(
    'A: unreachable backend: read udp 172.30.7.5:41129->192.0.2.61:53: i/o timeout\nAAAA: read udp 172.30.7.5:41130->192.0.2.62:53: i/o timeout\n',
  );
  expect(said).toContain('CoreDNS forwards names outside of the cluster to 192.0.2.61, 192.0.2.62, and gets no answer');
  expect(said).not.toContain('A program does not reach');
  expect(answer('sntp: read udp 172.30.7.5:41129->192.0.2.61:53: i/o timeout\n')).not.toContain('CoreDNS');
});

test('a server that answers elsewhere in the text is told to be cut off in part', () => {
  const asks = (...more: readonly string[]) =>
    answer(['nameserver 10.96.0.10', '/ # nslookup web', ';; connection timed out; no servers could be reached', ...more].join('\n'));
  expect(asks('/ # nslookup web', 'Server:    10.96.0.10', 'Address:   10.96.0.10#53')).toContain(
    'one of several endpoints (that of another node)',
  );
  expect(asks()).not.toContain('one of several endpoints');
});

test('a Service that is described says that its load balancer is not set up', () => {
  const service = (event: string) => `Name:         web\nNamespace:    shop\nEndpoints:    10.244.0.7:80\nEvents:\n  ${event}\n`;
  expect(answer(service('Warning  SyncLoadBalancerFailed  67s (x2 over 3m)  service-controller  Error syncing: no subnet'))).toContain(
    'Its load balancer is not set up, which kube-proxy never does: Error syncing: no subnet',
  );
  expect(answer(service('Normal   EnsuredLoadBalancer  67s  service-controller  Ensured load balancer'))).not.toContain('load balancer');
  expect(answer('Subsets:\n  Addresses:          <none>\n  NotReadyAddresses:  10.244.0.7\n')).toContain(
    'None of the addresses of the Service is ready (10.244.0.7)',
  );
  expect(answer('Subsets:\n  Addresses:          10.244.0.7\n')).not.toContain('no endpoint');
});

describe('a log of kube-proxy', () => {
  test.each([
    [
      'E1109 22:18:36.012740       1 proxier.go:634] "Could not create dummy VS" err="no such file or directory" scheduler="roundrobin"\nE1109 22:18:36.012808       1 run.go:74] "command failed" err="can\'t use the IPVS proxier: no such file or directory"',
      'the kernel has no scheduler of IPVS of the name that the line has',
    ],
    [
      '$ kubectl logs kube-proxy-chc4w\nE1211 17:17:07.621298       1 run.go:74] "command failed" err="stat \n /var/lib/kube-proxy/conf: no such file or directory"',
      'a file that kube-proxy is told to read is not there',
    ],
    [
      'E1216 07:31:29.513426       1 utils.go:235] fd00:96::5 in clusterIP has incorrect IP version (service shop/web). kube-proxy',
      'it serves the other family of addresses alone',
    ],
    [
      "E0424 10:55:50.225402       1 proxier.go:389] can't set sysctl net/ipv4/vs/conn_reuse_mode, kernel version must be at least 4.1",
      'it goes on without it',
    ],
    [
      'E0628 16:57:08.673912    1180 proxier.go:564] Unable to find HNS Network specified by cbr0. Please check network name',
      'kube-proxy on a Windows node writes no rules',
    ],
    [
      'kube-proxy of w1 says\nW reflector.go:561 failed to list *v1.EndpointSlice: Unauthorized\nW reflector.go:561 failed to list *v1.Service: Unauthorized',
      'do not accept the credentials of each other',
    ],
    [
      'Failed to ensure that nat chain KUBE-MARK-DROP exists: error creating chain "KUBE-MARK-DROP": executable file not found in $PATH: ',
      'there is no iptables where',
    ],
    [
      'Failed to ensure that chain KUBE-SERVICES exists: exit status 4: Another app is currently holding the xtables lock',
      'holds the lock of iptables',
    ],
  ])('%j is explained', (text, cause) => {
    expect(answer(`${text}\n`)).toContain(cause);
  });

  test('is not what another program lists, nor what is said of its chains', () => {
    expect(
      answer(
        'W reflector.go:561 failed to list *v1.EndpointSlice: Unauthorized\nW reflector.go:561 failed to list *v1.Service: Unauthorized\n',
      ),
    ).not.toContain('credentials');
    expect(answer('There is no error, and KUBE-SERVICES is there.\n')).not.toMatch(/says|shows/);
  });
});

describe('a client', () => {
  const list =
    'NAME   TYPE        CLUSTER-IP    EXTERNAL-IP   PORT(S)    AGE\nweb    ClusterIP   10.96.21.23   <none>        3306/TCP   4d\n\n';
  const refused = 'curl: (7) Failed to connect to 10.96.21.23 port 80 after 3 ms: Connection refused\n';

  test('that asks for another port than the Service has is told', () => {
    expect(answer(list + refused)).toContain('a client asks for 10.96.21.23:80, and web has TCP 3306 alone');
    expect(answer(list + refused.replace('port 80', 'port 3306'))).not.toContain('asks for');
    expect(answer(list + refused.replace('21.23', '21.24'))).not.toMatch(shows);
  });

  test.each([
    refused,
    'nc: connect to 10.96.21.23 port 80 (tcp) failed: Connection refused\n',
    "message: 'no response: Get https://10.96.21.23: dial tcp 10.96.21.23:80: connect: connection refused'\n",
    'level=error error="Get \\"https://10.96.21.23:80/version\\": dial tcp 10.96.21.23:80: connect: connection refused"\n',
    'read udp 10.244.0.72:58074->10.96.21.23:80: connection refused\n',
    'dial tcp: lookup web on 10.96.21.23:80: dial udp 10.96.21.23:80: connection refused\n',
    'curl: (7) Failed connect to 10.96.21.23:80; Connection refused\n',
    '(UNKNOWN) [10.96.21.23] 80 (http) : Connection refused\n',
  ])('that reaches nothing is said to be all that the text shows: %j', line => {
    expect(answer(line)).toMatch(/^shows a program that does not reach 10\.96\.21\.23:80 \([Cc]onnection refused\): /);
  });

  test('of curl that prints no address with its error is told, and not one that got an answer', () => {
    const ask = (...lines: readonly string[]) => answer(lines.join('\n'));
    const late = 'curl: (28) Connection timed out after 5001 milliseconds';
    expect(ask('# curl -m 5 10.96.21.23:8080/healthz', late)).toMatch(
      /^shows a program that does not reach 10\.96\.21\.23:8080 \(timed out\)/,
    );
    expect(ask('# curl -k https://10.96.21.23', late)).toContain('10.96.21.23:443');
    expect(ask('# curl 10.96.21.22', 'ok', '# curl 10.96.21.23', late)).not.toContain('21.22');
  });

  test('that asks for a node port where Cilium does not serve it is told', () => {
    const failed = (host: string) => `curl: (7) Failed to connect to ${host} port 30880 after 1 ms: Connection refused\n`;
    const fronts =
      '44   192.0.2.21:30880/TCP   NodePort   1 => 10.0.1.33:8080/TCP (active)\n45   0.0.0.0:30880/TCP   NodePort   1 => 10.0.1.33:8080/TCP\n';
    expect(answer(fronts + failed('192.0.2.20'))).toContain('Cilium serves node port 30880 at 192.0.2.21, and not at 192.0.2.20');
    expect(answer(fronts + failed('192.0.2.21'))).not.toMatch(shows);
    const table =
      'Address      NodePort   Primary   DeviceName\n192.0.2.21   true       true      eth0\n192.0.2.20   false      false     eth0\n';
    expect(answer(table + failed('192.0.2.20'))).toContain('Cilium serves no node ports at 192.0.2.20');
    expect(answer(table + failed('192.0.2.21'))).not.toMatch(shows);
  });

  test('that asks for a node port at the address of a load balancer is told', () => {
    const row = 'web   LoadBalancer   10.96.21.23   192.0.2.95   80:30880/TCP   4d\n';
    const late = 'curl: (28) Failed to connect to 192.0.2.95 port 30880: Connection timed out\n';
    expect(answer(row + late)).toContain('30880 is the node port of web, asked at a load-balancer address');
    expect(answer(row + late.replace('2.95', '2.96'))).not.toContain('load-balancer address');
  });

  test('that asks the name of a headless Service for a port that nothing translates is told', () => {
    const rows = (end: string) =>
      `web     ClusterIP   None         <none>        80/TCP    12m\nNAME   ENDPOINTS           AGE\nweb    ${end}     12m\n`;
    const heading = 'NAME    TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\n';
    const failed = '\n$ curl web\ncurl: (7) Failed to connect to web port 80 after 2 ms: Connection refused\n';
    expect(answer(heading + rows('10.244.1.7:8080') + failed)).toContain('a client asks them at 80, while their port is 8080');
    expect(answer(heading + rows('10.244.1.7:80') + failed)).not.toContain('headless');
  });

  test('that waits is told which policy lets nothing pass, unless another policy of the text does', () => {
    const late = '\ncurl: (28) Failed to connect to 10.96.21.23 port 80: Connection timed out\n';
    const policy = (rest: string) =>
      `apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata:\n  name: closed\nspec:\n  podSelector: {}\n${rest}`;
    expect(answer(policy('  policyTypes:\n  - Ingress\n  - Egress\n') + late)).toMatch(
      /NetworkPolicy closed lets nothing into and out of the pods of its namespace \(no requests to DNS either\), unless/,
    );
    expect(answer(policy('  policyTypes:\n  - Ingress\n') + late)).toMatch(/lets nothing into the pods of its namespace, unless/);
    expect(answer(`${policy('  ingress:\n  - {}\n')}${late}`)).not.toContain('lets nothing');
    expect(answer(policy('  policyTypes:\n  - Ingress\n'))).not.toContain('lets nothing');
  });
});

test('a target port that no container declares is told, where the text has the pods', () => {
  const service = (target: string) =>
    `apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  selector:\n    app: web\n  ports:\n  - port: 80\n    targetPort: ${target}\n---\n`;
  const pod = (app: string) =>
    `apiVersion: v1\nkind: Pod\nmetadata:\n  name: web-0\n  labels:\n    app: ${app}\nspec:\n  containers:\n  - name: c\n    ports:\n    - name: http\n      containerPort: 3000\n`;
  expect(answer(service('8080') + pod('web'))).toContain(
    'web sends to port 8080 (targetPort), and Pod web-0 declares 3000 (http): unless a program listens',
  );
  expect(answer(service('web') + pod('web'))).toContain(
    'web sends to the port "web" (targetPort), and Pod web-0 declares 3000 (http): without a port',
  );
  for (const text of [service('3000') + pod('web'), service('http') + pod('web'), service('8080') + pod('api')])
    expect(answer(text)).not.toContain('targetPort');
});

test('a table of connections that counts as many as it may have is full', () => {
  const counts = (count: number) => `net.netfilter.nf_conntrack_count = ${count}\nnet.netfilter.nf_conntrack_max = 131072\n`;
  expect(answer(counts(131072))).toContain('its table of connections is full');
  for (const text of [counts(9000), 'net.netfilter.nf_conntrack_count = 9000\n']) expect(answer(text)).not.toContain('full');
});

test('a log of kube-proxy does not hide what a text shows beside it', () => {
  const log = 'E0101 00:00:00.000000       1 proxier.go:634] "x" err="too many open files"';
  const said = answer(`${log}\n\nps shows [iptables] <defunct>\n`);
  expect(said).toMatch(/^is a log of kube-proxy, which says: .*Raise fs\.inotify.*\. The text shows, too: an iptables /);
  expect(answer(`${log}\n`)).toMatch(/^is a log of kube-proxy alone, which says: /);
});

test.each([
  ['connect: no route to host\\"" node="w1"', '10.0.0.5:10250 (no route to host), the port of kubelet: a firewall refuses'],
  ['connect: connection refused', '10.0.0.5:10250 (connection refused), the port of kubelet: nothing listens there, or a rule refuses'],
  ['i/o timeout', '10.0.0.5:10250 (i/o timeout), the port of kubelet: packets or their answers are lost'],
])('a client whose connection ends with "%s" is told what that means', (why, text) => {
  expect(answer(`err="Get \\"https://10.0.0.5:10250/x\\": dial tcp 10.0.0.5:10250: ${why}\n`)).toContain(text);
});

test('a node whose rules lack Services that another node of the text serves is named', () => {
  const service = (name: string, chain: string) =>
    `-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "${name} cluster IP" -m tcp --dport 443 -j KUBE-SVC-${chain}`;
  const api = service('default/kubernetes:https', 'NPX46M4PTMTKRN6Y');
  const good = `root@w1:~# iptables-save -t nat | grep 10.96.0.1\n${api}\n`;
  const bad = (...rules: readonly string[]) =>
    `root@w2:~# iptables-save -t nat\n*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n${rules.map(rule => `${rule}\n`).join('')}COMMIT\n`;
  const words = 'the rules of w2 do not serve default/kubernetes:https, and those of w1 do';
  expect(said(good + bad())).toContain(words);
  expect(said(good + bad(api))).not.toContain('do not serve');
  expect(said(good + bad('-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT'))).not.toContain('do not serve');
  expect(said(good + bad().replace('COMMIT\n', ''))).not.toContain('do not serve');
  expect(said(good + bad().replace('w2', 'w1'))).not.toContain('do not serve');
});

describe('ranges and settings', () => {
  const services = (address: string) =>
    `NAME   TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nweb    ClusterIP   ${address}   <none>        80/TCP    2h\n`;
  const pod =
    'NAME                   READY   STATUS    RESTARTS     AGE   IP          NODE\nweb-5d-x2   1/1     Running   2 (3h ago)   3h    10.32.0.3   w1\n\n';

  test('a cluster IP in the network of a pod is told', () => {
    expect(answer(pod + services('10.32.0.43'))).toContain(
      'pod web-5d-x2 has 10.32.0.3, and 10.32.0.43 (web) is a cluster IP in the same network',
    );
    expect(answer(pod + services('10.32.1.43'))).not.toContain('overlap');
  });

  test.each([
    ['a file', 'kind: KubeProxyConfiguration\nclusterCIDR: "10.254.0.0/16"\n'],
    ['configz', '{"kubeproxy.config.k8s.io":{"mode":"ipvs","clusterCIDR":"10.244.0.0/16,10.254.0.0/16"}}\n'],
    ['a command line', 'root 1 /usr/bin/kube-proxy --v=2 --cluster-cidr=10.254.0.0/16 --proxy-mode=ipvs\n'],
  ])('the range of Services as clusterCIDR is told of %s', (_, text) => {
    expect(answer(`${text}\n${services('10.254.0.1')}`)).toMatch(
      /10\.254\.0\.0\/16 \((?:clusterCIDR|--cluster-cidr)\), the network of pods, holds 10\.254\.0\.1 \(web\): /,
    );
    expect(answer(`${text}\n${services('10.96.0.1')}`)).not.toContain('the network of pods');
  });

  test('settings alone are read', () => {
    expect(answer('  kind: KubeProxyConfiguration\n  mode: ""\n  clusterCIDR: 10.244.0.0/16\n')).toContain(
      'it works in iptables mode, since mode is empty, and takes clients in 10.244.0.0/16 for pods',
    );
    expect(answer('ExecStart=/usr/bin/kube-proxy --proxy-mode=ipvs\n')).toContain(
      'it works in ipvs mode, and takes no network for that of pods (clusterCIDR): unless detectLocalMode has another, it masquerades nothing',
    );
    expect(answer('ExecStart=/usr/bin/kube-proxy --proxy-mode=ipvs --ipvs-scheduler=sed\n')).toContain(
      'in ipvs mode, with the scheduler sed (kernel module ip_vs_sed), and takes',
    );
    const late = 'Get https://10.96.0.1:443/api: dial tcp 10.96.0.1:443: i/o timeout\n';
    expect(answer(`${late}kind: KubeProxyConfiguration\nmode: ""\n`)).toMatch(
      /does not reach 10\.96\.0\.1:443 .*The text has settings of kube-proxy: /,
    );
  });
});

test('a client that gets no answer from a cluster IP is told who reaches it, and lines that journald shortened are', () => {
  const asked = (why: string) =>
    answer(
      `NAME   TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nweb    ClusterIP   10.96.8.8   <none>        80/TCP    2h\n\ncurl: (28) Failed to connect to 10.96.8.8 port 80 after 75012 ms: ${why}\n`,
    );
  expect(asked('Operation timed out')).toContain('10.96.8.8:80 is the cluster IP of web, which nodes and pods alone reach');
  expect(asked('Connection refused')).not.toContain('alone reach');
  expect(asked('No route to host')).toContain('10.96.8.8:80 is the cluster IP of web, and "no route to host" is the answer of a firewall');
  expect(answer('Mar 10 17:45:10 w1 kube-proxy[22884]: E0310 17:45:10.260208   22884 proxier.go:7...\n')).toContain(
    'has lines of a log of kube-proxy. The line is shortened',
  );
});

describe('what people tell in their own words', () => {
  test.each([
    [
      'a policy',
      'I see that you have a default drop policy on your forward table.',
      'the policy of filter/FORWARD is DROP, as the text says',
    ],
    ['a policy that is set', 'Docker had set the FORWARD chain policy to DROP.', 'the policy of filter/FORWARD is DROP, as the text says'],
    [
      'a policy in code marks',
      'Docker sets the `FORWARD` chain policy to `DROP`',
      'the policy of filter/FORWARD is DROP, as the text says',
    ],
    ['a pod of old lists', 'po/kube-dns-v20-gc2kl   1/3   CrashLoopBackOff   14   8d', 'it is no endpoint of the DNS of the cluster'],
    ['what mended it', 'It works once I run\n```\nsudo iptables -P FORWARD ACCEPT\n```', 'where that helps, its policy (DROP'],
    ['a firewall that was switched off', 'Stopping the firewalld service on all nodes fixes it.', 'without firewalld packets arrive'],
    ['a pod that asks itself', 'curl from the api pod itself hangs, others are fine', 'hairpin mode'],
    ['a node that is left out', 'It had node.kubernetes.io/exclude-from-external-load-balancers set', 'serves no load balancer'],
  ])('about %s is told', (_, text, what) => {
    expect(answer(`${text}\n`)).toContain(what);
  });

  test.each([
    ['a firewall that makes no difference', 'Disabling firewalld does not fix the problem.'],
    ['a unit that sets the policy', 'ExecStartPost=/sbin/iptables -P FORWARD ACCEPT'],
    ['a listing', 'Chain FORWARD (policy ACCEPT)'],
  ])('about %s is not', (_, text) => {
    expect(answer(`${text}\n`)).not.toMatch(shows);
  });

  test('kubelet says of a pod that it does not reach itself', () => {
    expect(
      answer('W0301 docker_manager.go:2199] Hairpin setup failed for pod "grafana-x1_kube-system(cc-1)": exec: "nsenter"\n'),
    ).toContain('kubelet cannot let the pod grafana-x1 reach itself');
  });
});

test('pods of several nodes on the bridges of Docker are told, and those of one node are not', () => {
  const row = (name: string, ip: string, node: string) => `${name}   1/1   Running   0   3d   ${ip}   ${node}\n`;
  const heading = 'NAME   READY   STATUS   RESTARTS   AGE   IP   NODE\n';
  expect(answer(heading + row('web-1', '172.17.0.2', 'n1') + row('web-2', '172.17.0.2', 'n2'))).toContain(
    'pods of n1, n2 have addresses of 172.17',
  );
  expect(answer(heading + row('web-1', '172.17.0.2', 'n1') + row('web-2', '172.17.0.3', 'n1'))).not.toContain('172.17.0.0/16');
  expect(answer(heading + row('web-1', '172.17.1.2', 'n1') + row('web-2', '172.17.2.2', 'n2'))).not.toContain('172.17.0.0/16');
});

test('a node whose address is in a network of pods is told', () => {
  const text = (ip: string) =>
    `vxlan_network.go:158] failed to add vxlanRoute (10.244.0.0/24 -> 10.244.0.0): invalid argument\n  InternalIP:  ${ip}\n`;
  expect(answer(text('10.244.0.4'))).toContain('10.244.0.0/24 (vxlanRoute), the network of pods, holds 10.244.0.4 (a node)');
  expect(answer(text('192.0.2.4'))).not.toContain('holds');
});

test('packets of IPIP that a firewall stops are told', () => {
  expect(answer('[UFW BLOCK] IN=eth0 OUT= MAC=aa SRC=192.0.2.4 DST=192.0.2.5 LEN=80 TTL=64 PROTO=4\n')).toContain(
    'a firewall stops IPIP 192.0.2.4',
  );
});

test('several Services of one cause have a verb in the plural', () => {
  const line = (name: string) => `W1 controller.go:1 Service "shop/${name}" does not have any active Endpoint.\n`;
  expect(answer(line('a') + line('b'))).toContain('shop/a, shop/b have no ready endpoint');
  expect(answer(line('a'))).toContain('shop/a has no ready endpoint');
});

test('a chain of nftables that refuses all that passes the node is told', () => {
  const table = (...rules: readonly string[]) =>
    `table inet filter {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n${rules.map(rule => `\t\t${rule}\n`).join('')}\t}\n}\n`;
  const end = 'reject with icmpx type admin-prohibited';
  expect(said(table('ct state established,related accept', end))).toContain(`"${end}" of inet filter forward stops every packet`);
  for (const text of [table('iifname "cali*" accept', end), table('tcp dport 22 reject'), table()]) expect(said(text)).toBe('');
});

describe('what people tell of clients, programs and tunnels', () => {
  test.each([
    ['a firewall that a client is stopped by', 'When I stop all iptables it worked.', 'without iptables packets arrive'],
    ['UDP that is not allowed', 'We only allow TCP between nodes, not UDP.', 'stops UDP'],
    ['a port of VXLAN that is closed', 'UDP port 8472 was blocked by the security group', 'stops UDP'],
    ['a port of VXLAN that was opened later', 'I missed to open 8472/udp port. It works now.', 'stops UDP'],
    ['the other backend of iptables', 'Resolved. The solution was to run `iptables` in legacy mode', 'write to one backend of iptables'],
    ['rules that are flushed', 'I need to execute "iptables -F" to recover.', 'without the rules of iptables packets arrive'],
    [
      'a crash',
      'It caused a `panic: runtime error: slice bounds out of range` in the proxy',
      'a program crashed (runtime error: slice bounds',
    ],
    ['the comment of a rule', 'kube-system/kube-dns:dns has no endpoints', 'a rule of kube-proxy refuses kube-system/kube-dns:dns'],
    ['a program that listens at localhost', "it was listening on 'localhost' and not '0.0.0.0'", 'it must listen at 0.0.0.0'],
    ['a node port at localhost', 'curl http://localhost:<Node Port> I get connection refused', 'a node port is asked at 127.0.0.1'],
    [
      'a pod that no host has',
      'connect() failed (113: Host is unreachable) while connecting to upstream, upstream: "http://10.244.0.6:80/"',
      'nginx does not reach 10.244.0.6:80, an endpoint, and is told "no route to host"',
    ],
    [
      'a pod that is asked at a node port',
      '**web-1   1/1   Running   0   3d   10.44.0.4   n1**\ncurl: (7) Failed to connect to 10.44.0.4 port 30036: Connection refused',
      '10.44.0.4 is the address of pod web-1',
    ],
    [
      'a load balancer of k3s',
      'svclb-traefik-4ea49843-qhf9g   0/2   CrashLoopBackOff   164   6h',
      'does not serve the ports of its load balancer',
    ],
  ])('about %s is told', (_, text, what) => {
    expect(answer(`${text}\n`)).toContain(what);
  });

  test.each([
    ['a question', 'Did disabling firewalld help? Does it work?'],
    ['a program of the node', 'I0101 server.go:1] Listening on 127.0.0.1:10248'],
    ['a service of the node', 'curl http://localhost:8080 gives connection refused'],
    ['ports that are open', 'UDP 8472 is open on all nodes'],
    ['rules that a script flushes', 'iptables -F && iptables -X'],
  ])('about %s is not', (_, text) => {
    expect(answer(`${text}\n`)).not.toMatch(shows);
  });
});

test('a pod that is reached by the gateway, and not through the tunnel, is told', () => {
  const route = (to: string, dev: string) => `$ ip route get ${to}\n${to} via 192.0.2.1 dev ${dev}  src 192.0.2.10\n    cache\n`;
  expect(answer(route('10.244.7.5', 'eth0') + route('10.244.8.5', 'tunl0'))).toContain('packets to 10.244.7.5 take eth0 to 192.0.2.1');
  expect(answer(route('192.0.2.77', 'eth0') + route('10.244.8.5', 'tunl0'))).not.toMatch(shows);
});

describe('what is told of a node', () => {
  const pod = 'NAME    READY   STATUS    RESTARTS   AGE   IP           NODE\nsim-0   1/1     Running   0          3d    10.244.7.0   n8\n';
  const own = (name: string) => `7: ${name}: <BROADCAST,UP,LOWER_UP> mtu 1450 qdisc noqueue\n    inet 10.244.7.0/32 scope global ${name}\n`;

  test('whose tunnel has the address of a pod', () => {
    expect(answer(pod + own('vxlan.calico'))).toContain('10.244.7.0 is the address of pod sim-0 and of vxlan.calico on a node');
    // A pod has it as its own.
    expect(answer(pod + own('eth0@if9'))).not.toContain('gave it out twice');
  });

  test('that health checks of a cloud do not reach', () => {
    const syn = (at: string, from: string) => `18:05:${at} IP ${from}.35308 > 192.0.2.7.32708: Flags [S], seq 5574, win 62920, length 0\n`;
    const sent = (from: string) => ['25.31', '26.33', '28.34'].map(at => syn(at, from)).join('');
    expect(answer(sent('169.254.169.254'))).toContain('so come health checks of a cloud');
    expect(answer(sent('198.51.100.9'))).not.toContain('health checks of a cloud');
  });

  test('of Cilium that serves a host port elsewhere than at localhost, and of Calico that has no node port', () => {
    const refused = 'curl: (7) Failed to connect to localhost port 5000: Connection refused\n';
    const front = (type: string) => `9    192.0.2.107:5000     ${type}       1 => 10.233.64.12:5000 (active)\n`;
    expect(answer(refused + front('HostPort'))).toContain('Cilium serves host port 5000 at 192.0.2.107, and not at localhost');
    expect(answer(refused + front('NodePort'))).not.toContain('Cilium serves host port');
    const lookup = (port: number) =>
      `cali1-E: NAT: 1st level lookup addr=ac15939c port=${port} tcp\ncali1-E: NAT: Miss.\ncali1-E: NAT: nodeport miss\n`;
    expect(answer(lookup(31_999))).toContain("Calico's eBPF mode has no node port 31999");
    expect(answer(lookup(443))).not.toMatch(shows);
  });

  test('in IPVS mode, whose virtual servers are missing, and not table nat', () => {
    const rule = '-A KUBE-IPVS-FILTER -m set --match-set KUBE-LOAD-BALANCER dst,dst -j RETURN\n';
    const asked = said(`${rule}curl: (7) Failed to connect to 203.0.113.7 port 32310: Connection refused\n`);
    expect(asked).toContain('virtual servers, by which IPVS mode serves Services, are not shown by their addresses');
    expect(asked).not.toContain('table nat');
  });
});
