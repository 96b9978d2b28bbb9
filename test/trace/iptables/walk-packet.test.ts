import {describe, expect, test} from 'vitest';
import {walkPacket} from '../walks.ts';
import {environment, flow, outcomes, packetOf, ruleset, type Sent} from '../send.ts';

const sent: Sent = {from: '10.244.1.5', to: '10.96.1.1', port: 80};
const own: Sent = {from: '192.168.1.10', to: '10.96.1.1', port: 80};
const inward: Sent = {from: '203.0.113.9', to: '192.168.1.10', port: 80};

describe('verdicts', () => {
  test('a packet that no rule matches passes', () => {
    expect(outcomes(ruleset({nat: '-A PREROUTING -d 10.0.0.1/32 -j DROP'}), sent)).toEqual([
      {verdict: 'accept', destination: null, probability: 1, masquerade: false, path: []},
    ]);
  });

  test.each([
    ['ACCEPT', 'passes'],
    ['DROP', 'DROP'],
    ['REJECT --reject-with tcp-reset', 'REJECT'],
    ['RETURN', 'passes'],
  ])('%s ends the chain', (target, end) => {
    expect(flow(ruleset({filter: `-A FORWARD -j ${target}\n-A FORWARD -d 10.96.1.1/32 -j DROP`}), sent)).toBe(end);
  });

  test('of a base chain without a matching rule are its policy', () => {
    const rules = (chain: string) => ruleset({filter: `-A ${chain} -d 10.0.0.1/32 -j ACCEPT`}, {[chain]: 'DROP'});
    expect(flow(rules('FORWARD'), sent)).toBe('DROP');
    expect(flow(rules('INPUT'), sent)).toBe('passes');
    expect(flow(rules('INPUT'), inward)).toBe('DROP');
    expect(flow(rules('FORWARD'), inward)).toBe('passes');
    expect(flow(rules('OUTPUT'), own)).toBe('DROP');
    expect(flow(rules('OUTPUT'), sent)).toBe('passes');
  });

  test('RETURN from a base chain is its policy', () => {
    expect(flow(ruleset({filter: '-A FORWARD -j RETURN'}, {FORWARD: 'DROP'}), sent)).toBe('DROP');
  });
});

