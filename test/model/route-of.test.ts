import {describe, expect, test} from 'vitest';
import {parseAddress} from '../../src/model/address.ts';
import {type NetworkFacts, noNetworkFacts, routeOf} from '../../src/model/node/node-facts.ts';
import {parseLinks, parsePolicyRules, parseRoutes} from '../../src/parse/network-facts.ts';

const usualRules = [
  {priority: 0, src: 'all', table: 'local'},
  {priority: 32766, src: 'all', table: 'main'},
  {priority: 32767, src: 'all', table: 'default'},
];
const usualRoutes = [
  {dst: 'default', gateway: '192.0.2.1', dev: 'eth0'},
  {dst: '192.0.2.0/24', dev: 'eth0', scope: 'link', prefsrc: '192.0.2.2'},
  {dst: '10.244.12.0/24', gateway: '192.0.2.3', dev: 'eth0'},
  {dst: '10.244.11.4', dev: 'cali123', scope: 'link'},
  {type: 'local', dst: '192.0.2.2', dev: 'eth0', table: 'local', prefsrc: '192.0.2.2'},
];

function facts(routes: readonly object[], rules: readonly object[] = usualRules, links = '[{"ifname":"eth0"}]'): NetworkFacts {
  return {
    ...noNetworkFacts,
    links: parseLinks(links),
    routes: parseRoutes(JSON.stringify(routes)),
    policyRules: {IPv4: parsePolicyRules(JSON.stringify(rules), 'IPv4'), IPv6: null},
  };
}

function address(text: string) {
  const parsed = parseAddress(text);
  if (parsed === null) throw new Error(text);
  return parsed;
}

const lookUp = (to: string, given: NetworkFacts = facts(usualRoutes), query: Parameters<typeof routeOf>[2] = {}) =>
  routeOf(given, address(to), query);

describe('with the usual rules', () => {
  test.each([
    ['192.0.2.2', {kind: 'local', dev: 'eth0', gateway: null, source: '192.0.2.2'}],
    ['10.244.11.4', {kind: 'unicast', dev: 'cali123', gateway: null, source: null}],
    ['10.244.12.9', {kind: 'unicast', dev: 'eth0', gateway: '192.0.2.3', source: null}],
    ['192.0.2.77', {kind: 'unicast', dev: 'eth0', gateway: null, source: '192.0.2.2'}],
    ['198.51.100.1', {kind: 'unicast', dev: 'eth0', gateway: '192.0.2.1', source: null}],
  ])('%s takes the route with the longest prefix', (to, expected) => expect(lookUp(to)).toEqual(expected));

  test('a destination without a route is unreachable, and so is one of a blackhole', () => {
    expect(lookUp('198.51.100.1', facts(usualRoutes.slice(1)))).toEqual({kind: 'unreachable'});
    expect(lookUp('10.244.12.9', facts([...usualRoutes, {type: 'blackhole', dst: '10.244.12.0/26'}]))).toEqual({kind: 'unreachable'});
  });

  test('the lower metric counts', () => {
    const both = [
      {dst: 'default', dev: 'wlan0', metric: 600},
      {dst: 'default', dev: 'eth0', metric: 100},
    ];
    expect(lookUp('198.51.100.1', facts(both))).toMatchObject({dev: 'eth0'});
  });

  test('of equal routes the first counts, over IPv4, unless it has no carrier', () => {
    const network = (dev: string, to = '192.0.2.0/24', flags: readonly string[] = []) => ({dst: to, dev, scope: 'link', flags});
    expect(lookUp('192.0.2.7', facts([network('eth0'), network('br-1')]))).toMatchObject({dev: 'eth0'});
    expect(lookUp('192.0.2.7', facts([network('br-1', '192.0.2.0/24', ['linkdown']), network('eth0')]))).toEqual({kind: 'unknown'});
    const both = ['eth0', 'br-1'].map(dev => network(dev, '2001:db8::/64'));
    expect(
      lookUp('2001:db8::7', {...facts(both), policyRules: {IPv4: null, IPv6: parsePolicyRules(JSON.stringify(usualRules), 'IPv6')}}),
    ).toEqual({
      kind: 'unknown',
    });
  });

  test('several next hops are one interface, or unknown', () => {
    const via = (...devices: readonly string[]) =>
      facts([{dst: 'default', nexthops: devices.map((dev, at) => ({dev, gateway: `10.0.0.${at}`}))}]);
    expect(lookUp('198.51.100.1', via('eth0', 'eth0'))).toMatchObject({dev: 'eth0', gateway: null, gateways: ['10.0.0.0', '10.0.0.1']});
    expect(lookUp('198.51.100.1', via('eth0', 'eth1'))).toEqual({kind: 'unknown'});
  });

  test('what was not seen is unknown', () => {
    expect(lookUp('10.0.0.1', noNetworkFacts)).toEqual({kind: 'unknown'});
    expect(lookUp('fd00::1')).toEqual({kind: 'unknown'});
  });
});

