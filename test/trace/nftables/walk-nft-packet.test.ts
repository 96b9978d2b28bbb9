import {describe, expect, test} from 'vitest';
import {parseNftDump} from '../../../src/parse/nftables/nft-dump.ts';
import type {Outcome} from '../../../src/trace/walked-packet.ts';
import {walkNftPacket} from '../walks.ts';
import {readFixture} from '../../fixtures.ts';
import {environment, type NodeSetup, packetOf, type Sent} from '../send.ts';

const sent: Sent = {from: '10.244.1.5', to: '10.96.1.1', port: 80};
const own: Sent = {from: '192.168.1.10', to: '10.96.1.1', port: 80};
const inward: Sent = {from: '203.0.113.9', to: '192.168.1.10', port: 80};

function outcomes(text: string, packet: Sent, setup: NodeSetup = {}): readonly Outcome[] {
  const ruleset = parseNftDump(text);
  expect(ruleset.strays).toEqual([]);
  const ends = walkNftPacket(ruleset, packetOf(packet), environment(setup));
  expect(ends.reduce((sum, {probability}) => sum + probability, 0)).toBeCloseTo(1, 6);
  return ends;
}

/** Each outcome once, with its share: `50 % 10.0.0.1:80 masqueraded`, `DROP`, `passes`. */
function pathOutcome(text: string, packet: Sent = sent, setup: NodeSetup = {}): string {
  const shares = new Map<string, number>();
  for (const {verdict, destination, masquerade, probability} of outcomes(text, packet, setup)) {
    const end = verdict !== 'accept' ? verdict.toUpperCase() : `${destination ?? 'passes'}${masquerade ? ' masqueraded' : ''}`;
    shares.set(end, (shares.get(end) ?? 0) + probability);
  }
  return [...shares]
    .map(([end, share]) => (share > 0.9999 ? end : `${Math.round(share * 100)} % ${end}`))
    .sort()
    .join(', ');
}

interface Hook {
  readonly type?: string;
  readonly hook?: string;
  readonly priority?: string;
  readonly policy?: string;
}

/** A table with one base chain, and whatever else. */
function table(
  rules: string,
  {type = 'filter', hook = 'forward', priority = 'filter', policy = 'accept'}: Hook = {},
  rest = '',
  id = 'ip t',
): string {
  const lines = rules.split('\n').map(line => `\t\t${line.trim()}\n`);
  return `table ${id} {\n${rest}\tchain base {\n\t\ttype ${type} hook ${hook} priority ${priority}; policy ${policy};\n${lines.join('')}\t}\n}\n`;
}

function chain(name: string, rules: string): string {
  return `\tchain ${name} {\n${rules
    .split('\n')
    .map(line => `\t\t${line.trim()}\n`)
    .join('')}\t}\n`;
}

const dnat: Hook = {type: 'nat', hook: 'prerouting', priority: 'dstnat'};

describe('verdicts', () => {
  test.each([
    ['accept', 'passes'],
    ['drop', 'DROP'],
    ['reject', 'REJECT'],
    ['reject with icmp host-unreachable', 'REJECT'],
    ['return', 'passes'],
  ])('%s ends the chain', (verdict, end) => expect(pathOutcome(table(`${verdict}\ndrop`))).toBe(end));

  test('a base chain ends with its policy, also by return and goto', () => {
    const drop: Hook = {policy: 'drop'};
    expect(pathOutcome(table('ip daddr 10.0.0.1 accept', drop))).toBe('DROP');
    expect(pathOutcome(table('return\naccept', drop))).toBe('DROP');
    expect(pathOutcome(table('goto a\naccept', drop, chain('a', 'ip daddr 10.0.0.1 accept')))).toBe('DROP');
    expect(outcomes(table('return', drop), sent)[0]?.policy).toBe('ip t/base');
  });

  test('jump returns, goto returns to where its own chain was called', () => {
    const rest = (call: string) => chain('a', `${call} b\naccept`) + chain('b', 'ip daddr 10.0.0.1 drop');
    expect(pathOutcome(table('jump a\ndrop', {}, rest('jump')))).toBe('passes');
    expect(pathOutcome(table('jump a\ndrop', {}, rest('goto')))).toBe('DROP');
  });

  test('accept ends only its own base chain', () => {
    const first = table('accept', {priority: '-10'}, '', 'ip a');
    expect(pathOutcome(first + table('drop', {}, '', 'inet b'))).toBe('DROP');
  });

  test('a table of the other family and a dormant table are skipped', () => {
    expect(pathOutcome(table('drop', {}, '', 'ip6 t'))).toBe('passes');
    expect(pathOutcome(table('drop', {}, '\tflags dormant\n'))).toBe('passes');
  });
});

