import type {Family} from '../../model/family.ts';
import type {NftChain, NftRule, NftSource, NftTableSource} from '../../model/nft-ruleset.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {type ChainResult, startBranch, undecided} from '../branch.ts';
import type {Outcome} from '../outcome.ts';
import type {Environment, Packet} from '../packet.ts';
import {type HookedChain, type HookName, inOrder, routePacket} from '../route-packet.ts';
import {summarizeBranches} from '../summarize-branches.ts';
import {limitsFor, noteWalk, type WalkLimits} from '../walk-limits.ts';
import {walkBaseChain} from './walk-nft-chain.ts';

/**
 * Walks the first packet of a connection through all tables of nftables that see it, in the order of hooks and priorities. The
 * probabilities of the outcomes add up to 1.
 */
export function walkNftPacket(source: NftSource, packet: Packet, environment: Environment): readonly Outcome<NftRule>[] {
  const limits = limitsFor(source);
  const tables = tablesOf(source, packet.family);
  const chains = inOrder(nftChains<NftRule>({tables, environment, limits}));
  const ends = routePacket({chains, environment}, startBranch<NftRule>(packet));
  noteWalk(source, limits);
  return summarizeBranches(undecideTruncated(ends, tables));
}

/** The tables that packets of a family pass. */
export function tablesOf({tableSources}: NftSource, family: Family): readonly NftTableSource[] {
  const own = family === 'IPv4' ? 'ip' : 'ip6';
  return tableSources.filter(table => (table.family === own || table.family === 'inet') && !('dormant' in table && table.dormant === true));
}

/** A packet that passes a truncated dump is undecided: base chains after its end are unknown. */
export function undecideTruncated<R extends RuleText>(
  ends: readonly ChainResult<R>[],
  tables: readonly NftTableSource[],
): readonly ChainResult<R>[] {
  const truncated = tables.find(({declared}) => !declared);
  if (truncated === undefined) return ends;
  const reason = `the dump was truncated in table ${truncated.id}, and there may be more base chains in it`;
  return ends.map(end => (end.verdict === 'accept' ? undecided(end, reason) : end));
}

interface BaseChain {
  readonly table: NftTableSource;
  readonly chain: NftChain;
  readonly hook: HookName;
  readonly priority: number;
  readonly isNat: boolean;
  readonly age: number;
}

interface NftPath {
  readonly tables: readonly NftTableSource[];
  readonly environment: Environment;
  readonly limits: WalkLimits;
  /** Whether a base chain is walked as one of iptables. */
  readonly isShown?: (table: NftTableSource, chain: NftChain) => boolean;
}

/** All base chains, as parts of a path with rules of other kinds (`R`). A list has tables and chains in the order of their creation. */
export function nftChains<R extends RuleText>({
  tables,
  environment,
  limits,
  isShown = () => false,
}: NftPath): readonly HookedChain<R | NftRule>[] {
  const chains = tables.flatMap((table, index) =>
    table.baseChains.filter(chain => !isShown(table, chain)).flatMap(chain => baseChain(table, chain, tables.length - index)),
  );
  return chains.toReversed().map(({table, chain, hook, priority, isNat, age}) => ({
    ...{hook, isNat, age, natOrder: priority},
    priority: isNat ? natPriority(hook) : priority,
    walk: branch => walkBaseChain<R>({limits, environment, table, hook, priority}, chain, branch),
  }));
}

function baseChain(table: NftTableSource, chain: NftChain, age: number): readonly BaseChain[] {
  const {base} = chain;
  if (base === null || !isHook(base.hook)) return [];
  return [{table, chain, age, hook: base.hook, priority: base.priority, isNat: base.type === 'nat'}];
}

function isHook(text: string): text is HookName {
  return text === 'prerouting' || text === 'input' || text === 'forward' || text === 'output' || text === 'postrouting';
}

/** The kernel runs all NAT chains at this priority; their own priority only orders them. */
function natPriority(hook: HookName): number {
  return hook === 'prerouting' || hook === 'output' ? -100 : 100;
}
