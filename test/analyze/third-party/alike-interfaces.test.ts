import {describe, expect, test} from 'vitest';
import {alikeInterfaces} from '../../../src/analyze/third-party/alike-interfaces.ts';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';
import {environment} from '../../trace/send.ts';

const interfaces = ['eth0', 'cali0', 'cali1', 'cali2'];

/** The interfaces whose packets meet the same rules as those of cali0, of a program with a chain for each. */
function likeCali0(way: 'in' | 'out', rulesOf: (chain: string, at: number) => readonly string[]): readonly string[] {
  const own = [0, 1, 2].map(at => ({chain: `cali-${way}-${at}`, flag: way === 'in' ? '-i' : '-o', at}));
  const lines = [
    ...[':FORWARD ACCEPT [0:0]', ':cali-dispatch - [0:0]', ...own.map(({chain}) => `:${chain} - [0:0]`)],
    '-A FORWARD -j cali-dispatch',
    ...own.map(({chain, flag, at}) => `-A cali-dispatch ${flag} cali${at} -g ${chain}`),
    ...own.flatMap(({chain, at}) => rulesOf(chain, at)),
  ];
  let asked: readonly string[] = [];
  const alike = alikeInterfaces({
    ...{iptables: parseDumps(`*filter\n${lines.join('\n')}\nCOMMIT\n`), tables: [], sets: new Map(), family: 'IPv4'},
    environment: {
      ...environment(),
      interfaces: () => interfaces,
      behind: names => {
        asked = typeof names === 'string' ? [names] : [...names];
        return [];
      },
    },
  });
  alike.behind('cali0', way);
  return asked;
}

describe.each(['in', 'out'] as const)('interfaces with a chain for each (%s)', way => {
  test('are alike where the chains hold the same rules, whatever their names', () => {
    expect(likeCali0(way, chain => [`-A ${chain} -m mark --mark 0x1 -j DROP`])).toEqual(['cali0', 'cali1', 'cali2']);
  });

  test('are not where one has another rule', () => {
    expect(likeCali0(way, (chain, at) => [`-A ${chain} -m mark --mark 0x${at === 1 ? 2 : 1} -j DROP`])).toEqual(['cali0', 'cali2']);
  });

  test('are not where one ends in a target that is not known', () => {
    expect(likeCali0(way, (chain, at) => [`-A ${chain} -j ${at === 1 ? 'OTHER' : 'DROP'}`])).toEqual(['cali0', 'cali2']);
  });
});
