/** The law of `forms.test.ts` on every capture, with each of the tools. */
import {expect, test} from 'vitest';
import {someOf, triesSome} from '../cases.ts';
import {captureNames} from '../fixtures.ts';
import {describeWith} from '../require.ts';
import {ipvsBreaches} from './ipvs-law.ts';
import {iptablesBreaches, nftBreaches, type SampledForms} from './law.ts';

describeWith(['root', 'netns', 'iptables-nft', 'iptables-legacy', 'nft'], 'every capture answers alike in every form', () => {
  // Rules of IPVS mode match on the kernel's IPVS connections, which few kernels of test machines know.
  const captures = captureNames('healthy', 'settings', 'eras', 'faults').filter(name => !name.includes('ipvs'));

  // The forms of a dump of this size take iptables-nft minutes; they differ from others in their length alone.
  const isLarge = (capture: string): boolean => capture === 'settings/large-cluster';
  const toolFor = (capture: string, index: number) => (index % 2 === 0 && !isLarge(capture) ? 'iptables-nft' : 'iptables-legacy');

  // In CI, five captures share the forms, so that each is listed of some capture.
  const formsAt = (index: number): SampledForms | undefined => (triesSome ? {every: 5, from: index % 5} : undefined);

  test.each(someOf(captures.map((capture, index) => [capture, toolFor(capture, index), index] as const)))(
    '%s, listed by %s',
    async (capture, tool, index) => {
      expect(await iptablesBreaches(capture, tool, isLarge(capture) ? {every: 4, from: 1} : formsAt(index))).toEqual([]);
    },
  );

  test.each(someOf(captures.map((capture, index) => [capture, index % 2 === 0 ? 'ip6tables-legacy' : 'ip6tables-nft', index] as const)))(
    '%s, listed by %s',
    async (capture, tool, index) => {
      expect(await iptablesBreaches(capture, tool, formsAt(index + 1))).toEqual([]);
    },
  );

  test.each(someOf(captureNames('nftables').map((capture, index) => [capture, index] as const)))(
    '%s, listed by nft',
    async (capture, index) => {
      expect(await nftBreaches(capture, formsAt(index))).toEqual([]);
    },
  );
});

test.each(someOf(captureNames('ipvs')))('%s answers alike in every form', async capture => {
  expect(await ipvsBreaches(capture, 3)).toEqual([]);
});
