import type {ExpectedIpvs} from '../../expect/ipvs/expected-ipvs.ts';
import type {Endpoint, ServedPort} from '../../model/endpoint.ts';
import type {ChainSource} from '../../model/ruleset.ts';
import type {Packet} from '../../trace/packet.ts';
import {isSameOutcome, type PathOutcome} from '../outcomes/path-outcome.ts';
import {onePerShape} from '../outcomes/outcome-changes.ts';
import {packetOf, type Probe, probesFor} from '../outcomes/probes.ts';
import {constantsIn, namedEndpoints, namedFirst} from '../outcomes/rule-constants.ts';
import {type KnownSenders, sourcesNamedIn} from '../outcomes/sources.ts';
import {type IpvsSide, pathOutcomeOn} from './base-rule-source.ts';

/** The effects of base rules that differ, the most severe first. */
export type BaseRuleHarm =
  /** Packets that should reach an endpoint do not. */
  | 'refuses'
  /** Packets from outside loadBalancerSourceRanges get in. */
  | 'admits'
  /** Connections that cannot work without it are not masqueraded. */
  | 'keeps-source'
  /** Connections are masqueraded, or not, contrary to the settings. */
  | 'masquerades'
  /** The node's own ports answer on addresses of Services. */
  | 'exposes'
  | 'none';

/** The effect of base rules compared with the expected ones. */
export type HarmOf = (rules: ChainSource) => BaseRuleHarm;

interface TriedPacket {
  /** Null for a packet to no Service. */
  readonly probe: Probe | null;
  readonly packet: Packet;
  /** The Service's external policy is Local. */
  readonly local: boolean;
}

/** Walks packets of Services of every shape through base rules. The outcomes with the expected rules are computed once, on demand. */
export function baseRuleHarm(expected: ExpectedIpvs, side: IpvsSide, triedRules: TriedRules): HarmOf {
  let tried: readonly (TriedPacket & {readonly pathOutcome: PathOutcome})[] | null = null;
  return rules => {
    tried ??= packetsToTry(expected, triedRules).map(one => ({...one, pathOutcome: pathOutcomeOn(side, one.packet)}));
    const harms = new Set<BaseRuleHarm>();
    for (const {probe, packet, pathOutcome, local} of tried) {
      const found = pathOutcomeOn({...side, rules}, packet);
      if (!isSameOutcome(pathOutcome, found)) harms.add(harm(probe, {should: pathOutcome, does: found, local}));
    }
    return order.find(kind => harms.has(kind)) ?? 'none';
  };
}

interface TriedRules {
  readonly nodeName: string;
  /** The texts of base rules that kube-proxy did not write: Service ports and senders that they name are tried. */
  readonly unexpected: readonly string[];
  readonly senders: () => KnownSenders;
}

const maxNamed = 50;

function packetsToTry(expected: ExpectedIpvs, {nodeName, unexpected, senders}: TriedRules): readonly TriedPacket[] {
  const {ports, context} = expected;
  const constants = constantsIn(unexpected);
  const clients = sourcesNamedIn(unexpected, context, senders);
  const named = unexpected.length === 0 ? [] : namedFirst(ports, context, constants).slice(0, maxNamed);
  const probes = [...new Set([...onePerShape(ports, ipvsShapeOf), ...named])].flatMap(item => {
    const isHere = (endpoint: Endpoint): boolean => endpoint.nodeName === nodeName;
    const here = [...item.endpoints.reachable.filter(isHere).slice(0, 1), ...namedEndpoints(item, context, constants)];
    const own = probesFor({item, context, hairpins: here, clients}).filter(({knownTo}) => knownTo.size === 0);
    return own.map(probe => ({probe, packet: probe.packet, local: item.port.externalPolicyLocal}));
  });
  return [...probes, ...otherPorts(expected, [...ports.slice(0, 1), ...named]).map(packet => ({probe: null, packet, local: false}))];
}

/** All properties of a Service port that decide which of the base rules of IPVS mode its packets match. */
function ipvsShapeOf({port, endpoints, all}: ServedPort): string {
  return [
    port.protocol,
    port.externalPolicyLocal,
    port.nodePort !== 0,
    port.loadBalancerVIPs.length > 0,
    port.externalIPs.length > 0,
    port.sourceRanges.length > 0,
    endpoints.reachable.length > 0,
    new Set(all.map(({nodeName}) => nodeName)).size > 1,
  ].join();
}

const order: readonly BaseRuleHarm[] = ['refuses', 'admits', 'keeps-source', 'masquerades', 'exposes'];

interface PathOutcomes {
  readonly should: PathOutcome;
  readonly does: PathOutcome;
  /** The Service's external policy is Local. */
  readonly local: boolean;
}

function harm(probe: Probe | null, {should, does, local}: PathOutcomes): BaseRuleHarm {
  if (probe === null) return should.rejected > 0 ? 'exposes' : 'none';
  if (should.destinations.size === 0) return does.destinations.size > 0 ? 'admits' : 'none';
  if (does.destinations.size < should.destinations.size || does.dropped + does.rejected + does.undecided > 0) return 'refuses';
  const lost = [...should.destinations].some(([destination, share]) => share.masquerade && !does.destinations.get(destination)?.masquerade);
  const needed = probe.endpoint !== undefined || (probe.entry.kind !== 'clusterIP' && !local);
  return lost && needed ? 'keeps-source' : 'masquerades';
}

/** To a port of each of these Services' cluster IPs that no Service has. */
function otherPorts({context, servers}: ExpectedIpvs, items: readonly ServedPort[]): readonly Packet[] {
  const source = context.family === 'IPv4' ? '198.18.77.7' : '2001:db8:ffff::77';
  const from = {kind: 'outside', interface: null};
  return [...new Set(items.map(({port}) => port.clusterIP))].flatMap(destination => {
    const port = [9, 19, 29].find(number => !servers.has(`TCP ${destination}:${number}`));
    return port === undefined ? [] : (packetOf({protocol: 'TCP', family: context.family}, {source, destination, port, from}) ?? []);
  });
}
