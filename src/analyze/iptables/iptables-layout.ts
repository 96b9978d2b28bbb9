import {parseChainName} from '../../expect/iptables/chain-names.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import type {Family} from '../../model/address.ts';
import {partition, uniqueBy} from '../../model/lists.ts';
import type {ChainSource, Rule, Ruleset, RuleText} from '../../model/ruleset.ts';
import type {Beside, FamilyLayout, FamilyRules} from '../analyze-family.ts';
import {environmentOf, walkOf} from '../outcomes/environment.ts';
import {connectionsTo, directProbes, effectOfRules, maxPorts, namedPorts, outcomeChanges} from '../outcomes/outcome-changes.ts';
import type {KnownSenders} from '../outcomes/sources.ts';
import {lostSymptom, type PlaceOnNode} from '../symptoms/lost-rules.ts';
import {noNodePortAnswers, noServiceRules, noServiceWorks, unmasqueraded} from '../symptoms/node-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {isKubeProxyChain} from '../third-party/iptables-rules.ts';
import {analyzeBaseRules} from './base-rules/analyze-base-rules.ts';
import {textsOf, withRules} from './chain-texts.ts';
import {compareFamily} from './endpoint-changes.ts';
import {type Expect, iptablesHypotheses} from './resolve-version.ts';
import {leftoverChains, misnamedChains, withMisnamed} from './misnamed-chains.ts';
import {isBeyondTruncation} from './node-rulesets.ts';
import {iptablesServiceView, PortIndex, servicePortName} from './rules-of-ports.ts';
import {analyzePort} from './service-port/analyze-port.ts';
import type {PortDifference} from './service-port/port-differences.ts';

/** One family's rules on one node. */
export function iptablesFamily(expect: Expect, actual: Ruleset): FamilyRules<ExpectedRuleset, PortOnNode, PortDifference> {
  return {
    ...iptablesHypotheses(actual),
    expect,
    // Of the base rules, the canaries alone are looked for.
    lacksServices: (plain, senders) => {
      const none = holdsNoServiceRules(plain, actual)
        ? noServiceRules('table nat holds none of the rules', plain)
        : withoutServices(plain, actual);
      if (none === null) return null;
      const baseRules = analyzeBaseRules({expected: plain, actual, differences: [], unnamed: [], differing: new Set(), senders});
      return [none, ...baseRules.filter(({kind}) => kind === 'canary-missing')];
    },
    layoutOf: (expected, beside) => iptablesLayout(expected, actual, beside),
  };
}

