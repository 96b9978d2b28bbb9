import {isLoopback} from '../expect/node-context.ts';
import {type Address, familyOf, joinHostPort, parseAddress} from '../model/address.ts';
import {hostIP, type NodeFacts} from '../model/node/node-facts.ts';
import {droppedOnArrival, misledTo, otherArrivals} from '../model/node/policy-routing.ts';
import type {RuleText} from '../model/ruleset.ts';
import {someOf} from '../model/text.ts';
import {splitHostPort} from '../parse/iptables/comparable-rule.ts';
import type {Environment, Packet} from '../trace/walked-packet.ts';
import {anyPort} from '../trace/side.ts';
import {senderClassOf, type SenderConditions, type SenderSpace} from '../trace/sender-space.ts';
import {masqueradesNothing, nothingMasqueraded} from './iptables/excerpt.ts';
import {wholeText} from '../parse/pasted/split-text.ts';
import {whatTextSays} from './services-in-rules/what-text-says.ts';
import {packetOf} from './outcomes/probes.ts';
import {clientPorts, spaceText} from './outcomes/senders.ts';
import {byLastRule, type PacketOutcome, type PacketRules} from './packet-rules.ts';
import {
  type PacketNode,
  type OtherNodes,
  settingOf,
  isOfIpvs,
  misledDoubt,
  lostInTunnel,
  interfaceAt,
  walkNode,
  walkThere,
  ofEachPort,
} from './packet-node.ts';
import {type PacketQuery, explainUnserved, explainLoopback, explainPing, explainNoEntry} from './packet-service.ts';

/** What one node's rules do to a packet. */
export interface PacketAnswer {
  readonly node: string;
  readonly query: PacketQuery;
  readonly outcomes: readonly PacketOutcome[];
  /** The senders for which this holds, in words: `10.244.11.0/24`. */
  readonly senders?: string;
  readonly space?: SenderSpace;
  /** A tracked flow of the same addresses that these outcomes do not hold for, in a few words and in a sentence. */
  readonly tracked?: {readonly gist: string; readonly text: string} | undefined;
}

const alone: OtherNodes = {nodeOf: () => null, find: () => null, isPod: () => false};

/**
 * Walks the packet through the actual rules of the node, and through those of the endpoint's node where they are known. A packet with one
 * of the node's own addresses as source starts on the node.
 */
export function askPacket(query: PacketQuery, here: PacketNode, others = alone): PacketAnswer {
  const answer = askByOneWay(query, here, others);
  const [client, asked] = [query.source, query.destination].map(parseAddress);
  if (client == null || asked == null || query.inInterface !== null || here.shown !== undefined) return answer;
  const endsOf = ({outcomes}: PacketAnswer): string => String(outcomes.map(({verdict, destination}) => `${verdict} ${destination}`).sort());
  for (const inInterface of otherArrivals(here.facts, client, asked)) {
    const other = askByOneWay({...query, inInterface}, here, others);
    const outcome = other.outcomes.find(({verdict}) => verdict !== 'accept') ?? other.outcomes[0];
    if (endsOf(other) === endsOf(answer) || outcome === undefined) continue;
    const why = outcome.reason ?? byLastRule(outcome.path);
    const reason = `whether the packet comes by ${inInterface}, which a default route leads by too, is not known; there it has another outcome (${outcome.verdict}${why === '' ? '' : `: ${why}`})`;
    return {...answer, outcomes: answer.outcomes.map(one => ({...one, verdict: 'undecided', reason}))};
  }
  return answer;
}

