import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import type {NodeContext} from '../../expect/node-context.ts';
import {partition, pushTo} from '../../model/lists.ts';
import type {Chain, ChainSource, Rule, Ruleset, RuleText} from '../../model/ruleset.ts';
import {walkPacket} from '../../trace/iptables/walk-packet.ts';
import {differsBetween, effectOnOthers, namesSenders} from '../outcomes/affected-senders.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {effectOf, maxPorts, newConnections, type OutcomeChange, outcomeChanges, type TwoWalks} from '../outcomes/outcome-changes.ts';
import {constantsIn, namedEndpoints, namedFirst} from '../outcomes/rule-constants.ts';
import {onceAsked} from '../../model/once.ts';
import {type SenderGroups, senderGroups} from '../outcomes/senders.ts';
import {type KnownSenders, sourcesNamedIn} from '../outcomes/sources.ts';
import {emptiedEntries, lostPlaces, mergeLost, type SharedPlace} from '../symptoms/lost-rules.ts';
import {emptiedServices, noNodePortAnswers, noServiceRules, noServiceWorks, uncoveredPods} from '../symptoms/node-symptoms.ts';
import {staleService} from '../symptoms/port-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {analyzeThirdPartyRules} from '../third-party/analyze-third-party.ts';
import type {NodeRules} from '../proxy-mode.ts';
import {isKubeProxyChain} from '../third-party/iptables-rules.ts';
import {analyzeBaseRules} from './base-rules/analyze-base-rules.ts';
import {listChain, textsOf, withChain} from './chain-texts.ts';
import {compareFamily} from './endpoint-changes.ts';
import {type FamilyCase, inferIptablesSettings} from './infer-settings.ts';
import {pathOutcomeOf, walkOf} from './iptables-outcome.ts';
import {leftoverChains, misnamedChains, withMisnamed} from './misnamed-chains.ts';
import {isBeyondTheCut} from './node-rulesets.ts';
import {IptablesServiceView, PortIndex, servicePortName} from './rules-of-ports.ts';
import {analyzePort} from './service-port/analyze-port.ts';
import type {PortDifference} from './service-port/port-differences.ts';

interface FamilyAnalysis {
  readonly symptoms: readonly Symptom[];
  /** The expectation that the rules were compared with in the end. */
  readonly expected: ExpectedRuleset;
  /** The Service ports that differ, with the table of each differing rule. */
  readonly differing: readonly (readonly [PortOnNode, readonly string[]])[];
}

