import {describe, expect, test} from 'vitest';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';

const head = 'target     prot opt source               destination         ';

function rulesOf(...lines: readonly string[]) {
  return parseDumps(lines.join('\n')).flatMap(({tables}) =>
    [...tables.values()].flatMap(({chains}) => [...chains.values()].flatMap(chain => chain.rules().map(({text}) => text))),
  );
}

describe('a rule of iptables -L -n reads as iptables -S prints it', () => {
  const rows: readonly (readonly [listed: string, rule: string])[] = [
    [
      'KUBE-MARK-MASQ  all  --  10.244.1.5           0.0.0.0/0            /* shop/web:http */',
      '-s 10.244.1.5/32 -m comment --comment "shop/web:http" -j KUBE-MARK-MASQ',
    ],
    [
      'KUBE-MARK-MASQ  tcp  -- !10.244.0.0/16        10.96.1.1            /* shop/web:http cluster IP */ tcp dpt:80',
      '! -s 10.244.0.0/16 -d 10.96.1.1/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ',
    ],
    [
      'DNAT       tcp  --  0.0.0.0/0            0.0.0.0/0            /* shop/web:http */ tcp to:10.244.1.5:8080',
      '-p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.1.5:8080',
    ],
    [
      'DNAT       6    --  0.0.0.0/0            0.0.0.0/0            tcp to:10.244.1.5:8080',
      '-p tcp -m tcp -j DNAT --to-destination 10.244.1.5:8080',
    ],
    [
      'KUBE-SEP-A  all  --  0.0.0.0/0            0.0.0.0/0            statistic mode random probability 0.33333333349',
      '-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-A',
    ],
    [
      'KUBE-NODEPORTS  all  --  0.0.0.0/0            0.0.0.0/0            ADDRTYPE match dst-type LOCAL',
      '-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
    ],
    [
      'RETURN     all  --  0.0.0.0/0            0.0.0.0/0            mark match ! 0x4000/0x4000',
      '-m mark ! --mark 0x4000/0x4000 -j RETURN',
    ],
    ['MARK       all  --  0.0.0.0/0            0.0.0.0/0            MARK or 0x4000', '-j MARK --or-mark 0x4000'],
    ['MARK       all  --  0.0.0.0/0            0.0.0.0/0            MARK xor 0x4000', '-j MARK --xor-mark 0x4000'],
    [
      'MASQUERADE  all  --  0.0.0.0/0            0.0.0.0/0            /* kubernetes service traffic requiring SNAT */ random-fully',
      '-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully',
    ],
    [
      'KUBE-SEP-A  all  --  0.0.0.0/0            0.0.0.0/0            recent: CHECK seconds: 10800 reap name: KUBE-SEP-A side: source mask: 255.255.255.255',
      '-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-A --mask 255.255.255.255 --rsource -j KUBE-SEP-A',
    ],
    [
      'DNAT       tcp  --  0.0.0.0/0            0.0.0.0/0            recent: SET name: KUBE-SEP-A side: source mask: 255.255.255.255 tcp to:10.244.1.5:8080',
      '-p tcp -m recent --set --name KUBE-SEP-A --mask 255.255.255.255 --rsource -m tcp -j DNAT --to-destination 10.244.1.5:8080',
    ],
    [
      'KUBE-SVC-A  tcp  --  0.0.0.0/0            198.51.100.8         tcp dpt:80 PHYSDEV match ! --physdev-is-in ADDRTYPE match src-type !LOCAL',
      '-d 198.51.100.8/32 -p tcp -m tcp --dport 80 -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j KUBE-SVC-A',
    ],
    [
      'REJECT     udp  --  0.0.0.0/0            10.96.0.10           udp dpt:53 reject-with icmp-port-unreachable',
      '-d 10.96.0.10/32 -p udp -m udp --dport 53 -j REJECT --reject-with icmp-port-unreachable',
    ],
    [
      'REDIRECT   tcp  --  0.0.0.0/0            10.254.132.107       tcp dpt:2222 redir ports 36463',
      '-d 10.254.132.107/32 -p tcp -m tcp --dport 2222 -j REDIRECT --to-ports 36463',
    ],
    ['           all  --  0.0.0.0/0            0.0.0.0/0            /* other traffic */', '-m comment --comment "other traffic"'],
    ['KUBE-FIREWALL  all  --  0.0.0.0/0            0.0.0.0/0           ', '-j KUBE-FIREWALL'],
    [
      'DROP       all  -- !127.0.0.0/8          127.0.0.0/8          ! ctstate RELATED,ESTABLISHED,DNAT',
      '! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
    ],
    [
      'DROP       tcp  --  0.0.0.0/0            0.0.0.0/0            tcp dpts:1:1023 string match',
      '-p tcp -m tcp --dport 1:1023 -m not-understood --text "string" -m not-understood --text "match" -j DROP',
    ],
    ['KUBE-X  all      fd00::/64            ::/0                 [goto]  /* x */', '-s fd00::/64 -m comment --comment "x" -g KUBE-X'],
    [
      'KUBE-SVC-A  tcp  --  anywhere             10.96.0.10           tcp dpt:domain',
      '-d 10.96.0.10/32 -p tcp -m tcp --dport 53 -j KUBE-SVC-A',
    ],
    [
      'KUBE-SVC-A  tcp  --  anywhere             web.shop.svc         tcp dpt:http-alt',
      '-d web.shop.svc -p tcp -m tcp --dport 8080 -j KUBE-SVC-A',
    ],
    [
      'KUBE-SVC-A  tcp  --  anywhere             10.96.0.10           tcp dpt:kitchen',
      '-d 10.96.0.10/32 -p tcp -m tcp -m not-understood --text "dpt:kitchen" -j KUBE-SVC-A',
    ],
    ['DROP       all  -- !localhost/8          localhost/8', '! -s 127.0.0.0/8 -d 127.0.0.0/8 -j DROP'],
    [
      'ACCEPT     tcp  --  anywhere             anywhere             multiport dports http,https',
      '-p tcp -m multiport --dports 80,443 -j ACCEPT',
    ],
    [
      'DROP       tcp  --  0.0.0.0/0            0.0.0.0/0            tcp flags:!0x17/0x02',
      '-p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -j DROP',
    ],
  ];

  test.each(rows)('%s', (listed, rule) => {
    expect(rulesOf('Chain KUBE-SERVICES (1 references)', head, listed)).toEqual([`-A KUBE-SERVICES ${rule}`]);
  });

  test('and with -v shows interfaces and packet counters', () => {
    const long = ' pkts bytes target     prot opt in     out     source               destination         ';
    expect(
      rulesOf(
        'Chain FORWARD (policy DROP 12 packets, 3K bytes)',
        long,
        '  12K  720 ACCEPT     all  --  docker0 !docker0  0.0.0.0/0            0.0.0.0/0           ',
      ),
    ).toEqual(['-A FORWARD -i docker0 ! -o docker0 -j ACCEPT']);
  });

  test('without -v a third-party rule may match an interface that is not shown', () => {
    expect(rulesOf('Chain FORWARD (policy ACCEPT)', head, 'ACCEPT     all  --  0.0.0.0/0            0.0.0.0/0')).toEqual([
      '-A FORWARD -m interfaces-not-listed -j ACCEPT',
    ]);
  });
});

