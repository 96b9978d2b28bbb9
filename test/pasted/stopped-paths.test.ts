/** `trace` of rules alone says what other tables of the text do to packets on the way to an endpoint, and which tracked flows go elsewhere. */
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {tree} from '../../src/render/table/tree.ts';
import {withStoppedPaths} from '../../src/run/packet/stopped-paths.ts';
import {askNodes} from '../../src/run/packet/packet-flags.ts';
import {plain} from '../render/report.ts';
import {snapshotOfText, traceText} from './trace-text.ts';

const nat = `*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-SEP-NWYX6ZRA4HKJWFJ6 - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-TCOU7JCQXEZGVUNU - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SEP-NWYX6ZRA4HKJWFJ6 -p udp -m comment --comment "kube-system/kube-dns:dns" -m udp -j DNAT --to-destination 10.244.1.9:53
-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m comment --comment "kube-system/kube-dns:dns cluster IP" -m udp --dport 53 -j KUBE-SVC-TCOU7JCQXEZGVUNU
-A KUBE-SVC-TCOU7JCQXEZGVUNU -m comment --comment "kube-system/kube-dns:dns -> 10.244.1.9:53" -j KUBE-SEP-NWYX6ZRA4HKJWFJ6
COMMIT
`;

const filter = (policy: string, ...rules: readonly string[]) =>
  `*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ${policy} [0:0]\n:OUTPUT ACCEPT [0:0]\n${rules.map(rule => `-A FORWARD ${rule}\n`).join('')}COMMIT\n`;

test.each([
  [
    'a policy that drops them',
    nat + filter('DROP', '-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'),
    'dropped: after that, by the policy of filter/FORWARD, unless the endpoint has the address of this node',
  ],
  [
    'a rule that refuses them',
    nat + filter('ACCEPT', '-d 10.244.0.0/16 -j REJECT'),
    'refused (after that, by this rule, unless the endpoint',
  ],
  [
    'a rule by which they are not tracked',
    `*raw\n:PREROUTING ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n-A PREROUTING -d 10.96.0.10/32 -p udp -m udp --dport 53 -j NOTRACK\nCOMMIT\n${nat}`,
    'undetermined: a rule keeps packets from being tracked, so that no rule translates them',
  ],
])('%s is told', (_, text, words) => {
  expect(shown(text)).toContain(words);
});

test.each([
  ['accepts packets to pods', nat + filter('DROP', '-d 10.244.0.0/16 -j ACCEPT', '-s 10.244.0.0/16 -j ACCEPT')],
  ['asks for an interface, which the text does not tell', nat + filter('DROP', '-i cni0 -j ACCEPT', '-o cni0 -j ACCEPT')],
  ['is not in the text', nat],
])('nothing is said where table filter %s', (_, text) => {
  expect(shown(text)).toContain('100% 10.244.1.9:53');
  expect(shown(text)).not.toMatch(/dropped|refused|undetermined/);
});

describe('of a node port', () => {
  const served = (reach = '-m addrtype --dst-type LOCAL') =>
    nat.replace(
      'COMMIT',
      `-A KUBE-SERVICES ${reach} -j KUBE-NODEPORTS\n-A KUBE-NODEPORTS -p udp -m comment --comment "kube-system/kube-dns:dns" -m udp --dport 30053 -j KUBE-SVC-TCOU7JCQXEZGVUNU\nCOMMIT`,
    );
  const nodePort = (text: string) => shown(text).split('node port 30053')[1] ?? '';
  const stopped = 'unless the endpoint has the address of this node';

  test.each([
    ['for all', filter('ACCEPT', '-j REJECT'), `refused (after that, by this rule, ${stopped})`],
    [
      'for those whom no rule accepts before',
      filter('DROP', '-s 10.0.0.0/8 -j ACCEPT'),
      `by the policy of filter/FORWARD, for senders in 0.0.0.0-9.255.255.255, 11.0.0.0-255.255.255.255, ${stopped}`,
    ],
  ])('packets that table filter stops %s are told', (_, rules, words) => {
    expect(nodePort(served() + rules)).toContain(words);
  });

  test('nothing is said of addresses that the text does not show', () => {
    expect(nodePort(served('-d 172.18.0.11/32') + filter('DROP'))).not.toMatch(/dropped|refused/);
    const snat = served().replace('COMMIT', '-A POSTROUTING -d 10.244.1.9/32 -j SNAT --to-source 172.18.0.11\nCOMMIT');
    expect(nodePort(snat)).not.toMatch(/dropped|refused/);
  });
});

