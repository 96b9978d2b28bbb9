import {baseRuleChanges} from '../outcomes/base-rule-packets.ts';
import {compareNftTable} from '../../compare/compare-nft-table.ts';
import {formerChains, isServiceCIDRRule} from '../../expect/nftables/base-chains.ts';
import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import {type NftPort, parseNftName} from '../../expect/nftables/nft-names.ts';
import {markChain} from '../../expect/nftables/port-objects.ts';
import type {SharedElement} from '../../expect/nftables/set-elements.ts';
import type {Severity} from '../../model/finding.ts';
import {pushTo} from '../../model/lists.ts';
import type {NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {Attribution, Beside, FamilyLayout, FamilyRules} from '../analyze-family.ts';
import {environmentOf, tableWalkOf} from '../outcomes/environment.ts';
import {onceAsked} from '../../model/once.ts';
import type {PlaceOnNode} from '../symptoms/lost-rules.ts';
import {noAddressAnswers, noNodePortAnswers, noServiceRules, unmasqueraded, withEffect} from '../symptoms/node-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {
  analyzeClusterIPsCheck,
  analyzeNodePortIPs,
  analyzeUnexpectedNftRules,
  type BaseChainLoss,
  inQuestion,
  lossOfChain,
} from './nft-base-rules.ts';
import {leftoverNftChains, mergeEmptyChains, unexpectedElements} from './leftover-nft-chains.ts';
import {type NftBaseRulesCase, type NftPortDifference, nftServiceView, targetsOf, withChains} from './nft-case.ts';
import {asNftExpectation, type ExpectNft, nftHypotheses} from './resolve-nft-version.ts';
import {analyzeNftPort} from './service-port/analyze-nft-port.ts';
import {isEntryMap, isRefusal} from './service-port/nft-semantics.ts';

interface NftFamily {
  readonly expect: ExpectNft;
  readonly ruleset: NftRuleset;
  readonly actual: NftTable;
  /** See `NftBaseRulesCase`. */
  readonly serviceRanges: readonly string[] | null;
}

/** One family's table on one node. */
export function nftFamily(family: NftFamily): FamilyRules<ExpectedTable, NftPort, NftPortDifference> {
  const {expect, actual} = family;
  return {
    ...nftHypotheses(actual),
    expect,
    lacksServices: plain => (holdsNoServices(plain, actual) ? [noServiceRules(`table ${plain.id} holds none of the rules`, plain)] : null),
    layoutOf: (expected, beside) => nftLayout(expected, family, beside),
  };
}

function nftLayout(
  expected: ExpectedTable,
  {actual, ruleset, serviceRanges}: NftFamily,
  {rules, senders, isPartial}: Beside,
): FamilyLayout<NftPort, NftPortDifference> {
  const compared = compareNftTable(asNftExpectation(expected), actual);
  const given = {expected, actual, view: nftServiceView(expected, actual), senders};
  const concerned = concernedBy(expected);
  const isWritten = (chain: string): boolean => (actual.chain(chain)?.ruleCount ?? 0) > 0;
  const places = sharedPlaces(expected, actual);
  return {
    // Without the rules that masquerade, pods look as if nothing detected them.
    differs: !places.some(({withJumps}) => withJumps) && compared.differences.some(({owner}) => owner !== null),
    differences: oncePerService(compared.differences),
    known: new Map(),
    concerned,
    isUnexpected: difference => isOfServices(difference) && concerned(difference).length === 0,
    partOf: () => 'table',
    sharedPlaces: places,
    leads: rule => targetsOf(rule).flatMap(chain => (chain === markChain ? [] : [isWritten(chain)])),
    analyzePort: (item, differences) => expected.forgetting(() => analyzeNftPort({...given, item, differences})),
    analyzeBaseRules: attribution => {
      const differences = attribution.rest.filter(difference => !isExplained(difference, attribution));
      return analyzeNftBaseRules({...given, differences, serviceRanges, unexpectedChains: compared.unexpectedChains});
    },
    besideThirdParty: () => {
      const own = {iptables: [], environment: environmentOf(expected.context.facts, {sets: rules.sets})};
      return {
        rules,
        sides: {
          should: {...own, nft: {tableSources: [expected]}},
          does: {...own, nft: {tableSources: [actual]}},
          all: {...own, iptables: rules.iptables, nft: ruleset},
        },
        mode: {masquerading: "kube-proxy's rules", isOwnChain: () => false},
      };
    },
    nameOf: ({rule, comment}) => {
      const named = targetsOf(rule).map(chain => parseNftName(chain)?.servicePortName);
      return named.find(name => name !== undefined) ?? comment ?? '';
    },
    answers: ({rule}) => isEntryMap(rule.chain) && targetsOf(rule).some(isWritten),
    analyzeUnnamed: group => [unexpectedElements(expected, group)],
    others: () => (isPartial ? [] : leftoverNftChains(given, compared)),
    merge: symptoms => mergeEmptyChains(expected, symptoms),
  };
}

