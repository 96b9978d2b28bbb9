/** What is said of a packet where a text shows some of the rules that decide about it. */
import {describe, expect, test} from 'vitest';
import {diagnose} from '../../src/diagnose.ts';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';
import {askNodes, type PacketFlags} from '../../src/run/packet/packet-flags.ts';
import {snapshotOfText} from './trace-text.ts';

const columns = 'target     prot opt source               destination';
const wide = ` pkts bytes target     prot opt in     out     source               destination`;

type Asked = Pick<PacketFlags, 'source' | 'destination'> & Partial<PacketFlags>;

/** The verdict and what is said about it, of the only outcome. */
function answer(text: string, asked: Partial<Asked> = {}): string {
  const question = {source: '10.7.1.5', destination: '10.7.2.9', port: '80', 'in-interface': 'eth0', ...asked};
  const outcomes = askNodes(question, snapshotOfText(text)).flatMap(({outcomes: all}) => all);
  expect(outcomes).toHaveLength(1);
  return outcomes
    .map(({verdict, rewrittenTo, reason}) => `${verdict}${rewrittenTo === undefined ? '' : ` (${rewrittenTo})`}: ${reason}`)
    .join();
}

const forward = (policy: string, ...rows: readonly string[]) => [`Chain FORWARD (policy ${policy})`, wide, ...rows, ''].join('\n');
const jump = (chain: string) => `    1    60 ${chain}  all  --  *      *       0.0.0.0/0            0.0.0.0/0`;

describe('a listing without its command', () => {
  const own = (rule: string) => ['Chain OWN (1 references)', wide, rule, ''].join('\n');

  test('has whole chains: what they do to the packet is known', () => {
    const marked = own('    0     0 ACCEPT  all  --  *  *  0.0.0.0/0  0.0.0.0/0  mark match 0x4000/0x4000');
    const text = `${forward('ACCEPT', jump('OWN'), jump('REJECT'))}\n${marked}`;
    expect(answer(text)).toMatch(
      /^reject: by this rule of filter\/FORWARD: .*; this text does not show table nat, where a rule could mark/,
    );
  });

  test('does not show the end of a chain whose last row is no row', () => {
    expect(answer(`${forward('DROP', jump('OWN'))}\n${own('    0     0 ACC')}`)).toMatch(
      /^undecided: dropped by the policy of filter\/FORWARD, unless filter\/OWN, which this text does not show, accepts or refuses it before/,
    );
  });

  test.each(['DOCKER-USER', 'DOCKER', 'KUBE-FORWARD'])('names the chain %s that it jumps to and does not show', chain => {
    expect(answer(forward('DROP', jump(chain)))).toMatch(
      new RegExp(
        `^undecided: dropped by the policy of filter/FORWARD, unless filter/${chain}, which this text does not show, accepts or refuses it`,
      ),
    );
  });

  test('names a chain that it does not show also where a row may name an interface', () => {
    const text = ['Chain FORWARD (policy DROP)', columns, 'DOCKER-USER  all  --  anywhere             anywhere', ''].join('\n');
    expect(answer(text)).toMatch(
      /^undecided: dropped by the policy of filter\/FORWARD, unless filter\/DOCKER-USER, which this text does not show/,
    );
  });

  test('that grep left without its headings shows entries of Services, whose chains they tell', () => {
    const own = {destination: '10.7.2.9', port: '30080', 'local-address': ['10.7.2.9']};
    const row = (target: string, to: string, more: string) =>
      `${target}  tcp  --  0.0.0.0/0            ${to}            /* shop/web:http${more}\n`;
    const entry = row('KUBE-SVC-TCOU7JCQXEZGVUNU', '0.0.0.0/0', ' */ tcp dpt:30080');
    expect(answer(`$ iptables -t nat -nL | grep 30080\n${entry}`, own)).toMatch(
      /^undecided: .*nat\/KUBE-SVC-TCOU7JCQXEZGVUNU, filter\/INPUT/,
    );
    const none = row('REJECT', '10.96.0.9', ' has no endpoints */ tcp dpt:80 reject-with icmp-port-unreachable');
    expect(answer(none, {destination: '10.96.0.9'})).toBe('reject: kube-proxy writes this for a Service port without endpoints');
  });

  test('may have an arrow that points to a row', () => {
    expect(answer(forward('ACCEPT', `${jump('DROP')}    <-----------`))).toMatch(
      /^drop: by this rule of filter\/FORWARD: -A FORWARD -j DROP;/,
    );
  });

  test('of IPVS mode has rules without a port, which sets have', () => {
    const row = 'KUBE-NODE-PORT  tcp  --  0.0.0.0/0  0.0.0.0/0  tcp match-set KUBE-NODE-PORT-TCP dst';
    expect(answer(['Chain KUBE-SERVICES (2 references)', columns, row, ''].join('\n'))).not.toContain('older than');
  });

  test('of FORWARD alone says that the destination is taken as no address of the node', () => {
    expect(answer(forward('DROP'))).toMatch(/^drop: by the policy of filter\/FORWARD; .*10\.7\.2\.9 is taken as no address of the node/);
    expect(answer(forward('DROP').replace('FORWARD', 'INPUT'))).toMatch(/10\.7\.2\.9 is taken as an address of the node/);
  });

  test('of a policy that accepts never says that the packet is accepted', () => {
    expect(answer(forward('ACCEPT'))).toMatch(/^undecided: this text shows no rule of kube-proxy; this text does not show table nat/);
  });
});

