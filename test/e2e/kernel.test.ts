import {cpSync, mkdtempSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {execa} from 'execa';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import type {PacketAnswer} from '../../src/judge/packet-query.ts';
import {families} from '../../src/model/family.ts';
import {capturePath, snapshotOf} from '../fixtures.ts';
import {describeWith} from '../require.ts';
import {disagreements, pooledShares, predictionOf, type Trial} from './kernel/compare.ts';
import {Experiment, type ExperimentSettings} from './kernel/experiment.ts';
import {comparableChains} from './kernel/load-rules.ts';
import type {Question} from './kernel/questions.ts';

type Case = Omit<ExperimentSettings, 'snapshot'> & {readonly capture: string};

const cases: readonly Case[] = process.env['ALL_CASES'] ? JSON.parse(process.env['ALL_CASES']) : [
  {capture: 'healthy/1.36-iptables', node: 'node-a', backend: 'nft'},
  // A cloud may put the address of a load balancer on the nodes; the Service is one with source ranges.
  {capture: 'healthy/1.36-iptables', node: 'node-a', backend: 'legacy', addresses: ['203.0.113.13']},
  {capture: 'healthy/1.23-iptables', node: 'node-a', backend: 'legacy'},
  {capture: 'healthy/1.23-iptables', node: 'node-c', backend: 'nft'},
  {capture: 'settings/masquerade-all', node: 'node-c', backend: 'nft'},
  {capture: 'settings/detect-node-cidr', node: 'node-b', backend: 'legacy'},
  {capture: 'settings/detect-interface-prefix', node: 'node-a', backend: 'nft', podInterface: 'veth7'},
];

const tools = ['iptables', 'ip6tables'].flatMap(tool => [`${tool}-nft-restore`, `${tool}-legacy-restore`]);

describeWith(['root', 'netns', 'nsenter', 'ip', 'conntrack', ...tools], 'packet says what the kernel does', () => {
  describe.each(cases)('$capture $node $backend', given => {
    let experiment: Experiment;
    let once: readonly Trial[];
    let twice: readonly (readonly [Trial, Trial])[];

    beforeAll(async () => {
      const t = performance.now();
      experiment = await Experiment.open({...given, snapshot: await snapshotOf(given.capture)});
      const t1 = performance.now();
      twice = await experiment.tryTwice(experiment.questions.filter(({sticky}) => sticky));
      const t2 = performance.now();
      once = await experiment.try(experiment.questions.filter(({sticky}) => !sticky));
      console.log(Math.round(t1 - t), Math.round(t2 - t1), Math.round(performance.now() - t2));
    });

    afterAll(() => experiment[Symbol.asyncDispose]());

    test('the kernel holds the rules of the dump', () => {
      for (const family of families)
        expect(comparableChains(experiment.loaded.get(family)?.ruleset)).toEqual(comparableChains(experiment.dump(family).ruleset));
    });

    test('every packet ends where packet says, masqueraded or not', () => {
      const tally = Object.groupBy(once.flatMap(({question, sent}) => sent.map(({fate}) => `${question.query.family} ${question.query.protocol} ${fate.split(' ')[0]}`)), x => x);
      console.log(given.capture, given.node, given.backend, once.length, Object.entries(tally).map(([k, v]) => `${k} ${v?.length}`).join(', '));
      expect(once.flatMap(disagreements)).toEqual([]);
    });

    test('endpoints get the shares that packet says', () => expect(pooledShares(once)).toEqual([]));

    test('a client of a Service with session affinity comes back to its endpoint', () => {
      console.log(twice.length, twice.flatMap(([first]) => first.sent).length);
      const first = twice.map(([trial]) => trial);
      expect([...first.flatMap(disagreements), ...pooledShares(first)]).toEqual([]);
      expect(twice.flatMap(returns)).toEqual([]);
    });
  });
});
function returns(t: readonly [Trial, Trial]): readonly string[] {
  return t[0].sent.flatMap((a, i) => t[1].sent[i]?.fate === a.fate ? [] : [`${t[0].question.title} ${a.flow.source} ${a.fate} ${t[1].sent[i]?.fate}`]);
}