/** What a node shows that has no table of kube-proxy. */
export function withoutTable(expected: ExpectedTable) {
  const symptoms = servesAny(expected) ? [noServiceRules(`there is no table ${expected.id}, and none of the rules`, expected)] : [];
  return {expected, symptoms, differing: []};
}

function servesAny({ports}: ExpectedTable): boolean {
  return ports.some(({endpoints}) => endpoints.reachable.length > 0);
}

function holdsNoServices(expected: ExpectedTable, actual: NftTable): boolean {
  const maps = ['service-ips', 'service-nodeports'].map(name => actual.sets.get(name));
  if (!actual.complete || maps.some(map => map?.complete === false)) return false;
  return servesAny(expected) && maps.every(map => (map?.elements.size ?? 0) === 0);
}

/** The maps and sets of all Services. */
function sharedPlaces({context: {family}, id, baseRules}: ExpectedTable, actual: NftTable): readonly PlaceOnNode[] {
  const placeOf = (name: string, entries?: PlaceOnNode['entries']): readonly PlaceOnNode[] => {
    const set = actual.sets.get(name);
    const place = `${set?.valueTypes === null ? 'set' : 'map'} ${name} of ${id}`;
    return set?.complete === true ? [{family, table: id, chain: name, place, left: set.elements.size, ...(entries && {entries})}] : [];
  };
  const marks = {kind: 'postrouting-broken', effect: unmasqueraded} as const;
  const markPlace = {
    family,
    table: id,
    chain: markChain,
    place: `chain ${markChain} of ${id}`,
    left: null,
    withJumps: true,
    entries: marks,
  } as const;
  return [
    ...(actual.complete && actual.chain(markChain) === undefined && baseRules.some(({name}) => name === markChain) ? [markPlace] : []),
    ...placeOf('service-ips', {kind: 'no-service-rules', effect: noAddressAnswers(family)}),
    ...placeOf('service-nodeports', {kind: 'node-ports-unreachable', effect: noNodePortAnswers(family)}),
    ...['cluster-ips', 'hairpin-connections', 'no-endpoint-services', 'no-endpoint-nodeports', 'firewall-ips'].flatMap(name =>
      placeOf(name),
    ),
  ];
}

/** All ports of a Service have its cluster IP; it is reported for one. */
function oncePerService(differences: readonly NftPortDifference[]): readonly NftPortDifference[] {
  const listed = new Set<string>();
  return differences.filter(({rule, kind, key}) => {
    const size = listed.size;
    return rule.chain !== 'cluster-ips' || listed.add(`${kind} ${key}`).size > size;
  });
}