test('a dump of iptables mode, which lacks the chains of IPVS mode, leaves nothing to virtual servers', () => {
  const text = ['*nat', ':OUTPUT ACCEPT [0:0]', ':KUBE-SERVICES - [0:0]', '-A OUTPUT -j KUBE-SERVICES', 'COMMIT'];
  const dump = ['# Generated by iptables-save v1.8.9', ...text, '*filter', ':OUTPUT ACCEPT [0:0]', 'COMMIT', '# Completed', ''].join('\n');
  const own = {source: '172.18.0.11', 'local-address': ['172.18.0.11'], 'in-interface': undefined};
  expect(answer(dump, own)).toBe('accept: undefined');
});

describe('a chain that no rule of the text calls', () => {
  test('is walked as if it were called', () => {
    const text = ['Chain MINE (1 references)', wide, `    0     0 DROP  all  --  *  *  0.0.0.0/0  10.7.2.9`, ''].join('\n');
    expect(answer(text)).toContain(
      'where filter/MINE is called is not shown; if it is called, the packet is dropped; this text does not show',
    );
    expect(answer(text, {destination: '10.7.2.8'})).toMatch(/and no rule that it shows matches the packet$/);
  });

  test('so is one of a Local policy without an endpoint in old versions, which is about packets of its Service alone', () => {
    const chain = '-A KUBE-XLB-6RPBZ2LR3IESYB7Z -m comment --comment "shop/web:http has no local endpoints" -j KUBE-MARK-DROP';
    expect(answer(`*nat\n${chain}\n`, {destination: '9.9.9.9', port: '443'})).toMatch(
      /^undecided: where nat\/KUBE-XLB-6RPBZ2LR3IESYB7Z is called is not shown; if it is called, the packet is dropped/,
    );
  });

  test('may name an interface, which a listing without -v does not show', () => {
    const text = ['Chain MINE (1 references)', columns, 'DROP       all  --  0.0.0.0/0            10.7.2.9', ''].join('\n');
    expect(answer(text)).toContain('the packet is dropped, unless a rule there names an interface');
  });

  test('of IPVS mode depends on a set that is not shown', () => {
    const rule = 'REJECT  all  --  0.0.0.0/0  0.0.0.0/0  ctstate NEW match-set KUBE-IPVS-IPS dst reject-with icmp-port-unreachable';
    expect(answer(['Chain KUBE-IPVS-FILTER (1 references)', columns, rule, ''].join('\n'))).toContain(
      'if it is called, the packet is refused if KUBE-IPVS-IPS, which the text does not show, has 10.7.2.9, and no rule that kube-proxy writes before it',
    );
  });
});

