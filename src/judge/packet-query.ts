import {parseAddress} from '../model/address.ts';
import type {Family} from '../model/family.ts';
import type {NodeFacts} from '../model/node-facts.ts';
import type {Ruleset} from '../model/ruleset.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {parseIpsetSave} from '../parse/ipset-save.ts';
import type {Outcome} from '../trace/outcome.ts';
import {walkPacket} from '../trace/walk-packet.ts';
import {environmentOf} from './environment.ts';
import {readIpvsState} from './ipvs/ipvs-state.ts';
import {packetOf} from './probes.ts';

/** A packet that somebody asks about. */
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
  readonly outcomes: readonly Outcome[];
}

export interface PacketNode {
  readonly node: NodeDump;
  readonly facts: NodeFacts;
  readonly ruleset: Ruleset;
}

/** Walks the packet through the rules that the node really holds. A source that is the node's own starts on the node. */
export function askPacket(query: PacketQuery, {node, facts, ruleset}: PacketNode): PacketAnswer {
  const sets = parseIpsetSave(node.read('ipset-save')?.toString('utf8') ?? '');
  const {servers, bound} = readIpvsState(node);
  const local = facts.allAddresses ? facts : {...facts, addresses: [...facts.addresses, ...(bound ?? [])]};
  const environment = environmentOf(local, {sets, servers: servers ?? [], strict: true});
  const source = parseAddress(query.source);
  const own = source !== null && environment.isLocal(source) === true && query.inInterface === null;
  const packet = packetOf(query, {
    source: query.source,
    destination: query.destination,
    port: query.port,
    from: {kind: own ? 'node' : 'other', interface: query.inInterface},
  });
  const undecided: Outcome = {
    verdict: 'undecided',
    destination: null,
    probability: 1,
    masquerade: false,
    path: [],
    reason: 'the source or the destination is no address',
  };
  return {node: node.name, query, outcomes: packet === null ? [undecided] : mergeOutcomes(walkPacket(ruleset, packet, environment))};
}

/** Ways that end alike and pass the same rules are one outcome. */
function mergeOutcomes(outcomes: readonly Outcome[]): readonly Outcome[] {
  const merged = new Map<string, Outcome>();
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
