import process from 'node:process';
import type {Family} from '../../src/model/address.ts';
import {seededRandom} from '../bench/random.ts';
import {laboratory} from './laboratory.ts';
import {runIpvsMutants} from './run-ipvs.ts';
import {runNftMutants} from './run-nftables.ts';
import {describe, Tally} from './tally.ts';

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