describe('a whole table nat without kube-proxy', () => {
  const nat = [
    ...['$ iptables -t nat -nvL', 'Chain PREROUTING (policy ACCEPT)', wide, jump('HOSTPORTS')],
    ...[
      '',
      'Chain INPUT (policy ACCEPT)',
      wide,
      '',
      'Chain OUTPUT (policy ACCEPT)',
      wide,
      '',
      'Chain POSTROUTING (policy ACCEPT)',
      wide,
      '',
    ],
    ...['Chain HOSTPORTS (1 references)', wide, '    0     0 DNAT  tcp  --  *  *  0.0.0.0/0  0.0.0.0/0  tcp dpt:80 to:10.7.3.3:8080', ''],
  ].join('\n');

  test('is what it is: no rule of kube-proxy is assumed before its own', () => {
    expect(answer(nat, {'local-address': ['10.7.2.9']})).toMatch(
      /^undecided \(10\.7\.3\.3:8080\): table nat is shown whole, and kube-proxy has no rule in it; this text does not show filter\/FORWARD$/,
    );
  });
});

test('a Service port without endpoints is refused by the rule that kube-proxy writes for it, whatever else is not shown', () => {
  const rule =
    '-A KUBE-SERVICES -d 10.96.0.9/32 -p tcp -m comment --comment "shop/empty:http has no endpoints" -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable\n';
  expect(answer(rule, {destination: '10.96.0.9'})).toBe('reject: kube-proxy writes this for a Service port without endpoints');
});

const noneHere = 'kube-proxy writes this for a Local traffic policy without an endpoint on this node';

/** The map of Service ports without endpoints, and the lines of other objects. */
function noEndpoints(verdict: string, others: readonly string[] = []): string {
  return [
    'table ip kube-proxy {',
    '\tmap no-endpoint-services {',
    '\t\ttype ipv4_addr . inet_proto . inet_service : verdict',
    `\t\telements = { 10.96.1.1 . tcp . 80 comment "shop/web:http" : ${verdict} }`,
    '\t}',
    ...others,
    '}',
    '',
  ].join('\n');
}

describe('nftables', () => {
  const check = ['\tchain service-endpoints-check {', '\t\tip daddr . meta l4proto . th dport vmap @no-endpoint-services', '\t}'];
  const map = (verdict: string): string => noEndpoints(verdict, check);

  test('of a Service port in the map of those without endpoints drop its packets, though base chains are not shown', () => {
    expect(answer(map('drop'), {destination: '10.96.1.1'})).toBe(`drop: ${noneHere}`);
    expect(answer(map('drop'), {destination: '10.96.1.2'})).toMatch(
      /^undecided: this text does not show chain filter-input of table ip kube-proxy/,
    );
  });

  test('of another program drop a packet whatever the table of kube-proxy accepts, which may only send it elsewhere', () => {
    const chain = (hook: string, rule = '') => `chain ${hook} {\n type filter hook ${hook} priority filter; policy drop;\n ${rule}\n}`;
    const rules = (rule: string) => `table inet own {\n${chain('input')}\n${chain('forward', rule)}\n}\n`;
    expect(answer(rules('ip saddr 10.9.0.0/16 accept'))).toMatch(
      /^drop: by the policy of inet own\/forward; this text does not show the table of kube-proxy, where a rule could mark/,
    );
    expect(answer(rules('ip daddr 10.9.0.0/16 accept'))).toMatch(
      /^undecided: dropped by the policy of inet own\/forward, unless the table of kube-proxy, which this text does not show, changes its destination/,
    );
  });

  test('of another program alone do not accept a packet: the table of kube-proxy is not there', () => {
    const text = 'table inet firewall {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n\t}\n}\n';
    expect(answer(text)).toMatch(/^undecided: this text shows no table of kube-proxy; this text does not show the table of kube-proxy/);
  });
});

test('a map of kube-proxy that no shown rule asks is asked as kube-proxy does', () => {
  expect(answer(noEndpoints('drop'), {destination: '10.96.1.1'})).toBe(`drop: ${noneHere}`);
  expect(answer(noEndpoints('goto reject-chain'), {destination: 'web'})).toBe(
    'reject: kube-proxy writes this for a Service port without endpoints',
  );
  expect(answer(noEndpoints('drop'), {destination: '10.96.1.2'})).toMatch(/^undecided: .*no rule that it shows matches the packet$/);
});

