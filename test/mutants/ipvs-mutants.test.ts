import {describe, expect, test} from 'vitest';
import {someOf} from '../cases.ts';
import {captureNames, snapshotOf} from '../fixtures.ts';
import {IpvsLaboratory, type IpvsMutant} from './ipvs-mutants.ts';

/** One in so many; `npm run test:mutants ipvs` tries them all. */
const step = 53;

describe.each(someOf(captureNames('ipvs')))('every change to %s is found', name => {
  test('of a virtual server, a real server, an element, an address or a rule', async () => {
    const lab = new IpvsLaboratory(await snapshotOf(name));
    const sample = lab.mutants.filter((_, index) => index % step === 7);
    expect(sample.length).toBeGreaterThan(15);
    expect(sample.filter(mutant => lab.examine(mutant).length === 0).map(describeMutant)).toEqual([]);
  });

  test('and is an error if a real server is added, removed or drained, or a virtual server is removed', async () => {
    const lab = new IpvsLaboratory(await snapshotOf(name));
    const grave = lab.mutants.filter(
      ({file, change}) => file === 'ipvsadm-save' && ['deleted', 'joined', 'routed', 'drained'].includes(change),
    );
    const sample = grave.filter((_, index) => index % (step * 2) === 11);
    expect(sample.length).toBeGreaterThan(2);
    const quiet = sample.filter(mutant => lab.examine(mutant).every(({severity}) => severity !== 'error'));
    expect(quiet.map(describeMutant)).toEqual([]);
  });
});

function describeMutant({file, place, change, before}: IpvsMutant): string {
  return `${file}:${place} ${change}: ${before}`;
}