describe('hooks', () => {
  test.each([
    ['prerouting', 'DROP', 'passes', 'DROP'],
    ['input', 'passes', 'passes', 'DROP'],
    ['forward', 'DROP', 'passes', 'passes'],
    ['output', 'passes', 'DROP', 'passes'],
    ['postrouting', 'DROP', 'DROP', 'passes'],
  ])('%s', (hook, through, out, into) => {
    const rules = table('drop', {hook});
    expect([pathOutcome(rules, sent), pathOutcome(rules, own), pathOutcome(rules, inward)]).toEqual([through, out, into]);
  });

  test('run in the order of their priorities', () => {
    const marks = table('meta mark set 0x1', {priority: '5'}, '', 'ip a');
    expect(pathOutcome(marks + table('meta mark 0x1 drop', {priority: '6'}, '', 'ip b'))).toBe('DROP');
    expect(pathOutcome(marks + table('meta mark 0x1 drop', {priority: '4'}, '', 'ip b'))).toBe('passes');
  });

  // As a kernel 6.18 was seen to do.
  test('of one priority run newest first', () => {
    const [marks, drops] = [table('meta mark set 0x1', {}, '', 'ip a'), table('meta mark 0x1 drop', {}, '', 'ip b')];
    expect(pathOutcome(marks + drops)).toBe('passes');
    expect(pathOutcome(drops + marks)).toBe('DROP');
  });

  // As a kernel 6.18 was seen to do.
  test('of NAT all run at dstnat, in their own order, until one translates', () => {
    const nat = (id: string, priority: string, to: string) => table(`tcp dport 80 dnat to ${to}`, {...dnat, priority}, '', id);
    const both = nat('ip a', '-50', '10.0.0.1:81') + nat('ip b', '-60', '10.0.0.2:82');
    expect(pathOutcome(both)).toBe('10.0.0.2:82');
    expect(pathOutcome(both + table('tcp dport 82 drop', {hook: 'prerouting', priority: '-80'}, '', 'ip c'))).toBe('DROP');
  });

  test('packets of the node to itself arrive again, and are not translated twice', () => {
    const nat = table('dnat to 10.0.0.1', dnat, '', 'ip a');
    expect(pathOutcome(nat, {...own, to: '192.168.1.10'})).toBe('passes');
    expect(pathOutcome(table('iifname "lo" drop', {hook: 'input'}), {...own, to: '192.168.1.10'})).toBe('DROP');
  });
});

describe('a rule about the other family', () => {
  const ofIPv6: Sent = {from: 'fd00:10:244::5', to: 'fd00:10:96::1', port: 80};

  test('changes no hops', () => {
    const rules = table('ip ttl set 1', {hook: 'prerouting'}, '', 'inet t');
    expect([pathOutcome(rules), pathOutcome(rules, ofIPv6)]).toEqual(['DROP', 'passes']);
  });

  test('translates nothing', () => {
    const rules = table('dnat ip to 10.0.0.1:8080', dnat, '', 'inet t');
    expect([pathOutcome(rules), pathOutcome(rules, ofIPv6)]).toEqual(['10.0.0.1:8080', 'passes']);
  });
});

