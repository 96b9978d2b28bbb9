import {type Address, contains, parseAddress, parseCidr} from '../model/address.ts';
import type {NodeFacts} from '../model/node-facts.ts';
import type {Environment} from '../trace/packet.ts';

/** What the matches of a node's rules are asked against. `knownTo` names the `recent` lists that hold the packet's source. */
export function environmentOf(facts: NodeFacts, knownTo: ReadonlySet<string> = new Set()): Environment {
  const own = new Set(facts.addresses.map(text => parseAddress(text)?.text ?? text));
  const primary = parseAddress(facts.hostIPs[0] ?? '');
  return {
    isLocal: address => own.has(address.text) || isLoopbackAddress(address),
    canBeInterface: name => (isNeverOnServicePath(name) ? false : null),
    inSet: () => null,
    knownTo,
    redirectAddress: primary,
  };
}

const loopbacks = ['127.0.0.0/8', '::1/128'].map(text => parseCidr(text));

function isLoopbackAddress(address: Address): boolean {
  return loopbacks.some(cidr => cidr !== null && contains(cidr, address));
}

/** Interfaces that neither pods nor clients of Services use: the loopback, and the bridges of Docker and libvirt. */
function isNeverOnServicePath(pattern: string): boolean {
  return pattern === 'lo' || /^(?:docker\d+|br-[0-9a-f+]+|virbr\d*\+?|podman\d+)$/.test(pattern);
}
