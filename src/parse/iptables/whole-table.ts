import {targetsWithoutEffect} from './targets-without-effect.ts';
import type {MergedChain} from './merge-chain.ts';
import type {Section} from './pasted-sections.ts';
import {targetOf} from './section-tables.ts';

/**
 * Whether chains are a complete table: its base chains exist, every chain that a rule jumps to exists, and each has as many jumps as the
 * listing counts. People often leave rules out without a mark.
 */
export function isWholeTable(table: string, chains: readonly MergedChain[], sections: readonly Section[]): boolean {
  if (sections.some(({hasGaps, origin}) => hasGaps || (origin.filtered && origin.isCommand))) return false;
  // A dump without COMMIT was cut before its end.
  if (sections.some(({header, committed}) => header !== null && !committed)) return false;
  const byName = new Map(chains.map(chain => [chain.name, chain]));
  const isDump = sections.every(({header}) => header !== null);
  if (!isDump && !hasBaseChains(table, name => byName.get(name)?.policy != null)) return false;
  if (chains.some(({declared, isContradicted}) => !declared || isContradicted)) return false;
  const jumps = countJumps(chains);
  return (
    [...jumps.keys()].every(name => byName.has(name) || isTarget(name)) &&
    chains.every(({name, references}) => references === null || references === (jumps.get(name) ?? 0))
  );
}

/** Whether all base chains are there without which a listing is none of the whole table. */
export function hasBaseChains(table: string, has: (name: string) => boolean): boolean {
  return (baseChains[table] ?? []).every(has);
}

function countJumps(chains: readonly MergedChain[]): ReadonlyMap<string, number> {
  const jumps = new Map<string, number>();
  for (const {rules} of chains) {
    for (const {text} of rules) {
      const target = targetOf(text);
      if (target !== '') jumps.set(target, (jumps.get(target) ?? 0) + 1);
    }
  }
  return jumps;
}

/** Kernels before 2.6.36 have no INPUT in nat. */
const baseChains: Readonly<Record<string, readonly string[]>> = {
  nat: ['PREROUTING', 'OUTPUT', 'POSTROUTING'],
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
  raw: ['PREROUTING', 'OUTPUT'],
  security: ['INPUT', 'FORWARD', 'OUTPUT'],
};

const targets: ReadonlySet<string> = new Set([
  ...['ACCEPT', 'DROP', 'RETURN', 'QUEUE', 'REJECT', 'DNAT', 'SNAT', 'MASQUERADE', 'REDIRECT', 'NETMAP', 'MARK', 'CONNMARK', 'TCPOPTSTRIP'],
  ...['NOTRACK', 'CT', 'NFQUEUE', 'TPROXY', 'SYNPROXY', 'SNPT', 'DNPT', 'CLUSTERIP'],
  ...targetsWithoutEffect,
]);

function isTarget(name: string): boolean {
  return targets.has(name);
}
