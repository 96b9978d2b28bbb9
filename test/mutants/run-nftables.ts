import process from 'node:process';
import {snapshotOf} from '../fixtures.ts';
import {NftLaboratory} from './nft-laboratory.ts';

/** Tries every mutant of every ruleset of nftables mode, and returns how many got a wrong verdict. */
export async function runNftMutants(wanted: string): Promise<number> {
  let missed = 0;
  for (const capture of ['1.31', '1.33', '1.36', 'masquerade-all', 'nodeport-all']) {
    if (!`nftables/${capture} node-a`.includes(wanted)) continue;
    const lab = new NftLaboratory(await snapshotOf(`nftables/${capture}`), 'node-a');
    const failures = lab.mutations.flatMap(mutation => lab.failure(mutation) ?? []);
    process.stdout.write(`nftables/${capture}: ${lab.mutations.length} mutants, ${failures.length} failures\n${failures.join('\n')}\n`);
    missed += failures.length;
  }
  return missed;
}