test('a map of verdicts has the names of interfaces in quotes, whether the map has a name or not', () => {
  const named = '\tmap m {\n\t\ttype ifname : verdict\n\t\telements = { "eth0" : jump a, "cali1" : goto a }\n\t}\n';
  for (const map of ['{ "cali1" : goto a }', '@m'])
    expect(pathOutcome(table(`iifname vmap ${map}\ndrop`, {}, named + chain('a', 'accept')), {...sent, inInterface: 'cali1'})).toBe(
      'passes',
    );
});

test('a copy of packets that nft -j prints changes nothing for the packets', () => {
  const place = {family: 'ip', table: 't'};
  const base = {...place, name: 'c', handle: 1, type: 'filter', hook: 'forward', prio: 0, policy: 'accept'};
  const rule = {...place, chain: 'c', handle: 2, expr: [{dup: {addr: '172.18.0.99', dev: 'eth0'}}]};
  const dump = JSON.stringify({nftables: [{table: {family: 'ip', name: 't', handle: 1}}, {chain: base}, {rule}]});
  expect(walkNftPacket(parseNftDump(Buffer.from(dump)), packetOf(sent), environment()).map(one => one.verdict)).toEqual(['accept']);
});

test('a table is in doubt whose flags nft 1.0.6 prints as other characters', () => {
  const json = (flags: unknown) =>
    JSON.stringify({
      nftables: [
        {table: {family: 'ip', name: 't', handle: 1, ...(flags === null ? {} : {flags})}},
        {chain: {family: 'ip', table: 't', name: 'c', handle: 1, type: 'filter', hook: 'forward', prio: 0, policy: 'drop'}},
      ],
    });
  const verdict = (flags: unknown) =>
    walkNftPacket(parseNftDump(Buffer.from(json(flags))), packetOf(sent), environment()).map(one => one.verdict);
  expect([null, 'dormant', ['owner', 'persist'], 'Lester Gooch #5'].map(verdict)).toEqual([['drop'], ['accept'], ['drop'], ['undecided']]);
});