describe('a packet that INPUT stops, while what sends packets on to pods is not shown', () => {
  const chain = (hook: string, policy: string) =>
    `chain ${hook} {\n type filter hook ${hook} priority filter; policy ${policy};\n tcp dport 22 accept\n}\n`;
  const own = {'local-address': ['10.7.2.9']};

  test('may still get to a pod where FORWARD lets it pass', () => {
    const text = ['*filter', ':INPUT DROP [0:0]', ':FORWARD ACCEPT [0:0]', ':OUTPUT ACCEPT [0:0]', 'COMMIT', ''].join('\n');
    expect(answer(text, own)).toMatch(/^undecided: dropped by the policy of filter\/INPUT, unless table nat, .* changes its destination/);
    expect(answer(`table inet own {\n${chain('input', 'drop')}}\n`, own)).toMatch(
      /^undecided: dropped by the policy of inet own\/input, unless the table of kube-proxy, .* changes its destination/,
    );
  });

  test('is dropped where FORWARD drops it as well', () => {
    const forward = chain('forward', 'drop').replace(' tcp dport 22 accept\n', '');
    expect(answer(`table inet own {\n${chain('input', 'drop')}${forward}}\n`, own)).toMatch(
      /^drop: by the policy of inet own\/input; .*to a pod it is stopped as well, by the policy of inet own\/forward/,
    );
  });
});

describe('a list of virtual servers', () => {
  const list = (...rows: readonly string[]) =>
    ['IP Virtual Server version 1.2.1 (size=4096)', 'Prot LocalAddress:Port Scheduler Flags', ...rows, ''].join('\n');
  const server = (weight: number) =>
    list('TCP  10.96.0.10:80 rr', `  -> 10.244.0.2:8080              Masq    ${weight}      0          0         `);

  test('refuses packets to a virtual server whose real servers have the weight 0, or that has none', () => {
    expect(answer(server(0), {destination: '10.96.0.10'})).toBe(
      'reject: every real server of TCP 10.96.0.10:80 has the weight 0 and takes no new connection (10.244.0.2:8080)',
    );
    expect(answer(list('TCP  10.96.0.10:80 rr'), {destination: '10.96.0.10'})).toBe(
      'reject: the virtual server TCP 10.96.0.10:80 has no real server',
    );
  });

  test('sends packets to a real server unless rules that are not shown decide otherwise', () => {
    expect(answer(server(1), {destination: '10.96.0.10'})).toBe(
      'undecided (10.244.0.2:8080): this text does not show that kube-ipvs0 has 10.96.0.10, table nat, filter/INPUT',
    );
  });

  test('says which virtual server it does not have', () => {
    expect(answer(server(1), {destination: '10.96.0.11'})).toContain(
      'none of the virtual servers that this text shows is TCP 10.96.0.11:80',
    );
    const part = `$ ipvsadm -Ln | grep 10.96.0.10\n${server(1)}`;
    expect(answer(part, {destination: '10.96.0.11'})).toContain('only in part, and none of them is TCP 10.96.0.11:80');
  });

  test('that may lack some says what it shows of the one that is asked for', () => {
    const heading = ['Prot LocalAddress:Port Scheduler Flags', '  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn'];
    const command = '$ ipvsadm -Ln -t 10.96.0.10:80';
    const one = (...rows: readonly string[]) => [...heading, 'TCP  10.96.0.10:80 rr', ...rows, ''].join('\n');
    const real = '  -> 10.244.0.2:8080              Masq    1      0          0         ';
    const asked = {destination: '10.96.0.10'};
    expect(answer(`${command}\n${one()}`, asked)).toContain('is shown without real servers: if it has none, IPVS refuses the packet');
    expect(answer(`${command}\n${one(real)}`, asked)).toContain(
      'sends packets to 10.244.0.2:8080, and to real servers that the text may lack',
    );
    expect(answer(`${command}\n${one(real.replace('Masq    1', 'Masq    0'))}`, asked)).toContain('has the weight 0 and takes no new');
    expect(answer(`${command}\n${one(real)}\n${one()}`, asked)).toContain('has other real servers on line 9 than on line 4');
    const device = '4: kube-ipvs0: <BROADCAST,NOARP> mtu 1500\n    inet 10.96.0.1/32 scope global kube-ipvs0\n';
    expect(answer(`${command}\n${one(real)}${device}`, asked)).toContain(
      'another interface than kube-ipvs0, which lacks it, has 10.96.0.10',
    );
    const named = list('TCP  ip-10-96-0-10.internal:ht rr', '  -> ip-10-244-0-2.internal Masq    1      0          0');
    expect(answer(named, asked)).toMatch(/^undecided: this text lists names in place of addresses, as on line 3/);
  });
});

