/** The law: the same rules in any form that people paste answer `packet` as the dump does, or "undetermined"; never otherwise. */
import {expect, test} from 'vitest';
import {describeWith} from '../require.ts';
import {ipvsBreaches} from './ipvs-law.ts';
import {iptablesBreaches, nftBreaches} from './law.ts';

describeWith(['root', 'netns', 'iptables-nft', 'iptables-legacy', 'nft'], 'the same rules answer alike in every form', () => {
  // `npm run test:long` tries every form of every capture.
  test.each([
    ['healthy/1.36-iptables', 'iptables-nft', 0],
    ['healthy/1.36-iptables', 'ip6tables-nft', 3],
    ['healthy/1.23-iptables', 'iptables-legacy', 7],
  ] as const)('%s, listed by %s', async (capture, tool, from) => {
    expect(await iptablesBreaches(capture, tool, {every: 25, from})).toEqual([]);
  });

  test('nftables 1.36', async () => {
    expect(await nftBreaches('nftables/1.36', {every: 20, from: 1})).toEqual([]);
  });
});

test('a node in IPVS mode answers alike in every form', async () => {
  expect(await ipvsBreaches('ipvs/1.36', 60)).toEqual([]);
});
