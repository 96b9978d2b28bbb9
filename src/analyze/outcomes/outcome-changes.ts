import type {NodeContext} from '../../expect/node-context.ts';
import type {ServedPort} from '../../model/endpoint.ts';
import type {Severity} from '../../model/finding.ts';
import type {RuleText} from '../../model/ruleset.ts';
import {entryText} from '../../model/service-port.ts';
import {plural} from '../../model/text.ts';
import {differsBetween, effectOnOthers, namesSenders} from './affected-senders.ts';
import {environmentOf} from './environment.ts';
import {type BothWalks, describePathOutcome, hasSameEnds, isSameOutcome, type PathOutcome} from './path-outcome.ts';
import {type Probe, probesFor} from './probes.ts';
import {constantsIn, isOnNode, namedEndpoints, namedFirst} from './rule-constants.ts';
import {type KnownSenders, sourceName, sourcesNamedIn} from './sources.ts';

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

/** The probes whose outcome with the rules in question is another than without them, which is the expected one. */
export function outcomeChanges<R extends RuleText, Port extends ServedPort>(
  probes: readonly PortProbe<Port>[],
  {facts}: Pick<NodeContext, 'facts'>,
  walks: BothWalks<R>,
): readonly OutcomeChange<R, Port>[] {
  const environment = environmentOf(facts);
  return probes.flatMap(({item, probe}) => {
    const pathOutcome = walks.actual(probe.packet, environment);
    const without = walks.expected(probe.packet, environment);
    const isSame =
      isSameOutcome(pathOutcome, without) && (probe.direct === undefined || isMasqueraded(pathOutcome) === isMasqueraded(without));
    return isSame ? [] : [{item, probe, pathOutcome, without, lost: !hasSameEnds(pathOutcome, without)}];
  });
}

/** Of a packet that is sent straight to an endpoint, and so to no other. */
function isMasqueraded({outcomes}: PathOutcome<RuleText>): boolean {
  return outcomes.some(({masquerade}) => masquerade);
}

/** Rules in question: they differ from kube-proxy's, or were not written by it. */
export interface RulesInQuestion<Port extends ServedPort> {
  readonly context: NodeContext;
  readonly ports: readonly Port[];
  /** Their texts, and those of the rules in third-party chains that they lead to. */
  readonly texts: readonly string[];
  readonly senders: () => KnownSenders;
}

/** Above this number, Service ports are not probed one by one. */
const maxPorts = 300;

/** So many Service ports, those first that the rules name. */
export function namedPorts<Port extends ServedPort>(
  {ports, context, texts}: RulesInQuestion<Port>,
  count: number = maxPorts,
): readonly Port[] {
  return texts.length === 0 ? [] : namedFirst(ports, context, constantsIn(texts)).slice(0, count);
}

/**
 * New connections to these Service ports from every kind of client and from those that the rules name, and of an endpoint on this node to
 * itself and of those that the rules name.
 */
export function connectionsTo<Port extends ServedPort>(
  items: readonly Port[],
  {context, texts, senders}: RulesInQuestion<Port>,
): readonly PortProbe<Port>[] {
  const constants = constantsIn(texts);
  const clients = sourcesNamedIn(texts, context, senders);
  return items.flatMap(item => {
    const here = item.endpoints.reachable.filter(endpoint => isOnNode(endpoint, context)).slice(0, 1);
    const hairpins = [...new Set([...here, ...namedEndpoints(item, context, constants)])];
    const probes = probesFor({item, context, hairpins, clients}).filter(({knownTo}) => knownTo.size === 0);
    return probes.map(probe => ({item, probe}));
  });
}

/** What rules do to packets: the worst change in words, and how many Service ports it concerns. If there is none, other senders are tried. */
export function effectOfRules<R extends RuleText, Port extends ServedPort>(
  rules: RulesInQuestion<Port>,
  changes: readonly OutcomeChange<R, Port>[],
  walks: BothWalks<R>,
): {readonly severity: Severity; readonly text: string} {
  const {context, texts} = rules;
  const worst = changes.find(change => change.lost && !isOfSome(change)) ?? changes.find(({lost}) => lost) ?? changes[0];
  if (worst === undefined) {
    const others = namesSenders(texts) ? namedPorts(rules) : [];
    return {severity: 'info', text: effectOnOthers(others, context, differsBetween(context, walks))};
  }
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
export function isOfSome({probe: {source}}: PortProbe<ServedPort>): boolean {
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

/** The last Service port of each shape. The full walks of `test/differential` replace it by its name. */
export function onePerShape<Port extends ServedPort>(ports: readonly Port[], shape: (item: Port) => string): readonly Port[] {
  return [...new Map(ports.map(item => [shape(item), item])).values()];
}