describe('rules of a kube-proxy before 1.20', () => {
  const refusal = (name: string, match: string) =>
    `-A KUBE-SERVICES ${match}-p tcp -m comment --comment "${name} has no endpoints" -m addrtype --dst-type LOCAL -m tcp --dport 30080 -j REJECT --reject-with icmp-port-unreachable\n`;
  const asked = {destination: '10.7.2.9', port: '30080', 'local-address': ['10.7.2.9']};

  test('are called as that version calls them', () => {
    expect(answer(refusal('shop/web:http', ''), asked)).toBe('reject: kube-proxy writes this for a Service port without endpoints');
  });

  test('refuse a node port unless a chain of its Service that is not shown sends it to an endpoint', () => {
    const jump = '-A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -j KUBE-SVC-GQKCP75KCV7PRX6J\n';
    expect(answer(refusal('shop/web:http', '') + jump, asked)).toMatch(
      /^undecided: refused, .* unless nat\/KUBE-SVC-GQKCP75KCV7PRX6J, which this text does not show, sends it to an endpoint$/,
    );
  });
});

test('programs that take the same packet are all named', () => {
  const rules = [
    '-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT',
    '-A PREROUTING -j KUBE-SERVICES',
    '-A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.42.0.7:80',
    '-A KUBE-SERVICES -d 10.7.2.9/32 -p tcp -m tcp --dport 80 -j KUBE-FW-AAAAAAAAAAAAAAAA\n',
  ].join('\n');
  expect(answer(rules)).toContain(
    'CNI-HOSTPORT-DNAT (line 1, if the node has 10.7.2.9): sent to 10.42.0.7:80; KUBE-SERVICES (line 2): sent on to KUBE-FW-AAAAAAAAAAAAAAAA, which the text does not show',
  );
  expect(answer(rules.replace('-d 10.7.2.9/32', '-d 10.7.2.8/32'))).not.toContain('in this order');
});

test('of a program whose chain is not shown, its place before kube-proxy is said', () => {
  const rows = ['CNI-HOSTPORT-DNAT', 'KUBE-SERVICES'].map(jump);
  expect(answer(['Chain PREROUTING (policy ACCEPT)', wide, ...rows, ''].join('\n'))).toContain(
    '2 programs are asked in this order, and the first that translates the packet wins: CNI-HOSTPORT-DNAT (line 3): its rules are not shown; KUBE',
  );
});

test('a chain that no rule calls stops a packet only if no chain that it jumps to before, and that is not shown, takes it', () => {
  const rows = ['KUBE-SVC-AAAAAAAAAAAAAAAA', 'DROP'].map(jump);
  expect(answer(['Chain MINE (1 references)', wide, ...rows, ''].join('\n'))).toContain(
    'the packet is dropped, unless KUBE-SVC-AAAAAAAAAAAAAAAA, which the text does not show, takes it before',
  );
});

test('the answer names the line that decides, and no line that only masquerades', () => {
  const chains = ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'].map(name => `:${name} ACCEPT [0:0]`);
  const asked = {source: '10.7.1.5', destination: '10.7.2.9', port: '80', 'in-interface': 'eth0'};
  const condition = (rule: string) =>
    askNodes(asked, snapshotOfText(['*nat', ...chains, rule, 'COMMIT', ''].join('\n'))).map(({outcomes: [first]}) => first?.condition);
  expect(condition('-A PREROUTING -m set --match-set MINE dst -j DNAT --to-destination 10.7.3.3:80')).toEqual([
    'line 6 decides, whose match cannot be told',
  ]);
  expect(condition('-A POSTROUTING ! -o docker0 -j MASQUERADE')).toEqual([undefined]);
});

