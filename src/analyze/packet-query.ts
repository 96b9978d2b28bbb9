import {isLoopback} from '../expect/node-context.ts';
import {type Address, type Family, familyOf, parseAddress} from '../model/address.ts';
import type {Intervals} from '../model/intervals.ts';
import type {NftRuleset, NftTable} from '../model/nft-ruleset.ts';
import {hostIP, type NodeFacts} from '../model/node/node-facts.ts';
import type {Ruleset, RuleText} from '../model/ruleset.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {someOf} from '../model/text.ts';
import {addressesIn} from '../parse/nftables/address-list.ts';
import {walkPacket} from '../trace/iptables/walk-packet.ts';
import type {Environment, Outcome, Packet} from '../trace/packet.ts';
import {senderClassOf} from '../trace/sender-space.ts';
import {type Side, walkConnection} from '../trace/side.ts';
import {listChain} from './iptables/chain-texts.ts';
import {readIpvsState} from './ipvs/ipvs-state.ts';
import {environmentOf, kernelObstacle} from './outcomes/environment.ts';
import {packetOf} from './outcomes/probes.ts';
import {spaceText} from './outcomes/senders.ts';
import {ipsetsOf} from './proxy-mode.ts';

/** The packet of a query. */
export interface PacketQuery {
  readonly family: Family;
  readonly source: string;
  readonly destination: string;
  readonly port: number;
  /** `TCP`, `UDP` or `SCTP`. */
  readonly protocol: string;
  readonly inInterface: string | null;
  /** Null for any. */
  readonly sourcePort?: number | null;
}

/** What one node's rules do to a packet. */
export interface PacketAnswer {
  readonly node: string;
  readonly query: PacketQuery;
  readonly outcomes: readonly PacketOutcome[];
  /** The senders for which this holds, in words: `10.244.11.0/24`. */
  readonly senders?: string;
}

/** An outcome; of a packet that is accepted although the connection fails, that of the reply or of the next packet. */
interface PacketOutcome extends Outcome<RuleText> {
  readonly lost?: 'reply' | 'next';
}

export interface PacketNode {
  readonly node: NodeDump;
  readonly facts: NodeFacts;
  readonly rules: PacketRules;
  /** The rules as the text shows them, if the text may be a part of the node's rules. */
  readonly shown?: PacketRules | undefined;
}

/** A node's rules: of iptables in one family, also of the other backend, and of nftables. */
export type PacketRules =
  | {readonly iptables: Ruleset; readonly nft: NftRuleset | null; readonly others?: readonly Ruleset[]}
  | {readonly iptables: null; readonly nft: NftRuleset; readonly others?: readonly Ruleset[]};

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
  const sent: Packet = {...packet, ...(own ? {} : {client: 'source'}), ...(query.sourcePort == null ? {} : {sourcePort: query.sourcePort})};
  const pods = addressesIn(facts.podCIDRs, query.family);
  const walk = (walkedPacket: Packet, sender?: Environment['sender']): readonly PacketOutcome[] => {
    const walked = {...environment, ...(sender === undefined ? {} : {sender})};
    return shown === undefined
      ? walkRules(rules, walkedPacket, walked, pods)
      : walkShown(rules, shown, {packet: walkedPacket, environment: walked, pods});
  };
  const {space, result} = senderClassOf(packet, sender => walk(sent, sender));
  const onNode = nodeAddress(query, facts);
  const isNodePort = () =>
    onNode !== null && walk({...sent, source: onNode, destination: onNode}).some(({destination}) => destination !== null);
  const outcomes = mergeOutcomes(result).map(outcome => explainLoopback(outcome, query, isNodePort));
  const unseen = servers === null && rules.iptables?.chain('nat', 'KUBE-LOAD-BALANCER') !== undefined;
  return {
    node: node.name,
    query,
    outcomes: unseen ? outcomes.map(asUnseen) : outcomes,
    ...(own ? {} : {senders: spaceText(space, query.family)}),
  };
}

/** The node's own address, for a packet to a loopback address; null for others. */
function nodeAddress({destination, family}: PacketQuery, facts: NodeFacts): Address | null {
  if (!isLoopback(destination)) return null;
  const own = facts.addresses.find(address => familyOf(address) === family && !isLoopback(address));
  return parseAddress(hostIP(facts, family) ?? own ?? '');
}

/** Says of a packet to a loopback address that the node port, which answers on the node's address, is not served there. */
function explainLoopback(outcome: PacketOutcome, {destination, port}: PacketQuery, isNodePort: () => boolean): PacketOutcome {
  const {verdict, destination: rewritten, reason} = outcome;
  if (!isLoopback(destination) || verdict !== 'accept' || rewritten !== null || reason !== undefined || !isNodePort()) return outcome;
  const why = destination.includes(':')
    ? 'no proxy mode has rules for node ports on ::1'
    : 'rules serve node ports on 127.0.0.1 in iptables mode only, unless --iptables-localhost-nodeports is false or --nodeport-addresses leaves it out';
  return {...outcome, reason: `the node port ${port} is not served on a loopback address: ${why}. Only a process of the node can answer`};
}