describe('conditions', () => {
  test.each([
    ['ip daddr 10.96.1.1', true],
    ['ip daddr != 10.96.1.1', false],
    ['ip saddr 10.244.0.0/16', true],
    ['ip saddr 10.244.1.0-10.244.1.4', false],
    ['ip saddr & 255.0.255.255 == 10.0.1.5', true],
    ['ip saddr & 255.0.255.255 != 10.0.1.5', false],
    ['ip saddr != { 10.244.0.0/24, 10.244.1.6-10.244.1.9 }', true],
    ['ip saddr { 10.0.0.1, 10.244.1.5 }', true],
    ['ip6 daddr != fd00::1', false],
    ['ip protocol tcp', true],
    ['meta l4proto { tcp, udp } th dport 80', true],
    ['meta l4proto 6', true],
    ['udp dport != 81', false],
    ['tcp dport { 79, 81-90 }', false],
    ['tcp dport > 79', true],
    ['tcp dport <= 79', false],
    ['tcp flags syn', true],
    ['tcp flags syn / fin,syn,rst,ack', true],
    ['tcp flags & (syn|ack) == syn', true],
    ['tcp flags & (syn|ack) == ack', false],
    ['ct state new', true],
    ['ct state established,related', false],
    ['ct state { established, new }', true],
    ['ct state vmap { established : accept, new : drop }', true],
    ['ct status dnat', false],
    ['ct direction original', true],
    ['meta nfproto ipv4', true],
    ['icmp type echo-request', false],
    ['vlan id 5', false],
    ['fib daddr type local', false],
    ['fib saddr . iif oif missing', false],
    ['meta mark & 0x00004000 == 0x00000000', true],
    ['meta pkttype broadcast', false],
    ['iifname "lo"', false],
    ['ip daddr . tcp dport { 10.96.1.1 . 80 }', true],
    ['ip daddr . tcp dport { 10.96.1.1 . 81-90, 10.0.0.0/8 . 79 }', false],
    ['ip daddr . meta l4proto . th dport @services', true],
    ['ip daddr @networks', true],
    ['ip saddr @networks', false],
    ['ip saddr @all', true],
  ])('%s: %s', (condition, matches) => {
    const sets = [
      '\tset services {\n\t\ttype ipv4_addr . inet_proto . inet_service\n\t\telements = { 10.96.1.2 . tcp . 80,\n 10.96.1.1 . tcp . 80 }\n\t}\n',
      '\tset networks {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { 10.96.0.0/16, 10.0.0.1-10.0.0.9 }\n\t}\n',
      '\tset all {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { 10.0.0.1, * }\n\t}\n',
    ];
    const statement = condition.includes('vmap') ? condition : `${condition} drop`;
    expect(pathOutcome(table(statement, {}, sets.join('')))).toBe(matches ? 'DROP' : 'passes');
  });

  test.each([
    ['iifname "eth*" drop', {inInterface: 'eth0'}, 'DROP'],
    ['iifname != "eth0" drop', {inInterface: 'eth0'}, 'passes'],
    ['iifname { "eth0", "eth1" } drop', {inInterface: 'eth1'}, 'DROP'],
    ['iifname . ip saddr { "eth1" . 10.244.1.5 } drop', {inInterface: 'eth1'}, 'DROP'],
    ['oifname "cni0" drop', {outInterface: 'cni0'}, 'DROP'],
  ])('%s of %j', (rule, interfaces, end) => expect(pathOutcome(table(rule), {...sent, ...interfaces})).toBe(end));

  test('packets that the node sends have no input interface', () => {
    expect(pathOutcome(table('iifname != "eth0" drop', {hook: 'output'}), own)).toBe('DROP');
    expect(pathOutcome(table('iifname "eth0" drop', {hook: 'output'}), own)).toBe('passes');
  });
});

describe('a list of many networks', () => {
  const others = Array.from({length: 40}, (_, index) => `10.${index + 1}.0.0/25`);
  const listed = (elements: readonly string[], entry = 'ip saddr @listed drop', type = 'ipv4_addr', flags = 'interval') =>
    table(entry, {}, `\tset listed {\n\t\ttype ${type}\n\t\tflags ${flags}\n\t\telements = { ${elements.join(', ')} }\n\t}\n`);

  test.each([
    ['10.7.0.0', true],
    ['10.7.0.127', true],
    ['10.7.0.128', false],
    ['10.0.255.255', false],
    ['10.41.0.1', false],
    ['10.200.0.9', true],
    ['10.200.0.10', false],
    ['10.250.0.1', true],
  ])('%s: %s', (from, isListed) => {
    const ruleset = listed([...others, '10.200.0.1-10.200.0.9', '10.250.0.1']);
    expect(pathOutcome(ruleset, {...sent, from})).toBe(isListed ? 'DROP' : 'passes');
  });

  test('in which a pasted text has two that overlap', () => {
    const ruleset = listed([...others, '10.7.0.0/16']);
    expect(['10.7.0.1', '10.7.9.9', '10.8.9.9'].map(from => pathOutcome(ruleset, {...sent, from}))).toEqual(['DROP', 'DROP', 'passes']);
  });

  test('and one for all others', () => {
    const ruleset = table(
      'ip saddr vmap @listed',
      {},
      `\tmap listed {\n\t\ttype ipv4_addr : verdict\n\t\tflags interval\n\t\telements = { ${others.map(network => `${network} : accept`).join(', ')}, * : drop }\n\t}\n`,
    );
    expect(['10.7.0.1', '10.7.9.9'].map(from => pathOutcome(ruleset, {...sent, from}))).toEqual(['passes', 'DROP']);
  });
});