describe('with rules of its own', () => {
  const own = (...rules: readonly object[]) =>
    facts([...usualRoutes, {dst: 'default', dev: 'eth1', table: '100'}], [...usualRules.slice(0, 1), ...rules, ...usualRules.slice(1)]);
  const byMark = own({priority: 10, src: 'all', fwmark: '0x80', fwmask: '0xff', table: '100'});

  test('a mark chooses the table, and is needed only where it matters', () => {
    expect(lookUp('198.51.100.1', byMark, {mark: 0x4080})).toMatchObject({dev: 'eth1'});
    expect(lookUp('198.51.100.1', byMark, {mark: 0x4000})).toMatchObject({dev: 'eth0'});
    expect(lookUp('198.51.100.1', byMark)).toEqual({kind: 'unknown'});
    expect(lookUp('192.0.2.2', byMark)).toMatchObject({kind: 'local'});
  });

  test('so do the source, the interface, and an inverted rule', () => {
    const bySource = own({priority: 10, src: '10.244.11.0', srclen: 24, table: '100'});
    expect(lookUp('198.51.100.1', bySource, {source: address('10.244.11.4')})).toMatchObject({dev: 'eth1'});
    expect(lookUp('198.51.100.1', bySource, {source: address('192.0.2.2')})).toMatchObject({dev: 'eth0'});
    const byInterface = own({priority: 10, src: 'all', iif: 'cali123', table: '100'});
    expect(lookUp('198.51.100.1', byInterface, {iif: 'cali123'})).toMatchObject({dev: 'eth1'});
    expect(lookUp('198.51.100.1', byInterface, {iif: 'lo'})).toMatchObject({dev: 'eth0'});
    const inverted = own({priority: 10, not: null, src: 'all', fwmark: '0x1', table: '100'});
    expect(lookUp('198.51.100.1', inverted, {mark: 0})).toMatchObject({dev: 'eth1'});
    expect(lookUp('198.51.100.1', inverted, {mark: 1})).toMatchObject({dev: 'eth0'});
  });

  test('a table without a route, a throw route and a suppressed prefix lead to the next rule', () => {
    const empty = own({priority: 10, src: 'all', table: '200'});
    expect(lookUp('198.51.100.1', empty)).toMatchObject({dev: 'eth0'});
    const thrown = facts(
      [...usualRoutes, {type: 'throw', dst: '198.51.100.0/24', table: '100'}],
      [{priority: 10, src: 'all', table: '100'}, ...usualRules],
    );
    expect(lookUp('198.51.100.1', thrown)).toMatchObject({dev: 'eth0'});
    const suppressed = own({priority: 10, src: 'all', table: 'main', suppress_prefixlen: 0}, {priority: 11, src: 'all', table: '100'});
    expect(lookUp('198.51.100.1', suppressed)).toMatchObject({dev: 'eth1'});
    expect(lookUp('10.244.12.9', suppressed)).toMatchObject({dev: 'eth0'});
    const byGroup = own({priority: 10, src: 'all', table: 'main', suppress_ifgroup: '5'}, {priority: 11, src: 'all', table: '100'});
    expect(lookUp('10.244.12.9', {...byGroup, links: parseLinks('[{"ifname":"eth0","group":"5"}]')})).toMatchObject({dev: 'eth1'});
    expect(lookUp('10.244.12.9', byGroup)).toMatchObject({dev: 'eth0'});
    const refused = facts([{type: 'prohibit', dst: 'default'}], [{priority: 10, src: 'all', table: 'main', suppress_prefixlen: 0}]);
    expect(lookUp('10.244.12.9', refused)).toEqual({kind: 'unreachable'});
  });

  test('a goto skips rules, and an unreachable rule ends the search', () => {
    const skipped = own({priority: 10, src: 'all', goto: 32766}, {priority: 11, src: 'all', table: '100'});
    expect(lookUp('198.51.100.1', skipped)).toMatchObject({dev: 'eth0'});
    expect(lookUp('198.51.100.1', own({priority: 10, src: 'all', action: 'prohibit'}))).toEqual({kind: 'unreachable'});
  });

  test('a condition that is not evaluated matters only if it changes the result', () => {
    const byUser = own({priority: 10, src: 'all', uid_start: 0, uid_end: 9, table: '100'});
    expect(lookUp('198.51.100.1', byUser)).toEqual({kind: 'unknown'});
    expect(lookUp('198.51.100.1', own({priority: 10, src: 'all', uid_start: 0, uid_end: 9, table: 'main'}))).toMatchObject({dev: 'eth0'});
  });

  test('the rule of VRFs matters only where there is one', () => {
    const l3mdev = {priority: 10, src: 'all', l3mdev: null};
    expect(lookUp('198.51.100.1', own(l3mdev))).toMatchObject({dev: 'eth0'});
    const vrf = '[{"ifname":"blue","linkinfo":{"info_kind":"vrf"}}]';
    expect(lookUp('198.51.100.1', {...own(l3mdev), links: parseLinks(vrf)})).toEqual({kind: 'unknown'});
  });
});

