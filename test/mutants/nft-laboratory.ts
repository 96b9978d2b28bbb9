import {diagnose} from '../../src/diagnose.ts';
import {nodeFacts} from '../../src/expect/read-node-facts.ts';
import type {NodeContext} from '../../src/expect/node-context.ts';
import {environmentOf} from '../../src/analyze/outcomes/environment.ts';
import {probesFor} from '../../src/analyze/outcomes/probes.ts';
import type {Family} from '../../src/model/address.ts';
import type {Finding} from '../../src/model/finding.ts';
import type {NftRuleset} from '../../src/model/nft-ruleset.ts';
import type {NodeDump, Snapshot} from '../../src/model/snapshot.ts';
import {parseNftDump} from '../../src/parse/nftables/nft-dump.ts';
import {walkNftPacket} from '../trace/walks.ts';
import type {Packet} from '../../src/trace/walked-packet.ts';
import {expectedTable} from '../nft-expectation.ts';
import {needsAction} from '../scenario.ts';
import {type NftMutation, nftMutations} from './nft-mutations.ts';
import {withFiles} from '../fixtures.ts';

interface Sent {
  readonly packet: Packet;
  readonly facts: NodeContext['facts'];
}

/** One healthy node in nftables mode, with the outcomes of the packets of all Services: the reference for its mutants. */
export class NftLaboratory {
  readonly mutations: readonly NftMutation[];
  readonly #snapshot: Snapshot;
  readonly #node: NodeDump;
  readonly #packets: readonly Sent[];
  readonly #before: readonly string[];

  constructor(snapshot: Snapshot, name: string) {
    const node = snapshot.nodes.find(one => one.name === name);
    if (node === undefined) throw new Error(`there is no node ${name}`);
    this.#snapshot = snapshot;
    this.#node = node;
    const text = node.read('nft.txt')?.toString() ?? '';
    this.mutations = nftMutations(text);
    this.#packets = (['IPv4', 'IPv6'] as const).flatMap(family => this.#packetsOf(family));
    this.#before = this.#pathOutcomes(parseNftDump(text));
  }

  /** Null when the mutant is found with the right severity: error or warning only when a packet's outcome changes. */
  failure({kind, place, text}: NftMutation): string | null {
    const found = this.#findings(text);
    const pathOutcomes = this.#pathOutcomes(parseNftDump(text));
    const changes = pathOutcomes.some((pathOutcome, at) => pathOutcome !== this.#before[at]);
    const loud = found.some(needsAction);
    // Which service networks there are is not known, so nothing can be said of the rule about them.
    if (found.length === 0 && !changes && place.includes('unallocated ClusterIPs')) return null;
    if (found.length > 0 && (loud || !changes)) return null;
    return `${kind} of ${place}: ${changes ? 'outcomes change' : 'no outcome changes'}; ${found.map(({code, severity}) => `${severity} ${code}`).join(', ')}`;
  }

  #packetsOf(family: Family): readonly Sent[] {
    const {api} = this.#snapshot;
    const table = expectedTable({api, node: this.#node, family});
    const facts = nodeFacts(this.#node, api);
    return table.ports.flatMap(item =>
      probesFor({item, context: table.context, hairpins: item.endpoints.reachable.slice(0, 3)})
        .filter(({knownTo}) => knownTo.size === 0)
        .map(({packet}) => ({packet, facts})),
    );
  }

  #pathOutcomes(ruleset: NftRuleset): readonly string[] {
    return this.#packets.map(({packet, facts}) => {
      const outcomes = walkNftPacket(ruleset, packet, environmentOf(facts));
      const ends = outcomes.map(
        ({verdict, destination, masquerade, probability}) => `${verdict} ${destination} ${masquerade} ${probability.toFixed(5)}`,
      );
      return ends.sort().join('; ');
    });
  }

  #findings(text: string): readonly Finding[] {
    const node = withFiles(this.#node, {'nft.txt': text, 'nft.json': null});
    const {findings} = diagnose({...this.#snapshot, nodes: [node]}, {toolVersion: '0.0.0', nodes: name => name === node.name});
    return findings.filter(({code}) => /^ST[2345]/.test(code));
  }
}