test('a chain of nftables that leads to one that is not shown says so', () => {
  const chain = (name: string, rule: string) => `chain ${name} {\n    ${rule}\n}\n`;
  const pick = 'numgen random mod 2 vmap { 0 : goto endpoint-A, 1 : goto endpoint-B }';
  expect(answer(chain('service-A', pick) + chain('endpoint-A', 'meta l4proto tcp dnat to 10.244.1.7:8080'))).toContain(
    'the packet is sent to 10.244.1.7:8080, or sent on to endpoint-B, which the text does not show',
  );
});

describe('what ipset list prints', () => {
  const set = (count: number) =>
    `Name: KUBE-IPVS-IPS\nType: hash:ip\nHeader: family inet\nNumber of entries: ${count}\nMembers:\n10.7.2.9\n10.7.2.8\n`;
  const row = (words: string) => `    0     0 ${words}`;
  const chain = [
    ...['Chain KUBE-IPVS-FILTER (1 references)', wide],
    row('RETURN  all  --  *  *  0.0.0.0/0  0.0.0.0/0  match-set KUBE-CLUSTER-IP dst,dst'),
    row('REJECT  all  --  *  *  0.0.0.0/0  0.0.0.0/0  ctstate NEW match-set KUBE-IPVS-IPS dst reject-with icmp-port-unreachable'),
    '\n',
  ].join('\n');

  test('is what the sets have, and one that it leaves out stays unknown', () => {
    expect(answer(chain + set(2))).toContain('refused, unless KUBE-CLUSTER-IP, which the text does not show, has 10.7.2.9');
    expect(answer(chain + set(2), {destination: '10.7.2.7'})).toContain('no rule that it shows matches the packet');
  });

  test('is left out where it has fewer members than it says, or leaves some out', () => {
    expect(answer(`${chain + set(2).replace(/Number.*\n/, '')}...`)).toContain('refused if KUBE-IPVS-IPS, which');
    expect(answer(chain + set(3))).toContain('refused if KUBE-IPVS-IPS, which the text does not show, has 10.7.2.9');
  });
});

test('a virtual server whose address kube-ipvs0 lacks gets no packet', () => {
  const servers = ['Prot LocalAddress:Port Scheduler Flags', '  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn'];
  const real = '  -> 10.244.0.2:8080              Masq    1      0          0         ';
  const device = ['6: kube-ipvs0: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN', '    inet 10.96.0.1/32 scope global kube-ipvs0', ''];
  const text = [...servers, 'TCP  10.96.0.10:80 rr', real, '', ...device].join('\n');
  expect(answer(text, {destination: '10.96.0.10'})).toContain(
    'not show that another interface than kube-ipvs0, which lacks it, has 10.96.0.10',
  );
  expect(answer(text.replace('10.96.0.1/', '10.96.0.10/'), {destination: '10.96.0.10'})).not.toContain('kube-ipvs0');
});

test('a chain that no rule calls, and that only jumps to chains that are not shown, leads to these', () => {
  const row = (chain: string) => `-A CNI-HOSTPORT-DNAT -p tcp -m multiport --dports 80 -j ${chain}\n`;
  expect(answer(row('CNI-DN-old') + row('CNI-DN-new'))).toContain(
    'is sent on to CNI-DN-old and then to CNI-DN-new, which the text does not show',
  );
});

test('what becomes of a packet if the row that accepts it names another interface is said', () => {
  const text = ['Chain INPUT (policy DROP)', columns, 'ACCEPT     all  --  0.0.0.0/0            0.0.0.0/0', ''].join('\n');
  expect(answer(text, {'local-address': ['10.7.2.9']})).toContain(
    '(dropped by the policy of filter/INPUT if line 3 names another interface)',
  );
});

