import {expect, test} from 'vitest';
import {triesSome} from '../cases.ts';
import {checkUnderChurn, iptablesMode, ipvsMode, nftablesMode} from './churn-checks.ts';

// What test/diagnosis/churn.test.ts does with a sample. CI tries a part of it.
const checks = triesSome ? 30 : 1000;

test.each([iptablesMode, nftablesMode, ipvsMode])(
  `${checks} checks of nodes in $mode mode that follow late have no finding, and each finds the rule that was removed`,
  mode => {
    const wrong: unknown[] = [];
    for (let seed = 1001; seed <= 1000 + checks; seed++) {
      const {findings, broken} = checkUnderChurn(seed, 10_000, mode);
      if (findings.length > 0) wrong.push({seed, found: findings.map(({code, message}) => `${code} ${message}`)});
      if (broken !== null && broken.findings.length === 0) wrong.push({seed, missed: broken.removed});
    }
    expect(wrong).toEqual([]);
  },
  1_800_000,
);