interface Walked {
  readonly packet: Packet;
  readonly environment: Environment;
  /** The addresses of the node's pods. */
  readonly pods: Intervals;
}

/** Walks the rules of pasted text. An outcome stands only if the text shows every chain on the path to its end. */
function walkShown(rules: PacketRules, shown: PacketRules, {packet, environment, pods}: Walked): readonly PacketOutcome[] {
  if (shown.iptables !== null && shown.nft === null && [...shown.iptables.tables.keys()].join() === 'filter')
    return walkFilterAlone(shown.iptables, packet, environment);
  const watched = rules.iptables === null ? null : watchChains(rules.iptables);
  const outcomes = walkRules(watched === null ? rules : {...rules, iptables: watched.ruleset}, packet, environment, pods);
  const missing = rules.nft === null ? null : missingFromNft(rules.nft);
  const unseen = [
    ...(watched === null || shown.iptables === null ? [] : unseenChains(shown.iptables, watched.visited)),
    ...(missing === null ? [] : [missing]),
  ];
  return unseen.length === 0 ? outcomes : outcomes.map(outcome => undeterminedBy(outcome, unseen));
}

/** The text shows nothing but table filter: a packet that is dropped there is lost, whatever its destination was before. */
function walkFilterAlone(shown: Ruleset, packet: Packet, environment: Environment): readonly PacketOutcome[] {
  const missing = new Set<string>();
  // The end of a listed chain does not show; its policy is what happens there.
  const chain: Ruleset['chain'] = (table, name) => {
    const own = shown.chain(table, name);
    if (own === undefined && table === 'filter' && /^[A-Z]+[-_]/.test(name)) missing.add(`filter/${name}`);
    return own === undefined || own.policy === null ? own : listChain({table, name, policy: own.policy, complete: true}, own.rules());
  };
  const isLocal: Environment['isLocal'] = address => environment.isLocal(address) ?? false;
  return walkPacket({...shown, chain}, packet, {...environment, isLocal}).map(outcome => {
    const isOpen = outcome.verdict === 'accept' || dependsOnNat(shown) || environment.isLocal(packet.destination) === true;
    if (isOpen || missing.size > 0) return undeterminedBy(outcome, [...missing, 'table nat']);
    const parts = [outcome.reason, outcome.policy === undefined ? undefined : `by the policy of ${outcome.policy}`];
    return {...outcome, reason: [...parts.filter(part => part !== undefined), 'this text shows table filter alone'].join('; ')};
  });
}

/** Whether rules match what table nat changes: the destination, the mark, the state of address translation. */
function dependsOnNat(shown: Ruleset): boolean {
  const chains = [...(shown.tables.get('filter')?.chains.values() ?? [])].filter(({name}) => name !== 'INPUT' && name !== 'OUTPUT');
  return chains.some(chain => /(?: |^)(?:-d|-o|--dports?|--mark|--match-set|--dst-type|--ctorig\w+) |DNAT/m.test(chain.text()));
}

/** The node's iptables are those of IPVS mode, and its virtual servers were not read. */
function asUnseen(outcome: PacketOutcome): PacketOutcome {
  if (outcome.verdict !== 'accept' || outcome.destination !== null) return outcome;
  return {...outcome, verdict: 'undecided', reason: 'kube-proxy runs in IPVS mode, and the virtual servers of the node were not read'};
}

/** Walks a connection through all rules of a node: it is accepted only if the reply and the next packet arrive as well. */
export function walkRules(
  {iptables, nft, others = []}: PacketRules,
  packet: Packet,
  environment: Environment,
  pods: Intervals,
): readonly PacketOutcome[] {
  const side: Side = {iptables: [...(iptables === null ? [] : [iptables]), ...others], nft, environment};
  return walkConnection(side, packet, {pods, signature: text => text}).map(({lost, ...outcome}) => {
    if (lost === undefined) return outcome;
    const {verdict, path, reason, policy} = lost.outcome;
    return {
      ...outcome,
      ...{verdict, lost: lost.packet, path: [...outcome.path, ...path]},
      ...(reason === undefined ? {} : {reason}),
      ...(policy === undefined ? {} : {policy}),
    };
  });
}

/** Paths that end alike and pass the same rules are one outcome. */
function mergeOutcomes(outcomes: readonly PacketOutcome[]): readonly PacketOutcome[] {
  const merged = new Map<string, PacketOutcome>();
  for (const outcome of outcomes) {
    const key = JSON.stringify([
      outcome.verdict,
      outcome.lost,
      outcome.destination,
      outcome.masquerade,
      outcome.path.map(({table, chain, line}) => [table, chain, line]),
    ]);
    const before = merged.get(key);
    merged.set(key, before === undefined ? outcome : {...before, probability: before.probability + outcome.probability});
  }
  return [...merged.values()];
}

