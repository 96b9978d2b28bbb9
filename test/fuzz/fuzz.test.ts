import {describe, expect, test} from 'vitest';
import {parseDumps} from '../../src/parse/iptables/iptables-save.ts';
import {walkPacket} from '../trace/walks.ts';
import {caseBytes, material, packetOf, externalEnvironment, tryCase} from './try-case.ts';

describe('mangled dumps', () => {
  test('crash nothing, hang nothing, and lose no line', async () => {
    const given = await material();
    const until = Date.now() + 5000;
    for (let seed = 1; seed <= 400 && Date.now() < until; seed++) expect(tryCase(seed, given), `case ${seed}`).toEqual([]);
  });

  test('are the same for the same seed, and others for another seed', async () => {
    const given = await material();
    expect(caseBytes(7, given).equals(caseBytes(7, given))).toBe(true);
    expect(caseBytes(7, given).equals(caseBytes(8, given))).toBe(false);
  });
});

describe('regressions found by mangled dumps', () => {
  test('names of properties that every JavaScript object has are names like any other', () => {
    const [ruleset] = parseDumps('*nat\n:A - [0:0]\n-A A -m constructor toString -j __proto__\nCOMMIT\n');
    expect(ruleset?.chain('nat', 'A')?.rules()[0]).toMatchObject({
      matches: [{name: 'constructor', options: [{values: ['toString']}]}],
      target: {name: '__proto__'},
    });
  });

  test.each(['--mode random --probability NaN', '--mode random --probability 7', '--mode nth --every 0 --packet 0'])(
    'an invalid probability, %s, is unknown and not used',
    statistic => {
      const [ruleset] = parseDumps(`*nat\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -m statistic ${statistic} -j DROP\nCOMMIT\n`);
      const packet = packetOf({source: '10.244.11.4', destination: '10.96.1.1', port: 80, protocol: 'tcp'});
      const outcomes = ruleset === undefined || packet === null ? [] : walkPacket(ruleset, packet, externalEnvironment);
      expect(outcomes).toEqual([expect.objectContaining({verdict: 'undecided', probability: 1})]);
    },
  );
});
