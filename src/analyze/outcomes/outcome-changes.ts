import type {NodeContext} from '../../expect/node-context.ts';
import type {Endpoint, ServedPort} from '../../model/endpoint.ts';
import type {Severity} from '../../model/finding.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {entryText} from '../../model/service-port.ts';
import {plural} from '../../model/text.ts';
import type {Packet} from '../../trace/packet.ts';
import {describePathOutcome, hasSameEnds, isSameOutcome, type PathOutcome} from './path-outcome.ts';
import {type Probe, probesFor} from './probes.ts';
import {type Source, sourceName} from './sources.ts';

/** A probe of a Service port. */
export interface PortProbe<Port extends ServedPort> {
  readonly item: Port;
  readonly probe: Probe;
}

/** A probe whose outcome with some rules is not the one without them. */
export interface OutcomeChange<R extends RuleText, Port extends ServedPort> extends PortProbe<Port> {
  readonly pathOutcome: PathOutcome<R>;
  readonly without: PathOutcome<R>;
  /** It ends elsewhere, and is not only masqueraded differently. */
  readonly lost: boolean;
}

/** Walks a packet through a node's rules, and through the same rules without some of them. */
export interface TwoWalks<R extends RuleText> {
  readonly walk: (packet: Packet) => PathOutcome<R>;
  readonly walkWithout: (packet: Packet) => PathOutcome<R>;
}

/** The probes whose outcome with the rules in question is another than without them. */
export function* outcomeChanges<R extends RuleText, Port extends ServedPort>(
  probes: Iterable<PortProbe<Port>>,
  {walk, walkWithout}: TwoWalks<R>,
): Iterable<OutcomeChange<R, Port>> {
  for (const {item, probe} of probes) {
    const pathOutcome = walk(probe.packet);
    const without = walkWithout(probe.packet);
    const isSame =
      isSameOutcome(pathOutcome, without) && (probe.direct === undefined || isMasqueraded(pathOutcome) === isMasqueraded(without));
    if (!isSame) yield {item, probe, pathOutcome, without, lost: !hasSameEnds(pathOutcome, without)};
  }
}

/** Of a packet that is sent straight to an endpoint, and so to no other. */
function isMasqueraded({outcomes}: PathOutcome<RuleText>): boolean {
  return outcomes.some(({masquerade}) => masquerade);
}

/** Above this number, Service ports are not probed one by one. */
export const maxPorts = 300;

/** New connections to a Service port from every kind of client, from further ones, and those of some of its endpoints to themselves. */
export function* newConnections<Port extends ServedPort>(
  item: Port,
  context: NodeContext,
  hairpins: readonly Endpoint[],
  clients: readonly Source[] = [],
): Iterable<PortProbe<Port>> {
  for (const probe of probesFor({item, context, hairpins, clients})) if (probe.knownTo.size === 0) yield {item, probe};
}

/** What the rules in question do to packets: the worst change in words, and how many Service ports it concerns. */
export function effectOf(
  changes: readonly OutcomeChange<RuleText, ServedPort>[],
  onOthers: () => string,
): {readonly severity: Severity; readonly text: string} {
  const worst = changes.find(change => change.lost && !isOfSome(change)) ?? changes.find(({lost}) => lost) ?? changes[0];
  if (worst === undefined) return {severity: 'info', text: onOthers()};
  const {item, probe, pathOutcome, without, lost} = worst;
  const others = new Set(changes.map(change => change.item)).size - 1;
  const more = others > 0 ? `, and ${plural(others, 'more Service port')} ${others === 1 ? 'is' : 'are'} affected` : '';
  const where =
    probe.direct === undefined
      ? `packets from ${sourceName(probe.source)} to the ${entryText(probe.entry)} of ${item.port.servicePortName}`
      : `packets from ${sourceName(probe.source)} sent on by other nodes to the endpoint ${probe.direct} of ${item.port.servicePortName}`;
  const text = lost
    ? `${where} end in ${describePathOutcome(pathOutcome)}, and without it in ${describePathOutcome(without)}`
    : `${where} are masqueraded differently because of it`;
  return {severity: isOfSome(worst) ? 'info' : lost ? 'error' : 'warning', text: text + more};
}

/** A part of the clients outside is hit on purpose. */
function isOfSome({probe: {source}}: OutcomeChange<RuleText, ServedPort>): boolean {
  return source.kind === 'outside' && source.network !== undefined;
}

/** All properties of a Service port that decide which base rules its packets match, in a mode whose base rules name no Service. */
export function shapeOf({port, endpoints}: ServedPort, hostIPs: readonly string[]): string {
  return [
    port.protocol,
    port.externalPolicyLocal,
    port.internalPolicyLocal,
    port.nodePort !== 0,
    port.loadBalancerVIPs.length > 0,
    port.externalIPs.length > 0,
    port.sourceRanges.length > 0,
    endpoints.hasAny,
    endpoints.local.length > 0,
    endpoints.reachable.some(({address}) => hostIPs.includes(address)),
  ].join();
}

/** The last Service port of each shape. */
export function onePerShape<Port extends ServedPort>(ports: readonly Port[], shape: (item: Port) => string): readonly Port[] {
  return [...new Map(ports.map(item => [shape(item), item])).values()];
}
