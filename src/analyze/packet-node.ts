import {heldIn, once} from '../model/once.ts';
import {type Address, type Family, parseAddress} from '../model/address.ts';
import {holds, type Intervals, intervalsOf} from '../model/intervals.ts';
import {hostIP, isTakenBy, type NodeFacts, vxlansUp} from '../model/node/node-facts.ts';
import {
  crowdedLinks,
  downTunnel,
  gatewayInPlaceOfLink,
  isOnUplink,
  misledTo,
  nodesBehind,
  routeOfServices,
  strangeHop,
  strayGateway,
} from '../model/node/policy-routing.ts';
import type {NodeDump} from '../model/snapshot.ts';
import {askAddress, type Environment, type Outcome, type Packet} from '../trace/walked-packet.ts';
import {minShare, partsOfPorts, type Side} from '../trace/side.ts';
import {SenderConditions} from '../trace/sender-space.ts';
import {readIpvsState} from './ipvs/ipvs-state.ts';
import {shownInPart} from './ipvs/shown-servers.ts';
import {environmentOf, podsHere} from './outcomes/environment.ts';
import {kernelObstacle, ownObstacle, reversePath} from './outcomes/kernel-obstacle.ts';
import {clientPorts} from './outcomes/senders.ts';
import {walkShown} from './packet-in-text.ts';
import {acrossBridge, type PacketOutcome, type PacketRules, walkRules} from './packet-rules.ts';
import {ipsetsOf} from './proxy-mode.ts';
import {matchBelowLimit} from './third-party/node-rule.ts';
import {linkTo, lostMessages, stoppedTunnels} from './third-party/stopped-packets.ts';

/** A node whose rules packets are walked through. */
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

/** A chain that kube-proxy writes in IPVS mode alone. Where text leaves out chains that are asked for, there is one of any name. */
export function isOfIpvs({iptables}: Pick<PacketRules, 'iptables'>): boolean {
  return iptables?.chain('nat', 'KUBE-LOAD-BALANCER') !== undefined;
}

/**
 * What is known of a node beside its rules. Many nodes send packets on to the same one. `readsServers`: whether the virtual servers of IPVS
 * were read. `bound`: the addresses of kube-ipvs0; null if they were not read.
 */
export const settingOf = once(({node, facts, shown}: PacketNode) => {
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
export function misledDoubt(
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
export function lostInTunnel(from: PacketNode, to: PacketNode, address: Address): string | null {
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
export function interfaceAt(to: PacketNode, from: PacketNode, address: Address): string | null {
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

export function walkNode(
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

/** Another node chose the source port of a packet. */
export function walkThere(there: PacketNode, arriving: Packet, given: Parameters<typeof walkNode>[2]): readonly PacketOutcome[] {
  if (arriving.sourcePort !== undefined) return walkNode(there, arriving, given);
  return ofEachPort(arriving.drawnPorts ?? clientPorts, (sourcePort, sender) =>
    walkNode(there, {...arriving, sourcePort, client: 'source'}, {...given, sender}),
  );
}

/** Rules may treat some source ports in another way; single ones are no loss (`minShare`). */
export function ofEachPort(ports: Intervals, walk: (sourcePort: number, sender: SenderConditions) => readonly PacketOutcome[]) {
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