test('a packet that no process of the node sends has no owner, whatever the operator', () => {
  for (const condition of ['meta skuid 0', 'meta skuid != 0', 'meta cgroup 1'])
    expect(pathOutcome(table(`${condition} drop`))).toBe('passes');
  expect(pathOutcome(table('meta skuid 0 drop', {hook: 'output'}), own)).toBe('UNDECIDED');
});

test.each([
  ['ip ttl < 5 drop', 'passes'],
  ['ip ttl >= 5 drop', 'DROP'],
  ['ip ttl { 0, 1 } drop', 'passes'],
  ['ip ttl != { 0, 1 } drop', 'DROP'],
  ['ip ttl { 1, 64 } drop', 'UNDECIDED'],
  ['ether type arp drop', 'passes'],
  ['ether type ip drop', 'DROP'],
  ['ct helper "ftp" drop', 'passes'],
  ['ct helper != "ftp" drop', 'passes'],
  ['ct label "4" drop', 'passes'],
  ['ct label set "4" ct label "4" drop', 'UNDECIDED'],
])('what no first packet of a Service has is no match, and what none lacks is one: %s', (rule, expected) => {
  expect(pathOutcome(table(rule))).toBe(expected);
});

test('a map without the key ends the rule', () => {
  const rule = 'ct mark set ip saddr map { 192.0.2.1 : 0x1 } drop';
  expect(pathOutcome(table(rule))).toBe('passes');
});

describe('an unknown part', () => {
  test.each([
    'ct count 10',
    'meta time < "2099-01-01 00:00:00"',
    'ip ttl 64',
    'iifname "eth0"',
    'limit rate 5/second',
    'socket transparent 1',
    'tcp sport 1024-2000',
    'xt match "x"',
  ])('%s', condition => {
    expect(pathOutcome(table(`${condition} drop`))).toBe('UNDECIDED');
    expect(outcomes(table(`${condition} drop`), sent)[0]?.reason).toContain(condition);
    expect(pathOutcome(table(`${condition} accept`))).toBe('passes');
    expect(pathOutcome(table(`${condition} counter log prefix "x"`))).toBe('passes');
    expect(pathOutcome(table(`${condition} drop\ndrop`))).toBe('DROP');
  });

  test('of a statement may have any effect, unless the outcome is the same', () => {
    expect(pathOutcome(table('queue to 0'))).toBe('UNDECIDED');
    expect(pathOutcome(table('ip daddr 10.0.0.1 queue to 0'))).toBe('passes');
    expect(pathOutcome(table('xt target "TPROXY"'))).toBe('UNDECIDED');
  });

  test('of a chain of an interface that is not shown leaves the outcome that is likely', () => {
    const [end, ...others] = outcomes(table('limit rate 5/second drop', {hook: 'ingress'}, '', 'netdev t'), sent);
    expect(others).toEqual([]);
    expect(end?.reason).toContain('it would lead to drop: limit rate 5/second drop');
    expect(outcomes(table('ip daddr 10.96.1.1 drop', {hook: 'ingress'}, '', 'netdev t'), sent)[0]?.reason).toContain(
      '(the dump does not show it)',
    );
    expect(pathOutcome(table('ip daddr 10.96.1.2 drop', {hook: 'ingress'}, '', 'netdev t'))).toBe('passes');
  });

  test('of tproxy is whether a program listens: later rules decide where none does', () => {
    expect(pathOutcome(table('tproxy to :15006 accept'))).toBe('UNDECIDED');
    expect(outcomes(table('tproxy to :15006 accept'), sent)[0]?.reason).toContain('a program of the node');
    expect(pathOutcome(table('tproxy to :15006 accept\ndrop', {hook: 'prerouting', priority: 'mangle'}))).toBe('UNDECIDED');
    expect(pathOutcome(table('tcp dport 81 tproxy to :15006 accept'))).toBe('passes');
  });

  test('of a map key leads to all verdicts of the map', () => {
    expect(pathOutcome(table('jhash ip saddr mod 2 vmap { 0 : accept, 1 : drop }'))).toBe('UNDECIDED');
    expect(pathOutcome(table('jhash ip saddr mod 2 vmap { 0 : accept, 1 : return }'))).toBe('passes');
    const shared = 'dnat ip to jhash ip saddr mod 2 map { 0 : 10.0.0.1, 1 : 10.0.0.2 }';
    expect(pathOutcome(table(shared, dnat))).toBe('50 % 10.0.0.1:80, 50 % 10.0.0.2:80');
    const isKnown = ({text}: {readonly text: string}): boolean => text === '10.0.0.2';
    const ends = walkNftPacket(parseNftDump(table(shared, dnat)), packetOf(sent), {...environment(), isKnown});
    expect(ends.map(({verdict}) => verdict)).toEqual(['undecided']);
  });

  test('beside one that certainly fails does not matter', () => {
    expect(pathOutcome(table('limit rate 5/second ip daddr 10.0.0.1 drop'))).toBe('passes');
  });

  test('leaves a packet undecided after a truncated dump', () => {
    const text = table('accept') + table('accept', {}, '', 'ip b');
    expect(pathOutcome(text)).toBe('passes');
    const truncated = walkNftPacket(parseNftDump(text.slice(0, -10)), packetOf(sent), environment());
    expect(truncated.map(({verdict}) => verdict)).toEqual(['undecided']);
  });
});