/** Differences that belong to findings of Services: the address of a stale one, the hairpins of stale endpoints. */
function isExplained(
  {what, kind, rule: {chain}, key = ''}: NftPortDifference,
  {byPort, unexpected}: Pick<Attribution<NftPort, NftPortDifference>, 'byPort' | 'unexpected'>,
): boolean {
  if (what !== 'element' || kind !== 'extra') return false;
  if (chain === 'cluster-ips') return unexpected.some(other => other.key?.split(' . ')[0] === key);
  return chain === 'hairpin-connections' && byPort.size + unexpected.length > 0;
}

function isOfServices(difference: NftPortDifference): boolean {
  const {
    what,
    rule: {chain},
  } = difference;
  return what === 'element' && (isEntryMap(chain) || isRefusal(difference) || chain.startsWith('firewall'));
}

/**
 * The Service ports that an element without an owner may concern: by the chain it leads to, and its address and port.
 * @internal
 */
export function concernedBy(expected: ExpectedTable): (difference: NftPortDifference) => readonly NftPort[] {
  const index = onceAsked(() => entryIndex(expected));
  return difference => {
    if (!isOfServices(difference)) return [];
    const {rule, key = ''} = difference;
    const byTarget = targetsOf(rule).flatMap(chain => expected.portOfBase(parseNftName(chain)?.base ?? '') ?? []);
    return [...new Set([...byTarget, ...(index().get(key) ?? [])])];
  };
}

/** Service ports by the keys of their entries. */
function entryIndex({ports}: ExpectedTable): ReadonlyMap<string, readonly NftPort[]> {
  const index = new Map<string, NftPort[]>();
  for (const item of ports) {
    const {port} = item;
    const protocol = port.protocol.toLowerCase();
    const addresses = new Set([port.clusterIP, ...port.externalIPs, ...port.loadBalancerVIPs]);
    const keys = [...addresses].map(address => `${address} . ${protocol} . ${port.port}`);
    if (port.nodePort !== 0) keys.push(`${protocol} . ${port.nodePort}`);
    for (const key of keys) pushTo(index, key, item);
  }
  return index;
}

/** What is wrong with the base rules: hooks, lookups, masquerading, node-port addresses, checks. */
function analyzeNftBaseRules(baseRulesCase: NftBaseRulesCase): readonly Symptom[] {
  const byChain = new Map<string, NftPortDifference[]>();
  for (const difference of baseRulesCase.differences) {
    if (isLegitimate(difference)) continue;
    pushTo(byChain, difference.rule.chain, difference);
  }
  return [
    ...[...byChain].flatMap(([name, differences]) => analyzeChain(baseRulesCase, name, differences)),
    ...analyzeNodePortIPs(baseRulesCase),
    ...analyzeClusterIPsCheck(baseRulesCase),
    ...analyzeUnexpectedChains(baseRulesCase),
  ];
}

/** Differences that are legitimate. The rule of service networks and the node-port addresses are evaluated separately. */
function isLegitimate({what, kind, rule}: NftPortDifference): boolean {
  if (rule.chain === 'nodeport-ips') return true;
  return (
    what === 'rule' &&
    rule.chain === 'cluster-ips-check' &&
    kind !== 'missing' &&
    isServiceCIDRRule(rule.text.replace(/ comment ".*"$/, ''))
  );
}

