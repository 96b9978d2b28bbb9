/** What rules alone show of Services: counters, virtual servers of IPVS, and faults of the rules themselves. */
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {packetsText} from '../../src/render/trace-words.ts';
import {serviceList, tree} from '../../src/render/table/tree.ts';
import {table} from '../../src/render/table/table.ts';
import {plain} from '../render/report.ts';
import {askText, answerText} from './ask.ts';
import {said, snapshotOfText, traceText} from './trace-text.ts';

describe('counters', () => {
  const shown = (text: string) =>
    traceText(snapshotOfText(text), 'web').traces.flatMap(({entries}) =>
      entries.flatMap(({steps, endpoints}) => [...steps, ...endpoints.map(({pick}) => pick)].map(rule => packetsText(rule ?? {}))),
    );
  const listing = [
    '$ iptables -t nat -nvL',
    'Chain KUBE-SERVICES (2 references)',
    ' pkts bytes target     prot opt in     out     source               destination',
    '   12   720 KUBE-SVC-TCOU7JCQXEZGVUNU  tcp  --  *  *  0.0.0.0/0  10.96.0.10  /* shop/web:http cluster IP */ tcp dpt:80',
    '',
    'Chain KUBE-SVC-TCOU7JCQXEZGVUNU (1 references)',
    ' pkts bytes target     prot opt in     out     source               destination',
    ' 123K 7400K KUBE-SEP-5V2UTJDVBQ73MZHD  all  --  *  *  0.0.0.0/0  0.0.0.0/0  /* shop/web:http -> 10.244.1.5:80 */ statistic mode random probability 0.50000000000',
    '    7   420 KUBE-SEP-6KKQPHGRLUODOJRX  all  --  *  *  0.0.0.0/0  0.0.0.0/0  /* shop/web:http -> 10.244.1.6:80 */',
    '',
  ].join('\n');

  test('of iptables -L -v are shown, rounded ones as such', () => {
    expect(shown(listing)).toEqual(['12 packets', 'about 123000 packets', '7 packets']);
    expect(shown(listing.replace(/^/gm, '> '))).toEqual(['12 packets', 'about 123000 packets', '7 packets']);
  });

  test('of iptables -L -v -x --line-numbers are exact, and line numbers are not counters', () => {
    const numbered = listing
      .replace('123K 7400K', '123456 7407360')
      .replace(/^ pkts/gm, 'num pkts')
      .replace(/^ +(?=\d)/gm, '4  ');
    expect(shown(numbered)).toEqual(['12 packets', '123456 packets', '7 packets']);
  });

  test('of iptables -L without -v are none', () => {
    const bare = [
      'Chain KUBE-SERVICES (2 references)',
      'target     prot opt source               destination',
      'KUBE-SVC-TCOU7JCQXEZGVUNU  6  --  0.0.0.0/0  10.96.0.10  /* shop/web:http cluster IP */ tcp dpt:80',
      '',
    ];
    expect(shown(bare.join('\n'))).toEqual(['']);
  });
});

