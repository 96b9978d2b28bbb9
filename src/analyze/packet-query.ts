import type {SentPacket} from '../model/finding.ts';
import {heldIn, once} from '../model/once.ts';
import {isLoopback} from '../expect/node-context.ts';
import {type Address, type Family, familyOf, joinHostPort, parseAddress} from '../model/address.ts';
import {holds, type Intervals, intervalsOf} from '../model/intervals.ts';
import {hostIP, isTakenBy, type NodeFacts, vxlansUp} from '../model/node/node-facts.ts';
import {
  crowdedLinks,
  downTunnel,
  droppedOnArrival,
  gatewayInPlaceOfLink,
  isOnUplink,
  misledTo,
  nodesBehind,
  otherArrivals,
  routeOfServices,
  strangeHop,
  strayGateway,
} from '../model/node/policy-routing.ts';
import type {RuleText} from '../model/ruleset.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {someOf} from '../model/text.ts';
import {splitHostPort} from '../parse/iptables/comparable-rule.ts';
import {askAddress, type Environment, type Outcome, type Packet} from '../trace/walked-packet.ts';
import {anyPort, minShare, partsOfPorts, type Side} from '../trace/side.ts';
import {senderClassOf, SenderConditions, type SenderSpace} from '../trace/sender-space.ts';
import {masqueradesNothing, nothingMasqueraded} from './iptables/excerpt.ts';
import {wholeText} from '../parse/pasted/split-text.ts';
import {whatTextSays} from './services-in-rules/what-text-says.ts';
import {readIpvsState} from './ipvs/ipvs-state.ts';
import {shownInPart} from './ipvs/shown-servers.ts';
import {environmentOf, podsHere} from './outcomes/environment.ts';
import {kernelObstacle, ownObstacle, reversePath} from './outcomes/kernel-obstacle.ts';
import {packetOf} from './outcomes/probes.ts';
import {clientPorts, spaceText} from './outcomes/senders.ts';
import {walkShown} from './packet-in-text.ts';
import {type AskedEntry, explainUnserved} from './packet-service.ts';
import {acrossBridge, byLastRule, type PacketOutcome, type PacketRules, walkRules} from './packet-rules.ts';
import {ipsetsOf} from './proxy-mode.ts';
import {matchBelowLimit} from './third-party/node-rule.ts';
import {linkTo, lostMessages, stoppedTunnels} from './third-party/stopped-packets.ts';

/** The packet of a query: of `TCP`, `UDP` or `SCTP`, or of `ICMP` for an echo request. */
export interface PacketQuery extends SentPacket {
  /** The destination is known as the cluster IP of a Service. */
  readonly isClusterIP?: boolean;
  /** The range of cluster IPs that holds the destination, which no Service has. */
  readonly unallocatedIn?: string | undefined;
  /** The entry of a Service that the packet is sent to on this node. */
  readonly entry?: AskedEntry | null;
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
  readonly space?: SenderSpace;
  /** A tracked flow of the same addresses that these outcomes do not hold for, in a few words and in a sentence. */
  readonly tracked?: {readonly gist: string; readonly text: string} | undefined;
}

export interface PacketNode {
  readonly node: NodeDump;
  readonly facts: NodeFacts;
  readonly rules: PacketRules;
  /** The rules as the text shows them, if the text may be a part of the node's rules. */
  readonly shown?: PacketRules | undefined;
  /** Why the dump does not show the rules as they are: no outcome can be told from it. */
  readonly misprint?: string | undefined;
}

