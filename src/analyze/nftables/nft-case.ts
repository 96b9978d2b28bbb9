import type {NftDifference} from '../../compare/compare-nft-table.ts';
import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import {type NftPort, parseNftName} from '../../expect/nftables/nft-names.ts';
import type {NftChain, NftSet, NftTable, NftTableSource} from '../../model/nft-ruleset.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {KnownSenders} from '../outcomes/sources.ts';

export type NftPortDifference = NftDifference<NftPort>;

/** One family's table on one node, with the expected one. */
export interface NftCase {
  readonly expected: ExpectedTable;
  readonly actual: NftTable;
  readonly view: NftTableSource;
  readonly senders: () => KnownSenders;
}

export interface NftPortCase extends NftCase {
  readonly item: NftPort;
  readonly differences: readonly NftPortDifference[];
}

export interface NftBaseRulesCase extends NftCase {
  /** Differences that belong to no Service port. */
  readonly differences: readonly NftPortDifference[];
  readonly unexpectedChains: readonly NftChain[];
  /** The networks whose unallocated addresses kube-proxy should drop packets to; null where they are not known. */
  readonly serviceRanges: readonly string[] | null;
}

/**
 * The actual chains and elements of Services inside the expected base rules. The base rules are evaluated separately, so that one
 * broken hook is one finding and not one for every Service.
 */
export function nftServiceView(expected: ExpectedTable, actual: NftTable): NftTableSource {
  const baseRules = new Set(expected.baseRules.map(({name}) => name));
  // All base chains are present: they are the expected ones.
  return withParts(expected, {
    chain: name =>
      baseRules.has(name) ? expected.chain(name) : (actual.chain(name) ?? (actual.declared ? undefined : unread(expected.id, name))),
    set: name => {
      const shape = expected.set(name);
      if (name === 'nodeport-ips') return shape;
      return actual.set(name) ?? (shape === undefined ? undefined : {...shape, elements: new Map(), complete: actual.complete});
    },
  });
}

/** A table with some of its parts replaced. */
function withParts(table: NftTableSource, parts: Partial<Pick<NftTableSource, 'baseChains' | 'chain' | 'set'>>): NftTableSource {
  const {id, family, declared, baseChains} = table;
  return {id, family, declared, baseChains, chain: name => table.chain(name), set: name => table.set(name), ...parts};
}

/** A chain that may follow after the end of a truncated dump. */
function unread(table: string, name: string): NftChain {
  const nothing = {text: () => '', holds: (texts: readonly string[]) => texts.length === 0, rules: () => []};
  return {table, name, base: null, ruleCount: 0, complete: false, ...nothing};
}

/** A table with some of its chains replaced; undefined removes a chain. */
export function withChains(table: NftTableSource, chains: ReadonlyMap<string, NftChain | undefined>): NftTableSource {
  const added = [...chains].flatMap(([name, chain]) =>
    chain !== undefined && chain.base !== null && !table.baseChains.some(base => base.name === name) ? [chain] : [],
  );
  const kept = table.baseChains.flatMap(chain => (chains.has(chain.name) ? asBase(chains.get(chain.name)) : [chain]));
  return withParts(table, {
    baseChains: [...kept, ...added],
    chain: name => (chains.has(name) ? chains.get(name) : table.chain(name)),
  });
}

function asBase(chain: NftChain | undefined): readonly NftChain[] {
  return chain === undefined || chain.base === null ? [] : [chain];
}

/** A table in which one set holds other elements. */
export function withSet(table: NftTableSource, name: string, set: NftSet | undefined): NftTableSource {
  return withParts(table, {set: wanted => (wanted === name ? set : table.set(wanted))});
}

/** The chain that picked the endpoint; null when none of a Service's did. */
export function pickingChain(path: readonly RuleText[]): string | null {
  const rule = path.findLast(({chain}) => {
    const role = parseNftName(chain)?.role;
    return role === 'service' || role === 'local';
  });
  return rule?.chain ?? null;
}

/** The chains that a rule leads to, those of its verdict map among them. */
export function targetsOf({text}: RuleText): readonly string[] {
  return [...text.matchAll(/(?:goto|jump) ([^\s,}]+)/g)].map(found => found[1] ?? '');
}