test('a table nat of IPVS mode without virtual servers leaves the answer to these', () => {
  const chains = ['PREROUTING', 'OUTPUT', 'POSTROUTING'].map(name => `:${name} ACCEPT [0:0]`);
  const taken = '-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT';
  const rules = [...chains, ':KUBE-SERVICES - [0:0]', ':KUBE-LOAD-BALANCER - [0:0]', '-A PREROUTING -j KUBE-SERVICES', taken];
  expect(answer(['*nat', ...rules, 'COMMIT', ''].join('\n'))).toMatch(
    /^undecided: .*IPVS mode, and the virtual servers of the node were not read/,
  );
});

test('chains of IPVS mode that are empty say that nothing is masqueraded, and not that no Service is served', () => {
  const bases = ['PREROUTING', 'OUTPUT', 'POSTROUTING'].map(name => `:${name} ACCEPT [0:0]`);
  const own = ['SERVICES', 'POSTROUTING', 'LOAD-BALANCER', 'NODE-PORT'].map(name => `:KUBE-${name} - [0:0]`);
  const jumps = ['-A PREROUTING -j KUBE-SERVICES', '-A POSTROUTING -j KUBE-POSTROUTING'];
  const text = ['*nat', ...bases, ...own, ...jumps, 'COMMIT', '*filter', ':FORWARD ACCEPT [0:0]', 'COMMIT', ''].join('\n');
  expect(answer(text)).toMatch(/IPVS mode.*KUBE-POSTROUTING of table nat is empty/);
  const [found, ...others] = diagnose(snapshotOfText(text), {toolVersion: '0.0.0'}).findings;
  expect(others).toEqual([]);
  expect(found?.message).toMatch(/its virtual servers were not read .*nothing masquerades/);
});

test('a chain is in the table of the chains that jump to it, along several jumps', () => {
  const rules = ['-A FORWARD -o weave -j NPC', '-A NPC -m state --state NEW -j NPC-DEFAULT', '-A NPC-DEFAULT -d 10.9.0.0/16 -j ACCEPT'];
  const [ruleset] = parseDumps(`${rules.join('\n')}\n`);
  expect([...(ruleset?.tables.keys() ?? [])]).toEqual(['filter']);
});

test('a whole table nat whose KUBE-SERVICES is empty serves no Service', () => {
  const rules = ['*nat', ':PREROUTING ACCEPT [0:0]', ':OUTPUT ACCEPT [0:0]', ':POSTROUTING ACCEPT [0:0]', ':KUBE-SERVICES - [0:0]'];
  const text = [...rules, '-A PREROUTING -j KUBE-SERVICES', 'COMMIT', ''].join('\n');
  expect(answer(text)).toMatch(/^undecided: table nat is shown whole, and its KUBE-SERVICES is empty: it serves no Service; /);
});

describe('a Service in a text', () => {
  const entry =
    '-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-TCOU7JCQXEZGVUNU\n';

  test('is found by its name, with the port that the text shows', () => {
    const [found] = askNodes({source: '10.7.1.5', destination: 'shop/web', port: 'http'}, snapshotOfText(entry));
    expect(found?.query).toMatchObject({destination: '10.96.0.10', port: 80, protocol: 'TCP'});
    expect(() => askNodes({source: '10.7.1.5', destination: 'shop/other'}, snapshotOfText(entry))).toThrow('is not in these rules');
    expect(() => askNodes({source: '10.7.1.5', destination: '10.0.0.300', port: '80'}, snapshotOfText(entry))).toThrow(
      'is not an IP address',
    );
  });

  test('without an address in the text is asked for one', () => {
    const nodePort = '-A KUBE-NODEPORTS -p tcp -m comment --comment "shop/web:http" -m tcp --dport 30080 -j KUBE-SVC-TCOU7JCQXEZGVUNU\n';
    expect(() => askNodes({source: '10.7.1.5', destination: 'shop/web'}, snapshotOfText(nodePort))).toThrow('shows no address of shop/web');
  });

  test('does not answer ping by its cluster IP, by design', () => {
    expect(answer(entry, {destination: 'shop/web', protocol: 'icmp'})).toMatch(
      /^undecided: a cluster IP does not answer ping, by design; /,
    );
  });
});

