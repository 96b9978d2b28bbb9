import type {NftRule, NftSource, NftTableSource} from '../model/nft-ruleset.ts';
import type {Rule, Ruleset} from '../model/ruleset.ts';
import {startBranch} from './branch.ts';
import {undecideTruncated, nftChains, tablesOf} from './nftables/walk-nft-packet.ts';
import type {Outcome} from './outcome.ts';
import type {Environment, Packet} from './packet.ts';
import {inOrder, routePacket} from './route-packet.ts';
import {summarizeBranches} from './summarize-branches.ts';
import type {WalkContext} from './iptables/walk-chain.ts';
import {iptablesChains} from './iptables/walk-packet.ts';
import {limitsFor, noteWalk} from './walk-limits.ts';

/** A node with rules of both kinds, for example in nftables mode with a network plugin that uses iptables. */
interface WalkedRules {
  /** Of one family; of both backends if both are in use. */
  readonly iptables: readonly Ruleset[];
  readonly nft: NftSource;
  /** Whose base chains were created later, which no dump shows. By default those of nftables. */
  readonly younger?: 'nft' | 'iptables';
}

/**
 * Walks the first packet of a connection through all rules of a node, in the order of hooks and priorities. Of base chains with one
 * priority the kernel runs the younger ones first.
 */
export function walkNode(
  {iptables, nft, younger = 'nft'}: WalkedRules,
  packet: Packet,
  environment: Environment,
): readonly Outcome<Rule | NftRule>[] {
  const contexts = iptables.map((rules): WalkContext => ({rules, environment, ...limitsFor(rules)}));
  const limits = limitsFor(nft);
  const tables = tablesOf(nft, packet.family).filter(table => !isShownByIptables(table, iptables));
  const ofNft = nftChains<Rule>({tables, environment, limits});
  const ofIptables = contexts.flatMap(context => iptablesChains<NftRule>(context));
  const chains = inOrder(younger === 'nft' ? [...ofNft, ...ofIptables] : [...ofIptables, ...ofNft]);
  const ends = routePacket({chains, environment}, startBranch<Rule | NftRule>(packet));
  noteWalk(nft, limits);
  for (const context of contexts) noteWalk(context.rules, context);
  return summarizeBranches(undecideTruncated(ends, tables));
}

/** A table of iptables-nft that the iptables dump contains too, with more detail. */
export function isShownByIptables({id, baseChains}: NftTableSource, iptables: readonly Ruleset[]): boolean {
  const name = /^ip6? (raw|mangle|nat|filter|security)$/.exec(id)?.[1];
  if (name === undefined || !baseChains.every(chain => /^[A-Z]+$/.test(chain.name))) return false;
  return iptables.some(({backend, tables}) => backend !== 'legacy' && tables.has(name));
}
