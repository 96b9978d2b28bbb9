/** The law: the same rules in any form that people paste answer `packet` as the dump does, or "undetermined"; never otherwise. */
import {expect, test} from 'vitest';
import {describeWith} from '../require.ts';
import {ipvsBreaches} from './ipvs-law.ts';
import {iptablesBreaches, nftBreaches} from './law.ts';

describeWith(['root', 'netns', 'iptables-nft', 'iptables-legacy', 'nft'], 'the same rules answer alike in every form', () => {
  test.each([
    ['healthy/1.36-iptables', 'iptables-nft'],
    ['healthy/1.36-iptables', 'ip6tables-nft'],
    ['healthy/1.23-iptables', 'iptables-legacy'],
  ] as const)('%s, listed by %s', async (capture, tool) => {
    expect(await iptablesBreaches(capture, tool)).toEqual([]);
  });

  test('nftables 1.36', async () => {
    expect(await nftBreaches('nftables/1.36')).toEqual([]);
  });
});

test('a node in IPVS mode answers alike in every form', async () => {
  expect(await ipvsBreaches('ipvs/1.36', 24)).toEqual([]);
});
