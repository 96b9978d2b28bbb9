import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {snapshotOf} from '../fixtures.ts';
import {describeWith} from '../require.ts';
import {disagreements, pooledShares, type Trial} from './kernel/compare.ts';
import {Experiment, type ExperimentSettings} from './kernel/experiment.ts';

type Case = Omit<ExperimentSettings, 'snapshot' | 'backend'> & {readonly capture: string};

const cases: readonly Case[] = [
  {capture: 'nftables/1.36', node: 'node-a', addresses: ['203.0.113.13']},
  {capture: 'nftables/1.33', node: 'node-b'},
  {capture: 'nftables/1.31', node: 'node-a', podInterface: 'veth7'},
];

const backend = 'nftables';

describeWith(['root', 'netns', 'nsenter', 'ip', 'nft', 'conntrack'], 'packet says what the kernel does with nftables', () => {
  describe.each(cases)('with the tables of $capture $node', given => {
    let experiment: Experiment;
    let once: readonly Trial[];
    let twice: readonly (readonly [first: Trial, second: Trial])[];

    beforeAll(async () => {
      experiment = await Experiment.open({...given, backend, snapshot: await snapshotOf(given.capture)});
      twice = await experiment.tryTwice(experiment.questions.filter(({sticky}) => sticky));
      once = await experiment.try(experiment.questions.filter(({sticky}) => !sticky));
    });

    afterAll(() => experiment?.[Symbol.asyncDispose]());

    test('what nft lists of them, as text and as JSON, reads as what was loaded', () => {
      for (const {given: loaded, held} of experiment.read) expect(held).toEqual(loaded);
    });

    test('every packet ends where packet says, and is masqueraded or not', () => {
      expect(once.flatMap(disagreements)).toEqual([]);
      expect(once.length).toBeGreaterThan(700);
      expect(new Set(once.flatMap(({sent}) => sent.map(({fate}) => fate.split(' ')[0])))).toEqual(new Set(['accept', 'reject', 'drop']));
    });

    test('endpoints get the shares that packet says', () => expect(pooledShares(once)).toEqual([]));

    test('a client comes back to its endpoint where a Service has session affinity, and packet says so', () => {
      const first = twice.map(([trial]) => trial);
      expect(first.length).toBeGreaterThan(10);
      expect([...first.flatMap(disagreements), ...pooledShares(first)]).toEqual([]);
      expect(twice.flatMap(trials => experiment.strayed(trials))).toEqual([]);
    });
  });
});
