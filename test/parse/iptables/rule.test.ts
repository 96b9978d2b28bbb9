import {describe, expect, test} from 'vitest';
import type {Rule} from '../../../src/model/ruleset.ts';
import {parseRule} from '../../../src/parse/iptables/rule.ts';

function parse(text: string): Rule {
  return parseRule(text, {table: 'nat', chain: text.split(' ')[1] ?? '', line: 1});
}

const option = (flag: string, ...values: string[]) => ({flag, negated: false, values});
const negated = (flag: string, ...values: string[]) => ({flag, negated: true, values});
const quoted = (flag: string, ...values: string[]) => ({flag, negated: false, values, quoted: true});

test('a rule has its own options, its matches and its target, in order', () => {
  const text =
    '-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "default/kubernetes:https cluster IP" -m tcp --dport 443 -j KUBE-SVC-NPX46M4PTMTKRN6Y';
  expect(parseRule(text, {table: 'nat', chain: 'KUBE-SERVICES', line: 17})).toEqual({
    table: 'nat',
    chain: 'KUBE-SERVICES',
    line: 17,
    text,
    options: [option('-d', '10.96.0.1/32'), option('-p', 'tcp')],
    matches: [
      {name: 'comment', options: [quoted('--comment', 'default/kubernetes:https cluster IP')]},
      {name: 'tcp', options: [option('--dport', '443')]},
    ],
    target: {name: 'KUBE-SVC-NPX46M4PTMTKRN6Y', goto: false, options: []},
  });
});

describe('negation', () => {
  test.each([
    ['-A C ! -s 10.244.0.0/16 -j RETURN', '-A C -s ! 10.244.0.0/16 -j RETURN', negated('-s', '10.244.0.0/16')],
    ['-A C ! -i br0 -j RETURN', '-A C -i ! br0 -j RETURN', negated('-i', 'br0')],
    ['-A C ! -p tcp -j RETURN', '-A C -p ! tcp -j RETURN', negated('-p', 'tcp')],
  ])('of an option of the rule precedes it, and follows it in iptables before 1.4.3: %s', (today, before, expected) => {
    expect(parse(today)).toMatchObject({options: [expected], target: {name: 'RETURN'}});
    expect(parse(before)).toMatchObject({options: [expected], target: {name: 'RETURN'}});
  });

  test.each([
    ['-A C -m mark ! --mark 0x4000/0x4000 -j RETURN', '-A C -m mark --mark ! 0x4000/0x4000 -j RETURN', negated('--mark', '0x4000/0x4000')],
    ['-A C -p tcp -m tcp ! --dport 22 -j DROP', '-A C -p tcp -m tcp --dport ! 22 -j DROP', negated('--dport', '22')],
    ['-A C -m conntrack ! --ctstate NEW,DNAT -j DROP', '-A C -m conntrack --ctstate ! NEW,DNAT -j DROP', negated('--ctstate', 'NEW,DNAT')],
  ])('of an option of a match as well: %s', (today, before, expected) => {
    expect(parse(today).matches.at(-1)?.options).toEqual([expected]);
    expect(parse(before).matches.at(-1)?.options).toEqual([expected]);
  });

  test('applies to one option only', () => {
    expect(parse('-A C ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP')).toMatchObject({
      options: [negated('-s', '127.0.0.0/8'), option('-d', '127.0.0.0/8')],
      matches: [{options: [negated('--ctstate', 'RELATED,ESTABLISHED,DNAT')]}],
      target: {name: 'DROP', options: []},
    });
  });

  test('in the old position applies to that option only', () => {
    expect(parse('-A C -m mark --mark ! 0x1 -m conntrack --ctstate NEW -j DROP').matches).toEqual([
      {name: 'mark', options: [negated('--mark', '0x1')]},
      {name: 'conntrack', options: [option('--ctstate', 'NEW')]},
    ]);
  });

  test('of an option without a value', () => {
    expect(parse('-A C -p tcp -m tcp ! --syn -j DROP').matches).toEqual([{name: 'tcp', options: [negated('--syn')]}]);
    expect(parse('-A C ! -f -j ACCEPT').options).toEqual([negated('-f')]);
    expect(parse('-A C -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT').matches).toEqual([
      {name: 'physdev', options: [negated('--physdev-is-in')]},
      {name: 'addrtype', options: [negated('--src-type', 'LOCAL')]},
    ]);
  });
});