describe('with many rules by source', () => {
  const bySource = (count: number, table: (at: number) => string) => [
    ...usualRules.slice(0, 1),
    ...Array.from({length: count}, (_, at) => ({priority: 10_000 + at, src: `172.18.${at >> 8}.${at & 255}`, table: table(at)})),
    ...usualRules.slice(1),
  ];

  test('each is walked once, however many there are', () => {
    expect(
      lookUp(
        '10.244.12.9',
        facts(
          usualRoutes,
          bySource(10_000, () => '10001'),
        ),
      ),
    ).toMatchObject({dev: 'eth0', gateway: '192.0.2.3'});
    const other = [...usualRoutes, {dst: 'default', gateway: '198.51.100.1', dev: 'eth1', table: '10001'}];
    const given = facts(
      other,
      bySource(10_000, at => String(10_000 + (at % 2))),
    );
    expect(lookUp('10.244.12.9', given)).toEqual({kind: 'unknown'});
    expect(lookUp('10.244.12.9', given, {source: address('172.18.0.1')})).toMatchObject({dev: 'eth1'});
    expect(lookUp('10.244.12.9', given, {source: address('10.244.11.4')})).toMatchObject({dev: 'eth0'});
  });

  test('so is each of rules that lead on to later ones', () => {
    const gotos = Array.from({length: 10_000}, (_, at) => ({priority: 100 + at, src: '172.18.0.1', goto: 100 + at + 1}));
    expect(lookUp('10.244.12.9', facts(usualRoutes, [...gotos, ...usualRules.slice(1)]))).toMatchObject({dev: 'eth0'});
  });

  test('the result is that of trying both for each rule of which it is not known whether it matches', () => {
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * below);
    };
    const routes = ['a', 'b', 'c'].map(table => ({dst: 'default', dev: table === 'c' ? 'eth1' : 'eth0', table}));
    for (let round = 0; round < 300; round++) {
      const rules = Array.from({length: 1 + random(7)}, (_, at) => ({
        priority: at * 10,
        ...(random(2) === 0 ? {src: '172.18.0.1'} : {src: 'all'}),
        ...(random(4) === 0 ? {goto: (at + 1 + random(3)) * 10} : {table: ['a', 'b', 'c', 'none'][random(4)]}),
      }));
      const results = subsets(rules.length).map(chosen => {
        const sure = rules.map((rule, at) => ({...rule, src: rule.src === 'all' || chosen.has(at) ? 'all' : '203.0.113.9'}));
        return JSON.stringify(lookUp('10.0.0.1', facts(routes, sure), {source: address('10.0.0.2')}));
      });
      const [first, ...others] = new Set(results);
      const expected = others.length === 0 ? JSON.parse(first ?? '') : {kind: 'unknown'};
      expect([rules, lookUp('10.0.0.1', facts(routes, rules))]).toEqual([rules, expected]);
    }
  });
});

function subsets(size: number): readonly ReadonlySet<number>[] {
  return Array.from({length: 2 ** size}, (_, bits) => new Set(Array.from({length: size}, (_, at) => at).filter(at => (bits >> at) & 1)));
}
