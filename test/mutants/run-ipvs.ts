import process from 'node:process';
import {captureNames, snapshotOf} from '../fixtures.ts';
import {IpvsLaboratory} from './ipvs-mutants.ts';

/** Tries every mutant of the nodes in IPVS mode whose name holds a text; gives back how many are not found. */
export async function runIpvsMutants(wanted: string): Promise<number> {
  let missed = 0;
  for (const name of captureNames('ipvs')) {
    if (!name.includes(wanted)) continue;
    const lab = new IpvsLaboratory(await snapshotOf(name));
    const counts = new Map<string, number>();
    for (const mutant of lab.mutants) {
      const found = new Set(lab.examine(mutant).map(({severity}) => severity));
      const worst = (['error', 'warning', 'info'] as const).find(severity => found.has(severity)) ?? 'missed';
      counts.set(worst, (counts.get(worst) ?? 0) + 1);
      if (worst === 'missed') {
        missed++;
        process.stdout.write(`missed: ${mutant.file}:${mutant.place} ${mutant.change}: ${mutant.before}\n`);
      }
    }
    process.stdout.write(
      `${name}: ${lab.mutants.length} mutants, ${[...counts].map(([worst, count]) => `${count} ${worst}`).join(', ')}\n\n`,
    );
  }
  return missed;
}