describe('chains', () => {
  test('that are jumped to return', () => {
    const rules = ruleset({filter: '-A FORWARD -j A\n-A FORWARD -j DROP\n-A A -d 10.96.1.1/32 -j RETURN\n-A A -j ACCEPT'});
    expect(flow(rules, sent)).toBe('DROP');
    expect(flow(rules, {...sent, to: '10.96.1.2'})).toBe('passes');
  });

  test('return at their end', () => {
    expect(flow(ruleset({filter: '-A FORWARD -j A\n-A FORWARD -j DROP\n-A A -m comment --comment x'}), sent)).toBe('DROP');
  });

  test('that are entered by goto return to where their caller was called', () => {
    const filter = '-A FORWARD -j A\n-A FORWARD -j DROP\n-A A -g B\n-A A -j ACCEPT\n-A B -m comment --comment x';
    expect(flow(ruleset({filter}), sent)).toBe('DROP');
    expect(flow(ruleset({filter: filter.replace('-g B', '-j B')}), sent)).toBe('passes');
  });

  test('that a base chain goes to end with its policy', () => {
    const filter = '-A FORWARD -g A\n-A FORWARD -j ACCEPT\n-A A -m comment --comment x';
    expect(flow(ruleset({filter}, {FORWARD: 'DROP'}), sent)).toBe('DROP');
  });

  test('that do not exist are skipped', () => {
    expect(flow(ruleset({filter: '-A FORWARD -j KUBE-GONE\n-A FORWARD -j DROP'}), sent)).toBe('DROP');
  });

  test('that jump in a loop are undecided', () => {
    const [end, ...more] = outcomes(ruleset({filter: '-A FORWARD -j A\n-A A -j B\n-A B -j A'}), sent);
    expect(more).toEqual([]);
    expect(end).toMatchObject({verdict: 'undecided', reason: expect.stringContaining('circle')});
  });

  test('may be nested 60 deep, and are undecided far below', () => {
    const deep = (levels: number) => {
      const calls = Array.from({length: levels}, (_, level) => `-A L${level} -j L${level + 1}`);
      return ruleset({filter: ['-A FORWARD -j L0', ...calls, `-A L${levels} -j DROP`].join('\n')});
    };
    expect(flow(deep(60), sent)).toBe('DROP');
    expect(flow(deep(80), sent)).toBe('undecided');
  });

  test('that loop with a probability end, and the shares add up to 1', () => {
    const twice = '-A A -m statistic --mode random --probability 0.5 -j A';
    const rules = ruleset({filter: `-A FORWARD -j A\n${twice}\n${twice}\n-A A -j RETURN`});
    expect(outcomes(rules, sent).map(({verdict, probability}) => [verdict, probability])).toEqual([
      ['undecided', 0.5],
      ['undecided', 0.25],
      ['accept', 0.25],
    ]);
  });

  test('that call each other twice, repeatedly, end', () => {
    const levels = Array.from({length: 40}, (_, level) => `-A L${level} -j L${level + 1}\n-A L${level} -j L${level + 1}`);
    const rules = ruleset({filter: ['-A FORWARD -j L0', ...levels, '-A L40 -m set --match-set asked src -j RETURN'].join('\n')});
    let asked = 0;
    const inSet = () => {
      asked++;
      return false;
    };
    const [end, ...more] = walkPacket(rules, packetOf(sent), {...environment(), inSet});
    expect(more).toEqual([]);
    expect(end).toMatchObject({verdict: 'undecided', reason: expect.stringContaining('too long')});
    // A walk that evaluates the same rules over and over is given up long before its budget of half a million is spent.
    expect(asked).toBeLessThan(50_000);
  });

  test('that are truncated are undecided after their last rule', () => {
    const text = {filter: '-A FORWARD -d 10.96.1.1/32 -j ACCEPT'};
    const cut = {...ruleset(text)};
    const chain = cut.chain('filter', 'FORWARD');
    if (chain === undefined) throw new Error('no chain');
    const incomplete = {
      ...cut,
      chain: () => ({...chain, name: 'FORWARD', complete: false, ruleCount: 1, rules: () => chain.rules(), text: () => chain.text()}),
    };
    expect(outcomes(incomplete, {...sent, to: '10.96.1.2'})[0]).toMatchObject({
      verdict: 'undecided',
      reason: expect.stringContaining('truncated'),
    });
  });
});

