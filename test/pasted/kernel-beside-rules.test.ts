/** What the kernel prints beside pasted rules: switches, packets that a firewall logs, and answers that tcpdump shows. */
import {describe, expect, test} from 'vitest';
import {noDump} from '../../src/parse/pasted/split-text.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {said, snapshotOfText} from './trace-text.ts';

const rule =
  '-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/kubernetes:https cluster IP" -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y\n';
const rules = `# iptables-save | grep kubernetes\n${rule}`;

describe('forwarding that is off', () => {
  const off = /^net\.ipv4\.ip_forward is 0: the node forwards no packet/;

  test('is told in both ways to print it', () => {
    expect(said(`net.ipv4.ip_forward = 0\n${rules}`)).toMatch(off);
    expect(said(`$ cat /proc/sys/net/ipv4/ip_forward\n0\n${rules}`)).toMatch(off);
  });

  test('is told without rules, too, as bridges that pass rules by', () => {
    expect(noDump(Buffer.from('$ cat /proc/sys/net/ipv4/ip_forward\n0\n'))).toMatch(
      /^has no rules, and shows: net\.ipv4\.ip_forward is 0: /,
    );
    expect(noDump(Buffer.from('net.bridge.bridge-nf-call-iptables = 0\n'))).toContain('bridge-nf-call-iptables is 0: where pods are on a');
    expect(noDump(Buffer.from('net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\n'))).not.toContain('shows');
  });

  test.each([
    ['it was turned on below', 'net.ipv4.ip_forward = 0\n# sysctl -w net.ipv4.ip_forward=1\nnet.ipv4.ip_forward = 1\n'],
    ['it is that of a pod', '$ kubectl exec web -- sysctl net.ipv4.ip_forward\nnet.ipv4.ip_forward = 0\n'],
    ['it is a comment of a file', '#net.ipv4.ip_forward = 0\n'],
  ])('is not where %s', (_, text) => {
    expect(said(text + rules)).toBe('');
  });
});

test('node ports do not answer on localhost where packets of loopback are not routed', () => {
  const off = 'net.ipv4.conf.all.route_localnet = 0\n';
  expect(said(off + rules)).toMatch(/^net\.ipv4\.conf\.all\.route_localnet is 0: node ports do not answer on 127\.0\.0\.1/);
  expect(said(off.replace('0', '1') + rules)).toBe('');
});

describe('a packet that a firewall logs', () => {
  const line = (prefix: string, into: string, out: string, port: number) =>
    `Dec  5 08:05:15 node-a kernel: [ 1234.5] ${prefix}IN=${into} OUT=${out} MAC=52:54:00 SRC=10.42.0.8 DST=192.0.2.10 LEN=60 TTL=63 PROTO=TCP SPT=40000 DPT=${port} SYN\n`;
  const stops = 'a firewall stops TCP 10.42.0.8 → 192.0.2.10:6443 (in by cni0), as its log line "UFW BLOCK" says';

  test('is named, without rules too', () => {
    expect(said(line('[UFW BLOCK] ', 'cni0', '', 6443) + rules)).toBe(stops);
    expect(noDump(Buffer.from(line('[UFW BLOCK] ', 'cni0', '', 6443)))).toContain(stops);
    expect(said(line('filter_FWD_public_REJECT: ', 'eth0', 'cni0', 80) + rules)).toMatch(/"filter_FWD_public_REJECT" says$/);
  });

  test.each([
    ['it scans the node', line('[UFW BLOCK] ', 'eth0', '', 23)],
    ['it is only traced', line('TRACE: ', 'cni0', '', 6443)],
    ['it is accepted', line('[UFW ALLOW] ', 'cni0', '', 6443)],
  ])('is not where %s', (_, text) => {
    expect(said(text + rules)).not.toContain('a firewall stops');
  });
});

test('a host that answers "admin prohibited" has a rule that refuses, and a full table of connections is told', () => {
  const answer = '12:00:01.2 IP 192.0.2.9 > 192.0.2.10: ICMP host 10.42.1.5 unreachable - admin prohibited filter, length 68\n';
  expect(said(answer + rules)).toMatch(/^192\.0\.2\.9 answers with "admin prohibited"/);
  expect(noDump(Buffer.from(answer))).toContain('192.0.2.9 answers with "admin prohibited"');
  expect(said(`[ 12.3] nf_conntrack: table full, dropping packet\n${rules}`)).toMatch(/^the kernel drops packets of new connections/);
});

describe('packet', () => {
  const reason = (text: string, destination: string): string | undefined =>
    askNodes({source: '10.42.2.5', destination, port: '443'}, snapshotOfText(text)).flatMap(({outcomes}) => outcomes)[0]?.reason;

  test('says what the text says beside its rules of its destination, and of no other', () => {
    const list = 'NAME        ENDPOINTS        AGE\nkubernetes  192.0.2.9:6443   3d\n\n';
    const service =
      'NAME        TYPE       CLUSTER-IP  EXTERNAL-IP  PORT(S)  AGE\nkubernetes  ClusterIP  10.96.0.1   <none>       443/TCP  3d\n\n';
    const servers = '$ ipvsadm -Ln -t 10.96.0.1:443\nTCP  10.96.0.1:443 rr\n  -> 192.0.2.8:6443   Masq    1      0          0\n';
    const stale = 'beside its rules the text shows: virtual server 10.96.0.1:443 sends to 192.0.2.8:6443, which is none of the endpoints';
    expect(reason(list + service + servers, '10.96.0.1')).toContain(stale);
    expect(reason(list + service + servers, '10.96.0.2')).not.toContain('beside its rules');
    expect(reason(list.replace('.9:', '.8:') + service + servers, '10.96.0.1')).not.toContain('beside its rules');
  });

  test('says that the node forwards nothing, and not that a rule of the path drops it', () => {
    const path = `${rule}-A KUBE-SVC-NPX46M4PTMTKRN6Y -j KUBE-SEP-5V2UTJDVBQ73MZHD\n-A KUBE-SEP-5V2UTJDVBQ73MZHD -p tcp -m tcp -j DNAT --to-destination 192.0.2.8:6443\n`;
    expect(reason(`net.ipv4.ip_forward = 0\n# iptables-save | grep KUBE\n${path}`, '10.96.0.1')).toMatch(
      /dropped: the node forwards no such packets \(net\.ipv4\.ip_forward is 0\), unless/,
    );
  });
});