describe('virtual servers of IPVS', () => {
  const list = [
    '# ipvsadm -Ln',
    'IP Virtual Server version 1.2.1 (size=4096)',
    'Prot LocalAddress:Port Scheduler Flags',
    '  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn',
    'TCP  10.96.1.1:80 rr',
    '  -> 10.244.11.4:8080             Masq    1      3          0',
    '  -> 10.244.12.4:8080             Masq    1      0          0',
    '',
  ].join('\n');
  const stats = [
    '# ipvsadm -Ln --stats',
    'IP Virtual Server version 1.2.1 (size=4096)',
    'Prot LocalAddress:Port               Conns   InPkts  OutPkts  InBytes OutBytes',
    '  -> RemoteAddress:Port',
    'TCP  10.96.1.1:80                       30      150      120    12345    54321',
    '  -> 10.244.11.4:8080                   10       50       40     4115    18107',
    '  -> 10.244.12.4:8080                   20      100       80     8230    36214',
    '',
  ].join('\n');
  const rate = stats
    .replace('--stats', '--rate')
    .replace('  Conns   InPkts  OutPkts  InBytes OutBytes', '    CPS    InPPS   OutPPS    InBPS   OutBPS');
  const ways = (text: string) =>
    traceText(snapshotOfText(text)).traces.flatMap(({service, entries}) =>
      entries.map(({end, endpoints}) => [
        service.name,
        ...(end === null ? [] : [end.verdict]),
        ...endpoints.map(({hostPort, share, pick}) => `${hostPort} ${share} ${packetsText(pick ?? {})}`.trim()),
      ]),
    );

  test('of --stats have real servers and connections, and no shares: weights are not shown', () => {
    expect(ways(stats)).toEqual([['10.96.1.1', '10.244.11.4:8080 null 10 connections', '10.244.12.4:8080 null 20 connections']]);
  });

  test('of --rate have real servers alone', () => {
    expect(ways(rate)).toEqual([['10.96.1.1', '10.244.11.4:8080 null', '10.244.12.4:8080 null']]);
  });

  test.each([
    ['before', stats + list],
    ['behind', list + stats],
  ])('of a list with --stats %s it have both', (_, text) => {
    expect(ways(text)).toEqual([['10.96.1.1', '10.244.11.4:8080 0.5 10 connections', '10.244.12.4:8080 0.5 20 connections']]);
  });

  test('without real servers reject packets', () => {
    expect(ways(list.replace(/^ {2}-> 10.*\n/gm, ''))).toEqual([['10.96.1.1', 'rejected']]);
  });

  test('alone do not show the outcome of a packet', async () => {
    const question = {source: '10.244.11.9', destination: '10.96.1.1', port: '80'};
    for (const text of [list, stats, rate]) expect((await askText(text, [question])).map(answerText)).toEqual(['100.0% undecided']);
  });
});

describe('check of rules without API objects finds', () => {
  const rules = (...lines: readonly string[]) =>
    ['*nat', ':PREROUTING ACCEPT [0:0]', ':KUBE-SERVICES - [0:0]', '-A PREROUTING -j KUBE-SERVICES', ...lines, 'COMMIT', ''].join('\n');
  const entry =
    '-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-TCOU7JCQXEZGVUNU';
  const found = (text: string) =>
    diagnose(snapshotOfText(text), {toolVersion: '0.0.0'})
      .findings.filter(({code}) => code !== 'ST901')
      .map(({code, message}) => `${code} ${message}`);
  const endpoint = (chain: string, address: string) =>
    `-A ${chain} -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination ${address}`;
  const [first, second] = ['KUBE-SEP-5V2UTJDVBQ73MZHD', 'KUBE-SEP-6KKQPHGRLUODOJRX'];
  const pick = (probability: string, chain = first) =>
    `-A KUBE-SVC-TCOU7JCQXEZGVUNU -m comment --comment "shop/web:http" ${probability === '' ? '' : `-m statistic --mode random --probability ${probability} `}-j ${chain}`;

  test('nothing if all rules are correct', () => {
    expect(found(rules(':KUBE-SVC-TCOU7JCQXEZGVUNU - [0:0]', entry))).toEqual([]);
  });

  test('a jump to a missing chain, if the table is complete', () => {
    expect(found(rules(entry))).toEqual([expect.stringMatching(/KUBE-SERVICES jumps to KUBE-SVC-TCOU7JCQXEZGVUNU/)]);
    expect(found(rules('...', entry))).toEqual([]);
  });

  test('shares that do not add up', () => {
    const chains = [':KUBE-SVC-TCOU7JCQXEZGVUNU - [0:0]', `:${first} - [0:0]`, `:${second} - [0:0]`];
    const text = (probability: string) =>
      rules(...chains, entry, pick(probability), pick('', second), endpoint(first, '10.244.1.5:80'), endpoint(second, '10.244.1.6:80'));
    const uneven = (given: string) => found(given).filter(line => line.includes('shares'));
    expect(uneven(text('0.50000000000'))).toEqual([]);
    expect(uneven(text('0.20000000019'))).toEqual([expect.stringMatching(/rule 1 of 2 takes 20%.*kube-proxy writes 1\/2/)]);
    const marks = (given: string) =>
      traceText(snapshotOfText(text(given)), 'web').traces.flatMap(({entries}) =>
        entries.flatMap(({endpoints}) => endpoints.map(({mark, expectedShare}) => [mark, expectedShare])),
      );
    const half = ['wrong', expect.closeTo(0.5)];
    expect(marks('0.20000000019')).toEqual([half, half]);
    const drawn = tree(traceText(snapshotOfText(text('0.20000000019')), 'web'), {...plain, width: 200});
    expect(drawn).toMatch(/✗ {3}20% 10\.244\.1\.5:80 +should be 50% /);
    expect(drawn).not.toContain('not an endpoint');
    expect(marks('0.50000000000')).toEqual([
      ['shown', null],
      ['shown', null],
    ]);
  });

  test('a chain that no rule jumps to', () => {
    const text = rules(':KUBE-SVC-TCOU7JCQXEZGVUNU - [0:0]', `:${first} - [0:0]`, entry, endpoint(first, '10.244.1.5:80'));
    expect(found(text)).toContainEqual(expect.stringContaining(`no rule jumps to ${first}`));
    expect(found(text.replace('COMMIT', `${pick('')}\nCOMMIT`))).not.toContainEqual(expect.stringContaining('no rule jumps to'));
  });

  test('a chain whose name does not match its address', () => {
    const text = rules(':KUBE-SVC-TCOU7JCQXEZGVUNU - [0:0]', `:${first} - [0:0]`, entry, pick(''), endpoint(first, '10.244.1.5:80'));
    expect(found(text)).toEqual([expect.stringMatching(/^ST216 .*KUBE-SEP-5V2UTJDVBQ73MZHD leads to 10\.244\.1\.5:80/)]);
  });
});