function askByOneWay(query: PacketQuery, here: PacketNode, others: OtherNodes): PacketAnswer {
  const {facts, node, rules} = here;
  const {environment, readsServers} = settingOf(here);
  const source = parseAddress(query.source);
  const own = source !== null && environment.isLocal(source) === true && query.inInterface === null;
  const {family} = query;
  const protocol = query.protocol === 'ICMP' && family === 'IPv6' ? 'icmpv6' : query.protocol;
  const packet = packetOf(
    {family, protocol},
    {
      source: query.source,
      destination: query.destination,
      port: query.port,
      from: {kind: own ? 'node' : 'other', interface: query.inInterface},
    },
  );
  if (packet === null) return {node: node.name, query, outcomes: [undetermined('the source or the destination is no address')]};
  if (here.misprint !== undefined) return {node: node.name, query, outcomes: [undetermined(here.misprint)]};
  const sent: Packet = {...packet, ...(own ? {} : {client: 'source'}), sourcePort: query.sourcePort ?? anyPort};
  const walk = (first: Packet, sender: SenderConditions): readonly PacketOutcome[] =>
    walkNode(here, first, {others, sender}).flatMap(outcome => followOn(outcome, first, {here, others, sender}));
  // Of the node's own packets there are no classes of senders.
  const {space, result} = senderClassOf(packet, sender =>
    own && query.sourcePort == null
      ? ofEachPort(clientPorts, (sourcePort, ports) => walk({...sent, sourcePort, client: 'source'}, ports))
      : walk(sent, sender),
  );
  const onNode = nodeAddress(query, facts);
  const isNodePort = () =>
    onNode !== null &&
    walkNode(here, {...sent, source: onNode, destination: onNode}, {others}).some(({destination}) => destination !== null);
  const unseen = !readsServers && isOfIpvs(here.shown ?? rules);
  const isOwn = environment.isLocal(packet.destination);
  const isLocal = isOwn === true;
  // In IPVS mode the node may have the address without that being read.
  const mayBeOwn = unseen || isLocal || (readsServers && isOwn === null);
  const outcomes = mergeOutcomes(result)
    .map(outcome => explainLoopback(outcome, query, isNodePort))
    .map(outcome => explainPing(outcome, query, isLocal))
    .map(outcome => explainNoEntry(outcome, query, {mayBeOwn, isPart: here.shown !== undefined}))
    .map(outcome => (query.entry == null || unseen ? outcome : explainUnserved(outcome, query.entry, {...query, isLocal})));
  const seen = unseen ? outcomes.map(asUnseen(here.shown ?? rules)) : outcomes;
  return {
    node: node.name,
    query,
    outcomes: here.shown === undefined ? seen : seen.map(outcome => besideRules(outcome, {query, node, shown: here.shown})),
    ...(own ? {} : {space, senders: spaceText(space, query.family)}),
  };
}

/** What pasted text says beside its rules of the packet, or of where it is sent. */
function besideRules(outcome: PacketOutcome, {query, node, shown}: TextOfPacket): PacketOutcome {
  if (!node.files.includes(wholeText) || outcome.verdict === 'drop' || outcome.verdict === 'reject') return outcome;
  const rulesets = new Map(shown?.iptables == null ? [] : [[query.family, shown.iptables] as const]);
  const end = outcome.destination ?? outcome.rewrittenTo;
  const own = [
    query.destination,
    joinHostPort(query.destination, query.port),
    ...(end === undefined ? [] : [end, splitHostPort(end).address]),
  ];
  const said = whatTextSays(node, {rulesets, nft: shown?.nft ?? null}).filter(({about}) => about.some(address => own.includes(address)));
  if (said.length === 0) return outcome;
  const texts = `beside its rules the text shows: ${someOf(
    said.map(({text}) => text),
    {max: 2},
  )}`;
  return {...outcome, reason: [outcome.reason, texts].filter(part => part !== undefined).join('; ')};
}

type TextOfPacket = Pick<PacketNode, 'node' | 'shown'> & {readonly query: PacketQuery};

function undetermined(reason: string): PacketOutcome {
  return {verdict: 'undecided', destination: null, probability: 1, masquerade: false, path: [], reason};
}

