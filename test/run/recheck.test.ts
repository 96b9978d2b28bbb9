import {expect, test} from 'vitest';
import type {OpenDiagnosis} from '../../src/diagnosis/diagnose-node.ts';
import {recheck} from '../../src/run/recheck.ts';
import {apiObjects} from '../cluster.ts';
import {findingOf} from '../render/report.ts';

const refused = findingOf('node-a', 'shop/web', {code: 'ST213', name: 'unexpected-reject'});

/** How often node-a is read again, where its first dumps, so many, have tables of two states of shop/web, which changes all the time. */
async function rereads(torn: number, lost = refused): Promise<{readonly reads: number; readonly stands: boolean}> {
  let reads = 1;
  let time = 100_000;
  const findings = () => (reads <= torn ? [lost] : []);
  const diagnosis: Pick<OpenDiagnosis, 'api' | 'findingsOn' | 'renew' | 'resultOf'> = {
    api: apiObjects({}),
    findingsOn: findings,
    renew: () => undefined,
    resultOf: () => ({perhapsTorn: findings().length > 0 ? ['shop/web'] : []}) as unknown as ReturnType<OpenDiagnosis['resultOf']>,
  };
  const doubtful = await recheck({
    diagnosis: diagnosis as OpenDiagnosis,
    readAgain: async () => apiObjects({}),
    take: async () => undefined,
    history: {knownSince: () => 0, hasChanged: () => true, partlyKnown: ['shop/web']},
    nodeReadAt: new Map([['node-a', time]]),
    evaluateAgain: async () => undefined,
    readNodes: async () => {
      reads++;
    },
    signal: new AbortController().signal,
    clock: {
      now: () => time,
      sleep: async milliseconds => {
        time += milliseconds;
      },
    },
    say: () => undefined,
  });
  expect(doubtful).toEqual([]);
  return {reads: reads - 1, stands: findings().length > 0};
}

test('two dumps in a row with tables of two states are read again, and are no finding', async () => {
  expect(await rereads(1)).toEqual({reads: 1, stands: false});
  expect(await rereads(2)).toEqual({reads: 2, stands: false});
});

test('what three dumps in a row show is a finding', async () => {
  expect(await rereads(Infinity)).toEqual({reads: 2, stands: true});
});

test('node ports that none of two torn dumps holds are no finding of the node', async () => {
  expect(await rereads(2, findingOf('node-a', null, {code: 'ST304', name: 'node-ports-unreachable'}))).toEqual({reads: 2, stands: false});
});
