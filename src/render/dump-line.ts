import type {RuleText} from '../model/ruleset.ts';

/**
 * The line of a rule in the node's dump or in pasted text. 0 if it has none: rules in JSON are counted in their chain, and IPVS servers,
 * elements of ipsets and addresses are found by their key.
 */
export function dumpLine({table, line, isOrdinal}: Pick<RuleText, 'table' | 'line' | 'isOrdinal'>): number {
  return isOrdinal || keyed.has(table) ? 0 : line;
}

const keyed: ReadonlySet<string> = new Set(['ipvs', 'ipset', 'kube-ipvs0']);