/** A packet that the node sends on to an endpoint of another one meets the rules there. */
function followOn(
  {drawnPorts, ...outcome}: PacketOutcome,
  sent: Packet,
  {here, others, sender}: {readonly here: PacketNode; readonly others: OtherNodes; readonly sender: Environment['sender']},
): readonly PacketOutcome[] {
  const end = outcome.destination === null ? null : splitHostPort(outcome.destination);
  const destination = end === null ? sent.destination : parseAddress(end.address);
  if (outcome.verdict !== 'accept' || destination === null) return [outcome];
  const name = others.nodeOf(destination.text);
  const doubt = misledDoubt(here, others)({...sent, destination}, settingOf(here).environment);
  if (doubt !== null) return [{...outcome, verdict: 'undecided', ...doubt}];
  if (name === null || name === here.node.name) return [outcome];
  const there = others.find(name);
  if (there === null) return [{...outcome, onward: {node: name, path: null}}];
  if (there.misprint !== undefined)
    return [{...outcome, verdict: 'undecided', onward: {node: name, path: null}, reason: `of ${name}: ${there.misprint}`}];
  const {masquerade, sourceAfter} = outcome;
  const {environment} = settingOf(here);
  const {sourcePort: _, client: __, ...packet} = sent;
  const arriving: Packet = {
    ...(masquerade ? packet : sent),
    origin: 'arriving',
    inInterface: interfaceAt(there, here, destination),
    destination,
    port: end === null ? sent.port : Number(end.port),
    drawnPorts,
    ...(masquerade
      ? {
          source:
            sourceAfter ??
            environment.masqueradeAddress?.({...sent, destination, outInterface: null}) ??
            environment.redirectAddress(sent) ??
            sent.source,
        }
      : {}),
  };
  const onward = {node: name, path: []};
  const reason = lostInTunnel(here, there, destination);
  const answer = lostInTunnel(there, here, arriving.source);
  if (reason !== null) return [{...outcome, verdict: 'drop', onward, reason}];
  if (answer !== null) return [{...outcome, verdict: 'drop', lost: 'reply', onward, reason: answer}];
  const dev = interfaceAt(here, there, arriving.source);
  const replies = {source: destination, destination: arriving.source, arrivedFor: arriving.source, mark: 0};
  const back = dev === null ? null : droppedOnArrival(here.facts, {...replies, dev});
  const strict = `rp_filter of ${dev} on ${here.node.name} is strict (1), and ${back} leads back`;
  if (back !== null) return [{...outcome, verdict: 'drop', lost: 'reply', onward, reason: strict}];
  if (settingOf(there).environment.isLocal(arriving.source) === true)
    return [
      {...outcome, verdict: 'drop', onward, reason: `the kernel of ${name} takes no packet from outside that has an address of its own`},
    ];
  const held = misledDoubt(there, others, name)(arriving, settingOf(there).environment);
  if (held !== null) return [{...outcome, verdict: 'undecided', onward, ...held}];
  if (isAnsweredStraight(outcome, sent, environment, {here, there, others})) return [{...outcome, onward, ...lostAnswer(there, sent)}];
  return walkThere(there, arriving, {others, sender})
    .map(({drawnPorts: _, ...further}) => answeredBeyond(further, arriving, {here: there, others}))
    .map(further => (further.verdict === 'accept' && further.path.some(isCapturing) ? {...further, ...capturedOn(name)} : further))
    .map(({verdict, probability, lost, reason, policy, path, destination: end}) => ({
      ...outcome,
      verdict,
      probability: outcome.probability * probability,
      onward: {node: name, path},
      destination: end ?? outcome.destination,
      lost: lost ?? outcome.lost,
      reason: reason ?? outcome.reason,
      policy: policy ?? outcome.policy,
    }));
}

function isCapturing({text}: RuleText): boolean {
  return /-j TPROXY |(?:^| )tproxy /.test(text);
}

function capturedOn(name: string): Pick<PacketOutcome, 'verdict' | 'reason'> {
  return {verdict: 'undecided', reason: `TPROXY gives the packet to a program of ${name} in place of the endpoint`};
}