describe('text values', () => {
  test.each([
    ['"it\\\'s \\"quoted\\" \\\\ back"', 'it\'s "quoted" \\ back', true],
    ['""', '', true],
    ['plain_word-1', 'plain_word-1', undefined],
    ['-j', '-j', undefined],
    ['--dport', '--dport', undefined],
    ['"! -s 10.0.0.1 -j DROP"', '! -s 10.0.0.1 -j DROP', true],
    ['"default/web:http"', 'default/web:http', true],
  ])('the comment %s is read as iptables 1.8.9 prints it', (printed, text, inQuotes) => {
    const rule = parse(`-A INPUT -m comment --comment ${printed} -j ACCEPT`);
    expect(rule.matches).toEqual([
      {name: 'comment', options: [{flag: '--comment', negated: false, values: [text], ...(inQuotes && {quoted: true})}]},
    ]);
    expect(rule.target).toEqual({name: 'ACCEPT', goto: false, options: []});
  });

  test('a prefix of the target may look like an option', () => {
    expect(parse('-A C -j LOG --log-prefix --x --log-level 4').target?.options).toEqual([
      option('--log-prefix', '--x'),
      option('--log-level', '4'),
    ]);
    expect(parse('-A C -j LOG --log-prefix "drop: "').target?.options).toEqual([quoted('--log-prefix', 'drop: ')]);
  });

  test('a comment that was pasted without its quotes keeps all its words', () => {
    const rule = parse('-A PREROUTING -m comment --comment kubernetes service portals -j KUBE-SERVICES');
    expect(rule).toMatchObject({
      matches: [{options: [option('--comment', 'kubernetes', 'service', 'portals')]}],
      target: {name: 'KUBE-SERVICES'},
    });
  });

  test('a quote that is never closed includes the rest of the line and nothing else', () => {
    expect(parse('-A C -m comment --comment "half of it -j DROP')).toMatchObject({
      matches: [{options: [quoted('--comment', 'half of it -j DROP')]}],
      target: null,
    });
  });

  test('tokens are separated by white space outside quotes', () => {
    const comment = {name: 'comment', options: [quoted('--comment', 'c d')]};
    expect(parse('-A C  -m\tcomment --comment "c d"  -j DROP\r')).toMatchObject({matches: [comment], target: {name: 'DROP'}});
  });
});

describe('unknown parts are in the result like all others', () => {
  test('a match', () => {
    expect(parse('-A C -m frobnicate --level 3,4 ! --fast -j RETURN').matches).toEqual([
      {name: 'frobnicate', options: [option('--level', '3,4'), negated('--fast')]},
    ]);
  });

  test('a target', () => {
    expect(parse('-A C -j TPROXY --on-port 8080 --tproxy-mark 0x1/0x1').target).toEqual({
      name: 'TPROXY',
      goto: false,
      options: [option('--on-port', '8080'), option('--tproxy-mark', '0x1/0x1')],
    });
  });

  test('a word that belongs to nothing', () => {
    expect(parse('-A C -m set stray -j RETURN').matches).toEqual([{name: 'set', options: [option('', 'stray')]}]);
  });
});

describe('forms', () => {
  test('a goto is distinguished from a jump', () => {
    expect(parse('-A C -g OTHER').target).toEqual({name: 'OTHER', goto: true, options: []});
    expect(parse('-A C --goto OTHER').target?.goto).toBe(true);
    expect(parse('-A C -j OTHER').target?.goto).toBe(false);
  });

  test("long names of a rule's options equal the short ones", () => {
    expect(
      parse(
        '-A C --source 10.0.0.1 --destination 10.0.0.2 --in-interface a --out-interface b --protocol tcp --match tcp --dport 1 --jump X',
      ),
    ).toMatchObject(parts(parse('-A C -s 10.0.0.1 -d 10.0.0.2 -i a -o b -p tcp -m tcp --dport 1 -j X')));
    expect(parse('-A C --src 10.0.0.1 --dst 10.0.0.2')).toMatchObject(parts(parse('-A C -s 10.0.0.1 -d 10.0.0.2')));
  });

  test("the order of options in kube-proxy's input to iptables-restore is accepted", () => {
    const rule = parse(
      '-A KUBE-SERVICES -m comment --comment "ns1/svc1:p80 cluster IP" -m tcp -p tcp -d 172.30.0.41 --dport 80 -j KUBE-SVC-XPGD46QRK7WJZT7O',
    );
    expect(rule.options).toEqual([option('-p', 'tcp'), option('-d', '172.30.0.41')]);
    expect(rule.matches).toEqual([
      {name: 'comment', options: [quoted('--comment', 'ns1/svc1:p80 cluster IP')]},
      {name: 'tcp', options: [option('--dport', '80')]},
    ]);
  });

  test('a match may follow the target', () => {
    expect(parse('-A C -j DROP -m comment --comment why')).toMatchObject({
      matches: [{name: 'comment', options: [option('--comment', 'why')]}],
      target: {name: 'DROP', options: []},
    });
  });

  test('an option of the protocol needs no -m', () => {
    expect(parse('-A C -p udp --dport 53 -j ACCEPT').matches).toEqual([{name: 'udp', options: [option('--dport', '53')]}]);
  });

  test('an option may have several values', () => {
    expect(parse('-A C -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -m set --match-set KUBE-CLUSTER-IP dst,dst -j X').matches).toEqual([
      {name: 'tcp', options: [option('--tcp-flags', 'FIN,SYN,RST,ACK', 'SYN')]},
      {name: 'set', options: [option('--match-set', 'KUBE-CLUSTER-IP', 'dst,dst')]},
    ]);
  });

  test('a match without options is kept', () => {
    expect(parse('-A KUBE-SEP-A -p tcp -m comment --comment "a/b" -m tcp -j DNAT --to-destination 10.0.0.1:80').matches.at(-1)).toEqual({
      name: 'tcp',
      options: [],
    });
  });

  test('counters of iptables -S -v are skipped', () => {
    expect(parts(parse('-A C -p tcp -m tcp --dport 80 -c 12 720 -j X'))).toEqual(parts(parse('-A C -p tcp -m tcp --dport 80 -j X')));
    expect(parts(parse('-A C -c 0 0'))).toEqual(parts(parse('-A C')));
    // What is no pair of numbers is no counter.
    for (const rule of ['-A C -m x --y -c 1 z', '-A C -m x --y -c z 1', '-A C -m x --y z 1 2'])
      expect(parse(rule).matches[0]?.options[0]?.values).toEqual(rule.split(' ').slice(5));
  });
});

function parts({options, matches, target}: Rule) {
  return {options, matches, target};
}