/** Everything that is wrong with one family's rules on one node. A healthy node costs one comparison and no walk. */
export function analyzeFamily(familyCase: FamilyCase): FamilyAnalysis {
  const {expect, actual, rules} = familyCase;
  const plain = expect({});
  const first = compareFamily(plain, actual);
  const sendersOf = ({context}: ExpectedRuleset) => onceAsked(() => senderGroups({api: rules.api, context}));
  const none = familyCase.eachService
    ? null
    : holdsNoServiceRules(plain, actual)
      ? noServiceRules('table nat holds none', plain)
      : withoutServices(plain, actual);
  if (none !== null) {
    const canaries = analyzeBaseRules({expected: plain, actual, differences: [], differing: new Set(), senders: sendersOf(plain)}).filter(
      ({kind}) => kind === 'canary-missing',
    );
    return {expected: plain, symptoms: [none, ...canaries], differing: []};
  }
  const differs = first.changed.size > 0 || first.differences.some(({owner}) => owner !== null);
  const {expected, symptoms} = differs ? inferIptablesSettings(plain, familyCase) : {expected: plain, symptoms: []};
  const compared = expected === plain ? first : compareFamily(expected, actual);
  const listed = compared.differences.filter(({kind, rule: {table, chain}}) => kind !== 'missing' || !isBeyondTheCut(actual, table, chain));
  const index = new PortIndex(expected);
  const isBesideBroadRules = listed.some(({kind, owner, rule}) => kind === 'extra' && owner === null && index.isBroad(rule));
  const concerned = compared.changed.size === 0 ? null : attribute(listed, index).byPort;
  const [inDoubt, changed] = partition([...compared.changed], ([item]) => isBesideBroadRules || concerned?.has(item) === true);
  const known = [...inDoubt.flatMap(([item]) => compared.differencesOf(item)), ...listed];
  const owned = attribute(known, index);
  const view = new IptablesServiceView(expected, actual);
  const differing = new Set([...owned.byPort.keys(), ...compared.changed.keys()]);
  const senders = sendersOf(expected);
  const sides = {expected, actual, view, isBesideBroadRules, senders};
  const lost = familyCase.eachService ? [] : lostChains(known, sides);
  const {family} = expected;
  const ports = [...owned.byPort].flatMap(
    ([item, own]) =>
      emptiedEntries(item.port, own, {family, lost}) ??
      actual.forgetting(isOfOnePort, () => expected.forgetting(() => analyzePort({...sides, item, differences: own}).map(withTextsOnly))),
  );
  const unknownChains = new Set(known.flatMap(({kind, rule}) => (kind === 'extra' ? (rule.target?.name ?? []) : [])));
  const misnamed = [...unknownChains]
    .filter(isOfEndpoint)
    .flatMap(name => actual.forgetting(isOfOnePort, () => misnamedChains([actual.chain('nat', name) ?? []].flat(), expected.family)));
  const baseRules = analyzeBaseRules({expected, actual, differences: owned.rest, differing, senders});
  return {
    expected,
    differing: [
      ...[...owned.byPort].map(([item, own]) => [item, own.map(({rule}) => rule.table)] as const),
      ...changed.map(([item, {rules}]) => [item, Array.from({length: rules}, () => 'nat')] as const),
    ],
    symptoms: withMisnamed(misnamed, [
      ...symptoms,
      ...(symptoms.some(({kind}) => kind === 'cluster-cidr-mismatch') ? [] : uncoveredPods(expected)),
      ...mergeLost([...baseRules, ...ports], lost),
      ...changed.flatMap(([, change]) => change.symptoms),
      // Without one of the tables the outcome of a packet is unknown.
      ...(actual.hasTable('nat') && actual.hasTable('filter')
        ? thirdPartySymptoms({expected, view, differing, rules, senders, actual, walked: withForwarding(expected, actual, baseRules)})
        : []),
      ...staleServices({expected, actual, view, senders, rules: owned.unexpected}),
      ...broadRules({expected, view, senders, rules: [...owned.broad.keys()], except: new Set([...owned.broad.values()].flat())}),
      ...(familyCase.isPartial ? [] : leftoverChains(expected, actual, compared)),
    ]),
  };
}

interface ThirdPartyRules {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  readonly view: IptablesServiceView;
  readonly differing: ReadonlySet<PortOnNode>;
  readonly rules: NodeRules;
  readonly senders: () => SenderGroups;
  /** The actual rules, with those of kube-proxy repaired that are a symptom of their own. */
  readonly walked: ChainSource;
}

function thirdPartySymptoms({expected, actual, view, differing, rules, senders, walked}: ThirdPartyRules): readonly Symptom[] {
  const {context, ports} = expected;
  const environment = environmentOf(context.facts, {sets: rules.sets});
  const own = {nft: null, environment};
  const others = rules.iptables.filter(({backend}) => backend !== actual.backend);
  return analyzeThirdPartyRules<PortOnNode>({
    ...{ports, context, senders, differs: item => differing.has(item)},
    rules: {...rules, iptables: [actual, ...others]},
    sides: {
      should: {...own, iptables: [expected]},
      does: {...own, iptables: [view]},
      all: {iptables: [walked, ...others], nft: rules.nft(), environment},
    },
    mode: {masquerading: 'KUBE-POSTROUTING', acceptsItself: true, isOwnChain: isKubeProxyChain},
  });
}

/** What packets lose by wrong rules of KUBE-FORWARD is reported as that, and not again as a loss by third-party rules. */
function withForwarding(expected: ExpectedRuleset, actual: Ruleset, baseRules: readonly Symptom[]): ChainSource {
  // A shared chain of the expected rules is made from those of all Service ports: on a healthy node it is not asked for.
  if (!baseRules.some(({kind}) => kind === 'forward-blocked')) return actual;
  const chain = actual.chain('filter', 'KUBE-FORWARD');
  const right = expected.chain('filter', 'KUBE-FORWARD');
  return chain !== undefined && right !== undefined ? withChain(actual, chain, listChain(chain, right.rules())) : actual;
}

function isOfEndpoint(chain: string): boolean {
  return parseChainName(chain)?.role === 'SEP';
}

/** Many Service ports share the others. */
function isOfOnePort(chain: string): boolean {
  return parseChainName(chain) !== null;
}