describe('rewriting', () => {
  test('DNAT ends the nat table, and later tables see the new destination', () => {
    const nat =
      '-A PREROUTING -d 10.96.1.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.244.2.7:8080\n-A PREROUTING -j DNAT --to-destination 1.2.3.4';
    const filter = '-A FORWARD -d 10.96.1.1/32 -j DROP\n-A FORWARD -d 10.244.2.7/32 -p tcp -m tcp --dport 8080 -j REJECT';
    expect(flow(ruleset({nat, filter}), sent)).toBe('REJECT');
    expect(flow(ruleset({nat}), sent)).toBe('10.244.2.7:8080');
  });

  test.each([
    ['10.244.2.7', '10.244.2.7:80'],
    [':8080', '10.96.1.1:8080'],
    ['10.244.2.7:8080 --random --persistent', '10.244.2.7:8080'],
  ])('DNAT to %s', (to, end) => {
    expect(flow(ruleset({nat: `-A PREROUTING -j DNAT --to-destination ${to}`}), sent)).toBe(end);
  });

  test('DNAT in IPv6', () => {
    const rules = ruleset({nat: '-A PREROUTING -d fd00:96::1/128 -j DNAT --to-destination [fd00:10::5]:8080'});
    expect(flow(rules, {from: 'fd00:10::9', to: 'fd00:96::1', port: 80})).toBe('[fd00:10::5]:8080');
  });

  test('DNAT to a range is drawn, unless it is wide', () => {
    const to = (range: string) => outcomes(ruleset({nat: `-A PREROUTING -j DNAT --to-destination ${range}`}), sent);
    expect(to('10.0.0.1-10.0.0.2:80')).toMatchObject([
      {verdict: 'accept', destination: '10.0.0.1:80', probability: 0.5},
      {verdict: 'accept', destination: '10.0.0.2:80', probability: 0.5},
    ]);
    const [end] = to('10.0.0.1-10.0.9.3:80');
    expect(end).toMatchObject({verdict: 'undecided', destination: null, reason: expect.stringContaining('10.0.0.1-10.0.9.3:80') as string});
  });

  test('NETMAP replaces the network', () => {
    const [end] = outcomes(ruleset({nat: '-A PREROUTING -j NETMAP --to 172.30.0.0/16'}), sent);
    expect(end).toMatchObject({verdict: 'accept', destination: '172.30.1.1:80'});
  });

  test('REDIRECT sends arriving packets to the node, and packets of the node to its loopback', () => {
    const rules = ruleset({nat: '-A PREROUTING -j REDIRECT --to-ports 15001\n-A OUTPUT -j REDIRECT'});
    expect(flow(rules, sent)).toBe('192.168.1.10:15001');
    expect(flow(rules, own)).toBe('127.0.0.1:80');
    expect(flow(rules, {from: 'fd00:192::10', to: 'fd00:96::1', port: 80})).toBe('[::1]:80');
    expect(flow(rules, sent, {redirectAddress: null})).toBe('undecided');
  });

  test('SET may take the mark of a packet from a set', () => {
    const rules = '-A PREROUTING -j SET --map-set marks src --map-mark';
    expect(outcomes(ruleset({mangle: rules}), sent)[0]).toMatchObject({verdict: 'undecided', reason: 'the value of meta mark is unknown'});
    expect(flow(ruleset({mangle: '-A PREROUTING -j SET --add-set seen src'}), sent)).toBe('passes');
  });

  test('only what a process of the node sends has a socket', () => {
    const dropped = (match: string) => flow(ruleset({mangle: `-A POSTROUTING -m owner ${match} -j DROP`}), sent);
    expect(['--socket-exists', '--uid-owner 0', '! --socket-exists', '! --uid-owner 0'].map(dropped)).toEqual([
      'passes',
      'passes',
      'DROP',
      'DROP',
    ]);
    const own = (match: string) => flow(ruleset({filter: `-A OUTPUT -m owner ${match} -j DROP`}), {...sent, from: '192.168.1.10'});
    expect(['--socket-exists', '! --socket-exists', '--uid-owner 0'].map(own)).toEqual(['DROP', 'passes', 'undecided']);
  });

  test.each(['MASQUERADE --random-fully', 'SNAT --to-source 192.168.1.10'])('%s masquerades and ends the nat table', target => {
    expect(flow(ruleset({nat: `-A POSTROUTING -j ${target}\n-A POSTROUTING -j DROP`}), sent)).toBe('passes masqueraded');
  });

  test('RETURN before MASQUERADE leaves the source', () => {
    expect(flow(ruleset({nat: '-A POSTROUTING -d 10.96.0.0/16 -j RETURN\n-A POSTROUTING -j MASQUERADE'}), sent)).toBe('passes');
  });
});

describe('marks', () => {
  const when = (mark: string) => `-A POSTROUTING -m mark --mark ${mark} -j MASQUERADE`;
  const marked = (target: string, mark: string, packet: Sent = sent) =>
    flow(ruleset({mangle: `-A PREROUTING -j ${target}`, nat: when(mark)}), packet) === 'passes masqueraded';

  test.each([
    ['MARK --set-xmark 0x4000/0x4000', 0x1, '0x4001'],
    ['MARK --or-mark 0x4000', 0x1, '0x4001'],
    ['MARK --set-xmark 0x4000/0x0', 0x4001, '0x1'],
    ['MARK --xor-mark 0x4000', 0x4001, '0x1'],
    ['MARK --and-mark 0x4000', 0x4001, '0x4000'],
    ['MARK --set-mark 0x4000', 0x1, '0x4000'],
    ['MARK --set-mark 0x4000/0xff', 0x101, '0x4100'],
    ['MARK --set-xmark 0x80000000/0x80000000', 0x1, '0x80000001'],
  ])('%s turns 0x%s into the mark %s', (target, mark, after) => {
    expect(marked(target, `${after}/0xffffffff`, {...sent, mark})).toBe(true);
  });

  // As iptables 1.8.9 prints them; a new connection bears no mark, so what is restored is 0 under its mask.
  test.each([
    ['CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff', 0x4001, 0x0, '0x0'],
    ['CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80', 0x4081, 0x0, '0x4001'],
    ['CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80', 0x4001, 0x80, '0x4081'],
    ['CONNMARK --restore-mark', 0x4001, 0x7, '0x7'],
    ['CONNMARK --restore-mark --mask 0xff', 0x4001, 0x107, '0x4007'],
  ])('%s turns 0x%s and the connection’s 0x%s into the mark %s', (target, mark, connectionMark, after) => {
    expect(marked(target, `${after}/0xffffffff`, {...sent, mark, connectionMark})).toBe(true);
  });

  test.each([
    ['CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff', 0x4001, 0x7, '0x4001'],
    ['CONNMARK --save-mark --nfmask 0xff --ctmask 0xff', 0x4001, 0x702, '0x701'],
    ['CONNMARK --set-xmark 0x80/0x80', 0x0, 0x1, '0x81'],
  ])('%s turns 0x%s and the connection’s 0x%s into the connection’s mark %s', (target, mark, connectionMark, after) => {
    const rules = ruleset({
      mangle: `-A PREROUTING -j ${target}`,
      nat: `-A POSTROUTING -m connmark --mark ${after}/0xffffffff -j MASQUERADE`,
    });
    expect(flow(rules, {...sent, mark, connectionMark})).toBe('passes masqueraded');
  });
});

