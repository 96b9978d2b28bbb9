import {type Family, parseAddress} from '../model/address.ts';
import type {ServicePort} from '../model/service-port.ts';
import {serverKey} from '../model/virtual-server.ts';
import {conntrackKey, type ConntrackOptions} from '../parse/conntrack.ts';
import type {NatCounterOptions} from '../parse/iptables/nat-counters.ts';
import type {NodeSurvey} from './node-survey.ts';

/** What to read from the table nat of one family. */
export function wantedChains({ports}: NodeSurvey, family: Family): NatCounterOptions {
  const own = ports.filter(({port}) => port.family === family);
  return {
    byName: new Map(own.map(({port, key}) => [port.servicePortName, key])),
    byHash: new Map(own.map(({port, key}) => [port.hash, key])),
  };
}

/** What to read from conntrack. Only nftables mode needs to identify connections. */
export function wantedConnections(survey: NodeSurvey): ConntrackOptions {
  return {ports: conntrackDestinations(survey), identify: survey.mode === 'nftables'};
}

/** The Service port that a tracked connection belongs to, by its original destination as printed by conntrack and /proc. */
function conntrackDestinations({ports, addresses}: Pick<NodeSurvey, 'ports' | 'addresses'>): ReadonlyMap<string, string> {
  const keys = new Map<string, string>();
  for (const {key, port} of ports) {
    for (const {address, port: number} of destinationsOf(port, addresses)) {
      keys.set(conntrackKey(port.protocol, address, number), key);
      if (port.family === 'IPv6') keys.set(conntrackKey(port.protocol, fullIPv6(address), number), key);
    }
  }
  return keys;
}

/** The virtual servers of a Service port on a node with these addresses, by `serverKey`. */
export function virtualServersOf(port: ServicePort, addresses: readonly string[]): readonly string[] {
  return destinationsOf(port, addresses).map(({address, port: number}) => serverKey({protocol: port.protocol, address, port: number}));
}

/** The addresses that clients of the surveyed Service ports connect to. */
export function destinationAddresses({ports, addresses}: Pick<NodeSurvey, 'ports' | 'addresses'>, family: Family): readonly string[] {
  const own = ports.filter(({port}) => port.family === family).flatMap(({port}) => destinationsOf(port, addresses));
  return [...new Set(own.map(({address}) => address))];
}

function destinationsOf(port: ServicePort, addresses: readonly string[]): readonly {readonly address: string; readonly port: number}[] {
  const own = [port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs].map(address => ({address, port: port.port}));
  if (port.nodePort === 0) return own;
  const ofFamily = addresses.filter(address => address.includes(':') === (port.family === 'IPv6'));
  return [...own, ...ofFamily.map(address => ({address, port: port.nodePort}))];
}

/** As /proc prints it: without abbreviation. */
function fullIPv6(address: string): string {
  const value = parseAddress(address)?.value;
  if (value === undefined) return address;
  return value.toString(16).padStart(32, '0').match(/.{4}/g)?.join(':') ?? address;
}