describe('probability', () => {
  test('numgen gives equal shares', () => {
    expect(
      pathOutcome(
        table(
          'meta l4proto tcp dnat ip to numgen random mod 4 map { 0 : 10.0.0.1 . 81, 1 : 10.0.0.2 . 82, 2 : 10.0.0.1 . 81, 3 : 10.0.0.3 . 83 }',
          dnat,
        ),
      ),
    ).toBe('25 % 10.0.0.2:82, 25 % 10.0.0.3:83, 50 % 10.0.0.1:81');
    expect(pathOutcome(table('numgen inc mod 10 vmap { 0-3 : drop, 4 : accept }\nip daddr 10.96.1.1 reject'))).toBe(
      '10 % passes, 40 % DROP, 50 % REJECT',
    );
    expect(pathOutcome(table('numgen random mod 10 < 3 drop'))).toBe('30 % DROP, 70 % passes');
  });

  test('the statistic match of iptables-nft gives the same shares', () => {
    expect(pathOutcome(table('meta random & 2147483647 < 536870912 drop'))).toBe('25 % DROP, 75 % passes');
  });
});

// As a kernel 6.18 was seen to do.
test.each([
  ['ip frag-off & 0x3fff != 0 drop', 'passes'],
  ['ip frag-off & 0x4000 != 0 drop', 'UNDECIDED'],
  ['ip hdrlength > 5 drop', 'passes'],
  ['ip option rr exists drop', 'passes'],
  ['ip option rr missing drop', 'DROP'],
  ['tcp option maxseg size 1-535 drop', 'passes'],
  ['tcp option maxseg size >= 536 drop', 'DROP'],
  ['tcp option maxseg size != 1-535 drop', 'DROP'],
  ['tcp option maxseg size 1400 drop', 'UNDECIDED'],
  ['tcp option maxseg exists drop', 'DROP'],
  ['tcp option maxseg missing drop', 'passes'],
])('the headers of packets to Services are the usual ones: %s', (rule, end) => expect(pathOutcome(table(rule))).toBe(end));

test.each([
  ['over 10 mbytes used 10 mbytes', 'DROP'],
  ['10 kbytes used 1 mbytes', 'passes'],
  ['over 10 mbytes used 10 kbytes', 'UNDECIDED'],
  ['over 10 mbytes', 'UNDECIDED'],
])('a quota decides once it is used up: %s', (quota, end) => expect(pathOutcome(table(`quota ${quota} drop`))).toBe(end));

