import type {NftRule, NftSource, NftTableSource} from '../model/nft-ruleset.ts';
import type {ChainSource, Rule} from '../model/ruleset.ts';
import {startBranch} from './branch.ts';
import {doubtCut, nftChains, tablesOf} from './nftables/walk-nft-packet.ts';
import type {Outcome} from './outcome.ts';
import type {Environment, Packet} from './packet.ts';
import {inOrder, routePacket} from './route-packet.ts';
import {summarise} from './summarise.ts';
import type {WalkContext} from './walk-chain.ts';
import {iptablesChains} from './walk-packet.ts';
import {limitsFor, noteWalk} from './walk-limits.ts';

/** A node that holds rules of both kinds, as one in nftables mode whose network plugin uses iptables. */
export interface NodeRules {
  readonly iptables: ChainSource;
  readonly nft: NftSource;
}

/**
 * Walks the first packet of a connection through all rules of a node, in the order of hooks and priorities. Where the two have base
 * chains of one priority, those of nftables are taken for the younger ones, which the kernel asks first.
 */
export function walkNode({iptables, nft}: NodeRules, packet: Packet, environment: Environment): readonly Outcome<Rule | NftRule>[] {
  const context: WalkContext = {rules: iptables, environment, ...limitsFor(nft)};
  const tables = tablesOf(nft, packet.family).filter(table => !isOfIptables(table));
  const chains = inOrder([...nftChains<Rule>({tables, environment, limits: context}), ...iptablesChains<NftRule>(context)]);
  const ends = routePacket({chains, environment}, startBranch<Rule | NftRule>(packet));
  noteWalk(nft, context);
  return summarise(doubtCut(ends, tables));
}

/** The tables of iptables-nft, which its own dump tells more of. */
function isOfIptables({id, baseChains}: NftTableSource): boolean {
  return /^ip6? (?:raw|mangle|nat|filter|security)$/.test(id) && baseChains.every(({name}) => /^[A-Z]+$/.test(name));
}
