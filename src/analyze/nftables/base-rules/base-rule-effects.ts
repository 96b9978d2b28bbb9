import type {ExpectedTable} from '../../../expect/nftables/expected-table.ts';
import {type NftPort, parseNftName} from '../../../expect/nftables/nft-names.ts';
import {formatAddress} from '../../../model/address.ts';
import type {Endpoint} from '../../../model/endpoint.ts';
import type {RuleText} from '../../../model/ruleset.ts';
import type {Packet} from '../../../trace/packet.ts';
import {anyPort} from '../../../trace/side.ts';
import {
  connectionsTo,
  effectOfRules,
  namedPorts,
  onePerShape,
  type OutcomeChange,
  outcomeChanges,
  type PortProbe,
  type RulesInQuestion,
  shapeOf,
} from '../../outcomes/outcome-changes.ts';
import {directProbe, packetOf, probesFor, whose} from '../../outcomes/probes.ts';
import {type Source, sourcesNamedIn, usualSources} from '../../outcomes/sources.ts';
import {type NftCase, type NftPortDifference, withChains, withSet, targetsOf} from '../nft-case.ts';
import {describePathOutcome, tableWalkOf} from '../../outcomes/path-outcome.ts';
import type {Symptom} from '../../symptoms/symptom.ts';

/** Rules of base chains, as rules whose effect on packets is asked for. */
export function inQuestion(nftCase: NftCase, rules: readonly RuleText[]): RulesInQuestion<NftPort> {
  const {
    expected: {context, ports},
    senders,
  } = nftCase;
  return {context, ports, texts: textsOf(rules, nftCase), senders};
}

/** Packets that other nodes and their pods send straight to an endpoint of this one: no rule of a Service takes them first. */
function* directProbes({ports, context, texts, senders}: RulesInQuestion<NftPort>): Iterable<PortProbe<NftPort>> {
  const {facts, family} = context;
  const isHere = ({nodeName, address}: Endpoint): boolean => nodeName === facts.name && !facts.addresses.includes(address);
  const item = ports.find(({endpoints}) => endpoints.reachable.some(isHere));
  const endpoint = item?.endpoints.reachable.find(isHere);
  if (item === undefined || endpoint === undefined) return;
  const [node] = senders().nodes.keys();
  const usual = usualSources(context);
  const sources: readonly Source[] = [
    ...usual,
    ...(node === undefined ? [] : [{kind: 'other-node', address: formatAddress(family, node), interface: facts.primaryInterface} as const]),
    ...sourcesNamedIn(texts, context, senders),
  ];
  for (const source of sources.filter(({kind}) => kind === 'remote-pod' || kind === 'other-node')) {
    const probe = directProbe(item.port, endpoint, source);
    if (probe !== null) yield {item, probe: {...probe, packet: {...probe.packet, sourcePort: anyPort}}};
  }
}

/** The rules, and those of unexpected chains that they lead to. */
function textsOf(rules: readonly RuleText[], {expected, actual}: NftCase): readonly string[] {
  const own = new Set(expected.baseRules.map(({name}) => name));
  const texts: string[] = [];
  const visit = (rule: RuleText): void => {
    texts.push(rule.text);
    for (const name of targetsOf(rule)) {
      if (own.has(name) || parseNftName(name) !== null) continue;
      own.add(name);
      actual.chain(name)?.rules().forEach(visit);
    }
  };
  rules.forEach(visit);
  return texts;
}

type TableChange = OutcomeChange<RuleText, NftPort>;

/** The probes of one Service port of each shape: together they match every base rule. */
export function baseChainProbes({context, ports}: ExpectedTable): readonly PortProbe<NftPort>[] {
  return onePerShape(ports.toReversed(), item => shapeOf(item, context.facts.hostIPs)).flatMap(item =>
    probesFor({item, context, hairpins: item.endpoints.reachable.slice(0, 2)})
      .filter(({knownTo}) => knownTo.size === 0)
      .map(probe => ({item, probe})),
  );
}

