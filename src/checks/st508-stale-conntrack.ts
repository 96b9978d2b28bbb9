import type {PortEntry} from '../expect/cluster/cluster-view.ts';
import {canonicalAddress} from '../model/address.ts';
import {families} from '../model/family.ts';
import {type Connection, parseConntrack} from '../parse/conntrack.ts';
import type {Check, NodeContext} from './check.ts';
import {ofPort, someOf} from './service-observation.ts';

export const staleConntrack: Check<'ST508'> = {
  code: 'ST508',
  name: 'stale-conntrack',
  severity: 'warning',
  summary: "Live connection-tracking entries send a Service's UDP traffic to an address that is no endpoint",
  remedy:
    'Delete the entries on this node: conntrack -D -p udp --orig-dst ADDRESS --orig-port-dst PORT. Until then clients that keep their source port are led astray.',
  // TCP is left out: a connection that is open keeps its endpoint by design.
  *node(context) {
    const text = context.node.read('conntrack')?.toString('utf8');
    if (text === undefined) return;
    const ports = udpPorts(context);
    const stale = new Map<PortEntry, Connection[]>();
    for (const connection of parseConntrack(text, 'udp')) {
      const entry = entryOf(connection, ports, context);
      if (entry === undefined || !isStale(connection, entry)) continue;
      stale.set(entry, [...(stale.get(entry) ?? []), connection]);
    }
    for (const [{port}, connections] of stale) {
      const ends = [...new Set(connections.map(({reply}) => `${reply.source}:${reply.sourcePort}`))];
      const lines = someOf(connections.map(({line}) => String(line)));
      yield {
        ...ofPort(port),
        node: context.node.name,
        message: `${port.servicePortName}: ${connections.length} tracked UDP ${connections.length === 1 ? 'flow leads' : 'flows lead'} to ${someOf(ends)}, no endpoint of the Service (conntrack line ${lines})`,
      };
    }
  },
};

interface UdpPorts {
  readonly byAddress: ReadonlyMap<string, PortEntry>;
  readonly byNodePort: ReadonlyMap<number, PortEntry>;
}

function udpPorts({view, config}: NodeContext): UdpPorts {
  const byAddress = new Map<string, PortEntry>();
  const byNodePort = new Map<number, PortEntry>();
  const proxy = {version: config.version.value, gates: config.featureGates.value};
  for (const entry of families.flatMap(family => view.entries(family, proxy))) {
    const {port} = entry;
    if (port.protocol !== 'UDP') continue;
    for (const address of [port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs]) byAddress.set(`${address} ${port.port}`, entry);
    if (port.nodePort !== 0) byNodePort.set(port.nodePort, entry);
  }
  return {byAddress, byNodePort};
}

function entryOf({original}: Connection, ports: UdpPorts, {facts}: NodeContext): PortEntry | undefined {
  const destination = canonicalAddress(original.destination) ?? original.destination;
  const own = facts.addresses.includes(destination) ? ports.byNodePort.get(original.destinationPort) : undefined;
  return ports.byAddress.get(`${destination} ${original.destinationPort}`) ?? own;
}

/** The answer is awaited from an address that is no endpoint: a former one, or the Service's own, which was never rewritten. */
function isStale({reply}: Connection, {set}: PortEntry): boolean {
  const source = canonicalAddress(reply.source) ?? reply.source;
  return set.endpoints.length > 0 && !set.endpoints.some(({address, port}) => address === source && port === reply.sourcePort);
}