test('a map of new sources leaves those alone that it does not name', () => {
  const hook: Hook = {type: 'nat', hook: 'postrouting', priority: 'srcnat'};
  expect(pathOutcome(table('snat to ip daddr map { 10.96.1.1 : 198.18.0.7 }', hook))).toBe('passes masqueraded');
  expect(pathOutcome(table('snat to ip daddr map { 10.96.1.2 : 198.18.0.7 }', hook))).toBe('passes');
});

describe('effects', () => {
  test.each([
    [
      'meta mark set meta mark | 0x00004000\nmeta mark & 0x00004000 != 0x00000000 meta mark set meta mark ^ 0x00004000\nmeta mark 0x00000000 drop',
      'DROP',
    ],
    ['ct mark set 0x00000005\nmeta mark set ct mark & 0x00000004 | 0x00000002\nmeta mark 0x00000006 drop', 'DROP'],
    ['meta mark set 0x1 limit rate 5/second accept\nmeta mark 0x1 drop', 'UNDECIDED'],
    ['meta priority set 1:2\ntcp option maxseg size set rt mtu\ndrop', 'DROP'],
    ['ip daddr set 10.0.0.1', 'UNDECIDED'],
  ])('%s', (rules, end) => expect(pathOutcome(table(rules))).toBe(end));

  test('translation', () => {
    expect(pathOutcome(table('dnat to 10.0.0.1', dnat))).toBe('10.0.0.1:80');
    expect(pathOutcome(table('redirect to :8080', dnat))).toBe('192.168.1.10:8080');
    expect(pathOutcome(table('redirect', {...dnat, hook: 'output'}), own)).toBe('127.0.0.1:80');
    expect(pathOutcome(table('dnat ip to tcp dport map { 80 : 10.0.0.1, 81 : 10.0.0.2 }', dnat))).toBe('10.0.0.1:80');
    expect(pathOutcome(table('dnat ip to tcp dport map { 81 : 10.0.0.2 }\ndnat to 10.0.0.3', dnat))).toBe('10.0.0.3:80');
    expect(pathOutcome(table('dnat to 10.0.0.1-10.0.0.2', dnat))).toBe('50 % 10.0.0.1:80, 50 % 10.0.0.2:80');
    expect(pathOutcome(table('dnat to 10.0.0.1-10.0.9.9', dnat))).toBe('UNDECIDED');
    expect(pathOutcome(table('dnat prefix to 10.99.0.0/16', dnat))).toBe('10.99.1.1:80');
    expect(pathOutcome(table('masquerade fully-random', {type: 'nat', hook: 'postrouting', priority: 'srcnat'}))).toBe(
      'passes masqueraded',
    );
  });

  // As a kernel 6.18 was seen to do.
  test('before connection tracking every packet is invalid, and after it notrack is too late', () => {
    const raw: Hook = {hook: 'prerouting', priority: 'raw'};
    expect(pathOutcome(table('ct state new drop', raw))).toBe('passes');
    expect(pathOutcome(table('ct state invalid drop', raw))).toBe('DROP');
    expect(pathOutcome(table('ct state invalid drop', {hook: 'prerouting', priority: '-199'}))).toBe('passes');
    const late = table('notrack', {hook: 'prerouting', priority: 'mangle'}, '', 'ip a');
    expect(pathOutcome(late + table('dnat to 10.0.0.1', dnat, '', 'ip b'))).toBe('10.0.0.1:80');
  });

  test('the source of a masqueraded packet is unknown', () => {
    const nat = table('masquerade', {type: 'nat', hook: 'postrouting', priority: 'srcnat'}, '', 'ip a');
    expect(pathOutcome(nat + table('ip saddr 10.244.1.5 drop', {hook: 'postrouting', priority: '99'}, '', 'ip b'))).toBe('DROP');
    expect(pathOutcome(nat + table('ip saddr 10.244.1.5 drop', {hook: 'postrouting', priority: '101'}, '', 'ip b'))).toBe('UNDECIDED');
  });

  test('untracked packets are not translated', () => {
    const untracked = table('notrack', {hook: 'prerouting', priority: 'raw'}, '', 'ip a');
    expect(pathOutcome(untracked + table('dnat to 10.0.0.1', dnat, '', 'ip b'))).toBe('passes');
    expect(pathOutcome(untracked + table('ct state untracked drop', {}, '', 'ip b'))).toBe('DROP');
  });
});