describe('probability', () => {
  test('at random: each share applies to the remaining packets', () => {
    const rules = ruleset({
      nat: `-A PREROUTING -m statistic --mode random --probability 0.33333333349 -j DNAT --to-destination 10.0.0.1:80
        -A PREROUTING -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.0.0.2:80
        -A PREROUTING -j DNAT --to-destination 10.0.0.3:80`,
    });
    const shares = outcomes(rules, sent).map(({destination, probability}) => [destination, probability.toFixed(4)]);
    expect(shares).toEqual([
      ['10.0.0.1:80', '0.3333'],
      ['10.0.0.2:80', '0.3333'],
      ['10.0.0.3:80', '0.3333'],
    ]);
  });

  test('every n-th packet: the same shares', () => {
    const rules = ruleset({
      nat: `-A PREROUTING -m statistic --mode nth --every 3 --packet 0 -j DNAT --to-destination 10.0.0.1:80
        -A PREROUTING -m statistic --mode nth --every 2 --packet 0 -j DNAT --to-destination 10.0.0.2:80
        -A PREROUTING -j DNAT --to-destination 10.0.0.3:80`,
    });
    for (const {probability} of outcomes(rules, sent)) expect(probability).toBeCloseTo(1 / 3, 10);
  });

  test('with a remainder lets it pass', () => {
    const rules = ruleset({nat: '-A PREROUTING -m statistic --mode random --probability 0.9 -j DNAT --to-destination 10.0.0.1:80'});
    expect(outcomes(rules, sent).map(({destination, probability}) => [destination, probability.toFixed(1)])).toEqual([
      ['10.0.0.1:80', '0.9'],
      [null, '0.1'],
    ]);
  });

  test('for a mark continues with both cases', () => {
    const rules = ruleset({
      nat: `-A PREROUTING -m statistic --mode random --probability 0.25 -j MARK --set-xmark 0x4000/0x4000
        -A PREROUTING -j DNAT --to-destination 10.0.0.1:80
        -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE`,
    });
    const shares = outcomes(rules, sent).map(({masquerade, probability}) => [masquerade, probability]);
    expect(shares.sort()).toEqual([
      [false, 0.75],
      [true, 0.25],
    ]);
  });
});

