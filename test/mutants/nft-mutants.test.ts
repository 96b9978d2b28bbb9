import process from 'node:process';
import {describe, expect, test} from 'vitest';
import {seededRandom} from '../bench/random.ts';
import {someOf} from '../cases.ts';
import {snapshotOf} from '../fixtures.ts';
import {NftLaboratory} from './nft-laboratory.ts';
import {nftMutations} from './nft-mutations.ts';

/** How many mutants are tried of each ruleset; all of them with `SVC_TRACE_ALL=1`. */
const sample = process.env['SVC_TRACE_ALL'] === '1' ? Number.POSITIVE_INFINITY : 40;

describe('a ruleset of nftables in which one thing was changed', () => {
  test.each(someOf(['1.31', '1.36', '1.33', 'masquerade-all', 'nodeport-all']))('of %s', async capture => {
    const lab = new NftLaboratory(await snapshotOf(`nftables/${capture}`), 'node-a');
    const mutations = seededRandom(7).shuffle(lab.mutations).slice(0, sample);
    expect(mutations.flatMap(mutation => lab.failure(mutation) ?? [])).toEqual([]);
  });
});

test('the changes are of all kinds, and each differs from the original ruleset', () => {
  const ruleset = [
    '\tmap service-ips {',
    '\t\telements = { 10.96.0.1 . tcp . 443 : goto service-A,',
    '\t\t\t     10.96.0.2 . tcp . 443 : goto service-B,',
    '\t\t\t     10.96.0.3 . tcp . 443 : goto service-B }',
    '\t}',
    '\tchain service-A {',
    '\t\tip daddr 10.96.0.1 ip saddr != 10.244.0.0/16 jump mark-for-masquerade',
    '\t\tmeta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 8080, 1 : 10.0.0.2 . 8080 }',
    '\t}',
  ].join('\n');
  const changed = nftMutations(ruleset);
  expect(new Set(changed.map(({kind}) => kind))).toEqual(
    new Set(['deletion', 'doubling', 'other port', 'other address', 'other shares', 'other source', 'other verdict']),
  );
  expect(changed.map(({text}) => text)).not.toContain(ruleset);
});