describe('an entry of a Local policy, on a node without an endpoint', () => {
  const ends = (text: string) =>
    traceText(snapshotOfText(text)).traces.flatMap(({entries}) => entries.map(({endpoints, end}) => [endpoints.length, end?.verdict]));
  const service = ['-m comment --comment "Shop/web:http', '-m tcp --dport 30080'] as const;
  const to = (chain: string) => `-A KUBE-NODEPORTS -p tcp ${service[0]}" ${service[1]} -j ${chain}`;
  const svc = 'KUBE-SVC-TCOU7JCQXEZGVUNU';

  test('is dropped, whatever its chain does with packets of pods', () => {
    const own = svc.replace('SVC', 'EXT');
    const pods = `-A ${own} -s 10.244.0.0/16 ${service[0].replace('"', '"pod traffic for ')} external destinations" -j ${svc}`;
    const drop = `-A KUBE-EXTERNAL-SERVICES -p tcp ${service[0]} has no local endpoints" -m addrtype --dst-type LOCAL ${service[1]} -j DROP`;
    expect(ends([to(own), pods, drop, ''].join('\n'))).toEqual([[0, 'dropped']]);
    expect(ends([to(own), pods, ''].join('\n'))).toEqual([[0, 'undecided']]);
    const old = svc.replace('SVC', 'XLB');
    const none = `-A ${old} ${service[0]} has no local endpoints" -j KUBE-MARK-DROP`;
    const chain = [`-A ${old} -s 10.244.0.0/16 -j ${svc}`, none, ''].join('\n');
    expect(ends([to(old), chain].join('\n'))).toEqual([[0, 'dropped']]);
    expect(traceText(snapshotOfText(chain)).traces[0]?.entries[0]?.from).toBe('outside the cluster');
  });
});

describe('ipvsadm without -n', () => {
  const text = [
    'IP Virtual Server version 1.2.1 (size=4096)',
    'Prot LocalAddress:Port Scheduler Flags',
    '  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn',
    'TCP  10.96.1.1:80 rr',
    '  -> 10.244.11.4:8080             Masq    1      3          0',
    '  -> ip-10-244-12-4.internal:http Masq    1      0          0',
    'TCP  ip-10-0-62-121.ec2.internal: rr',
    '  -> 10.244.12.5:8080             Masq    1      0          0',
    '',
  ].join('\n');

  test('lists the virtual servers that have names, which are not read', () => {
    const {traces} = traceText(snapshotOfText(text));
    expect(traces.map(({service}) => service.name)).toEqual(['10.96.1.1', 'ip-10-0-62-121.ec2.internal:']);
    expect(traces[1]?.entries[0]).toMatchObject({
      endpoints: [],
      end: {verdict: 'undecided', reason: 'line 7 has no address that can be read; ipvsadm -Ln prints addresses'},
    });
  });

  test('shows no shares of a virtual server of which a real server has a name', () => {
    const [entry] = traceText(snapshotOfText(text), '10.96.1.1').traces.flatMap(({entries}) => entries);
    expect(entry?.endpoints.map(({hostPort, share}) => [hostPort, share])).toEqual([['10.244.11.4:8080', null]]);
    expect(entry?.end).toMatchObject({verdict: 'undecided', reason: expect.stringMatching(/^line 6 /)});
  });
});