describe('the path of a packet', () => {
  const everywhere = ['raw', 'mangle', 'nat', 'filter', 'security'] as const;
  const hooks = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'];
  /** Every chain of every table says that it was there. */
  const talking = ruleset(
    Object.fromEntries(everywhere.map(table => [table, hooks.map(hook => `-A ${hook} -j LOG --log-prefix ${table}-${hook}`).join('\n')])),
  );
  const chainsOn = (packet: Sent) => {
    const [end] = outcomes(talking, packet);
    return end?.path.map(({table, chain}) => `${table} ${chain}`);
  };

  test('through the node', () => {
    expect(chainsOn(sent)).toEqual([
      'raw PREROUTING',
      'mangle PREROUTING',
      'nat PREROUTING',
      'mangle FORWARD',
      'filter FORWARD',
      'security FORWARD',
      'mangle POSTROUTING',
      'nat POSTROUTING',
    ]);
  });

  test('to the node', () => {
    expect(chainsOn(inward)).toEqual([
      'raw PREROUTING',
      'mangle PREROUTING',
      'nat PREROUTING',
      'mangle INPUT',
      'filter INPUT',
      'security INPUT',
    ]);
  });

  test('from the node', () => {
    expect(chainsOn(own)).toEqual([
      'raw OUTPUT',
      'mangle OUTPUT',
      'nat OUTPUT',
      'filter OUTPUT',
      'security OUTPUT',
      'mangle POSTROUTING',
      'nat POSTROUTING',
    ]);
  });

  test('from the node to itself leaves and arrives again, without nat on arrival', () => {
    expect(chainsOn({...own, to: '192.168.1.10'})).toEqual([
      'raw OUTPUT',
      'mangle OUTPUT',
      'nat OUTPUT',
      'filter OUTPUT',
      'security OUTPUT',
      'mangle POSTROUTING',
      'nat POSTROUTING',
      'raw PREROUTING',
      'mangle PREROUTING',
      'mangle INPUT',
      'filter INPUT',
      'security INPUT',
    ]);
  });

  test('from the node to itself arrives on the loopback interface', () => {
    const rules = ruleset({filter: '-A INPUT -i lo -j ACCEPT'}, {INPUT: 'DROP'});
    expect(flow(rules, {...own, to: '192.168.1.10'})).toBe('passes');
    expect(flow(rules, {...inward, inInterface: 'eth0'})).toBe('DROP');
  });

  test('is decided by the destination after DNAT', () => {
    const rules = ruleset({nat: '-A PREROUTING -j DNAT --to-destination 192.168.1.10:80', filter: '-A INPUT -j DROP'});
    expect(flow(rules, sent)).toBe('DROP');
    const away = ruleset({nat: '-A PREROUTING -j DNAT --to-destination 10.244.2.7:80', filter: '-A INPUT -j DROP'});
    expect(flow(away, inward)).toBe('10.244.2.7:80');
  });
});

describe('connections that are not tracked', () => {
  const nat = '-A PREROUTING -j DNAT --to-destination 10.0.0.1:80\n-A POSTROUTING -j MASQUERADE';

  test.each(['NOTRACK', 'CT --notrack'])('%s: no address is translated', target => {
    expect(flow(ruleset({raw: `-A PREROUTING -d 10.96.1.1/32 -j ${target}`, nat}), sent)).toBe('passes');
    expect(flow(ruleset({raw: `-A PREROUTING -d 10.96.1.1/32 -j ${target}`, nat}), {...sent, to: '10.96.1.2'})).toBe(
      '10.0.0.1:80 masqueraded',
    );
  });

  test('other uses of CT change nothing', () => {
    expect(flow(ruleset({raw: '-A PREROUTING -j CT --zone 1', nat}), sent)).toBe('10.0.0.1:80 masqueraded');
  });

  test('are in state UNTRACKED', () => {
    const filter = '-A FORWARD -m conntrack --ctstate UNTRACKED -j DROP';
    expect(flow(ruleset({raw: '-A PREROUTING -j NOTRACK', filter}), sent)).toBe('DROP');
  });

  test('has no state before connection tracking: in rules of raw it is INVALID, in all later ones NEW', () => {
    const drop = (state: string) => `-A PREROUTING -m conntrack --ctstate ${state} -j DROP`;
    expect(flow(ruleset({raw: drop('INVALID')}), sent)).toBe('DROP');
    expect(flow(ruleset({raw: drop('NEW')}), sent)).toBe('passes');
    expect(flow(ruleset({mangle: drop('INVALID')}), sent)).toBe('passes');
    expect(flow(ruleset({mangle: drop('NEW')}), sent)).toBe('DROP');
  });
});