/** The chains that a walk visited, `table/chain`. */
interface WatchedRuleset {
  readonly ruleset: Ruleset;
  readonly visited: ReadonlySet<string>;
}

/** Records every chain that a walk requests. */
function watchChains(ruleset: Ruleset): WatchedRuleset {
  const visited = new Set<string>();
  const chain: Ruleset['chain'] = (table, name) => {
    visited.add(`${table}/${name}`);
    return ruleset.chain(table, name);
  };
  return {ruleset: {...ruleset, chain}, visited};
}

/**
 * The chains on a packet's path that the text does not show completely. Tables that kube-proxy does not use are assumed to be empty if the
 * text does not show them.
 */
function unseenChains(shown: Ruleset, visited: ReadonlySet<string>): readonly string[] {
  return [...visited].filter(place => {
    const [table = '', name = ''] = place.split('/');
    const own = shown.tables.get(table);
    if (own === undefined) return (table === 'nat' || table === 'filter') && isBaseChain(name);
    const chain = own.chains.get(name);
    // The kernel allows no jump to a missing chain: the text leaves the chain out.
    if (chain === undefined) return isBaseChain(name) ? !own.complete : !isTarget(name);
    return !own.complete && !chain.complete;
  });
}

function isBaseChain(name: string): boolean {
  return /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/.test(name);
}

/** Targets of the kernel, not chains. A chain of this name would have been declared. */
function isTarget(name: string): boolean {
  return /^[A-Z]+$/.test(name);
}

/** An outcome that depends on rules that the text shows only in part. */
function undeterminedBy<R extends RuleText>(outcome: Outcome<R>, unseen: readonly string[]): Outcome<R> {
  const {verdict, destination, masquerade, rewrittenTo} = outcome;
  const names = someOf(unseen, {max: 4});
  const where = destination ?? rewrittenTo ?? null;
  const led =
    verdict === 'undecided'
      ? (outcome.reason ?? 'nowhere')
      : `${verdictWords[verdict]}${where === null ? '' : ` at ${where}`}${masquerade && verdict === 'accept' ? ', masqueraded' : ''}`;
  const reason = `this text does not show all rules of ${names}; by the rules that it shows the packet is ${led}`;
  const undetermined: Outcome<R> = {
    ...outcome,
    verdict: 'undecided',
    destination: null,
    reason: verdict === 'undecided' ? `this text does not show all rules of ${names}; ${led}` : reason,
  };
  return where === null ? undetermined : {...undetermined, rewrittenTo: where};
}

const verdictWords = {accept: 'accepted', reject: 'refused', drop: 'dropped'} as const;

/** What is missing from kube-proxy's table in nftables, as text; null if it is complete. */
function missingFromNft(nft: NftRuleset): string | null {
  if (nft.strays.some(({text}) => /^(?:\.{3,}|…+)$/.test(text))) return 'rules that were left out';
  for (const table of nft.tables.values()) {
    const missing = table.name === 'kube-proxy' ? missingFromTable(table) : null;
    if (missing !== null) return `${missing} of table ${table.id}`;
  }
  return null;
}

/** In every version of kube-proxy's nftables mode. */
const chainsOfProxy = [
  'filter-input',
  'filter-forward',
  'filter-output',
  'nat-prerouting',
  'nat-output',
  'nat-postrouting',
  'services',
  'masquerading',
  'firewall-check',
];

function missingFromTable({chains, sets}: NftTable): string | null {
  const chain = chainsOfProxy.find(name => !chains.has(name));
  if (chain !== undefined) return `chain ${chain}`;
  let checksFirewall = false;
  for (const {name, text} of textsOf({chains, sets})) {
    if (/^(?:\.{3,}|…+)$/m.test(text)) return `some rules of chain ${name}`;
    for (const [, target = ''] of text.matchAll(/\b(?:jump|goto) ([\w./-]+)/g)) {
      if (!chains.has(target)) return `chain ${target}`;
      checksFirewall ||= target === 'firewall-check';
    }
    for (const [, set = ''] of text.matchAll(/@([\w./-]+)/g)) if (!sets.has(set)) return `set or map ${set}`;
  }
  return checksFirewall ? null : 'the base chain that jumps to firewall-check';
}

function textsOf({chains, sets}: Pick<NftTable, 'chains' | 'sets'>): readonly {readonly name: string; readonly text: string}[] {
  return [
    ...[...chains.values()].map(chain => ({name: chain.name, text: chain.text().replace(/"[^"]*"/g, '""')})),
    ...[...sets.values()].map(set => ({name: set.name, text: [...set.elements.values()].map(({value}) => value ?? '').join('\n')})),
  ];
}
