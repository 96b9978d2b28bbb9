import {once} from '../../expect/api-index.ts';
import {type Address, contains, parseAddress, parseCidr} from '../../model/address.ts';
import {hostIP, type NodeFacts} from '../../model/node/node-facts.ts';
import {joinHostPort, serverKey, type VirtualServer} from '../../model/virtual-server.ts';
import type {IpSet} from '../../parse/ipvs/ipset-save.ts';
import {interfacesOf, ownRanges} from './interfaces.ts';
import {isInSet} from '../../trace/iptables/match-set.ts';
import type {Environment, Packet} from '../../trace/packet.ts';

export interface EnvironmentOptions {
  /** The `recent` lists that hold the packet's source. */
  readonly knownTo?: ReadonlySet<string>;
  /** The node's ipsets; without them a match by set is undetermined. */
  readonly sets?: ReadonlyMap<string, IpSet>;
  /** The node's virtual servers of IPVS. */
  readonly servers?: readonly VirtualServer[];
  /** Addresses of virtual servers that the node has if kube-ipvs0 has them, which was not read. */
  readonly unbound?: ReadonlySet<string>;
  /** Treat an address as unknown, not as external, if the node's interfaces were not read. */
  readonly strict?: boolean;
}

/** The facts of a node that its rules are matched against. */
export function environmentOf(
  facts: NodeFacts,
  {knownTo = new Set(), sets, servers = [], unbound, strict = false}: EnvironmentOptions = {},
): Environment {
  const own = ownAddresses(facts);
  const {interfaceOf, behind, canBe} = interfacesOf(facts);
  const byKey = new Map(servers.map(server => [serverKey(server), server]));
  return {
    virtualServer: packet => (byKey.size === 0 ? undefined : byKey.get(packetKey(packet))),
    isLocal: address =>
      own.has(address.text) || isLoopbackAddress(address) || (unbound?.has(address.text) || (strict && !facts.allAddresses) ? null : false),
    canBeInterface: name => canBe(name) ?? (!strict && isNeverOnServicePath(name) ? false : null),
    interfaceOf,
    behind,
    localAddresses: family => localRanges(facts)[family],
    inSet: (name, packet, directions, sender) => {
      const set = sets?.get(name);
      return set === undefined ? null : isInSet(set, packet, directions, sender);
    },
    knownTo,
    redirectAddress: ({family}) => parseAddress(hostIP(facts, family) ?? ''),
  };
}

/** Read once for a node, and not for every walk. */
const ownAddresses = once(({addresses}: NodeFacts) => new Set(addresses.map(text => parseAddress(text)?.text ?? text)));

const localRanges = once(({addresses}: NodeFacts) => ({IPv4: ownRanges(addresses, 'IPv4'), IPv6: ownRanges(addresses, 'IPv6')}));

function packetKey({protocol, destination, port}: Packet): string {
  return `${protocol.toUpperCase()} ${joinHostPort(destination.text, port)}`;
}

const loopbacks = ['127.0.0.0/8', '::1/128'].map(text => parseCidr(text));

function isLoopbackAddress(address: Address): boolean {
  return loopbacks.some(cidr => cidr !== null && contains(cidr, address));
}

/** Interfaces that neither pods nor clients of Services use: the loopback, and the bridges of Docker and libvirt. */
function isNeverOnServicePath(pattern: string): boolean {
  return pattern === 'lo' || /^(?:docker\d+|br-[0-9a-f+]+|virbr\d*\+?|podman\d+)$/.test(pattern);
}
