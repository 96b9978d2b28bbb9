import {type Address, parseAddress} from '../model/address.ts';
import {bridgeCalls, bypassReason, podPorts} from '../model/node/bridges.ts';
import {type Link, type NodeFacts, noNetworkFacts} from '../model/node/node-facts.ts';
import {splitHostPort} from '../parse/iptables/comparable-rule.ts';
import type {Environment, Packet} from '../trace/packet.ts';
import type {PacketOutcome, PacketRules} from './packet-rules.ts';
import {bridgeDoubts, doubtText} from './third-party/bridge-rules.ts';

/** A packet to or from a pod on a bridge of the node, which the rules of the node accept. */
interface Crossing {
  readonly packet: Packet;
  readonly environment: Environment;
  readonly facts: NodeFacts;
  readonly rules: PacketRules;
}

/** What a bridge does to packets that all rules of the node accept: it drops some of them, or shows their answers to no rule. */
export function acrossBridge(outcome: PacketOutcome, {packet, environment, facts, rules}: Crossing): PacketOutcome {
  const {network = noNetworkFacts} = facts;
  const end = outcome.destination === null ? packet.destination : parseAddress(splitHostPort(outcome.destination).address);
  if (outcome.verdict !== 'accept' || end === null || packet.captured === true) return outcome;
  const bridgeOf = (address: Address): string | null =>
    environment.isLocal(address) === true ? null : (environment.interfaceOf?.(address) ?? null);
  const [from, to] = [packet.origin === 'node' ? null : bridgeOf(packet.source), bridgeOf(end)];
  const bridges = [from, to].map(name => podPorts(network, name));
  const [shared] = bridges;
  const blocked = bridges.flatMap((bridge, at) => {
    const reason = 'the bridge takes nothing from a port that is not in the state forwarding, and sends nothing there';
    return bridge === null ? [] : (off([from, to][at] ?? '', bridge.ports, ({isBlocked}) => isBlocked === true, reason) ?? []);
  });
  const crossing = from === null || from !== to || shared == null ? null : obstacleOn(from, shared, {outcome, packet, end, facts});
  const obstacle = blocked[0] ?? crossing;
  if (obstacle !== null) return {...outcome, ...obstacle};
  const doubt = bridges.some(bridge => bridge !== null) ? bridgeDoubts(rules.nft, facts).find(({isOfArp}) => !isOfArp) : undefined;
  if (doubt === undefined) return outcome;
  return {
    ...outcome,
    verdict: 'undecided',
    reason: doubtText(doubt),
    path: [...outcome.path, ...(doubt.rule === null ? [] : [doubt.rule])],
  };
}

interface Between {
  readonly outcome: PacketOutcome;
  readonly packet: Packet;
  readonly end: Address;
  readonly facts: NodeFacts;
}

/** Why a packet from one port of a bridge to another, or back to the same, is lost. */
function obstacleOn(
  name: string,
  {link, ports}: {readonly link: Link | undefined; readonly ports: readonly Link[]},
  {outcome, packet, end, facts: {network = noNetworkFacts}}: Between,
): Pick<PacketOutcome, 'verdict' | 'lost' | 'reason'> | null {
  const isItself = packet.source.value === end.value;
  const isolated = ({isIsolated}: Link): boolean => isIsolated;
  if (isItself) {
    // Without br_netfilter packets are routed by the node, which may send them back.
    if (bridgeCalls(network, packet.family) !== 'on' || link?.isPromiscuous === true) return null;
    const back = off(
      name,
      ports,
      ({hairpin}) => hairpin === false,
      `the bridge sends no packet back by the port that it came from: hairpin_mode is 0`,
    );
    return back ?? off(name, ports, isolated, 'the bridge sends nothing from an isolated port back to it');
  }
  const between = off(name, ports, isolated, 'the bridge sends nothing from one isolated port to another');
  const bypass = bypassReason(network, packet.family, link);
  if (between !== null || bypass === null || outcome.masquerade || outcome.destination === null) return between;
  const reason = `${bypass}: the endpoint is on the same bridge (${name}) as the client, which gets the answer from an address that it does not know`;
  return {verdict: 'drop', lost: 'reply', reason};
}

/** Which of the ports is the one of a pod is not known. */
function off(
  name: string,
  ports: readonly Link[],
  isOff: (port: Link) => boolean,
  reason: string,
): Pick<PacketOutcome, 'verdict' | 'reason'> | null {
  const count = ports.filter(isOff).length;
  if (count === 0) return null;
  return {verdict: count === ports.length ? 'drop' : 'undecided', reason: `${reason} (${count} of ${ports.length} ports of ${name})`};
}
