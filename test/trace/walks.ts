import type {NftSource} from '../../src/model/nft-ruleset.ts';
import type {ChainSource} from '../../src/model/ruleset.ts';
import type {Environment, Outcome, Packet} from '../../src/trace/walked-packet.ts';
import {walkSide} from '../../src/trace/side.ts';

/** Walks a packet through these rules of iptables alone. */
export function walkPacket(rules: ChainSource, packet: Packet, environment: Environment): readonly Outcome[] {
  return walkSide({iptables: [rules], nft: null, environment}, packet);
}

/** Walks a packet through these tables of nftables alone. */
export function walkNftPacket(nft: NftSource, packet: Packet, environment: Environment): readonly Outcome[] {
  return walkSide({iptables: [], nft, environment}, packet);
}