/** The other node may rewrite the packet and send it on in turn. */
function answeredBeyond(
  outcome: PacketOutcome,
  arriving: Packet,
  {here, others}: {readonly here: PacketNode; readonly others: OtherNodes},
): PacketOutcome {
  const end = outcome.verdict !== 'accept' || outcome.destination === null ? null : splitHostPort(outcome.destination).address;
  const name = end === null ? null : others.nodeOf(end);
  const there = name === null || name === here.node.name ? null : others.find(name);
  if (there === null || !isAnsweredStraight(outcome, arriving, settingOf(here).environment, {here, there, others})) return outcome;
  return {...outcome, ...lostAnswer(there, arriving)};
}

function lostAnswer({node}: PacketNode, {source}: Packet): Pick<PacketOutcome, 'verdict' | 'lost' | 'reason'> {
  const reason = `it is not masqueraded, so ${node.name} answers ${source.text} straight, with the endpoint's address`;
  return {verdict: 'drop', lost: 'reply', reason};
}

/** Whether the other node answers a client by another way than the packet came, so that nothing translates the answer back. */
function isAnsweredStraight(
  {destination, masquerade}: PacketOutcome,
  {source}: Packet,
  environment: Environment,
  {here, there, others}: {readonly here: PacketNode; readonly there: PacketNode; readonly others: OtherNodes},
): boolean {
  if (destination === null || masquerade || environment.isLocal(source) === true) return false;
  const nodeAddressThere = parseAddress(hostIP(there.facts, source.family) ?? '');
  const uplink = nodeAddressThere === null ? null : (environment.interfaceOf?.(nodeAddressThere) ?? null);
  const way = environment.interfaceOf?.(source) ?? null;
  const node = {node: there.node.name, isPod: false};
  if (nodeAddressThere !== null && misledTo(here.facts, {...node, address: nodeAddressThere}, others.nodeOf) !== null) return false;
  if (uplink !== null && way !== null) return way === uplink;
  // Without routes, pods of this node are answered through it, and the packets of other nodes and their pods meet other rules.
  return here.facts.podCIDRs.length > 0 && others.nodeOf(source.text) === null && !others.isPod(source);
}

/** The node's own address, for a packet to a loopback address; null for others. */
function nodeAddress({destination, family}: PacketQuery, facts: NodeFacts): Address | null {
  if (!isLoopback(destination)) return null;
  const own = facts.addresses.find(address => familyOf(address) === family && !isLoopback(address));
  return parseAddress(hostIP(facts, family) ?? own ?? '');
}

/** The node's iptables are those of IPVS mode, and its virtual servers were not read. */
function asUnseen({iptables}: Pick<PacketRules, 'iptables'>): (outcome: PacketOutcome) => PacketOutcome {
  const note = masqueradesNothing(iptables) ? `; ${nothingMasqueraded}` : '';
  const why = `kube-proxy runs in IPVS mode, and the virtual servers of the node were not read${note}`;
  return outcome => {
    const {verdict, destination, rewrittenTo, condition, reason: led} = outcome;
    if (verdict === 'accept' && destination === null) return {...outcome, verdict: 'undecided', reason: why};
    if (verdict !== 'undecided' || rewrittenTo !== undefined || condition !== undefined) return outcome;
    return {...outcome, reason: `${why}; ${led ?? ''}`, condition: 'the virtual servers of IPVS are not shown'};
  };
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
      [outcome.onward?.node, outcome.path, outcome.onward?.path].map(placesOf),
    ]);
    const before = merged.get(key);
    merged.set(key, before === undefined ? outcome : {...before, probability: before.probability + outcome.probability});
  }
  return [...merged.values()];
}

function placesOf(path: string | readonly RuleText[] | null | undefined): unknown {
  return typeof path === 'object' ? path?.map(({table, chain, line}) => [table, chain, line]) : path;
}