/** Evidence keeps only texts: parsed rules of a large cluster would not fit in memory. */
function withTextsOnly(symptom: Symptom): Symptom {
  const textOf = ({table, chain, line, text}: RuleText): RuleText => ({table, chain, line, text});
  return {...symptom, expected: symptom.expected.map(textOf), actual: symptom.actual.map(textOf)};
}

/** Their effect on their own Service port is reported there; here it is about all others. */
function broadRules(unexpectedRulesCase: UnexpectedRulesCase): readonly Symptom[] {
  return unexpectedRulesCase.rules.length === 0
    ? []
    : [analyzeUnexpectedRules(unexpectedRulesCase)].filter(({severity}) => severity !== 'info');
}

function holdsNoServiceRules(expected: ExpectedRuleset, actual: Ruleset): boolean {
  if (!expected.ports.some(({endpoints}) => endpoints.reachable.length > 0)) return false;
  const nat = actual.tables.get('nat');
  if (nat === undefined) return actual.cut === null;
  if (!nat.complete) return false;
  for (const {name, ruleCount} of nat.chains.values()) {
    const role = parseChainName(name)?.role;
    if (role !== undefined && role !== 'SEP' && ruleCount > 0) return false;
  }
  return true;
}

/** Nothing of Services has to be walked. */
function withoutServices(expected: ExpectedRuleset, actual: Ruleset): Symptom | null {
  const chain = actual.chain('nat', 'KUBE-SERVICES');
  if (chain?.complete !== true || chain.ruleCount > 0) return null;
  return emptiedServices(expected.chain('nat', 'KUBE-SERVICES')?.rules() ?? [], expected.family);
}

/** The chains that lead to all Services, or to their node ports, and lost most of their rules. */
function lostChains(
  differences: readonly PortDifference[],
  {expected: {family}, actual}: {readonly expected: ExpectedRuleset; readonly actual: Ruleset},
): readonly SharedPlace[] {
  const isWritten = (target: string): boolean => (actual.chain('nat', target)?.ruleCount ?? 0) > 0;
  const placeOf = (chain: string, of: Pick<SharedPlace, 'kind' | 'effect'>): readonly SharedPlace[] => {
    const found = actual.chain('nat', chain);
    if (found?.complete !== true) return [];
    const missing = differences.flatMap(({kind, rule}) =>
      kind === 'missing' && rule.table === 'nat' && rule.chain === chain ? [rule] : [],
    );
    const targets = missing.flatMap(({target}) => (target === null || parseChainName(target.name) === null ? [] : [target.name]));
    return [{...of, table: 'nat', chain, place: `nat/${chain}`, missing, left: found.ruleCount, leads: targets.map(isWritten)}];
  };
  return lostPlaces([
    ...placeOf('KUBE-SERVICES', {kind: 'no-service-rules', effect: noServiceWorks(family)}),
    ...placeOf('KUBE-NODEPORTS', {kind: 'node-ports-unreachable', effect: noNodePortAnswers(family)}),
  ]);
}

interface Attributed {
  readonly byPort: ReadonlyMap<PortOnNode, readonly PortDifference[]>;
  /** Rules in Service chains that belong to no Service port that is expected. */
  readonly unexpected: readonly Rule[];
  /** Rules that belong to Service ports and also match packets of others. */
  readonly broad: ReadonlyMap<Rule, readonly PortOnNode[]>;
  readonly rest: readonly PortDifference[];
}

/** Gives each difference to the Service ports that it may concern: by its owner, its target's name, its address and port. */
function attribute(differences: readonly PortDifference[], index: PortIndex): Attributed {
  const byPort = new Map<PortOnNode, PortDifference[]>();
  const unexpected: Rule[] = [];
  const rest: PortDifference[] = [];
  const broad = new Map<Rule, readonly PortOnNode[]>();
  for (const difference of differences) {
    const owners = difference.owner !== null ? [difference.owner] : index.concerned(difference.rule);
    for (const owner of owners) {
      pushTo(byPort, owner, difference);
    }
    if (difference.owner !== null) continue;
    if (difference.kind === 'extra' && owners.length > 0 && index.isBroad(difference.rule)) broad.set(difference.rule, owners);
    if (difference.kind === 'extra' && index.isUnexpected(difference.rule)) unexpected.push(difference.rule);
    else if (owners.length === 0) rest.push(difference);
  }
  return {byPort, unexpected, broad, rest};
}