describe('a listing', () => {
  test('keeps its line numbers, its policies, and the lines that are not understood', () => {
    const [ruleset] = parseDumps(
      ['$ sudo iptables -nL', 'Chain FORWARD (policy DROP)', head, 'what is this', 'KUBE-FORWARD  all  --  0.0.0.0/0  0.0.0.0/0'].join(
        '\n',
      ),
    );
    expect(ruleset?.chain('filter', 'FORWARD')?.policy).toBe('DROP');
    expect(
      ruleset
        ?.chain('filter', 'FORWARD')
        ?.rules()
        .map(({line}) => line),
    ).toEqual([5]);
    expect(ruleset?.strays).toEqual([
      {line: 1, text: '$ sudo iptables -nL'},
      {line: 4, text: 'what is this'},
    ]);
  });

  test('of several tables is divided by the commands above', () => {
    const [ruleset] = parseDumps(
      [
        '$ iptables -t nat -S',
        '-P PREROUTING ACCEPT',
        '-P OUTPUT ACCEPT',
        '-P POSTROUTING ACCEPT',
        '-N KUBE-SERVICES',
        '-A PREROUTING -j KUBE-SERVICES',
        '$ iptables -S',
        '-P INPUT ACCEPT',
        '-P FORWARD DROP',
        '-P OUTPUT ACCEPT',
        '-N KUBE-SERVICES',
        '-A INPUT -j KUBE-SERVICES',
        '',
      ].join('\n'),
    );
    expect([...(ruleset?.tables.values() ?? [])].map(({name, complete, chains}) => [name, complete, [...chains.keys()]])).toEqual([
      ['nat', true, ['PREROUTING', 'OUTPUT', 'POSTROUTING', 'KUBE-SERVICES']],
      ['filter', true, ['INPUT', 'FORWARD', 'OUTPUT', 'KUBE-SERVICES']],
    ]);
  });

  test.each([
    ['a pipe to grep after the command', ['$ iptables -S -t nat | grep KUBE', '-P PREROUTING ACCEPT', '-A PREROUTING -j KUBE-SERVICES']],
    ['rules left out', ['-P PREROUTING ACCEPT', '...', '-A PREROUTING -j KUBE-SERVICES']],
    ['no policy of a base chain', ['-N KUBE-SERVICES', '-A PREROUTING -j KUBE-SERVICES']],
  ])('with %s is an excerpt', (_, lines) => {
    const [ruleset] = parseDumps(lines.join('\n'));
    expect(ruleset?.chain('nat', 'PREROUTING')?.complete).toBe(false);
  });
});