describe('where grep left rules of table nat', () => {
  const rows = `# iptables -t nat -S | grep kube-dns\n${nat.match(/^-A KUBE-.*$/gm)?.join('\n')}\n`;

  test('a whole chain FORWARD that refuses everything is told', () => {
    const listed = `# iptables -nL FORWARD\nChain FORWARD (policy ACCEPT)\ntarget     prot opt source               destination\nREJECT     all  --  0.0.0.0/0            0.0.0.0/0            reject-with icmp-host-prohibited\n`;
    expect(shown(rows + listed)).toContain(
      'undetermined: refused after that by this rule, unless a rule names an interface, which iptables -L shows with -v alone',
    );
    const wide = listed
      .replace('-nL', '-vnL')
      .replace('target', 'pkts bytes target')
      .replace('opt ', 'opt in out ')
      .replace(/^REJECT(.*?--)/m, ' 7 420 REJECT$1  *  *');
    expect(shown(rows + wide)).toContain(`refused (after that, by this rule, unless the endpoint`);
  });

  test('rules of FORWARD that grep left may be preceded by others', () => {
    expect(shown(`${rows}# iptables-save -t filter | grep REJECT\n-A FORWARD -j REJECT --reject-with icmp-host-prohibited\n`)).toContain(
      'undetermined: refused after that by this rule, unless all of filter/FORWARD, which this text does not show, accepts or refuses it before',
    );
  });
});

describe('tracked flows beside the rules', () => {
  const flow = (end: string) =>
    `${nat}# conntrack -L -p udp\nudp      17 27 src=10.244.2.7 dst=10.96.0.10 sport=40123 dport=53 [UNREPLIED] src=${end} dst=10.244.2.7 sport=53 dport=40123 mark=0 use=1\n`;
  const packet = (text: string, asked: {readonly protocol?: string; readonly 'source-port'?: number} = {}) => {
    const sent = {source: '10.244.2.7', destination: '10.96.0.10', port: '53', protocol: 'UDP', ...asked};
    return askNodes(sent, snapshotOfText(text))
      .flatMap(({outcomes, tracked}) => [...outcomes.map(({reason = ''}) => reason), tracked?.text ?? ''])
      .join();
  };
  const found = (text: string) => traceText(snapshotOfText(text), 'kube-dns').findings.filter(({code}) => code === 'ST508');

  test.each([
    ['to an endpoint that is gone', '10.244.1.3'],
    ['untranslated', '10.96.0.10'],
  ])('that go %s are told, by packet too', (_, end) => {
    expect(found(flow(end)).map(({message}) => message)).toEqual([
      `kube-system/kube-dns:dns: 1 tracked UDP flow leads to ${end}:53, and these rules to none of them (conntrack line 16): the rules are not asked again while packets of the flow come`,
    ]);
    expect(packet(flow(end))).toContain(`from source port 40123 belong to the flow on line 16 of conntrack, which goes to ${end}:53`);
  });

  test('decide in the first line where the source port is asked for', () => {
    const sent = {source: '10.244.2.7', destination: '10.96.0.10', port: '53', protocol: 'UDP'};
    const first = (asked: object) =>
      askNodes({...sent, ...asked}, snapshotOfText(flow('10.96.0.10'))).flatMap(({outcomes}) => outcomes[0]?.condition);
    expect(first({'source-port': 40123})).toEqual(['sent to 10.96.0.10:53, where the tracked flow on line 16 leads']);
    expect(first({'source-port': 40124})).toEqual(['sent to 10.244.1.9:53 unless rules that are not shown decide otherwise']);
  });

  describe('of TCP', () => {
    const tcp = (state: string) =>
      flow('10.244.1.3')
        .replaceAll(/-p udp|-m udp|udp\b(?= {6})/g, word => word.replace('udp', 'tcp'))
        .replace(' 17 27 ', ` 6 119 ${state} `)
        .replaceAll('TCOU7JCQXEZGVUNU', 'ERIFXISQEP7F7OF4');
    const message =
      'kube-system/kube-dns:dns: 1 tracked TCP connection without an answer leads to 10.244.1.3:53, and these rules to none of them (conntrack line 16): the rules are not asked again while packets of the flow come';

    test('that wait for an answer are told, by check and packet too', () => {
      expect(found(tcp('SYN_SENT')).map(one => one.message)).toEqual([message]);
      const {findings} = diagnose(snapshotOfText(tcp('SYN_SENT')), {toolVersion: '0.0.0'});
      expect(findings.filter(({code}) => code === 'ST508').map(one => one.message)).toEqual([message]);
      expect(packet(tcp('SYN_SENT'), {protocol: 'TCP'})).toContain('from source port 40123 belong to the flow on line 16');
    });

    test('that are served keep their endpoint, and only their own packets do', () => {
      const served = tcp('ESTABLISHED').replace(' 119 ', ' 431999 ');
      expect(found(served)).toEqual([]);
      expect(packet(served, {protocol: 'TCP'})).not.toContain('flow on line');
      expect(packet(served, {protocol: 'TCP', 'source-port': 40123})).toContain('which goes to 10.244.1.3:53');
      expect(packet(tcp('TIME_WAIT'), {protocol: 'TCP', 'source-port': 40123})).not.toContain('flow on line');
    });
  });

  test.each([
    ['to an endpoint that is gone', '10.244.1.3', 1],
    ['through the node, untranslated', '203.0.113.7', 0],
  ])('to a node port are compared: one %s', (_, end, count) => {
    const rules = flow(end)
      .replace('dst=10.96.0.10 sport=40123 dport=53', 'dst=203.0.113.7 sport=40123 dport=30053')
      .replace(
        'COMMIT',
        '-A KUBE-NODEPORTS -p udp -m comment --comment "kube-system/kube-dns:dns" -m udp --dport 30053 -j KUBE-SVC-TCOU7JCQXEZGVUNU\nCOMMIT',
      );
    expect(found(rules)).toHaveLength(count);
  });

  test('that go where the rules lead are not', () => {
    expect(found(flow('10.244.1.9'))).toEqual([]);
    expect(packet(flow('10.244.1.9'))).not.toContain('flow on line');
  });

  test.each([
    ['the address of an endpoint', (text: string) => text.replace(/^.*--to-destination.*\n/m, '').replace(' -> 10.244.1.9:53', '')],
    [
      'an endpoint',
      (text: string) => text.replace(' -j KUBE-SEP-', ' -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-'),
    ],
  ])('are not compared with rules that lack %s', (_, change) => {
    expect(found(change(flow('10.244.1.3')))).toEqual([]);
  });
});

