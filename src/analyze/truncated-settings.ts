import {type ProxyConfig, seenInRules} from '../model/proxy-config.ts';

/** Where a dump is truncated. */
interface Cut {
  readonly table: string;
  readonly line: number;
}

/** Follows `the dump` in messages. A dump in JSON has only one line. */
export function cutReason({table, line}: Cut): string {
  return `is truncated ${line > 1 ? `at line ${line} ` : ''}in table ${table}`;
}

/**
 * Settings that were inferred from a truncated dump may be wrong, so differences from them are no findings. Null if another source
 * has the settings, or the dump is complete.
 */
export function whyDoubtful({version, clusterCIDRs, masqueradeAll, masqueradeBit}: ProxyConfig, cut: Cut | null): string | null {
  const isGuess = version.value.guessed === true || [clusterCIDRs, masqueradeAll, masqueradeBit].some(({source}) => source === seenInRules);
  if (cut === null || !isGuess) return null;
  return `a dump ${cutReason(cut)}, and kube-proxy's settings are known from the rules alone: the rules were not checked`;
}
