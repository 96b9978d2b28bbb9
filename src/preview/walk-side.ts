import {environmentOf, type EnvironmentOptions} from '../analyze/outcomes/environment.ts';
import {collectPathOutcome, type PathOutcome} from '../analyze/outcomes/path-outcome.ts';
import type {ExpectedRuleset} from '../expect/iptables/expected-ruleset.ts';
import type {ExpectedIpvs} from '../expect/ipvs/expected-ipvs.ts';
import type {ExpectedTable} from '../expect/nftables/expected-table.ts';
import type {NodeContext} from '../expect/node-context.ts';
import type {ServedPort} from '../expect/cluster/served-port.ts';
import type {NodeFacts} from '../model/node-facts.ts';
import type {NftRule, NftTableSource} from '../model/nft-ruleset.ts';
import type {ChainSource, Rule, RuleText} from '../model/ruleset.ts';
import {balanceByIpvs} from '../trace/iptables/walk-packet.ts';
import {iptablesChains} from '../trace/iptables/walk-packet.ts';
import {nftChains} from '../trace/nftables/walk-nft-packet.ts';
import type {Environment, Packet} from '../trace/packet.ts';
import {inOrder, routePacket} from '../trace/route-packet.ts';
import {startBranch} from '../trace/branch.ts';
import {summarizeBranches} from '../trace/summarize-branches.ts';
import {limitsFor} from '../trace/walk-limits.ts';

/** One of the two sides of a node in one family. */
export interface WalkedSide {
  readonly context: NodeContext;
  readonly ports: readonly ServedPort[];
  /** The rules that kube-proxy should have written. */
  readonly expected: ExpectedTable | ExpectedRuleset | ExpectedIpvs;
  readonly iptables: readonly ChainSource[];
  /** kube-proxy's table last: of base chains with one priority the kernel runs the youngest first. */
  readonly nft: readonly NftTableSource[];
  /** With all addresses that count as local. */
  readonly local: NodeFacts;
  readonly options: Pick<EnvironmentOptions, 'sets' | 'servers'>;
}

/** Where the first packet of a connection ends on one side. */
export function walkSide(side: WalkedSide, packet: Packet): PathOutcome<RuleText> {
  const environment = environmentOnce(side);
  const limits = limitsFor(side.nft);
  const chains = inOrder([
    ...nftChains<Rule>({tables: side.nft, environment, limits}),
    ...side.iptables.flatMap(rules => iptablesChains<NftRule>({rules, environment, ...limitsFor(rules)})),
  ]);
  const route = {chains, environment, balance: balanceByIpvs<Rule | NftRule>(environment)};
  return collectPathOutcome<RuleText>(summarizeBranches(routePacket(route, startBranch<Rule | NftRule>(packet))), () => null);
}

const environments = new WeakMap<WalkedSide, Environment>();

/** The same for all packets. */
function environmentOnce(side: WalkedSide): Environment {
  const known = environments.get(side) ?? environmentOf(side.local, side.options);
  environments.set(side, known);
  return known;
}