test('rules in the log of kube-proxy are those that it gave to iptables-restore', () => {
  const prefix = 'Nov 14 11:06:11 node-a kube-proxy[12085]: ';
  const chain = 'KUBE-SVC-TCOU7JCQXEZGVUNU';
  const lines = [
    `-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j ${chain}`,
    `-A ${chain} -m comment --comment "shop/web:http -> 10.244.1.5:80" -j KUBE-SEP-5V2UTJDVBQ73MZHD`,
    '-A KUBE-SEP-5V2UTJDVBQ73MZHD -p tcp -m tcp -j DNAT --to-destination 10.244.1.5:80',
    '',
  ];
  const endpoints = (text: string) =>
    traceText(snapshotOfText(text), 'web').traces.flatMap(({entries}) => entries.flatMap(entry => entry.endpoints));
  expect(endpoints(lines.map(line => prefix + line).join('\n'))).toEqual(endpoints(lines.join('\n')));
  expect(endpoints(lines.join('\n')).map(({hostPort}) => hostPort)).toEqual(['10.244.1.5:80']);
});

const lastLine = (text: string) =>
  serviceList(traceText(snapshotOfText(text)), {color: false, width: Infinity, quiet: false, verbose: false, failOn: 'error'})
    .split('\n')
    .at(-1);

test('a PREROUTING of nat that is whole, and leads to no chain of kube-proxy, is said to lack the jump', () => {
  const row = 'PREROUTING_ZONES  all  --  0.0.0.0/0  0.0.0.0/0\n';
  const listed = `$ iptables -nL PREROUTING -t nat\nChain PREROUTING (policy ACCEPT)\ntarget     prot opt source               destination\n`;
  const none = 'These rules contain no Service of kube-proxy.';
  const lacks =
    /^These rules contain no Service of kube-proxy\. The text shows: PREROUTING of table nat does not lead to KUBE-SERVICES: in iptables and IPVS mode /;
  expect(lastLine(`${listed}${row}`)).toMatch(lacks);
  const saved = '*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\nCOMMIT\n';
  expect(lastLine(saved)).toMatch(lacks);
  for (const part of [
    `$ iptables-save | grep -v KUBE\n${saved}`,
    '-A PREROUTING -j DOCKER\n',
    saved.replaceAll('nat', 'mangle'),
    listed.replace(/^.*\n/, '') + row,
  ])
    expect(lastLine(part)).toBe(none);
});

test('tables of iptables-legacy-save are not taken for those of an iptables-save before it', () => {
  const own = '$ iptables-save\n*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n';
  const rule =
    '-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-TCOU7JCQXEZGVUNU';
  const nat = `*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-TCOU7JCQXEZGVUNU - [0:0]\n${rule}\nCOMMIT\n`;
  const legacy = own.replace('iptables-save\n', `iptables-legacy-save\n${nat}`);
  const {traces} = traceText(snapshotOfText(`${own}${legacy}`), 'web');
  expect(traces.map(({service}) => service.name)).toEqual(['web']);
});

