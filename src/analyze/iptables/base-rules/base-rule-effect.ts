import type {ExpectedRuleset} from '../../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../../expect/iptables/service-rules.ts';
import {partition} from '../../../model/lists.ts';
import type {Chain, ChainSource, Rule, Ruleset} from '../../../model/ruleset.ts';
import type {Packet} from '../../../trace/packet.ts';
import {onceAsked} from '../../../model/once.ts';
import {environmentOf} from '../../outcomes/environment.ts';
import {connectionsTo, isOfSome, namedPorts, onePerShape, shapeOf} from '../../outcomes/outcome-changes.ts';
import {isSameOutcome, type PathOutcome, walkOf} from '../../outcomes/path-outcome.ts';
import {packetOf} from '../../outcomes/probes.ts';
import {type KnownSenders, usualSources} from '../../outcomes/sources.ts';
import type {PortSymptom} from '../../symptoms/symptom-list.ts';
import {listChain, textsOf, withChain} from '../chain-texts.ts';
import type {PortDifference} from '../service-port/port-differences.ts';

export interface BaseRulesCase {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  /** Differences that belong to no Service port. */
  readonly differences: readonly PortDifference[];
  /** The Service ports whose own rules differ. */
  readonly differing: ReadonlySet<PortOnNode>;
  readonly senders: () => KnownSenders;
}

/** The differences that no base rule has explained so far. */
export interface LeftBaseRules extends BaseRulesCase {
  readonly changesOutcomes: ChangesOutcomes;
}

/** A symptom of the node, and the differences that it explains. */
export interface BaseRuleSymptom {
  readonly symptom: PortSymptom<Rule>;
  readonly explained: readonly PortDifference[];
}

export const baseChainNames: ReadonlySet<string> = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);

/** Up to 1.26 the kubelet writes a rule into KUBE-FIREWALL and copies of kube-proxy's into KUBE-POSTROUTING and KUBE-MARK-MASQ. */
export function isKubeletsOwn(rule: Rule): boolean {
  return rule.chain === 'KUBE-FIREWALL' && rule.line > 0 && rule.text.includes('--mark 0x8000/0x8000') && rule.target?.name === 'DROP';
}

/** Whether packets have another outcome where a chain of the node holds these rules; or an outcome that differs in this way from what it is today. */
type ChangesOutcomes = (chain: Chain, rules: readonly Rule[], differs?: (today: PathOutcome, then: PathOutcome) => boolean) => boolean;

interface NodeRules extends Omit<BaseRulesCase, 'differences'> {
  /** Base rules that kube-proxy did not write. */
  readonly unexpected: readonly Rule[];
}

/** Packets are walked through the actual rules, once and when they are first needed, and through the same rules with another chain. */
export function outcomesWithout(nodeRules: NodeRules): ChangesOutcomes {
  const {expected, actual} = nodeRules;
  const environment = onceAsked(() => environmentOf(expected.context.facts));
  const walk = (rules: ChainSource, packet: Packet): PathOutcome => walkOf(rules)(packet, environment());
  let walked: readonly {readonly packet: Packet; readonly pathOutcome: PathOutcome}[] | null = null;
  return (chain, rules, differs = (today, then) => !isSameOutcome(today, then)) => {
    const repaired = withChain(actual, chain, listChain(chain, rules));
    walked ??= packetsOf(nodeRules).map(packet => ({packet, pathOutcome: walk(actual, packet)}));
    return walked.some(({packet, pathOutcome}) => differs(pathOutcome, walk(repaired, packet)));
  };
}

/** Whether packets have another outcome because a jump is missing from a base chain, or differs. */
export function isNeeded(rule: Rule, actual: Ruleset, changesOutcomes: ChangesOutcomes): boolean {
  const chain = actual.chain(rule.table, rule.chain);
  if (chain === undefined) return true;
  const isAlike = ({target}: Rule): boolean => target?.name === rule.target?.name;
  const place = Math.max(0, chain.rules().findIndex(isAlike));
  const others = chain.rules().filter(other => !isAlike(other));
  return changesOutcomes(chain, others.toSpliced(place, 0, rule));
}

/** Packets to one Service port of each shape and to those that unexpected rules name, also from pods and nodes that they name, and some to no Service. */
function packetsOf({expected, actual, differing, unexpected, senders}: NodeRules): readonly Packet[] {
  const {context, ports} = expected;
  const inQuestion = {context, ports, texts: textsOf(unexpected, actual), senders};
  const items = [...new Set([...triedPorts(expected, differing), ...namedPorts(inQuestion, maxNamed)])];
  const probes = connectionsTo(items, inQuestion).filter(one => !isOfSome(one));
  return [...probes.map(({probe}) => probe.packet), ...packetsToOthers(expected)];
}

/** Packets that the own rules of a Service port lose show nothing of base rules: where all of a shape differ, several of them are tried. */
function triedPorts({ports, context}: ExpectedRuleset, differing: ReadonlySet<PortOnNode>): readonly PortOnNode[] {
  const shape = (item: PortOnNode): string => shapeOf(item, context.facts.hostIPs);
  const [different, same] = partition(ports, item => differing.has(item));
  const right = onePerShape(same, shape);
  const shapes = new Set(right.map(shape));
  const rest = different.filter(item => !shapes.has(shape(item)));
  return [...new Set([...right, ...onePerShape(rest, shape), ...rest.slice(0, maxDiffering)])];
}

const maxDiffering = 50;
const maxNamed = 50;

/** Packets of other hosts to the loopback address, packets to the outside, and packets to the number of a node port there and at the loopback address. */
function packetsToOthers(expected: ExpectedRuleset): readonly Packet[] {
  const {context, family} = expected;
  const outside = family === 'IPv4' ? '9.9.9.9' : '2620:fe::fe';
  const destinations = family === 'IPv4' ? ['127.0.0.1', outside] : [outside];
  const sources = usualSources(context);
  const arriving = sources.flatMap(from =>
    destinations.flatMap(destination => packetOf({protocol: 'TCP', family}, {source: from.address, destination, port: 9, from}) ?? []),
  );
  const nodePort = expected.ports.find(({port, endpoints}) => port.nodePort !== 0 && endpoints.hasAny)?.port;
  if (nodePort === undefined) return arriving;
  // Only the node itself can reach its loopback address.
  const loopback = family === 'IPv4' ? '127.0.0.1' : '::1';
  const itself = {kind: 'node', address: loopback, interface: null, destination: loopback};
  const senders = [...sources.map(source => ({...source, destination: outside})), itself];
  const toNodePort = senders.flatMap(
    from => packetOf(nodePort, {source: from.address, destination: from.destination, port: nodePort.nodePort, from}) ?? [],
  );
  return [...arriving, ...toNodePort];
}