describe('targets', () => {
  test.each([
    'LOG --log-prefix x',
    'NFLOG --nflog-group 1',
    'TRACE',
    'TCPMSS --clamp-mss-to-pmtu',
    'CLASSIFY --set-class 1:1',
    'SET --add-set x src',
    'TTL --ttl-set 64',
    'CHECKSUM --checksum-fill',
  ])('%s lets the packet continue', target => {
    expect(flow(ruleset({mangle: `-A PREROUTING -j ${target}\n-A PREROUTING -j DROP`}), sent)).toBe('DROP');
  });

  test('TPROXY gives the packet to a program of the node, whatever its destination', () => {
    const rules = ruleset({mangle: '-A PREROUTING -j TPROXY --on-port 8080', filter: '-A FORWARD -j DROP\n-A INPUT -j REJECT'});
    expect(flow(rules, sent)).toBe('REJECT');
  });

  test('a packet that TTL leaves one hop is not forwarded', () => {
    expect(flow(ruleset({mangle: '-A PREROUTING -j TTL --ttl-set 1'}), sent)).toBe('DROP');
    expect(flow(ruleset({mangle: '-A PREROUTING -j TTL --ttl-set 1'}), {...sent, to: '192.168.1.10'})).toBe('passes');
  });

  test.each([
    ['FORWARD --ttl-set 2', true, 'passes'],
    ['FORWARD --ttl-set 1', false, 'passes'],
    ['FORWARD --ttl-set 1', true, 'DROP'],
    ['FORWARD --ttl-set 1', null, 'undecided'],
    ['PREROUTING --ttl-set 2', true, 'DROP'],
    ['PREROUTING --ttl-set 3', true, 'passes'],
  ])('the hops that TTL leaves decide whether the next node sends a packet on: %s, %s', (rule, isSentOn, expected) => {
    const rules = ruleset({mangle: `-A ${rule.replace(' ', ' -j TTL ')}`});
    const [end] = walkPacket(rules, packetOf(sent), {...environment(), isSentOn: () => isSentOn});
    expect(end?.verdict === 'accept' ? 'passes' : end?.verdict.replace('drop', 'DROP')).toBe(expected);
  });

  test('what may set hops cannot be told is undecided where they matter', () => {
    expect(flow(ruleset({mangle: '-A PREROUTING -m frobnicate -j TTL --ttl-set 1'}), sent)).toBe('undecided');
  });

  test.each([
    ['4', 0.25],
    ['4096', 1],
  ])('HMARK gives one of %s marks, each as likely, and where these are many the outcome is undecided', (mod, share) => {
    const rules = ruleset({
      mangle: `-A PREROUTING -j HMARK --hmark-mod ${mod} --hmark-offset 256`,
      filter: '-A FORWARD -m mark --mark 0x102 -j DROP',
    });
    const [stopped] = outcomes(rules, sent).filter(({verdict}) => verdict !== 'accept');
    expect(stopped).toMatchObject({verdict: mod === '4' ? 'drop' : 'undecided', probability: share});
  });

  test.each([
    [true, 'passes'],
    [false, 'undecided'],
  ])('a realm is that of no packet where no route gives one (%s), and otherwise not known', (isWithout, expected) => {
    const rules = ruleset({filter: '-A FORWARD -m realm --realm 0x5 -j DROP'});
    const [end] = walkPacket(rules, packetOf(sent), {...environment(), isWithoutRealms: () => isWithout});
    expect(end?.verdict.replace('accept', 'passes')).toBe(expected);
  });

  test.each(['NFQUEUE --queue-num 0', 'FROBNICATE'])('%s is unknown: the packet is undecided, and the target is named', target => {
    const [end] = outcomes(ruleset({mangle: `-A PREROUTING -j ${target}`}), sent);
    expect(end).toMatchObject({verdict: 'undecided', destination: null, reason: expect.stringContaining(target.split(' ')[0] ?? '')});
  });

  test.each([
    ['--queue-num 4', [3, 5], 'drop'],
    ['--queue-num 4 --queue-bypass', [3, 5], 'accept'],
    ['--queue-balance 3:4 --queue-bypass', [3, 5], 'undecided'],
    ['--queue-num 4 --queue-bypass', null, 'undecided'],
  ] as const)('NFQUEUE %s, where programs read the queues %j, gives %s', (options, read, verdict) => {
    const rules = ruleset({mangle: `-A PREROUTING -j NFQUEUE ${options}`});
    const readsQueue = (low: number, high: number) => (read === null ? null : read.some(queue => low <= queue && queue <= high));
    expect(walkPacket(rules, packetOf(sent), {...environment(), readsQueue}).map(end => end.verdict)).toEqual([verdict]);
  });

  test.each([
    ['--pol ipsec', true, 'accept'],
    ['--pol ipsec --reqid 1 --proto esp', true, 'accept'],
    ['--pol none', true, 'drop'],
    ['--pol none', false, 'undecided'],
  ])('a DROP for %s, where the kernel has nothing of IPsec (%s), gives %s', (options, isWithoutIPsec, verdict) => {
    const rules = ruleset({filter: `-A FORWARD -m policy --dir in ${options} -j DROP`});
    expect(walkPacket(rules, packetOf(sent), {...environment(), isWithoutIPsec}).map(end => end.verdict)).toEqual([verdict]);
  });

  test('that are unknown are harmless in rules that do not match the packet', () => {
    expect(flow(ruleset({mangle: '-A PREROUTING -d 10.0.0.1/32 -j FROBNICATE'}), sent)).toBe('passes');
  });
});