function iptablesLayout(
  expected: ExpectedRuleset,
  actual: Ruleset,
  {rules, senders, isPartial}: Beside,
): FamilyLayout<PortOnNode, PortDifference> {
  const compared = compareFamily(expected, actual);
  const listed = compared.differences.filter(
    ({kind, rule: {table, chain}}) => kind !== 'missing' || !isBeyondTruncation(actual, table, chain),
  );
  const index = new PortIndex(expected);
  const isBroad = ({kind, owner, rule}: PortDifference): boolean => kind === 'extra' && owner === null && index.isBroad(rule);
  const isBesideBroadRules = listed.some(isBroad);
  const named = new Set(compared.changed.size === 0 ? [] : listed.flatMap(({owner, rule}) => owner ?? index.concerned(rule)));
  const [inDoubt, known] = partition([...compared.changed], ([item]) => isBesideBroadRules || named.has(item));
  const differences = [...inDoubt.flatMap(([item]) => compared.differencesOf(item)), ...listed];
  const view = iptablesServiceView(expected, actual);
  const sides = {expected, actual, view, isBesideBroadRules, senders};
  const isWritten = (chain: string): boolean => (actual.chain('nat', chain)?.ruleCount ?? 0) > 0;
  const places = sharedPlaces(expected.family, actual);
  return {
    // Without the rules that masquerade, pods look as if nothing detected them.
    differs:
      !places.some(({withJumps}) => withJumps) && (compared.changed.size > 0 || compared.differences.some(({owner}) => owner !== null)),
    differences,
    known: new Map(known),
    concerned: ({rule}) => index.concerned(rule),
    isUnexpected: ({kind, rule}) => kind === 'extra' && index.isUnexpected(rule),
    partOf: ({table}) => table,
    sharedPlaces: places,
    leads: ({target}) => (target === null || parseChainName(target.name) === null ? [] : [isWritten(target.name)]),
    analyzePort: (item, own) =>
      actual.forgetting(isOfOnePort, () => expected.forgetting(() => analyzePort({...sides, item, differences: own}).map(withTextsOnly))),
    analyzeBaseRules: ({byPort, unexpected, rest}) => {
      const differing = new Set([...byPort.keys(), ...compared.changed.keys()]);
      const unnamed = unexpected.filter(({rule}) => nameOf(rule) === '').map(({rule}) => rule);
      const [ofForward, left] = partition(rest, ({rule: {table, chain}}) => table === 'filter' && chain === 'KUBE-FORWARD');
      const added = ofForward.every(({kind}) => kind === 'extra') ? ofForward.map(({rule}) => rule) : [];
      const differences = added.length > 0 ? left : rest;
      return [
        ...analyzeBaseRules({expected, actual, differences, unnamed, differing, senders}),
        ...(added.length > 0 ? [ofForwardChain(analyzeUnexpectedRules({expected, view: actual, rules: added, senders}))] : []),
      ];
    },
    besideThirdParty: baseRules => {
      // Without one of the tables the outcome of a packet is unknown.
      if (!actual.hasTable('nat') || !actual.hasTable('filter')) return null;
      const environment = environmentOf(expected.context.facts, {sets: rules.sets});
      const others = rules.iptables.filter(({backend}) => backend !== actual.backend);
      return {
        rules: {...rules, iptables: [actual, ...others]},
        sides: {
          should: {iptables: [expected], nft: null, environment},
          does: {iptables: [view], nft: null, environment},
          all: {iptables: [withForwarding(expected, actual, baseRules), ...others], nft: rules.nft(), environment},
        },
        mode: {masquerading: 'KUBE-POSTROUTING', isOwnChain: isKubeProxyChain},
      };
    },
    nameOf: ({rule}) => nameOf(rule),
    answers: ({rule}) => rule.table === 'nat' && isWritten(rule.target?.name ?? ''),
    analyzeUnnamed: group => [analyzeUnexpectedRules({...sides, rules: group.map(({rule}) => rule)})],
    others: () => {
      const broad = differences.filter(one => isBroad(one) && index.concerned(one.rule).length > 0).map(({rule}) => rule);
      // Their effect on their own Service ports is reported there; here it is about all others.
      const except = new Set(broad.flatMap(rule => index.concerned(rule)));
      const effects = broad.length === 0 ? [] : [analyzeUnexpectedRules({...sides, rules: broad, except})];
      return [...effects.filter(({severity}) => severity !== 'info'), ...(isPartial ? [] : leftoverChains(expected, actual, compared))];
    },
    merge: symptoms => {
      const targets = new Set(differences.flatMap(({kind, rule}) => (kind === 'extra' ? (rule.target?.name ?? []) : [])));
      const misnamed = [...targets]
        .filter(chain => parseChainName(chain)?.role === 'SEP')
        .flatMap(name => actual.forgetting(isOfOnePort, () => misnamedChains([actual.chain('nat', name) ?? []].flat(), expected.family)));
      return withMisnamed(misnamed, symptoms);
    },
  };
}

/** Rules that lose packets where all that is forwarded passes: one that accepts lets pass what should be refused. */
function ofForwardChain(symptom: Symptom): Symptom {
  const blocks = symptom.severity === 'error' && !symptom.actual.every(({text}) => text.endsWith(' -j ACCEPT'));
  return blocks ? {...symptom, kind: 'forward-blocked'} : symptom;
}

/** The Service port that a rule of the node names, or the hash of its chain; empty for a rule of none. */
function nameOf(rule: Rule): string {
  return servicePortName(rule) ?? parseChainName(rule.target?.name ?? '')?.hash ?? '';
}