function shown(text: string): string {
  const snapshot = snapshotOfText(text);
  return tree(withStoppedPaths(traceText(snapshot, 'kube-system/kube-dns'), snapshot), {...plain, width: 200});
}

describe('of a virtual server of IPVS', () => {
  const list =
    'IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\nTCP  10.96.1.1:80 rr\n  -> 10.244.2.7:8080              Masq    1      0          0\n';
  const device = (address: string) =>
    `6: kube-ipvs0: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN\n    inet ${address}/32 scope global kube-ipvs0\n`;
  const input = (policy: string) =>
    `Chain INPUT (policy ${policy} 0 packets, 0 bytes)\n pkts bytes target     prot opt in     out     source               destination\n  12   700 ACCEPT     tcp  --  *      *       0.0.0.0/0            0.0.0.0/0            tcp dpt:22\n`;
  const drawn = (text: string) => {
    const snapshot = snapshotOfText(text);
    return tree(withStoppedPaths(traceText(snapshot, '10.96.1.1'), snapshot), plain);
  };

  test('what keeps packets from it is told', () => {
    expect(drawn(`${list}\n${input('DROP')}`)).toContain('undetermined: dropped unless table nat decides otherwise');
    expect(drawn(`${list}\n${device('10.96.0.3')}`)).toContain(
      'undetermined: not served unless another interface has 10.96.1.1: kube-ipvs0 lacks it',
    );
  });

  test.each([
    ['the list alone', list],
    ['kube-ipvs0 with its address', `${list}\n${device('10.96.1.1')}`],
    ['a chain INPUT that accepts', `${list}\n${input('ACCEPT')}`],
  ])('nothing is said by %s', (_, text) => {
    expect(drawn(text)).toContain('100% 10.244.2.7:8080');
    expect(drawn(text)).not.toContain('undetermined');
  });
});
