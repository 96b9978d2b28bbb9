import process from 'node:process';
import type {Family} from '../../src/model/address.ts';
import {seededRandom} from '../bench/random.ts';
import {laboratory} from './laboratory.ts';
import {describe, Tally} from './tally.ts';
import {captureNames, snapshotOf} from '../fixtures.ts';
import {NftLaboratory} from './nft-laboratory.ts';
import {IpvsLaboratory} from './ipvs-mutants.ts';

/** The dumps that are changed, and how many of their mutants are tried: all of them when there is no number. */
const dumps: readonly (readonly [capture: string, family: Family, node: string, sample?: number])[] = [
  ['healthy/1.36-iptables', 'IPv4', 'node-a'],
  ['healthy/1.36-iptables', 'IPv6', 'node-a'],
  ['healthy/1.36-iptables', 'IPv4', 'node-c'],
  ['healthy/1.36-iptables-legacy', 'IPv4', 'node-a'],
  ['healthy/1.30-iptables', 'IPv4', 'node-a'],
  ['healthy/1.30-iptables', 'IPv6', 'node-a'],
  ['healthy/1.26-iptables', 'IPv4', 'node-a'],
  ['healthy/1.23-iptables', 'IPv4', 'node-a'],
  ['healthy/1.23-iptables', 'IPv6', 'node-a'],
  ['eras/1.21-endpoints', 'IPv4', 'node-a'],
  ['settings/masquerade-all', 'IPv4', 'node-a', 600],
  ['settings/nodeport-addresses', 'IPv4', 'node-a', 600],
  ['settings/no-localhost-nodeports', 'IPv4', 'node-a', 600],
  ['settings/large-cluster', 'IPv4', 'node-a', 600],
];

/** Tries every mutant: `npm run test:mutants [part of a capture's name]`. */
const wanted = process.argv[2] ?? '';
const all = new Tally();
for (const [capture, family, node, sample] of dumps) {
  if (!`${capture} ${family} ${node}`.includes(wanted)) continue;
  const lab = await laboratory(capture, family, node);
  const {mutations} = lab;
  const chosen = sample === undefined ? mutations : seededRandom(1).shuffle(mutations).slice(0, sample);
  const tally = new Tally();
  const start = Date.now();
  for (const mutation of chosen) tally.add(lab.examine(mutation));
  const seconds = ((Date.now() - start) / 1000).toFixed(0);
  process.stdout.write(
    `${capture} ${family} ${node}: ${chosen.length} of ${mutations.length} mutants, ${lab.packets} packets, ${seconds} s\n${tally}\n\n`,
  );
  for (const failure of tally.failures) process.stdout.write(`${describe(failure)}\n\n`);
  all.merge(tally);
}
process.stdout.write(`all dumps\n${all}\n`);
const missed = (await runIpvsMutants(wanted)) + (await runNftMutants(wanted));
if (all.failures.length > 0 || missed > 0) process.exitCode = 1;

/** Tries every mutant of every ruleset of nftables mode, and returns how many got a wrong verdict. */
async function runNftMutants(wanted: string): Promise<number> {
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

/** Tries every mutant of the nodes in IPVS mode whose name holds a text; gives back how many are not found. */
async function runIpvsMutants(wanted: string): Promise<number> {
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
