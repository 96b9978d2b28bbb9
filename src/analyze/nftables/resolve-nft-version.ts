import {compareNftTable} from '../../compare/compare-nft-table.ts';
import {expectTable} from '../../expect/nftables/expect-table.ts';
import {tableId} from '../../expect/nftables/expected-table.ts';
import {inferNftConfig} from '../../expect/nftables/infer-nft-config.ts';
import {families} from '../../model/family.ts';
import type {NftRuleset} from '../../model/nft-ruleset.ts';
import type {KubeProxyVersion, ProxyConfig} from '../../model/proxy-config.ts';
import type {NodeInput} from '../proxy-mode.ts';
import {asNftExpectation} from './nft-expectation.ts';
import {kubeProxyTables} from './read-nft.ts';

/** Versions whose tables look alike and that treat some Services in different ways. */
const lookalikes: readonly (readonly number[])[] = [[37, 36], [35, 34], [33], [32, 31, 30], [29]];

/** If kube-proxy's version is only guessed: the version that the table shows, and of similar ones the one that matches best. */
export function resolveNftVersion(input: NodeInput, ruleset: NftRuleset): ProxyConfig {
  const {config} = input;
  const {value, source} = config.version;
  if (value.guessed === undefined) return config;
  const seen = inferNftConfig(kubeProxyTables(ruleset)).version;
  if (seen === undefined) return config;
  const alike = lookalikes.find(minors => minors.includes(seen.minor)) ?? [seen.minor];
  let best = {config, differences: Number.POSITIVE_INFINITY};
  for (const minor of new Set([...(alike.includes(value.minor) ? [value.minor] : []), ...alike])) {
    const version: KubeProxyVersion = minor === value.minor ? value : {text: `about v1.${minor}`, minor, patch: 0, guessed: true};
    const candidate = {...config, version: {value: version, source}};
    const differences = countDifferences({...input, config: candidate}, ruleset);
    if (differences < best.differences) best = {config: candidate, differences};
    if (differences === 0) break;
  }
  return best.config;
}

function countDifferences(input: NodeInput, ruleset: NftRuleset): number {
  return families.reduce((sum, family) => {
    const table = ruleset.tables.get(tableId(family));
    if (table === undefined) return sum;
    const {differences} = compareNftTable(asNftExpectation(expectTable({...input, family, table})), table);
    return sum + differences.filter(({name}) => name !== 'cluster-ips-check').length;
  }, 0);
}