/** All that is missing from a chain is one finding, whose severity is the effect on packets. All unexpected rules are another one. */
function analyzeChain(baseRulesCase: NftBaseRulesCase, name: string, differences: readonly NftPortDifference[]): readonly Symptom[] {
  const {expected, actual} = baseRulesCase;
  const missing = differences.filter(({kind}) => kind === 'missing');
  const others = differences.filter(({kind}) => kind !== 'missing');
  const explained = new Set(others.filter(({what}) => what !== 'rule' && missing.length > 0));
  const symptoms: Symptom[] = [];
  if (missing.length > 0) {
    const loss = lossOfChain(name, missing, actual.chain(name));
    // A rule in place of a missing one belongs to the same finding.
    const found = others.filter(({what, rule}) => what !== 'rule' || missing.some(one => resembles(one.rule, rule)));
    const severity = severityOf(baseRulesCase, name, loss);
    const isOtherJump = hookChains.has(name) && found.some(({what}) => what === 'rule');
    const words = isOtherJump ? otherJump(name) : loss;
    const affects = severity === 'info' ? [] : portsIn(loss.holders ?? [], name, expected);
    for (const one of found) explained.add(one);
    symptoms.push({
      kind: loss.kind,
      ...(severity === 'info' || isOtherJump || loss.variant === undefined ? {} : {variant: loss.variant}),
      severity,
      family: expected.context.family,
      port: null,
      ...withEffect(words.what, severity === 'info' ? 'no traffic is affected' : words.loss),
      expected: missing.map(({rule}) => rule).slice(0, 6),
      actual: found.map(({rule}) => rule).slice(0, 6),
      ...(affects.length === 0 ? {} : {affects}),
    });
  }
  const extra = others.filter(one => !explained.has(one));
  return [...symptoms, ...(extra.length === 0 ? [] : analyzeUnexpectedNftRules(baseRulesCase, extra))];
}

/** The Service ports with an element in one of these maps; of a chain that these lead to, with one that leads there. */
function portsIn(maps: readonly string[], chain: string, expected: ExpectedTable): readonly ServicePort[] {
  if (maps.length === 0) return [];
  const isHit = ({set, value}: SharedElement): boolean =>
    maps.includes(set) && (chain !== 'reject-chain' || value?.includes('reject-chain') === true);
  return expected.ports.filter(item => expected.objectsOf(item).elements.some(isHit)).map(({port}) => port);
}

/** All that kube-proxy writes into them is a jump to `services`. */
const hookChains = new Set(['nat-prerouting', 'nat-output']);

/** Some packets may still take the jump. */
function otherJump(name: string): Pick<BaseChainLoss, 'what' | 'loss'> {
  return {what: `the jump from ${name} to services has other conditions`, loss: 'packets that do not meet them reach no Service'};
}

/** With the expected rules of Services: the one that is tried for all of its shape may have a fault of its own. */
function severityOf(baseRulesCase: NftBaseRulesCase, name: string, {severity}: BaseChainLoss): Severity {
  const {expected, actual} = baseRulesCase;
  const found = actual.chain(name);
  if (!expected.baseRules.some(chain => chain.name === name)) return 'info';
  const table = withChains(expected, new Map([[name, found]]));
  const own = baseRulesCase.differences.flatMap(({kind, rule}) => (kind === 'extra' && rule.chain === name ? [rule] : []));
  const changes = baseRuleChanges(inQuestion(baseRulesCase, own), tableWalkOf(expected));
  return changes(tableWalkOf(table)).length > 0 ? severity : 'info';
}

/** Two rules that look the same map up, or jump to the same chain. */
function resembles(a: RuleText, b: RuleText): boolean {
  const subject = ({text}: RuleText): string =>
    /(?:vmap|jump|goto) (\S+)/.exec(text)?.[1] ?? /masquerade|reject|drop|mark set/.exec(text)?.[0] ?? text;
  return subject(a) === subject(b);
}

/** Chains that no version writes: every packet passes a base chain, and any other chain only if a rule jumps to it. */
function analyzeUnexpectedChains(baseRulesCase: NftBaseRulesCase): readonly Symptom[] {
  const former = new Map(
    formerChains(baseRulesCase.expected.context).map(({name, rules}) => [
      name,
      new Set(rules.map(text => text.replace(/ comment ".*"$/, ''))),
    ]),
  );
  return baseRulesCase.unexpectedChains.flatMap(chain => {
    if (parseNftName(chain.name) !== null) return [];
    const unexpected = chain.rules().filter(({body}) => !(former.get(chain.name)?.has(body) ?? false));
    const differences = unexpected.map(rule => ({kind: 'extra', what: 'rule', rule, owner: null}) as const);
    return differences.length === 0 ? [] : analyzeUnexpectedNftRules(baseRulesCase, differences);
  });
}
