import {type Address, parseAddress} from '../model/address.ts';
import {bridgeCalls, bypassReason, podPorts, uplinkWithoutReturn, sendsBack} from '../model/node/bridges.ts';
import {holds} from '../model/intervals.ts';
import type {Link, NodeFacts} from '../model/node/node-facts.ts';
import {splitHostPort} from '../parse/iptables/comparable-rule.ts';
import type {Environment, Packet} from '../trace/packet.ts';
import type {PacketOutcome, PacketRules} from './packet-rules.ts';
import {podsHere} from './outcomes/environment.ts';
import {bridgeDoubts, doubtText} from './third-party/bridge-rules.ts';

const noReturn = 'the bridge sends no packet back by the port that it came from: hairpin_mode is 0';

/** A packet to or from a pod on a bridge of the node, which the rules of the node accept. */
interface Crossing {
  readonly packet: Packet;
  readonly environment: Environment;
  readonly facts: NodeFacts;
  readonly rules: PacketRules;
}

/** What a bridge does to packets that all rules of the node accept: it drops some of them, or shows their answers to no rule. */
export function acrossBridge(outcome: PacketOutcome, {packet, environment, facts, rules}: Crossing): PacketOutcome {
  const {network} = facts;
  const end = outcome.destination === null ? packet.destination : parseAddress(splitHostPort(outcome.destination).address);
  if (outcome.verdict !== 'accept' || end === null || packet.captured === true) return outcome;
  const bridgeOf = (address: Address): string | null =>
    environment.isLocal(address) === true ? null : (environment.interfaceOf?.(address) ?? null);
  const [from, to] = [packet.origin === 'node' ? null : bridgeOf(packet.source), bridgeOf(end)];
  const bridges = [from, to].flatMap(name => {
    const bridge = podPorts(network, name);
    return name === null || bridge === null ? [] : {...bridge, name};
  });
  const closed = 'the bridge takes nothing from a port that is not in the state forwarding, and sends nothing there';
  const [blocked] = bridges.flatMap(bridge => off(bridge, ({isBlocked}) => isBlocked === true, closed) ?? []);
  const isTold = 'the bridge sends only what is for addresses of its table to a port that learns none, and the table was not read';
  const [told] = bridges.flatMap(bridge => off(bridge, one => one.isTold === true, isTold) ?? []);
  const doubted = told === undefined ? undefined : {...told, verdict: 'undecided' as const};
  const [shared] = from === to ? bridges : [];
  const obstacle = blocked ?? doubted ?? (shared === undefined ? null : obstacleOn(shared, {outcome, packet, end, facts}));
  const uplink = shared === undefined || outcome.destination === null ? null : uplinkWithoutReturn(network, packet.family, shared.name);
  const isBackOut = uplink !== null && ![packet.source, end].some(({value}) => holds(podsHere(facts, packet.family), value));
  if (obstacle === null && isBackOut) return {...outcome, verdict: 'drop', reason: `${noReturn} (${uplink.name} of ${shared?.name})`};
  if (obstacle !== null) return {...outcome, ...obstacle};
  const doubt = bridges.length > 0 ? bridgeDoubts(rules.nft, facts).find(({isOfArp}) => !isOfArp) : undefined;
  if (doubt === undefined) return outcome;
  return {
    ...outcome,
    verdict: 'undecided',
    reason: doubtText(doubt),
    path: [...outcome.path, ...(doubt.rule === null ? [] : [doubt.rule])],
  };
}

interface PodBridge {
  readonly name: string;
  readonly link: Link | undefined;
  readonly ports: readonly Link[];
}

interface Between {
  readonly outcome: PacketOutcome;
  readonly packet: Packet;
  readonly end: Address;
  readonly facts: NodeFacts;
}

/** Why a packet from one port of a bridge to another, or back to the same, is lost. */
function obstacleOn(bridge: PodBridge, {outcome, packet, end, facts}: Between): Pick<PacketOutcome, 'verdict' | 'lost' | 'reason'> | null {
  const {name, link} = bridge;
  const {network} = facts;
  const isItself = packet.source.value === end.value;
  const isolated = ({isIsolated}: Link): boolean => isIsolated;
  if (isItself) {
    // Without br_netfilter packets are routed by the node, which may send them back.
    if (bridgeCalls(network, packet.family) !== 'on' || sendsBack(link, facts)) return null;
    return (
      off(bridge, ({hairpin}) => hairpin === false, noReturn) ??
      off(bridge, isolated, 'the bridge sends nothing from an isolated port back to it')
    );
  }
  const between = off(bridge, isolated, 'the bridge sends nothing from one isolated port to another');
  const bypass = bypassReason(network, packet.family, link);
  if (between !== null || bypass === null || outcome.masquerade || outcome.destination === null) return between;
  const reason = `${bypass}: the endpoint is on the same bridge (${name}) as the client, which gets the answer from an address that it does not know`;
  return {verdict: 'drop', lost: 'reply', reason};
}

/** Which of the ports is the one of a pod is not known. */
function off({name, ports}: PodBridge, isOff: (port: Link) => boolean, reason: string): Pick<PacketOutcome, 'verdict' | 'reason'> | null {
  const count = ports.filter(isOff).length;
  if (count === 0) return null;
  return {verdict: count === ports.length ? 'drop' : 'undecided', reason: `${reason} (${count} of ${ports.length} ports of ${name})`};
}
