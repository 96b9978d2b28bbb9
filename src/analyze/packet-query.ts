import {parseAddress} from '../model/address.ts';
import type {Family} from '../model/family.ts';
import type {NodeFacts} from '../model/node-facts.ts';
import type {NftRuleset} from '../model/nft-ruleset.ts';
import type {Ruleset, RuleText} from '../model/ruleset.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {ipsetsOf} from './node-input.ts';
import {walkNftPacket} from '../trace/nftables/walk-nft-packet.ts';
import type {Outcome} from '../trace/outcome.ts';
import type {Environment, Packet} from '../trace/packet.ts';
import {walkSide} from '../trace/side.ts';
import {walkPacket} from '../trace/iptables/walk-packet.ts';
import {missingFromNft, undeterminedBy, unseenChains, watchChains} from './shown-rules.ts';
import {environmentOf} from './outcomes/environment.ts';
import {kernelObstacle} from './outcomes/kernel-obstacle.ts';
import {readIpvsState} from './ipvs/ipvs-state.ts';
import {packetOf} from './outcomes/probes.ts';

/** The packet of a query. */
export interface PacketQuery {
  readonly family: Family;
  readonly source: string;
  readonly destination: string;
  readonly port: number;
  /** `TCP`, `UDP` or `SCTP`. */
  readonly protocol: string;
  readonly inInterface: string | null;
}

/** What one node's rules do to a packet. */
export interface PacketAnswer {
  readonly node: string;
  readonly query: PacketQuery;
  readonly outcomes: readonly Outcome<RuleText>[];
}

export interface PacketNode {
  readonly node: NodeDump;
  readonly facts: NodeFacts;
  readonly rules: PacketRules;
  /** The rules as the text shows them, if the text may be a part of the node's rules. */
  readonly shown?: PacketRules | undefined;
}

/** A node's rules: of iptables in one family, and of nftables. */
export type PacketRules =
  | {readonly iptables: Ruleset; readonly nft: NftRuleset | null}
  | {readonly iptables: null; readonly nft: NftRuleset};

/** Walks the packet through the actual rules of the node. A packet with one of the node's own addresses as source starts on the node. */
export function askPacket(query: PacketQuery, {node, facts, rules, shown}: PacketNode): PacketAnswer {
  const sets = ipsetsOf(node);
  const {servers, bound} = readIpvsState(node);
  const local = {...facts, addresses: [...facts.addresses, ...(bound ?? [])]};
  // Where pasted text does not show kube-ipvs0, it is not known which virtual addresses the device has.
  const unbound = new Set(bound === null && shown !== undefined ? servers?.map(({address}) => address) : []);
  const environment = {...environmentOf(local, {sets, servers: servers ?? [], unbound, strict: true}), obstacle: kernelObstacle(facts)};
  const source = parseAddress(query.source);
  const own = source !== null && environment.isLocal(source) === true && query.inInterface === null;
  const packet = packetOf(query, {
    source: query.source,
    destination: query.destination,
    port: query.port,
    from: {kind: own ? 'node' : 'other', interface: query.inInterface},
  });
  const undecided: Outcome<RuleText> = {
    verdict: 'undecided',
    destination: null,
    probability: 1,
    masquerade: false,
    path: [],
    reason: 'the source or the destination is no address',
  };
  if (packet === null) return {node: node.name, query, outcomes: [undecided]};
  const outcomes = mergeOutcomes(
    shown === undefined ? walkRules(rules, packet, environment) : walkShown(rules, shown, packet, environment),
  );
  const unseen = servers === null && rules.iptables?.chain('nat', 'KUBE-LOAD-BALANCER') !== undefined;
  return {node: node.name, query, outcomes: unseen ? outcomes.map(asUnseen) : outcomes};
}

/** Walks the rules of pasted text. An outcome stands only if the text shows every chain on the path to its end. */
function walkShown(rules: PacketRules, shown: PacketRules, packet: Packet, environment: Environment): readonly Outcome<RuleText>[] {
  const watched = rules.iptables === null ? null : watchChains(rules.iptables);
  const outcomes = walkRules(watched === null ? rules : {...rules, iptables: watched.ruleset}, packet, environment);
  const missing = rules.nft === null ? null : missingFromNft(rules.nft);
  const unseen = [
    ...(watched === null || shown.iptables === null ? [] : unseenChains(shown.iptables, watched.visited)),
    ...(missing === null ? [] : [missing]),
  ];
  return unseen.length === 0 ? outcomes : outcomes.map(outcome => undeterminedBy(outcome, unseen));
}

/** The node's iptables are those of IPVS mode, and its virtual servers were not read. */
function asUnseen(outcome: Outcome<RuleText>): Outcome<RuleText> {
  if (outcome.verdict !== 'accept' || outcome.destination !== null) return outcome;
  return {...outcome, verdict: 'undecided', reason: 'kube-proxy runs in IPVS mode, and the virtual servers of the node were not read'};
}

/** Walks a packet through all rules of a node. */
export function walkRules({iptables, nft}: PacketRules, packet: Packet, environment: Environment): readonly Outcome<RuleText>[] {
  if (iptables === null) return walkNftPacket(nft, packet, environment);
  return nft === null ? walkPacket(iptables, packet, environment) : walkSide({iptables: [iptables], nft, environment}, packet);
}

/** Paths that end alike and pass the same rules are one outcome. */
function mergeOutcomes(outcomes: readonly Outcome<RuleText>[]): readonly Outcome<RuleText>[] {
  const merged = new Map<string, Outcome<RuleText>>();
  for (const outcome of outcomes) {
    const key = JSON.stringify([
      outcome.verdict,
      outcome.destination,
      outcome.masquerade,
      outcome.path.map(({table, chain, line}) => [table, chain, line]),
    ]);
    const before = merged.get(key);
    merged.set(key, before === undefined ? outcome : {...before, probability: before.probability + outcome.probability});
  }
  return [...merged.values()];
}
