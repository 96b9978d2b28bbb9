import type {PortEntry} from '../expect/cluster/cluster-view.ts';
import {addressInside, familyOf, parseCidr} from '../model/address.ts';
import type {Severity} from '../model/finding.ts';
import type {NodeFacts} from '../model/node/node-facts.ts';
import type {RuleText} from '../model/ruleset.ts';
import type {Outcome} from '../trace/outcome.ts';
import type {Environment, Packet} from '../trace/packet.ts';
import {environmentOf} from './outcomes/environment.ts';
import {packetOf} from './outcomes/probes.ts';
import {plural} from '../model/text/plural.ts';

/** What rules of a proxy mode that no longer runs still do to packets. */
export interface LeftoverEffect {
  readonly severity: Severity;
  readonly text: string;
}

export interface LeftoverCase {
  readonly entries: readonly PortEntry[];
  readonly facts: NodeFacts;
  readonly walk: (packet: Packet, environment: Environment) => readonly Outcome<RuleText>[];
}

/** Above this number, Service ports are not probed. */
const maxPorts = 300;

/** Walks packets of pods to cluster IPs through the leftovers alone: packets that these match may never reach the rules in use. Null if none match. */
export function leftoverEffect({entries, facts, walk}: LeftoverCase): LeftoverEffect | null {
  const environment = environmentOf(facts);
  const caught: PortEntry[] = [];
  const wrong: PortEntry[] = [];
  for (const entry of entries.slice(0, maxPorts)) {
    const packet = packetFromPod(entry, facts);
    const outcomes = packet === null ? [] : walk(packet, environment);
    if (outcomes.every(({verdict, destination}) => verdict === 'undecided' || (verdict === 'accept' && destination === null))) continue;
    caught.push(entry);
    const usable = new Set(entry.set.endpoints.filter(({ready, terminating}) => ready || terminating).map(({hostPort}) => hostPort));
    const astray = outcomes.some(({destination}) => (destination === null ? !entry.port.internalPolicyLocal : !usable.has(destination)));
    if (usable.size > 0 && astray) wrong.push(entry);
  }
  const [first] = wrong.length > 0 ? wrong : caught;
  if (first === undefined) return null;
  const count = `${plural(caught.length, 'Service port')}`;
  const astray = wrong.length > 0 ? `, and sends those of ${wrong.length} to an address that is no endpoint of theirs` : '';
  return {
    severity: wrong.length > 0 ? 'error' : 'warning',
    text: `it still intercepts packets of ${count}${astray} (such as ${first.port.servicePortName}), and nothing keeps its rules up to date`,
  };
}

function packetFromPod({port}: PortEntry, {podCIDRs, addresses}: NodeFacts): Packet | null {
  const network = podCIDRs.map(text => parseCidr(text)).find(cidr => cidr?.family === port.family) ?? null;
  const source =
    (network === null ? null : addressInside(network, new Set())) ?? addresses.find(address => familyOf(address) === port.family);
  if (source === undefined) return null;
  return packetOf(port, {source, destination: port.clusterIP, port: port.port, from: {kind: 'pod', interface: null}});
}