/** Packets to a port that a cluster IP does not have. */
export function unservedPackets({context, ports}: ExpectedTable): readonly Packet[] {
  const [first] = ports;
  if (first === undefined) return [];
  const taken = new Set(ports.flatMap(({port}) => (port.clusterIP === first.port.clusterIP ? [port.port] : [])));
  const free = [9, 19, 29, 39].find(number => !taken.has(number)) ?? 49;
  return usualSources(context).flatMap(
    from => packetOf(first.port, {source: from.address, destination: first.port.clusterIP, port: free, from}) ?? [],
  );
}

/** A rule that concerns more Service ports than this is about the node. */
const maxNamed = 3;

/** Unexpected rules in base chains: their severity is their effect on packets, which are walked with and without them. */
export function analyzeUnexpectedNftRules(nftCase: NftCase, differences: readonly NftPortDifference[]): readonly Symptom[] {
  const {expected, actual, view} = nftCase;
  const rules = differences.map(({rule}) => rule);
  const [first] = differences;
  if (first === undefined) return [];
  const duplicate = differences.every(({kind}) => kind === 'duplicate');
  const found = actual.chain(first.rule.chain);
  const table = first.what !== 'element' && found !== undefined ? withChains(view, new Map([[first.rule.chain, found]])) : view;
  const other = first.what === 'element' ? withSet(view, first.rule.chain, expected.set(first.rule.chain)) : view;
  const given = inQuestion(nftCase, rules);
  const probes = [...baseChainProbes(expected), ...connectionsTo(namedPorts(given), given), ...directProbes(given)];
  const walks = {expected: tableWalkOf(other), actual: tableWalkOf(table)};
  const changes = outcomeChanges(probes, expected.context, walks);
  const {severity, text} = effectOfRules(given, changes, walks);
  const base = {family: expected.context.family, expected: [], actual: rules.slice(0, 6)};
  const lost = changes.filter(change => change.lost);
  const items = [...new Set(lost.map(({item}) => item))];
  if (items.length > 0 && items.length <= maxNamed)
    return items.map(item =>
      ofPort(
        lost.filter(change => change.item === item),
        first.rule.chain,
        base,
      ),
    );
  const count = rules.length === 1 ? describe(first) : `${rules.length} rules in ${first.rule.chain}`;
  const what = duplicate
    ? `${count} ${rules.length === 1 ? 'is there twice' : 'are duplicates'}`
    : `${count} ${rules.length === 1 ? 'was' : 'were'} not written by kube-proxy`;
  const kind = duplicate && changes.length === 0 ? 'duplicate-rule' : 'unexpected-rule';
  return [{...base, kind, severity, port: null, detail: `${what}: ${text}`}];
}

function describe({what, rule: {chain: name}}: NftPortDifference): string {
  return what === 'rule' ? `a rule in ${name}` : what === 'element' ? `an element of ${name}` : `what ${name} is declared as`;
}

function ofPort(
  changes: readonly TableChange[],
  name: string,
  base: {readonly family: Symptom['family']; readonly expected: readonly RuleText[]; readonly actual: readonly RuleText[]},
): Symptom {
  const [worst] = changes;
  const port = worst?.item.port ?? null;
  if (worst === undefined) return {...base, kind: 'unexpected-rule', port, detail: `a rule in ${name}`};
  const {probe, pathOutcome, without} = worst;
  const {entry} = probe;
  if (pathOutcome.destinations.size === 0 && (pathOutcome.rejected > 0 || pathOutcome.dropped > 0) && without.destinations.size > 0) {
    const detail = `${whose(probe)} end in ${describePathOutcome(pathOutcome)}, and should reach ${describePathOutcome(without)}`;
    return {...base, kind: 'unexpected-reject', severity: 'error', port, entry, detail};
  }
  const detail = `a rule in ${name} that kube-proxy would not have written intercepts ${whose(probe)}: they end in ${describePathOutcome(pathOutcome)}`;
  return {...base, kind: 'unexpected-rule', severity: 'error', port, entry, detail};
}