interface UnexpectedRulesCase {
  readonly expected: ExpectedRuleset;
  readonly view: IptablesServiceView;
  /** Unattributed rules in chains that Services share. */
  readonly rules: readonly Rule[];
  readonly senders: () => KnownSenders;
  /** Service ports that are evaluated elsewhere. */
  readonly except?: ReadonlySet<PortOnNode>;
}

/** Unattributed rules: their severity is their effect on packets, which are walked with and without them. */
function analyzeUnexpectedRules({expected, view, rules, senders, except = new Set()}: UnexpectedRulesCase): Symptom {
  const ports = expected.ports.filter(item => !except.has(item));
  const environment = environmentOf(expected.context.facts);
  const cleaned = without(view, rules);
  const texts = textsOf(rules, view);
  const effect = effectOf(
    firstChanges(
      ports,
      {context: expected.context, texts, senders},
      {
        walk: packet => pathOutcomeOf(walkPacket(view, packet, environment)),
        walkWithout: packet => pathOutcomeOf(walkPacket(cleaned, packet, environment)),
      },
    ),
    () => {
      const others = namesSenders(texts) ? namedFirst(ports, expected.context, constantsIn(texts)).slice(0, maxPorts) : [];
      return effectOnOthers(others, expected.context, differsBetween(expected.context, {expected: walkOf(view), actual: walkOf(cleaned)}));
    },
  );
  const [first] = rules;
  const what =
    rules.length === 1
      ? `a rule in ${first?.table}/${first?.chain} is not one that kube-proxy would have written`
      : `${rules.length} rules in kube-proxy's chains were not written by kube-proxy`;
  return {
    kind: 'unexpected-rule',
    severity: effect.severity,
    family: expected.family,
    port: null,
    detail: `${what}: ${effect.text}`,
    expected: [],
    actual: rules.slice(0, 6),
  };
}

/** The first change of each Service port; those that the rules name come first. */
function firstChanges(
  ports: readonly PortOnNode[],
  {context, texts, senders}: {readonly context: NodeContext; readonly texts: readonly string[]; readonly senders: () => KnownSenders},
  walks: TwoWalks<Rule>,
): readonly OutcomeChange<Rule, PortOnNode>[] {
  const constants = constantsIn(texts);
  const clients = sourcesNamedIn(texts, context, senders);
  return namedFirst(ports, context, constants)
    .slice(0, maxPorts)
    .flatMap(item => {
      for (const change of outcomeChanges(newConnections(item, context, namedEndpoints(item, context, constants), clients), walks))
        return [change];
      return [];
    });
}

/** The actual rules without these. */
function without(view: IptablesServiceView, rules: readonly Rule[]): ChainSource {
  const left = new Set(rules);
  const touched = new Set(rules.map(({table, chain}) => `${table}/${chain}`));
  const made = new Map<string, Chain>();
  return {
    family: view.family,
    hasTable: table => view.hasTable(table),
    chain: (table, name) => {
      const key = `${table}/${name}`;
      const chain = view.chain(table, name);
      if (chain === undefined || !touched.has(key)) return chain;
      const known =
        made.get(key) ??
        listChain(
          chain,
          chain.rules().filter(rule => !left.has(rule)),
        );
      made.set(key, known);
      return known;
    },
  };
}

interface StaleInput {
  readonly expected: ExpectedRuleset;
  readonly actual: Ruleset;
  readonly view: IptablesServiceView;
  readonly senders: () => KnownSenders;
  /** Rules of shared Service chains that belong to no expected Service port. */
  readonly rules: readonly Rule[];
}

/** Service ports that the API does not have and the node still answers for: one symptom each, with all their rules. */
function staleServices({expected, actual, view, senders, rules}: StaleInput): readonly Symptom[] {
  const leadsOn = (rule: Rule): boolean => rule.table === 'nat' && (actual.chain('nat', rule.target?.name ?? '')?.ruleCount ?? 0) > 0;
  const groups = new Map<string, Rule[]>();
  for (const rule of rules) {
    const key = servicePortName(rule) ?? parseChainName(rule.target?.name ?? '')?.hash ?? '';
    pushTo(groups, key, rule);
  }
  return [...groups].map(([name, group]) =>
    name === ''
      ? analyzeUnexpectedRules({expected, view, senders, rules: group})
      : staleService({name, served: group.some(leadsOn), rules: group}, expected),
  );
}
