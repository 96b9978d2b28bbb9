/** What is said of a packet where a text shows some of the rules that decide about it. */
import {describe, expect, test} from 'vitest';
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

  test('of FORWARD alone says that the destination is taken as no address of the node', () => {
    expect(answer(forward('DROP'))).toMatch(/^drop: by the policy of filter\/FORWARD; .*10\.7\.2\.9 is taken as no address of the node/);
    expect(answer(forward('DROP').replace('FORWARD', 'INPUT'))).toMatch(/10\.7\.2\.9 is taken as an address of the node/);
  });

  test('of a policy that accepts never says that the packet is accepted', () => {
    expect(answer(forward('ACCEPT'))).toMatch(/^undecided: this text shows no rule of kube-proxy; this text does not show table nat/);
  });
});

describe('a chain that no rule of the text calls', () => {
  test('is walked as if it were called', () => {
    const text = ['Chain MINE (1 references)', wide, `    0     0 DROP  all  --  *  *  0.0.0.0/0  10.7.2.9`, ''].join('\n');
    expect(answer(text)).toContain(
      'where filter/MINE is called is not shown; if it is called, the packet is dropped; this text does not show',
    );
    expect(answer(text, {destination: '10.7.2.8'})).toMatch(/and no rule that it shows matches the packet$/);
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

describe('nftables', () => {
  const map = (verdict: string) =>
    [
      'table ip kube-proxy {',
      '\tmap no-endpoint-services {',
      '\t\ttype ipv4_addr . inet_proto . inet_service : verdict',
      `\t\telements = { 10.96.1.1 . tcp . 80 comment "shop/web:http" : ${verdict} }`,
      '\t}',
      '\tchain service-endpoints-check {',
      '\t\tip daddr . meta l4proto . th dport vmap @no-endpoint-services',
      '\t}',
      '}',
      '',
    ].join('\n');

  test('of a Service port in the map of those without endpoints drop its packets, though base chains are not shown', () => {
    expect(answer(map('drop'), {destination: '10.96.1.1'})).toBe('drop: kube-proxy writes this for a Service port without endpoints');
    expect(answer(map('drop'), {destination: '10.96.1.2'})).toMatch(
      /^undecided: this text does not show chain filter-input of table ip kube-proxy/,
    );
  });

  test('of another program alone do not accept a packet: the table of kube-proxy is not there', () => {
    const text = 'table inet firewall {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n\t}\n}\n';
    expect(answer(text)).toMatch(/^undecided: this text shows no table of kube-proxy; this text does not show the table of kube-proxy/);
  });
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

test('a table with chains of kube-proxy and no base chain was put together from a part, and they are walked', () => {
  const rules = [
    ...['*nat', ':KUBE-SERVICES - [0:0]', ':KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]'],
    '-A KUBE-SERVICES -d 10.96.9.9/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-SEP-AAAAAAAAAAAAAAAA',
    '-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m comment --comment "shop/web:http" -m tcp -j DNAT --to-destination 10.244.9.9:8080',
    'COMMIT\n',
  ].join('\n');
  expect(answer(rules, {destination: '10.96.9.9'})).toMatch(/^undecided \(10\.244\.9\.9:8080\): /);
});
