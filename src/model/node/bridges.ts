import type {Family} from '../address.ts';
import {isOlderKernel, type Link, type NetworkFacts, type NodeFacts, sysctlNumber} from './node-facts.ts';

/** The switch by which packets that cross a bridge pass the rules of iptables and nftables. */
export function bridgeSwitch(family: Family): string {
  return `net.bridge.bridge-nf-call-${family === 'IPv4' ? 'iptables' : 'ip6tables'}`;
}

/** `on` too if it was not seen. */
export function bridgeCalls(network: NetworkFacts, family: Family): 'on' | 'off' | 'not loaded' {
  const value = sysctlNumber(network, bridgeSwitch(family));
  if (value !== null) return value === 0 ? 'off' : 'on';
  // Older captures name fewer sysctls.
  return sysctlNumber(network, 'net.ipv4.conf.all.rp_filter') === null ? 'on' : 'not loaded';
}

/** Why packets between pods on a bridge bypass the rules of the node; null if they do not. */
export function bypassReason(network: NetworkFacts, family: Family, bridge: Link | undefined): string | null {
  const state = bridgeCalls(network, family);
  if (state === 'on' || bridge?.callsIptables[family] === true) return null;
  return state === 'off' ? `${bridgeSwitch(family)} is 0` : `br_netfilter is not loaded, so that ${bridgeSwitch(family)} does not exist`;
}

/**
 * Whether a promiscuous bridge takes in itself what it would send back to the port it came from. Newer kernels let such a packet forget its
 * connection: its answer is not translated back (`br_pass_frame_up`). Older ones got that in fixes of theirs, and nothing shows which.
 */
export function sendsBack(link: Link | undefined, {kernelVersion = ''}: NodeFacts): boolean {
  return link?.isPromiscuous === true && isOlderKernel(kernelVersion, [6, 9]) !== false;
}

/** The one port of a bridge that leads to other hosts: all others lead to pods or machines of the node. Null if that is not known. */
function uplinkOf({links}: NetworkFacts, bridge: string): Link | null {
  const ports = (links ?? []).filter(({master}) => master === bridge);
  const outward = ports.length === 1 ? ports : ports.filter(({kind}) => kind !== 'veth' && kind !== 'tun');
  return outward.length === 1 ? (outward[0] ?? null) : null;
}

/**
 * The port of a bridge by which packets of other hosts come, where the bridge hands a packet that DNAT sends to another host to that port and
 * drops it: its hairpin mode is off. Null if it does not. Source: `br_nf_pre_routing_finish` of the kernel.
 */
export function uplinkWithoutReturn(network: NetworkFacts, family: Family, bridge: string): Link | null {
  const link = network.links?.find(({name}) => name === bridge);
  if (link?.kind !== 'bridge' || link.isPromiscuous) return null;
  const calls = bridgeCalls(network, family) === 'on' || link.callsIptables[family];
  const uplink = calls ? uplinkOf(network, bridge) : null;
  return uplink?.hairpin === false ? uplink : null;
}

/** A bridge with its ports whose other end is in a pod; null for an interface that is none. */
export function podPorts({links}: NetworkFacts, name: string | null) {
  const ports = (links ?? []).filter(({master, isPeerElsewhere}) => master === name && isPeerElsewhere);
  const link = links?.find(other => other.name === name);
  const isBridge = link?.kind === 'bridge' || (link?.kind === null && ports.length > 0);
  return name !== null && isBridge ? {link, ports} : null;
}
