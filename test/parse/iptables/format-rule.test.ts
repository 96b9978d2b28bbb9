import {describe, expect, test} from 'vitest';
import {formatRule} from '../../rendered-dump.ts';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';
import {parseRule} from '../../../src/parse/iptables/rule.ts';
import {readFixture} from '../../fixtures.ts';

const parse = (text: string) => parseRule(text, {table: 'nat', chain: text.split(' ')[1] ?? '', line: 1});

describe('a parsed rule', () => {
  test.each([
    '-A C',
    '-A KUBE-FW-A -s 203.0.113.0/24 -m comment --comment "shop/web:http loadbalancer IP" -j KUBE-EXT-A',
    '-A KUBE-SVC-A -d 10.96.1.1/32 ! -i veth+ -p tcp -m comment --comment "shop/web cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ',
    '-A INPUT -m comment --comment "it\\\'s \\"quoted\\" \\\\ back" -j ACCEPT',
    '-A INPUT -m comment --comment -j -j ACCEPT',
    '-A INPUT -m comment --comment "" -g Y',
    '-A X -p tcp -m tcp ! --dport 22 -m statistic --mode nth --every 3 --packet 0 -j REJECT --reject-with tcp-reset',
    '-A X -m iprange --src-range 10.0.0.1-10.0.0.9 -m addrtype ! --dst-type LOCAL,BROADCAST -j ACCEPT',
    '-A X ! -f -j DROP',
    '-A X -m unheard --of ! --twice a b -j NEITHER --this "one or more" --that x',
  ])('prints %s unchanged', text => {
    expect(formatRule(parse(text))).toBe(text);
  });

  test.each(['iptables-nft-save', 'ip6tables-nft-save', 'many-extensions', 'quoted-texts'])(
    'prints every rule of the dump %s unchanged, which iptables 1.8.9 wrote',
    name => {
      const dump = readFixture(`parse/${name}`);
      const [ruleset] = parseDumps(dump);
      const chains = [...(ruleset?.tables.values() ?? [])].flatMap(table => [...table.chains.values()]);
      const lines = dump.toString().split('\n');
      const rules = lines.filter(line => line.startsWith('-A ')).map(line => line.trimEnd());
      expect(ruleset?.strays).toEqual([]);
      expect(chains.flatMap(chain => chain.rules().map(formatRule))).toEqual(rules);
    },
  );

  test('prints one space even if iptables prints two', () => {
    expect(formatRule(parse('-A C -m nfacct --nfacct-name  ct_state_invalid_dropped_pkts -j DROP'))).toBe(
      '-A C -m nfacct --nfacct-name ct_state_invalid_dropped_pkts -j DROP',
    );
  });
});