test('chains and maps of nft without the line of their table are those of kube-proxy by their names', () => {
  const text = [
    '\tmap no-endpoint-services {',
    '\t\ttype ipv4_addr . inet_proto . inet_service : verdict',
    '\t\telements = { 10.96.1.1 . tcp . 80 comment "shop/web:http" : goto reject-chain }',
    '\t}',
    '\tchain reject-chain {\n\t\treject\n\t}',
    '\tchain service-endpoints-check {',
    '\t\tip daddr . meta l4proto . th dport vmap @no-endpoint-services',
    '\t}',
    '',
  ].join('\n');
  expect(answer(text, {destination: 'web'})).toBe('reject: kube-proxy writes this for a Service port without endpoints');
  expect(answer('chain other {\n\tip daddr 10.7.2.9 drop\n}\n')).toContain('if it is called, the packet is dropped');
});

test('a DNAT whose destination an old iptables does not print leads nowhere', () => {
  const row = 'DNAT       tcp  --  0.0.0.0/0            0.0.0.0/0            tcp DNAT [unsupported revision]';
  const text = ['Chain KUBE-SEP-6KKQPHGRLUODOJRX (1 references)', columns, row, ''].join('\n');
  expect(answer(text)).toContain('undetermined (a DNAT is printed without its destination)');
});

test('a REDIRECT leads to a port of the node, whatever address it has', () => {
  const chains = ['-P PREROUTING ACCEPT', '-P INPUT ACCEPT', '-P OUTPUT ACCEPT', '-P POSTROUTING ACCEPT'];
  const conditions = (rule: string) =>
    askNodes(
      {source: '10.7.1.5', destination: '10.7.2.9', port: '80', 'in-interface': 'eth0'},
      snapshotOfText(['# iptables -t nat -S', ...chains, rule, ''].join('\n')),
    ).flatMap(({outcomes}) => outcomes.map(({verdict, condition}) => [verdict, condition]));
  const redirect = '-A PREROUTING -d 10.7.2.9/32 -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 41637';
  expect(conditions(redirect)).toEqual([['undecided', 'sent to port 41637 of the node itself']]);
  expect(conditions(redirect.replace('-p tcp', '-p tcp -m set --match-set own src'))).not.toEqual([
    ['undecided', 'sent to port 41637 of the node itself'],
  ]);
});

test('a table with chains of kube-proxy and no base chain was put together from a part, and they are walked', () => {
  const rules = [
    ...['*nat', ':KUBE-SERVICES - [0:0]', ':KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]'],
    '-A KUBE-SERVICES -d 10.96.9.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SEP-AAAAAAAAAAAAAAAA',
    '-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.9.9:8080',
    'COMMIT\n',
  ].join('\n');
  expect(answer(rules, {destination: '10.96.9.9'})).toMatch(/^undecided \(10\.244\.9\.9:8080\): /);
});

describe('chains of nftables without the line of their table', () => {
  const zones = (name: string) => `chain zones {\n iifname "${name}" goto trusted\n goto public\n}\n`;
  const called = (name: string) =>
    `where zones is called is not shown; if it is called, the packet is sent on to ${name}, which the text does not show;`;

  test('name the chain that they lead to and that is not shown, and none after a goto', () => {
    expect(answer(zones('eth0'))).toContain(called('trusted'));
    expect(answer(zones('cali*'))).toContain(called('public'));
  });

  test('tell states of which none is set, and each rule whose interface decides', () => {
    const drop = (more: string) => `chain own {\n ${more} ct state ! related,established counter drop\n oifname "out0" accept\n}\n`;
    expect(answer(drop(''))).toContain('if it is called, the packet is dropped;');
    expect(answer(drop('oifname "out0"'))).toMatch(/the packet is dropped if this rule matches, .* counter drop, or else accepted if/);
  });
});

test('tables that are shown whole say what stops a packet that is not for the node, and that they have no rule of a Service', () => {
  const chains = ':INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT ACCEPT [0:0]';
  const nat = '*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-MARK-MASQ - [0:0]\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\nCOMMIT';
  expect(answer(`# Generated by iptables-save v1.8.9\n*filter\n${chains}\nCOMMIT\n${nat}\n`)).toMatch(
    /^undecided: table nat is shown whole, and has no rule of a Service.*; dropped by the policy of filter\/FORWARD, if 10\.7\.2\.9 is no address/,
  );
});
