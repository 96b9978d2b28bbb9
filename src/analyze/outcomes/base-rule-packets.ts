import type {ServedPort} from '../../model/endpoint.ts';
import {partition, uniqueBy} from '../../model/lists.ts';
import {onceAsked} from '../../model/once.ts';
import type {Packet} from '../../trace/walked-packet.ts';
import {environmentOf, isSameOutcome, type PathOutcome, type Walk} from './environment.ts';
import {connectionsTo, isNamedBy, namedPorts, onePerShape, type PortProbe, type RulesInQuestion, shapeOf} from './outcome-changes.ts';
import {packetOf} from './probes.ts';
import {usualSources} from './sources.ts';

interface BaseRules extends RulesInQuestion {
  /** The Service ports whose own rules differ, where packets are walked through these. */
  readonly differing?: ReadonlySet<ServedPort>;
  /** What decides which base rules the packets of a Service port match, in a mode where it is not `shapeOf`. */
  readonly shape?: (item: ServedPort) => string;
}

/** Packets to one Service port of each shape and to those that unexpected rules name, also from pods and nodes that they name. */
export function baseRuleProbes(rules: BaseRules, most: number = maxNamed): readonly PortProbe[] {
  const items = new Set([...portsOfEachShape(rules), ...namedPorts(rules, most)]);
  return connectionsTo([...items], rules);
}

const maxNamed = 50;

/**
 * Packets that the own rules of a Service port lose, or unexpected rules that name it, show nothing of base rules: where all of a shape
 * differ, several of them are tried.
 */
function portsOfEachShape(rules: BaseRules): readonly ServedPort[] {
  const {ports, context, texts, differing = new Set(), shape} = rules;
  const shapeIn = shape ?? (item => shapeOf(item, context.facts.hostIPs));
  const isNamed = isNamedBy(texts, context);
  const [different, same] = partition(ports, item => differing.has(item) || isNamed(item));
  const right = onePerShape(same.toReversed(), shapeIn);
  const shapes = new Set(right.map(shapeIn));
  const rest = different.filter(item => !shapes.has(shapeIn(item)));
  return [...right, ...onePerShape(rest, shapeIn), ...rest.slice(0, maxDiffering)];
}

const maxDiffering = 50;

/** A packet that passes base rules: one of a Service port, or one to no Service. */
interface Tried extends Partial<PortProbe> {
  readonly packet: Packet;
}

/** A packet with its outcome before and after base rules are replaced. */
export interface BaseRuleChange extends Tried {
  readonly before: PathOutcome;
  readonly after: PathOutcome;
}

/** Walks packets through these rules, once and when they are first needed; then through others, to tell which end elsewhere. */
export function baseRuleChanges(
  rules: BaseRules,
  walk: Walk,
  environment = environmentOf(rules.context.facts),
): (other: Walk) => readonly BaseRuleChange[] {
  const walked = onceAsked(() => {
    const tried: readonly Tried[] = [
      ...baseRuleProbes(rules).map(({item, probe}) => ({item, probe, packet: probe.packet})),
      ...packetsToNoService(rules).map(packet => ({packet})),
    ];
    return tried.map(one => ({...one, before: walk(one.packet, environment)}));
  });
  return other =>
    walked().flatMap(one => {
      const after = other(one.packet, environment);
      return isSameOutcome(one.before, after) ? [] : [{...one, after}];
    });
}

/**
 * Packets of other hosts to the loopback address, packets to the outside, to ports that cluster IPs do not have, and to the number of a node
 * port outside and at the loopback address.
 */
function packetsToNoService(rules: BaseRules): readonly Packet[] {
  const {context, ports} = rules;
  const {family} = context;
  const outside = family === 'IPv4' ? '9.9.9.9' : '2620:fe::fe';
  const sources = usualSources(context);
  const send = (protocol: string, destination: string, port: number): readonly Packet[] =>
    sources.flatMap(from => packetOf({protocol, family}, {source: from.address, destination, port, from}) ?? []);
  const arriving = [...(family === 'IPv4' ? ['127.0.0.1'] : []), outside].flatMap(destination => send('TCP', destination, 9));
  const ofServices = uniqueBy([...ports.slice(0, 1), ...namedPorts(rules, maxNamed)], ({port}) => port.clusterIP);
  const unserved = ofServices.flatMap(({port: {protocol, clusterIP}}) => {
    const taken = new Set(ports.flatMap(({port}) => (port.clusterIP === clusterIP ? [port.port] : [])));
    return send(protocol, clusterIP, [9, 19, 29, 39].find(number => !taken.has(number)) ?? 49);
  });
  const nodePort = ports.find(({port, endpoints}) => port.nodePort !== 0 && endpoints.hasAny)?.port;
  if (nodePort === undefined) return [...arriving, ...unserved];
  // Only the node itself can reach its loopback address.
  const loopback = family === 'IPv4' ? '127.0.0.1' : '::1';
  const itself = {source: loopback, destination: loopback, port: nodePort.nodePort, from: {kind: 'node', interface: null}};
  return [...arriving, ...unserved, ...send(nodePort.protocol, outside, nodePort.nodePort), ...[packetOf(nodePort, itself) ?? []].flat()];
}