describe('an unknown match', () => {
  const doubt = '-m frobnicate --level 3';

  test('makes the outcomes that depend on it undecided, and the rule is named', () => {
    const [end] = outcomes(ruleset({filter: `-A FORWARD ${doubt} -j DROP`}), sent);
    expect(end).toMatchObject({
      verdict: 'undecided',
      destination: null,
      probability: 1,
      reason: expect.stringContaining(`-A FORWARD ${doubt} -j DROP`),
    });
    expect(end?.reason).toContain('drop');
  });

  test.each([
    ['a target that does nothing', `-A FORWARD ${doubt} -j LOG`],
    ['no target', `-A FORWARD ${doubt}`],
    ['a chain that returns without effect', `-A FORWARD ${doubt} -j A\n-A A -m comment --comment x -j RETURN`],
    ['the same outcome as without it', `-A FORWARD ${doubt} -j ACCEPT`],
    ['a mark that no rule matches', `-A FORWARD ${doubt} -j MARK --set-xmark 0x1/0x1`],
    ['a mark that the packet already has', `-A FORWARD ${doubt} -j MARK --set-xmark 0x2/0x2`],
    ['any target, as another condition fails', `-A FORWARD ${doubt} -d 10.0.0.1/32 -j DROP`],
  ])('changes nothing with %s', (_, filter) => {
    expect(flow(ruleset({filter}), {...sent, mark: 2})).toBe('passes');
  });

  test('makes the packets that it would translate undecided', () => {
    const rules = ruleset({
      nat: `-A PREROUTING ${doubt} -j DNAT --to-destination 10.0.0.1:80\n-A PREROUTING -j DNAT --to-destination 10.0.0.2:80`,
    });
    const [end] = outcomes(rules, sent);
    expect(end).toMatchObject({verdict: 'undecided', reason: expect.stringContaining('10.0.0.1:80')});
  });

  test('makes masquerading undecided', () => {
    const rules = ruleset({nat: `-A POSTROUTING ${doubt} -j MASQUERADE`});
    expect(outcomes(rules, sent)[0]).toMatchObject({verdict: 'undecided', reason: expect.stringContaining('masquerade')});
  });

  test('that sets a mark makes the outcomes that depend on the mark undecided', () => {
    const rules = ruleset({
      mangle: `-A PREROUTING ${doubt} -j MARK --set-xmark 0x1/0x1`,
      filter: '-A FORWARD -m mark --mark 0x1/0x1 -j DROP',
    });
    expect(outcomes(rules, sent)[0]).toMatchObject({verdict: 'undecided', reason: expect.stringContaining(`${doubt} -j MARK`)});
  });

  test('does not matter if the packet is dropped either way', () => {
    expect(flow(ruleset({filter: `-A FORWARD ${doubt} -j DROP\n-A FORWARD -j DROP`}), sent)).toBe('DROP');
  });

  test('may be one of several: the relevant one is named', () => {
    const filter = `-A FORWARD ${doubt} -j ACCEPT\n-A FORWARD -m other -j DROP`;
    expect(outcomes(ruleset({filter}), sent)[0]?.reason).toContain('-m other -j DROP');
  });

  test('is named, and not a harmless one before it that may also match', () => {
    const filter = `-A FORWARD ${doubt} -j MARK --set-xmark 0x1/0x1\n-A FORWARD -m other -j DROP`;
    expect(outcomes(ruleset({filter}), sent)[0]?.reason).toContain('-m other -j DROP');
  });

  test('makes the shares undecided', () => {
    const rules = ruleset({
      nat: `-A PREROUTING ${doubt} -j DNAT --to-destination 10.0.0.1:80
        -A PREROUTING -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.0.0.1:80
        -A PREROUTING -j DNAT --to-destination 10.0.0.2:80`,
    });
    expect(outcomes(rules, sent).map(({verdict, probability}) => [verdict, probability])).toEqual([
      ['undecided', 0.5],
      ['undecided', 0.5],
    ]);
  });

  test('keeps the probabilities of decided outcomes', () => {
    const rules = ruleset({
      filter: `-A FORWARD ${doubt} -j MARK --set-xmark 0x1/0x1`,
      nat: `-A PREROUTING -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.0.0.1:80
        -A PREROUTING -j DNAT --to-destination 10.0.0.2:80`,
    });
    expect(flow(rules, sent)).toBe('10.0.0.1:80, 10.0.0.2:80');
  });

  test('thirty of them are given up, since nobody could follow all combinations', () => {
    const rules = Array.from(
      {length: 30},
      (_, bit) => `-A PREROUTING -m frobnicate --bit ${bit} -j MARK --set-xmark ${2 ** bit}/${2 ** bit}`,
    );
    const [end, ...more] = outcomes(ruleset({mangle: rules.join('\n')}), sent);
    expect(end).toMatchObject({verdict: 'undecided', probability: 1});
    expect(more).toEqual([]);
  });
});

