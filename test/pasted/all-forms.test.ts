/** The law of `forms.test.ts` on every capture, with each of the tools. */
import {expect, test} from 'vitest';
import {captureNames} from '../fixtures.ts';
import {describeWith} from '../require.ts';
import {ipvsBreaches} from './ipvs-law.ts';
import {iptablesBreaches, nftBreaches} from './law.ts';

describeWith(['root', 'netns', 'iptables-nft', 'iptables-legacy', 'nft'], 'every capture answers alike in every form', () => {
  // Rules of IPVS mode match on the kernel's IPVS connections, which few kernels of test machines know.
  const captures = captureNames('healthy', 'settings', 'eras', 'faults').filter(name => !name.includes('ipvs'));

  // The forms of a dump of this size take iptables-nft minutes; they differ from others in their length alone.
  const isLarge = (capture: string): boolean => capture === 'settings/large-cluster';
  const toolFor = (capture: string, index: number) => (index % 2 === 0 && !isLarge(capture) ? 'iptables-nft' : 'iptables-legacy');

  test.each(captures.map((capture, index) => [capture, toolFor(capture, index)] as const))('%s, listed by %s', async (capture, tool) => {
    expect(await iptablesBreaches(capture, tool, isLarge(capture) ? {every: 4, from: 1} : undefined)).toEqual([]);
  });

  test.each(captures.map((capture, index) => [capture, index % 2 === 0 ? 'ip6tables-legacy' : 'ip6tables-nft'] as const))(
    '%s, listed by %s',
    async (capture, tool) => {
      expect(await iptablesBreaches(capture, tool)).toEqual([]);
    },
  );

  test.each(captureNames('nftables'))('%s, listed by nft', async capture => {
    expect(await nftBreaches(capture)).toEqual([]);
  });
});

test.each(captureNames('ipvs'))('%s answers alike in every form', async capture => {
  expect(await ipvsBreaches(capture, 3)).toEqual([]);
});
