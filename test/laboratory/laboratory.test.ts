/** Real packets through rules of other programs: what `check` and `packet` say is what the kernel does. */
import process from 'node:process';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {triesSome} from '../cases.ts';
import {Examination, possibleIn} from './examine.ts';
import {type Cluster, clusterName, clusters} from './laboratory.ts';
import {scenarios} from './scenarios.ts';
import type {Scenario} from './steps.ts';

const cluster = clusters.find(one => clusterName(one) === process.env['SVC_TRACE_LABORATORY']) ?? clusters[0];
if (cluster === undefined) throw new Error('no cluster');

describe(`kube-proxy's rules for ${clusterName(cluster)}, and`, () => {
  let examination: Examination;
  beforeAll(async () => {
    examination = await Examination.open(cluster);
  });
  afterAll(() => examination[Symbol.asyncDispose]());

  // A flow may be lost, or one of two endpoints missed, by chance.
  test.each(triedIn(cluster))('$name', {retry: 2}, async scenario => {
    const {judgement} = await examination.examine(scenario);
    expect({check: judgement.check, packet: judgement.packet}).toEqual({check: [], packet: []});
  });
});

/**
 * CI tries every other one, and the few that are possible in every kind of cluster, in one kind. `npm run test:laboratory` tries each in all in
 * which it is possible.
 */
function triedIn(kind: Cluster): readonly Scenario[] {
  if (!triesSome) return possibleIn(kind, scenarios);
  const tried = new Map<Cluster, Scenario[]>(clusters.map(one => [one, []]));
  for (const scenario of scenarios.filter(({isAboutPods}, index) => isAboutPods === true || index % 2 === 0)) {
    const [fewest] = clusters
      .filter(one => possibleIn(one, [scenario]).length > 0)
      .map(one => tried.get(one) ?? [])
      .sort((a, b) => a.length - b.length);
    fewest?.push(scenario);
  }
  return tried.get(kind) ?? [];
}
