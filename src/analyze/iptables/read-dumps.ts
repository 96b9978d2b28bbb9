import {families, type Family} from '../../model/family.ts';
import type {Ruleset} from '../../model/ruleset.ts';
import type {NodeDump} from '../../model/snapshot.ts';
import {parseDumps} from '../../parse/iptables/iptables-save.ts';

/** What a node holds of iptables. */
export interface Dumps {
  readonly current: ReadonlyMap<Family, Ruleset>;
  readonly both: readonly {readonly family: Family; readonly nft: Ruleset; readonly legacy: Ruleset}[];
  /** The files whose rules have no counters. */
  readonly uncounted: ReadonlySet<string>;
}

/**
 * The output of the node's default tools has precedence over that of a backend asked for by name, unless kube-proxy's rules are in the other
 * backend alone: kube-proxy may run with other tools than the node's.
 */
export function readDumps(node: NodeDump): Dumps {
  const current = new Map<Family, Ruleset>();
  const named = new Map<string, Ruleset>();
  const uncounted = new Set<string>();
  for (const family of families) {
    const tool = family === 'IPv4' ? 'iptables' : 'ip6tables';
    for (const file of [`${tool}-save`, `${tool}-nft-save`, `${tool}-legacy-save`]) {
      const content = node.read(file);
      if (content === null) continue;
      const rulesets = parseDumps(content, family);
      if (rulesets.every(({isUncounted}) => isUncounted)) uncounted.add(file);
      for (const ruleset of rulesets) {
        const backend = file.includes('-nft-') ? 'nft' : file.includes('-legacy-') ? 'legacy' : ruleset.backend;
        if (backend !== null) named.set(`${ruleset.family} ${backend}`, ruleset);
        const isFirst =
          !current.has(ruleset.family) || (file === `${tool}-save` && ruleset.backend === current.get(ruleset.family)?.backend);
        if (isFirst) current.set(ruleset.family, ruleset);
      }
    }
  }
  const both = families.flatMap(family => {
    const nft = named.get(`${family} nft`);
    const legacy = named.get(`${family} legacy`);
    return nft === undefined || legacy === undefined ? [] : [{family, nft, legacy}];
  });
  for (const {family, nft, legacy} of both) {
    const [own] = [nft, legacy].filter(holdsServices);
    if (own !== undefined && !(holdsServices(nft) && holdsServices(legacy))) current.set(family, own);
  }
  return {current, both, uncounted};
}

/** Rules of Services. */
export function holdsServices(ruleset: Ruleset): boolean {
  return (ruleset.chain('nat', 'KUBE-SERVICES')?.ruleCount ?? 0) > 0;
}

/** All that the kernel holds of a family, as far as it was read: both backends where both are in use. */
export function allOf({current, both}: Dumps, family: Family): readonly Ruleset[] {
  const pair = both.find(one => one.family === family);
  const one = current.get(family);
  return pair !== undefined ? [pair.nft, pair.legacy] : one === undefined ? [] : [one];
}

export function countRules({current}: Dumps): {readonly rules: number; readonly chains: number} {
  const all = [...current.values()];
  return {rules: all.reduce((sum, {ruleCount}) => sum + ruleCount, 0), chains: all.reduce((sum, {chainCount}) => sum + chainCount, 0)};
}
