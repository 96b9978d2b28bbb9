import {afterAll, beforeAll, expect, test} from 'vitest';
import {triesSome} from '../cases.ts';
import type {Family} from '../../src/model/address.ts';
import {Namespace} from '../e2e/kernel/namespace.ts';
import {withKubelet} from '../e2e/live/live-kube-proxy.ts';
import {describeWith} from '../require.ts';
import {type ChurnedMode, checkUnderChurn, iptablesMode, nftablesMode} from './churn-checks.ts';

const checks = triesSome ? 30 : 100;

describeWith(
  ['root', 'netns', 'nft', 'iptables-nft-restore', 'ip6tables-nft-restore', 'iptables-nft-save', 'ip6tables-nft-save'],
  'rules that the kernel took and gives back',
  () => {
    let node: Namespace;
    beforeAll(async () => {
      node = await Namespace.open();
    });
    afterAll(() => node?.[Symbol.asyncDispose]());

    /** As iptables-restore and iptables-save do it. */
    const iptablesInKernel: ChurnedMode = {
      ...iptablesMode,
      files: written => {
        const saved = (family: Family): string => {
          const tool = family === 'IPv4' ? 'iptables-nft' : 'ip6tables-nft';
          node.run(`${tool}-restore`, [], withKubelet(written[family]));
          return node.run(`${tool}-save`, []);
        };
        return {'iptables-save': saved('IPv4'), 'ip6tables-save': saved('IPv6')};
      },
    };

    /** As `nft -f` and `nft -j list ruleset` do it. */
    const nftablesInKernel: ChurnedMode = {
      ...nftablesMode,
      files: ({IPv4, IPv6}) => {
        node.run('nft', ['-f', '-'], `flush ruleset\n${IPv4}${IPv6}`);
        return {'nft-ruleset.json': node.run('nft', ['-j', 'list', 'ruleset'])};
      },
    };

    test.each([iptablesInKernel, nftablesInKernel])(
      `${checks} checks in $mode mode have no finding, and each finds the rule that was removed`,
      mode => {
        const wrong: unknown[] = [];
        for (let seed = 1; seed <= checks; seed++) {
          const {findings, broken} = checkUnderChurn(seed, 10_000, mode);
          if (findings.length > 0) wrong.push({seed, found: findings.map(({code, message}) => `${code} ${message}`)});
          if (broken !== null && broken.findings.length === 0) wrong.push({seed, missed: broken.removed});
        }
        expect(wrong).toEqual([]);
      },
    );
  },
);