/** What packets lose by wrong rules of KUBE-FORWARD is reported as that, and not again as a loss by third-party rules. */
function withForwarding(expected: ExpectedRuleset, actual: Ruleset, baseRules: readonly Symptom[]): ChainSource {
  // A shared chain of the expected rules is made from those of all Service ports: on a healthy node it is not asked for.
  if (!baseRules.some(({kind}) => kind === 'forward-blocked')) return actual;
  const chain = actual.chain('filter', 'KUBE-FORWARD');
  const right = expected.chain('filter', 'KUBE-FORWARD');
  return chain !== undefined && right !== undefined ? withRules(actual, chain, right.rules()) : actual;
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

function holdsNoServiceRules(expected: ExpectedRuleset, actual: Ruleset): boolean {
  if (!expected.ports.some(({endpoints}) => endpoints.reachable.length > 0)) return false;
  const nat = actual.tables.get('nat');
  if (nat === undefined) return actual.truncation === null;
  if (!nat.complete) return false;
  for (const {name, ruleCount} of nat.chains.values()) {
    const role = parseChainName(name)?.role;
    if (role !== undefined && role !== 'SEP' && ruleCount > 0) return false;
  }
  return true;
}

/** Nothing of Services has to be walked where KUBE-SERVICES lacks all of several rules. */
function withoutServices(expected: ExpectedRuleset, actual: Ruleset): Symptom | null {
  const [place] = sharedPlaces(expected.family, actual);
  if (place?.place !== 'nat/KUBE-SERVICES' || place.left) return null;
  const missing = expected.chain('nat', 'KUBE-SERVICES')?.rules() ?? [];
  return missing.length < 2 ? null : lostSymptom({...place, missing}, 'no-service-rules', []);
}

/** The chains that lead to all Services, or to their node ports, and those of table filter. */
function sharedPlaces(family: Family, actual: Ruleset): readonly PlaceOnNode[] {
  const placeOf = (table: string, chain: string, entries?: PlaceOnNode['entries']): readonly PlaceOnNode[] => {
    const found = actual.chain(table, chain);
    // A chain that is not there is gone where the whole table was read.
    return (found ?? actual.tables.get(table))?.complete === true
      ? [{family, table, chain, place: `${table}/${chain}`, left: found?.ruleCount ?? null, ...(entries && {entries})}]
      : [];
  };
  return [
    ...placeOf('nat', 'KUBE-SERVICES', {kind: 'no-service-rules', effect: noServiceWorks(family), variant: 'no-service-works'}),
    ...placeOf('nat', 'KUBE-NODEPORTS', {kind: 'node-ports-unreachable', effect: noNodePortAnswers(family)}),
    ...placeOf('nat', 'KUBE-MARK-MASQ', {kind: 'postrouting-broken', effect: unmasqueraded}).flatMap(place =>
      place.left === null ? {...place, withJumps: true as const} : [],
    ),
    ...['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-NODEPORTS', 'KUBE-PROXY-FIREWALL', 'KUBE-FORWARD'].flatMap(chain =>
      placeOf('filter', chain),
    ),
  ];
}

interface UnexpectedRulesCase {
  readonly expected: ExpectedRuleset;
  readonly view: ChainSource;
  /** Unattributed rules in chains that Services share. */
  readonly rules: readonly Rule[];
  readonly senders: () => KnownSenders;
  /** Service ports that are evaluated elsewhere. */
  readonly except?: ReadonlySet<PortOnNode>;
}

/** Unattributed rules: their severity is their effect on packets, which are walked with and without them. */
function analyzeUnexpectedRules({expected, view, rules, senders, except = new Set()}: UnexpectedRulesCase): Symptom {
  const {context} = expected;
  const inQuestion = {context, ports: expected.ports.filter(item => !except.has(item)), texts: textsOf(rules, view), senders};
  const walks = {expected: walkOf(without(view, rules)), actual: walkOf(view)};
  const changes = outcomeChanges(
    [...connectionsTo(namedPorts(inQuestion), inQuestion), ...directProbes(inQuestion, maxPorts)],
    context,
    walks,
  );
  // One of each Service port: what clients of a network lose on purpose is not told again of those that source ranges allow.
  const [lost, others] = partition(changes, change => change.lost);
  const ofEach = [...Map.groupBy([...lost, ...others], ({item}) => item).values()].flatMap(([first]) => first ?? []);
  const {severity, text} = effectOfRules(inQuestion, ofEach, walks);
  const [first] = rules;
  const what =
    rules.length === 1
      ? `a rule in ${first?.table}/${first?.chain} is not one that kube-proxy would have written`
      : `${rules.length} rules in kube-proxy's chains were not written by kube-proxy`;
  const detail = `${what}: ${text}`;
  const hit = new Set(ofEach.map(({item}) => item));
  // Beyond those that were probed there may be more, and rules of table filter meet replies too.
  const isWhole =
    rules.every(({table}) => table === 'nat') &&
    namedPorts(inQuestion).length === inQuestion.ports.length &&
    hit.size < expected.ports.length;
  const affects = severity !== 'info' && isWhole ? {affects: [...hit].map(({port}) => port)} : {};
  return {
    kind: 'unexpected-rule',
    severity,
    family: expected.family,
    port: null,
    detail,
    expected: [],
    actual: rules.slice(0, 6),
    ...affects,
  };
}

/** The actual rules without these. */
function without(view: ChainSource, rules: readonly Rule[]): ChainSource {
  const left = new Set(rules);
  const places = uniqueBy(rules, ({table, chain}) => `${table}/${chain}`);
  return places.reduce((source, {table, chain: name}) => {
    const chain = view.chain(table, name);
    const isKept = (rule: Rule): boolean => !left.has(rule);
    return chain === undefined ? source : withRules(source, chain, chain.rules().filter(isKept));
  }, view);
}
