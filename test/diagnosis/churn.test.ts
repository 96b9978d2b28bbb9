import {expect, test} from 'vitest';
import {cases} from '../cases.ts';
import {checkUnderChurn, iptablesMode, ipvsMode, nftablesMode} from '../churn/churn-checks.ts';

const seeds = Array.from({length: cases({usual: 3, long: 12})}, (_, index) => index + 1);

test.each([iptablesMode, nftablesMode, ipvsMode])(
  'in $mode mode finds nothing on nodes that lag by up to 10 s, with a different lag for each stream and family, and finds every removed rule',
  mode => {
    for (const seed of seeds) {
      const {findings, lag, late, broken} = checkUnderChurn(seed, 10_000, mode);
      expect({seed, found: findings.map(({code, message}) => `${code} ${message}`)}).toEqual({seed, found: []});
      expect(lag?.seconds).toBeLessThanOrEqual(late + 0.1);
      if (broken !== null) expect({seed, removed: broken.removed, found: broken.findings.length > 0}).toMatchObject({seed, found: true});
    }
  },
);

test('a node that has none of the node ports yet, which were added just before, is late and has no emptied map', () => {
  const {findings, lag, broken} = checkUnderChurn(1447, 10_000, nftablesMode);
  expect(findings.map(({code, message}) => `${code} ${message}`)).toEqual([]);
  expect(lag?.service).toBeDefined();
  expect(broken?.findings.length).not.toBe(0);
});
