import {isLoopback} from '../../expect/node-context.ts';
import {noNetworkFacts, sysctlNumber} from '../../model/node/network-facts.ts';
import type {NodeFacts} from '../../model/node/node-facts.ts';
import {routeOf} from '../../model/node/route-of.ts';
import type {Packet} from '../../trace/packet.ts';

/**
 * Why the kernel does not send a packet on although all rules accept it; null if it does, or if that was not seen. Only for
 * `packet` and `trace`: checks report such a fact once for the node.
 */
export function kernelObstacle({network = noNetworkFacts}: NodeFacts): (packet: Packet) => string | null {
  return packet => {
    const {family, origin, source, destination, mark, inInterface} = packet;
    if (origin !== 'node') {
      const all = family === 'IPv4' ? 'net.ipv4.ip_forward' : 'net.ipv6.conf.all.forwarding';
      // IPv4 has a switch for each interface, which the one for all writes to.
      const own = family === 'IPv4' && inInterface !== null ? `net.ipv4.conf.${inInterface}.forwarding` : null;
      const value = own === null ? null : sysctlNumber(network, own);
      if (value === 0 || (value === null && sysctlNumber(network, all) === 0))
        return `the node forwards no such packets (${value === 0 ? own : all} is 0)`;
    } else if (family === 'IPv4' && isLoopback(source.text)) {
      if (sysctlNumber(network, 'net.ipv4.conf.all.route_localnet') === 0)
        return 'the kernel sends nothing from a loopback address to another node or pod (net.ipv4.conf.all.route_localnet is 0)';
    }
    const iif = origin === 'node' ? 'lo' : inInterface;
    const route = routeOf(network, destination, {mark, source, ...(iif === null ? {} : {iif})});
    return route !== 'unknown' && route.kind === 'unreachable' ? `the node has no route to ${destination.text}` : null;
  };
}