describe('third-party rules before those of kube-proxy', () => {
  test('a host port of the portmap plugin intercepts a node port', () => {
    const nat = `-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
      -A PREROUTING -j KUBE-SERVICES
      -A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: x" -m multiport --dports 30080 -j CNI-DN-abc
      -A CNI-DN-abc -s 10.244.0.0/16 -p tcp -m tcp --dport 30080 -j CNI-HOSTPORT-SETMARK
      -A CNI-DN-abc -p tcp -m tcp --dport 30080 -j DNAT --to-destination 10.244.1.9:8080
      -A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
      -A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
      -A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -j DNAT --to-destination 10.244.2.7:8080
      -A KUBE-NODEPORTS -p tcp -m tcp --dport 30081 -j DNAT --to-destination 10.244.2.7:8081`;
    expect(flow(ruleset({nat}), {...inward, port: 30080})).toBe('10.244.1.9:8080');
    expect(flow(ruleset({nat}), {...inward, port: 30081})).toBe('10.244.2.7:8081');
  });

  test('Docker’s jump for local addresses does not interfere', () => {
    const nat = `-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
      -A PREROUTING -j KUBE-SERVICES
      -A DOCKER -i docker0 -j RETURN
      -A DOCKER ! -i docker0 -p tcp -m tcp --dport 8000 -j DNAT --to-destination 172.17.0.2:80
      -A KUBE-SERVICES -d 10.96.1.1/32 -j DNAT --to-destination 10.244.2.7:8080`;
    expect(flow(ruleset({nat}), sent)).toBe('10.244.2.7:8080');
    expect(flow(ruleset({nat}), {...inward, port: 8000})).toBe('undecided');
    expect(flow(ruleset({nat}), {...inward, port: 8000}, {notInterfaces: ['docker0']})).toBe('172.17.0.2:80');
  });

  test('NodeLocal DNSCache intercepts DNS before the Service', () => {
    const rules = ruleset({
      raw: '-A PREROUTING -d 10.96.0.10/32 -p udp -m udp --dport 53 -j NOTRACK',
      nat: '-A PREROUTING -d 10.96.0.10/32 -p udp -m udp --dport 53 -j DNAT --to-destination 10.244.2.7:53',
    });
    expect(flow(rules, {from: '10.244.1.5', to: '10.96.0.10', port: 53, protocol: 'udp'})).toBe('passes');
  });
});

describe('a destination that may be an address of the node', () => {
  const to = {from: '198.18.0.1', to: '203.0.113.7', port: 80};

  test('is undecided if INPUT and FORWARD differ, and the address is named', () => {
    const [end, ...more] = outcomes(ruleset({filter: '-A INPUT -j DROP'}), to, {localUnknown: true});
    expect(more).toEqual([]);
    expect(end).toMatchObject({verdict: 'undecided', reason: expect.stringContaining('203.0.113.7')});
  });

  test('does not matter if they agree', () => {
    expect(flow(ruleset({filter: '-A INPUT -j DROP\n-A FORWARD -j DROP'}), to, {localUnknown: true})).toBe('DROP');
    expect(flow(ruleset({filter: '-A OUTPUT -j DROP'}), to, {localUnknown: true})).toBe('passes');
  });
});