/** The nodes to which packets are sent on. */
export interface OtherNodes {
  /** The node of an address: of an endpoint, a pod or the node itself; null if it is not known. */
  readonly nodeOf: (address: string) => string | null;
  /** Null for a node that was not read. */
  readonly find: (name: string) => PacketNode | null;
  /** Whether an address is in the network of some node's pods. */
  readonly isPod: (address: Address) => boolean;
  /** Whether an address is one of a pod that is not in the network of its node. */
  readonly isOwnPod?: (address: string) => boolean;
  /** The addresses of the pods of a node that are not in its network. */
  readonly podsOn?: (node: string, family: Family) => ReadonlySet<string> | undefined;
  /** Whether rules show an address as a cluster IP. */
  readonly isClusterIP?: (address: string) => boolean;
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

/** A chain that kube-proxy writes in IPVS mode alone. Where text leaves out chains that are asked for, there is one of any name. */
function isOfIpvs({iptables}: Pick<PacketRules, 'iptables'>): boolean {
  return iptables?.chain('nat', 'KUBE-LOAD-BALANCER') !== undefined;
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

/**
 * What is known of a node beside its rules. Many nodes send packets on to the same one. `readsServers`: whether the virtual servers of IPVS
 * were read. `bound`: the addresses of kube-ipvs0; null if they were not read.
 */
const settingOf = once(({node, facts, shown}: PacketNode) => {
  const {servers, bound} = readIpvsState(node);
  const local = {...facts, addresses: [...facts.addresses, ...(bound ?? [])]};
  // Where pasted text does not show kube-ipvs0, it is not known which virtual addresses the device has.
  const unbound = new Set(bound === null && shown !== undefined ? servers?.map(({address}) => address) : []);
  const options = {sets: ipsetsOf(node), servers: servers ?? [], unbound, strict: true};
  return {
    environment: {
      ...environmentOf(local, options),
      obstacle: kernelObstacle(facts),
      ownObstacle: ownObstacle(facts),
      ...reversePath(facts),
      belowLimit: matchBelowLimit,
    },
    readsServers: servers !== null,
    bound,
  };
});

/** Why a packet, or a reply, may not get to the node that has the address. */
function misledDoubt(
  here: PacketNode,
  others: OtherNodes,
  who = 'the node',
): (sent: Packet, own: Environment) => {readonly reason: string} | null {
  return (sent, own) => {
    const {destination: address} = sent;
    const to = wayInstead(here, others, address);
    if (to === null) return null;
    askAddress([[address.value, address.value]], 'destination', sent, own);
    own.sender?.commitAdded();
    return {reason: `${who} sends what is for ${address.text} to ${to}`};
  };
}

function wayInstead({facts}: PacketNode, {nodeOf, isOwnPod, podsOn, find}: OtherNodes, address: Address): string | null {
  const node = nodeOf(address.text);
  if (node === null) return null;
  const isPod = isOwnPod?.(address.text) === true;
  if (node !== facts.name) {
    const strange = strangeHop(facts, {address, node}, {isOfNode: own => nodeOf(own) !== null, nodeAt: nodeOf});
    const there = find(node)?.facts;
    const isNear = there?.hostIPs.some(text => isOnUplink(facts, parseAddress(text))) === true;
    if (strange !== null && isNear) return `${strange.hop}, which is the address of no Node`;
    const stray = there === undefined || !isPod ? null : strayGateway(facts, there, address);
    if (stray !== null) return `${stray}, which ${node} does not have, while its routes lead straight back`;
    const tunnel = downTunnel(facts);
    const gateway = gatewayInPlaceOfLink(facts, address, {mark: 0});
    if (gateway !== null && tunnel !== null) return `the default gateway ${gateway}, while ${tunnel}, the tunnel to other nodes, is down`;
    if (gateway !== null && nodesBehind(facts.network, address, nodeOf).includes(node))
      return `the default gateway ${gateway}, while another route leads to ${node}`;
  } else if (isPod) {
    const link = crowdedLinks(facts, address.family, () => podsOn?.(node, address.family) ?? []).find(({addresses}) =>
      addresses.includes(address.text),
    );
    if (link !== undefined) return `${link.dev}, which has fewer pods behind it than routes lead there (${link.addresses.join(', ')})`;
  }
  return misledTo(facts, {address, node, isPod}, nodeOf);
}

const sideOf = once((node: PacketNode): Side => {
  const {iptables, nft, others = []} = node.rules;
  return {iptables: [...(iptables === null ? [] : [iptables]), ...others], nft, environment: settingOf(node).environment};
});

/** Why what a node sends to an address on another one is lost: it takes a tunnel that is down there, or rules of one of them stop what carries it. */
function lostInTunnel(from: PacketNode, to: PacketNode, address: Address): string | null {
  const {family} = address;
  const route = routeOfServices(from.facts, address);
  const dev = route.kind === 'unicast' ? from.facts.network.links?.find(({name}) => name === route.dev) : undefined;
  if (dev?.vxlan == null) return null;
  const down = downTunnel(to.facts);
  if (down !== null) return `${down}, the tunnel of ${to.node.name} to other nodes, is down`;
  const {name, id, port} = dev.vxlan;
  if (!isTakenBy(dev.vxlan, vxlansUp(to.facts.network) ?? [dev.vxlan]))
    return `${name} of ${from.node.name} has the VXLAN id ${id} and UDP port ${port}, and no tunnel of ${to.node.name} has both`;
  const stopAt = (node: PacketNode, peer: PacketNode) =>
    stoppedTunnels({side: sideOf(node), facts: node.facts, family}, [hostIP(peer.facts, family) ?? '']).map(stop => ({node, ...stop}));
  const [lost] = [
    ...stopAt(from, to).filter(({link, isArriving}) => link === dev.name && !isArriving),
    ...stopAt(to, from).filter(({isArriving}) => isArriving),
  ];
  if (lost === undefined) return null;
  return `${causeOf(lost.stop)} on ${lost.node.node.name} stops what carries packets of pods between the nodes, UDP ${lost.port}`;
}

/** The interface by which what another node sends to an address arrives, as its routes name a gateway; null if they name none of this node. */
function interfaceAt(to: PacketNode, from: PacketNode, address: Address): string | null {
  const route = routeOfServices(from.facts, address);
  const hop = route.kind === 'unicast' ? parseAddress(route.gateway ?? '') : null;
  return hop === null ? null : (settingOf(to).environment.interfaceWith?.(hop) ?? null);
}

function causeOf({path, policy}: Outcome): string {
  return policy === undefined ? `"${path.at(-1)?.text ?? ''}"` : `the policy of ${policy}`;
}

/** Why the kernel may not find the neighbor of a packet that leaves: rules drop what asks for it, or for the node. Asked once for each interface. */
const neighborDoubt = once((node: PacketNode) => {
  const {facts} = node;
  const own = parseAddress(hostIP(facts, 'IPv6') ?? '');
  const side = sideOf(node);
  const known = new Map<string, string | null>();
  const ask = (dev: string, neighbor: Address): string | null => {
    const [lost] = own === null ? [] : lostMessages(side, dev, {own, neighbor}).toSorted((a, b) => Number(b.isToSend) - Number(a.isToSend));
    if (lost === undefined) return null;
    const found = lost.isToSend
      ? 'the kernel finds only neighbors that it has permanent entries for'
      : 'the node is found only by neighbors that know it from its packets, or have permanent entries for it';
    return `${causeOf(lost.stop)} drops ${lost.text}: by ${dev} ${found}`;
  };
  return ({family, destination}: Packet): ReturnType<NonNullable<Environment['doubtedWay']>> => {
    const [link] = family === 'IPv6' && node.shown === undefined ? linkTo(facts, side, destination) : [];
    if (link === undefined) return null;
    const reason = heldIn(known, link[0], () => ask(...link));
    return reason === null ? null : {reason, isKnown: () => false};
  };
});

function walkNode(
  node: PacketNode,
  packet: Packet,
  {others, sender}: {readonly others: OtherNodes; readonly sender?: Environment['sender']},
): readonly PacketOutcome[] {
  const {facts, rules, shown} = node;
  const misled = misledDoubt(node, others);
  const {environment: base, readsServers, bound} = settingOf(node);
  // IPVS mode gives the node the cluster IPs, and pasted text may not show that it is one of it.
  const mayHoldClusterIPs = readsServers || shown !== undefined || isOfIpvs(rules);
  // Where the addresses of the node were not read, those that others have are none of its own.
  const isElsewhere = (address: Address): boolean => {
    if (!mayHoldClusterIPs && others.isClusterIP?.(address.text) === true) return true;
    const holder = others.nodeOf(address.text);
    const isPod = holder === facts.name && holds(podsHere(facts, address.family), address.value);
    return isPod || (holder !== null && holder !== facts.name);
  };
  const isSender = ({text}: Address): boolean => packet.origin === 'arriving' && text === packet.source.text;
  const environment: Environment = {
    ...base,
    isLocal: address => base.isLocal(address) ?? (isSender(address) || isElsewhere(address) ? false : null),
    isKnown: ({text}) => others.nodeOf(text) !== null,
    doubtedWay: (sent, own) => base.doubtedWay?.(sent, own) ?? misled(sent, own) ?? neighborDoubt(node)(sent),
    obstacle: (sent, own) =>
      base.obstacle?.(sent, own) ??
      (sent.connection?.direction === 'reply' && own.isLocal(sent.destination) === true ? misled(sent, own) : null)?.reason ??
      null,
  };
  const walked = {
    packet,
    // What answers may be a process of the node too.
    pods: intervalsOf([
      ...podsHere(facts, packet.family),
      ...(packet.origin === 'node' ? [] : (base.localAddresses?.(packet.family) ?? [])),
    ]),
    environment: sender === undefined ? environment : {...environment, sender},
  };
  const isUnbound = bound?.includes(packet.destination.text) === false;
  const outcomes =
    shown === undefined
      ? walkRules(rules, walked)
      : walkShown(rules, shown, {
          ...walked,
          isUnbound,
          servers: readsServers ? 'all' : (shownInPart(node.node, packet) ?? 'none'),
          isOfService: others.isClusterIP?.(packet.destination.text) === true,
        });
  return outcomes.map(outcome => acrossBridge(outcome, {packet, environment, facts, rules}));
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

/** Another node chose the source port of a packet. */
function walkThere(there: PacketNode, arriving: Packet, given: Parameters<typeof walkNode>[2]): readonly PacketOutcome[] {
  if (arriving.sourcePort !== undefined) return walkNode(there, arriving, given);
  return ofEachPort(arriving.drawnPorts ?? clientPorts, (sourcePort, sender) =>
    walkNode(there, {...arriving, sourcePort, client: 'source'}, {...given, sender}),
  );
}

/** Rules may treat some source ports in another way; single ones are no loss (`minShare`). */
function ofEachPort(ports: Intervals, walk: (sourcePort: number, sender: SenderConditions) => readonly PacketOutcome[]) {
  const parts = partsOfPorts(ports, (sourcePort, note) => {
    const sender = new SenderConditions((field, alike) => {
      if (field === 'port') note(alike);
    });
    return walk(sourcePort, sender);
  });
  const noticed = parts.filter(({share}, at) => at === 0 || share >= minShare);
  const all = noticed.reduce((sum, {share}) => sum + share, 0);
  return noticed.flatMap(({share, result}) => result.map(one => ({...one, probability: (one.probability * share) / all})));
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

/** Says of a packet to a loopback address that the node port, which answers on the node's address, is not served there. */
function explainLoopback(outcome: PacketOutcome, {destination, port}: PacketQuery, isNodePort: () => boolean): PacketOutcome {
  const {verdict, destination: rewritten, reason} = outcome;
  if (!isLoopback(destination) || verdict !== 'accept' || rewritten !== null || reason !== undefined || !isNodePort()) return outcome;
  const why = destination.includes(':')
    ? 'no proxy mode has rules for node ports on ::1'
    : 'rules serve node ports on 127.0.0.1 in iptables mode only, unless --iptables-localhost-nodeports is false or --nodeport-addresses leaves it out';
  return {...outcome, reason: `the node port ${port} is not served on a loopback address: ${why}. Only a process of the node can answer`};
}

/** Cluster IPs are addresses of no host, but in IPVS mode, where the node itself has them. */
function explainPing(outcome: PacketOutcome, {protocol, isClusterIP = false, destination}: PacketQuery, isLocal: boolean): PacketOutcome {
  if (protocol !== 'ICMP' || !isClusterIP) return outcome;
  const {verdict, reason} = outcome;
  const isUntouched = outcome.destination === null && outcome.rewrittenTo === undefined;
  if (verdict === 'accept' && isLocal)
    return {...outcome, reason: `the node itself has the address ${destination} and answers, whatever the endpoints do`};
  const byDesign = 'a cluster IP does not answer ping, by design';
  if (verdict === 'reject' || verdict === 'drop') return {...outcome, reason: refusedBecause(byDesign, outcome)};
  if (!isUntouched) return outcome;
  if (verdict === 'undecided') return {...outcome, reason: `${byDesign}; ${reason ?? ''}`};
  return {
    ...outcome,
    verdict: 'drop',
    reason: `${byDesign}: kube-proxy writes rules for ports of TCP, UDP and SCTP alone, and no host has the address ${destination}`,
  };
}

function refusedBecause(why: string, {path, reason}: PacketOutcome): string {
  const by = reason ?? byLastRule(path);
  return by === '' ? why : `${why}; ${by}`;
}

/** Says of a packet to a cluster IP that no Service has, or has on another port, that it reaches nobody. */
function explainNoEntry(
  outcome: PacketOutcome,
  query: PacketQuery,
  {mayBeOwn, isPart}: {readonly mayBeOwn: boolean; readonly isPart: boolean},
): PacketOutcome {
  const {protocol, isClusterIP = false, unallocatedIn, destination, port, entry} = query;
  const {verdict, reason} = outcome;
  const isUntouched = outcome.destination === null && outcome.rewrittenTo === undefined;
  if (protocol === 'ICMP' || !(isClusterIP || unallocatedIn !== undefined) || entry != null || !isUntouched) return outcome;
  const what = isClusterIP
    ? `${destination} is a cluster IP, and no rule takes its port ${port}/${protocol} to an endpoint`
    : `no Service has ${destination}, which is in the range of cluster IPs (${unallocatedIn})`;
  // Text tells a Service port by what its rules do to it, such as to refuse it.
  if (verdict === 'drop' || verdict === 'reject') return isPart ? outcome : {...outcome, reason: refusedBecause(what, outcome)};
  if (mayBeOwn) return outcome;
  if (verdict === 'undecided') return {...outcome, reason: `${what}; ${reason ?? ''}`};
  return {...outcome, verdict: 'drop', reason: `${what}: no host has the address`};
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
