import {expect, test} from 'vitest';
import {invalidRules} from '../../../src/analyze/iptables/misprints.ts';
import type {Ruleset} from '../../../src/model/ruleset.ts';
import {parseDumps} from '../../../src/parse/iptables/iptables-save.ts';

function rulesetOf(...rules: readonly string[]): Ruleset {
  const [ruleset] = parseDumps(`*nat\n:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]\n:OTHER - [0:0]\n${rules.join('\n')}\nCOMMIT\n`);
  if (ruleset === undefined) throw new Error('no ruleset');
  return ruleset;
}

const chain = '-A KUBE-SEP-AAAAAAAAAAAAAAAA';

test.each([
  `${chain} -p tcp -j DNAT --to-destination :0 --persistent`,
  `${chain} -p tcp -j DNAT --to-destination 0.0.0.0:0`,
  `${chain} -p tcp -j DNAT --to-destination 10.244.0.5:80 --random --persistent`,
  `${chain} -p tcp -j DNAT [unsupported revision]`,
  `[12:720] ${chain} -p tcp -j DNAT --to-destination :0 --persistent`,
])('a rule of an older reader is found: %s', rule => {
  const {line} = invalidRules(rulesetOf(`${chain} -s 10.244.0.5/32 -j KUBE-MARK-MASQ`, rule))[0] ?? {};
  expect(line).toBe(5);
});

test('a rule for an endpoint is valid, and so is what other chains hold', () => {
  const valid = `${chain} -p tcp -m tcp -j DNAT --to-destination 10.244.0.5:8080`;
  expect(invalidRules(rulesetOf(valid, '-A OTHER -p tcp -j DNAT --to-destination :0 --persistent'))).toEqual([]);
});