test('the list of Services says of rules of iptables that nft printed what to paste instead', () => {
  const printed =
    'table ip nat {\n\tchain KUBE-SERVICES {\n\t\tip daddr 10.96.0.10 tcp dport 80 counter jump KUBE-SVC-TCOU7JCQXEZGVUNU\n\t}\n}\n';
  expect(lastLine(printed)).toMatch(/^These are kube-proxy's rules of iptables as nft prints them, .*: paste what iptables-save prints\.$/);
  expect(lastLine(printed.replace('KUBE-SERVICES', 'OTHER'))).toBe('These rules contain no Service of kube-proxy.');
});

describe('what only IPVS mode makes shows that mode, where no rule shows one', () => {
  const device = '6: kube-ipvs0: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN\n    inet 10.233.0.3/32 scope global kube-ipvs0\n';
  const servers =
    'IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\nTCP  10.233.0.1:443 rr\n  -> 172.31.35.21:6443            Masq    1      0          0\n';
  test.each([
    ['virtual servers', servers],
    ['virtual servers as saved', '-A -t 10.233.0.1:443 -s rr\n-a -t 10.233.0.1:443 -r 172.31.35.21:6443 -m -w 1\n'],
    ['virtual servers and kube-ipvs0', `${servers}\n${device}`],
  ])('%s', (_, text) => {
    const {findings, nodes} = diagnose(snapshotOfText(text), {toolVersion: '0.0.0'});
    expect([findings.map(({code}) => code), nodes.map(({proxyMode}) => proxyMode)]).toEqual([['ST901'], ['ipvs']]);
  });

  test('rules of iptables mode come before it', () => {
    const chain = 'KUBE-SVC-TCOU7JCQXEZGVUNU';
    const rules = `*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n:${chain} - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n-A KUBE-SERVICES -d 10.96.0.10/32 -p udp -m udp --dport 53 -j ${chain}\nCOMMIT\n`;
    expect(diagnose(snapshotOfText(rules + servers), {toolVersion: '0.0.0'}).nodes.map(({proxyMode}) => proxyMode)).toEqual(['iptables']);
  });
});

describe('the first line of check says what rules without API objects show', () => {
  const said = (...lines: readonly string[]) =>
    diagnose(snapshotOfText([...lines, ''].join('\n')), {toolVersion: '0.0.0'}).nodes[0]?.reason;
  const port = '-m tcp --dport 30100';
  const web = (why: string) => `-m comment --comment "shop/web:http${why}"`;

  test('a Service that refuses or drops connections, by its entry and why', () => {
    const none = ` has no endpoints" -m addrtype --dst-type LOCAL`;
    const refused = `-A KUBE-EXTERNAL-SERVICES -p tcp ${web('').slice(0, -1)}${none} ${port} -j REJECT --reject-with icmp-port-unreachable`;
    expect(said(refused)).toMatch(
      /^the Services were not read\. What was read shows: shop\/web:http \(node port 30100\) refuses connections: for kube-proxy it has no endpoint \(/,
    );
    const local = [
      `-A KUBE-NODEPORTS -p tcp ${web('')} ${port} -j KUBE-XLB-TCOU7JCQXEZGVUNU`,
      `-A KUBE-XLB-TCOU7JCQXEZGVUNU ${web(' has no local endpoints')} -j KUBE-MARK-DROP`,
    ];
    expect(said(...local)).toContain('shop/web:http (node port 30100) is dropped: for kube-proxy it has no endpoint on this node');
    // The reason before the names, of which there may be many.
    expect(said(refused, refused.replaceAll('web', 'api'))).toContain(
      'each of 2 Service ports refuses connections: for kube-proxy it has no endpoint: shop/api:http (node port 30100), shop/web:http (',
    );
    // Of many, the first line has the names alone, and is not cut.
    const long = ['api', 'a-service-with-quite-a-long-name', 'another-one-whose-name-is-as-long'].map(name =>
      refused.replaceAll('web', name),
    );
    expect(said(refused, ...long)).toMatch(
      /: each of 4 Service ports refuses .*: shop\/\S+:http, shop\/\S+:http(?:, shop\/\S+:http)? and [12] more/,
    );
    expect(said(refused, ...long)).not.toContain('node port');
  });

  const pods = '-A FORWARD -s 10.244.0.0/16 -j ACCEPT';

  test('rules that come after one that drops or refuses every packet', () => {
    expect(
      said('-A FORWARD -i lo -j ACCEPT', '-A FORWARD -m comment --comment "the rest" -j DROP', pods, pods.replace('-s', '-d')),
    ).toContain('-j DROP" (table filter) drops every packet that comes to it: 2 rules after it in FORWARD are never met');
    for (const other of ['-A FORWARD -i eth1 -j DROP', '-A FORWARD -m conntrack --ctstate INVALID -j DROP'])
      expect(said(other, pods)).not.toContain('never met');
    expect(said(pods, '-A FORWARD -j REJECT')).not.toContain('never met');
    expect(lastLine(`-A FORWARD -j REJECT\n${pods}\n`)).toMatch(/refuses every packet .* 1 rule after it in FORWARD is never met/);
  });

  test('a port that two host-port rules publish: the first gets its packets', () => {
    const rule = (to: string, ports = '80') =>
      `-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"pods\\" id: \\"${to}\\"" -m multiport --dports ${ports} -j CNI-DN-${to}`;
    const dnat = (to: string, at = '') => `-A CNI-DN-${to} ${at}-p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.1.5:80`;
    expect(said(rule('aa'), rule('bb'))).toContain(
      '2 rules of CNI-HOSTPORT-DNAT publish port 80/tcp: if it translates packets, CNI-DN-aa is the first and gets all of them, CNI-DN-bb none',
    );
    expect(said(rule('aa'), rule('bb'), dnat('aa'))).toContain('publish port 80/tcp: CNI-DN-aa is the first');
    expect(said(rule('aa'), rule('bb', '81'))).not.toContain('publish');
    // Pods with a hostIP share a port.
    expect(said(rule('aa'), rule('bb'), dnat('aa', '-d 192.0.2.7/32 '))).not.toContain('publish');
  });

  test('a KUBE-FIREWALL that drops every packet, or whose mark the dump does not show', () => {
    const rules =
      '*filter\n:INPUT ACCEPT [0:0]\n:KUBE-FIREWALL - [0:0]\n-A INPUT -j KUBE-FIREWALL\n-A KUBE-FIREWALL -m comment --comment "kubernetes firewall for dropping marked packets" -j DROP\nCOMMIT\n';
    const report = diagnose(snapshotOfText(rules), {toolVersion: '0.0.0'});
    expect(table(report, {...plain, width: Infinity})).toMatch(
      /: a rule of KUBE-FIREWALL drops every packet, or this dump does not show its mark \(ST506\)/,
    );
  });

  test('a rule to the destination 0.0.0.0', () => {
    const rule = '-A CNI-DN-aa -d 0.0.0.0/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.1.5:80';
    expect(said(rule, rule.replace('80 -j', '81 -j'))).toContain('translates nothing: no packet has the destination 0.0.0.0');
    expect(said(rule.replace('/32', '/0'), rule.replace('0.0.0.0/32', '192.0.2.7/32'))).not.toContain('translates nothing');
  });
});

describe('check of rules without API objects names the files to add', () => {
  const remedy = (text: string) =>
    diagnose(snapshotOfText(text), {toolVersion: '0.0.0'}).findings.find(({code}) => code === 'ST901')?.remedy;

  test.each([
    ['an nft dump', 'nft.json', 'table ip kube-proxy {\n\tchain services {\n\t}\n}\n'],
    ['virtual servers', 'ipvsadm-save', '-A -t 10.96.1.1:80 -s rr\n'],
    ['iptables', 'iptables-save', '*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n'],
    ['ip6tables', 'ip6tables-save', '# Generated by ip6tables-save v1.8.9\n*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n'],
  ])('%s goes into nodes/NAME/%s', (_, file, text) => {
    expect(remedy(text)).toMatch(new RegExp(`trace --from FILE .*packet --from FILE .*nodes/NAME/${file}\\.$`));
  });
});

test('names that were replaced before a text was pasted are names', () => {
  const rule =
    '-A KUBE-SERVICES -d 192.0.2.7/32 -p tcp -m comment --comment "<team>/my_app:http external IP" -m tcp --dport 80 -j KUBE-SVC-ACSYPHD3G44RMCBY\n';
  const [trace] = traceText(snapshotOfText(rule)).traces;
  expect(trace?.service).toEqual({namespace: '<team>', name: 'my_app'});
  expect(trace?.entries.map(({entry}) => entry.kind)).toEqual(['externalIP']);
});

describe('a rule of another program that translates packets to a cluster IP', () => {
  const taker = '-A PREROUTING -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.9.9.9:80';
  const hook = '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES';
  const textOf = (...hooks: readonly string[]): string =>
    [
      ...[
        '*nat',
        ':PREROUTING ACCEPT [0:0]',
        ':KUBE-SERVICES - [0:0]',
        ':KUBE-SVC-TCOU7JCQXEZGVUNU - [0:0]',
        ':KUBE-SEP-5V2UTJDVBQ73MZHD - [0:0]',
        ...hooks,
      ],
      '-A KUBE-SERVICES -d 10.96.1.1/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-TCOU7JCQXEZGVUNU',
      '-A KUBE-SVC-TCOU7JCQXEZGVUNU -m comment --comment "shop/web:http -> 10.244.11.4:8080" -j KUBE-SEP-5V2UTJDVBQ73MZHD',
      '-A KUBE-SEP-5V2UTJDVBQ73MZHD -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.11.4:8080',
      ...[
        '-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
        '-A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -j KUBE-SVC-TCOU7JCQXEZGVUNU',
      ],
      ...['COMMIT', ''],
    ].join('\n');
  const taken = (text: string) =>
    traceText(snapshotOfText(text), 'shop/web').findings.flatMap(({code, message}) => (code === 'ST401' ? message : []));

  test('before its chains are asked takes them: trace and check say so', () => {
    const text = textOf(taker, hook);
    expect(taken(text)).toEqual([
      "packets to its cluster IP 10.96.1.1:80 are sent to 10.9.9.9:80 by a rule that comes before kube-proxy's rules",
    ]);
    expect(said(text)).toBe(
      `packets to shop/web:http (10.96.1.1:80) are sent to 10.9.9.9:80, which is no endpoint of it, by a rule before kube-proxy's chains: "${taker}" (table nat)`,
    );
  });

  test.each([
    [
      'redirects them',
      [taker.replace(/DNAT .*/, 'REDIRECT --to-ports 8443'), hook],
      'cluster IP 10.96.1.1:80 are sent to port 8443 of the node itself',
    ],
    [
      'is in a chain of its own',
      ['-A PREROUTING -d 10.96.0.0/12 -j MESH', taker.replace('PREROUTING', 'MESH'), hook],
      'cluster IP 10.96.1.1:80 are sent to 10.9.9.9:80',
    ],
    ['accepts them', ['-A PREROUTING -d 10.96.0.0/12 -j ACCEPT', hook], 'cluster IP 10.96.1.1:80 are translated to no endpoint'],
    [
      'is for the node itself',
      [taker.replace('PREROUTING', 'OUTPUT'), hook.replace('PREROUTING', 'OUTPUT')],
      'cluster IP 10.96.1.1:80 are sent to 10.9.9.9:80',
    ],
    [
      'is for the node port',
      [
        '-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER',
        '-A DOCKER ! -i docker0 -p tcp -m tcp --dport 30080 -j DNAT --to-destination 172.17.0.2:80',
        hook,
      ],
      'node port 30080 are sent to 172.17.0.2:80',
    ],
  ])('that %s is met on the path of the packet', (_, hooks, what) => {
    expect(taken(textOf(...hooks))).toEqual([`packets to its ${what} by a rule that comes before kube-proxy's rules`]);
  });

  test('for some clients alone is said to be for them', () => {
    expect(taken(textOf(taker.replace('-d', '-s 10.244.0.0/16 -d'), hook))).toEqual([
      "packets from 10.244.0.0/16 to its cluster IP 10.96.1.1:80 are sent to 10.9.9.9:80 by a rule that comes before kube-proxy's rules",
    ]);
    expect(taken(textOf(taker.replace('-d', '-s 192.0.2.0/24 -d'), hook))).toEqual([]);
  });

  test('is found in another table of nftables that is asked before', () => {
    const nft = (priority: string, rule: string) =>
      `${textOf(hook)}table ip mesh {\n\tchain pre {\n\t\ttype nat hook prerouting priority ${priority}; policy accept;\n\t\t${rule}\n\t}\n}\n`;
    const rule = 'ip daddr 10.96.1.1 tcp dport 80 dnat to 10.9.9.9:80';
    expect(taken(nft('-110', rule))).toEqual([
      "packets to its cluster IP 10.96.1.1:80 are sent to 10.9.9.9:80 by a rule that comes before kube-proxy's rules",
    ]);
    for (const other of [nft('-100', rule), nft('-90', rule), nft('-110', rule.replace('80 dnat', '443 dnat'))])
      expect(taken(other)).toEqual([]);
  });

  test.each([
    ['comes after the jump to its chains', textOf(hook, taker)],
    ['sends them to its own endpoint', textOf(taker.replace('10.9.9.9:80', '10.244.11.4:8080'), hook)],
    ['is for another port', textOf(taker.replace('--dport 80', '--dport 443'), hook)],
    ['is for another address', textOf(taker.replace('10.96.1.1/32', '10.96.1.7/32'), hook)],
    ['has a condition that the text does not decide', textOf(taker.replace('-m tcp', '-m mark --mark 0x1 -m tcp'), hook)],
    ['is one of a text without the jump', textOf(taker)],
    ['is for those of one interface', textOf(taker.replace('-d', '-i eth1 -d'), hook)],
    [
      'is asked by a part of the packets alone',
      textOf(taker.replace('-m tcp', '-m statistic --mode random --probability 0.5 -m tcp'), hook),
    ],
    [
      'is for addresses of the node',
      textOf('-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER', taker.replace('PREROUTING', 'DOCKER'), hook),
    ],
  ])('that %s takes none for certain', (_, text) => {
    expect(taken(text)).toEqual([]);
  });
});