describe('a node of kube-proxy 1.36', () => {
  const dump = readFixture('captures/nftables/1.36/nodes/node-a/nft.txt').toString('utf8');
  const local = {local: ['172.18.0.11', '10.244.11.1']};
  const own: Sent = {from: '192.168.1.10', to: '', port: 80};

  // Read from the dump and the reference, not from a walk.
  test.each<readonly [string, Sent, string]>([
    [
      'a pod to a cluster IP',
      {from: '10.244.11.20', to: '10.96.1.1', port: 80},
      '33 % 10.244.11.4:8080, 33 % 10.244.11.5:8080, 33 % 10.244.12.4:8080',
    ],
    [
      'an external client to a node port',
      {from: '198.51.100.9', to: '172.18.0.11', port: 30093},
      '50 % 10.244.11.9:9153 masqueraded, 50 % 10.244.12.9:9153 masqueraded',
    ],
    ['a wrong port of a cluster IP', {from: '10.244.11.20', to: '10.96.1.1', port: 81}, 'REJECT'],
    ['an unallocated address of the Service range', {from: '10.244.11.20', to: '10.96.77.7', port: 80}, 'DROP'],
    ['a Service without endpoints', {from: '10.244.11.20', to: '10.96.1.14', port: 80}, 'REJECT'],
    ['a source outside the ranges', {from: '192.0.2.99', to: '203.0.113.13', port: 80}, 'DROP'],
    ['a node port at 127.0.0.1', {...own, to: '127.0.0.1', port: 30080}, 'passes'],
  ])('%s', (_, packet, end) => expect(pathOutcome(dump, packet, local)).toBe(end));

  test('a pod that reaches itself is masqueraded', () => {
    expect(pathOutcome(dump, {from: '10.244.11.4', to: '10.96.1.1', port: 80}, local)).toContain('33 % 10.244.11.4:8080 masqueraded');
  });

  test('a client in an affinity set returns', () => {
    const set = 'affinity-UYYGHSSD-shop/sticky-short/tcp/http__10.244.11.5/8080';
    const packet: Sent = {from: '10.244.11.20', to: '10.96.1.11', port: 80};
    expect(pathOutcome(dump, packet, local)).toContain('33 % 10.244.11.4:8080');
    expect(pathOutcome(dump, packet, {...local, knownTo: [set]})).toBe('10.244.11.5:8080');
    const alive = dump.replace(`set ${set} {`, `set ${set} {\n\t\telements = { 10.244.11.20 expires 9m59s996ms }`);
    expect(pathOutcome(alive, packet, local)).toBe('10.244.11.5:8080');
  });

  test('lists the rules of the path', () => {
    const [first] = outcomes(dump, {from: '10.244.11.20', to: '10.96.1.2', port: 8000}, local);
    expect(first?.path.map(rule => `${rule.table} ${rule.chain} ${rule.line > 0}`)).toEqual([
      ...[
        'filter-prerouting-pre-dnat',
        'nat-prerouting',
        'services',
        'service-T5JN5A62-shop/unnamed-port/tcp/',
        'filter-forward',
        'filter-forward',
        'nat-postrouting',
      ].map(name => `ip kube-proxy ${name} true`),
    ]);
  });
});
