import type {RuleText} from '../model/ruleset.ts';

/**
 * The line of a rule in the node's dump; 0 where there is none to look up: nft prints JSON, and IPVS servers and elements of ipsets are
 * numbered, so that what stands for them is their key.
 */
export function dumpLine({table, line}: Pick<RuleText, 'table' | 'line'>): number {
  return iptablesTables.has(table) ? line : 0;
}

const iptablesTables: ReadonlySet<string> = new Set(['raw', 'mangle', 'nat', 'filter', 'security']);
