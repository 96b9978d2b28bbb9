import {compareNftTable} from '../../compare/compare-nft-table.ts';
import {formerChains, isServiceCIDRRule} from '../../expect/nftables/base-chains.ts';
import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import {type NftPort, parseNftName} from '../../expect/nftables/nft-names.ts';
import type {SharedElement} from '../../expect/nftables/service-elements.ts';
import type {Severity} from '../../model/finding.ts';
import {pushTo} from '../../model/lists.ts';
import type {NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import type {RuleText} from '../../model/ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import type {Side} from '../../trace/side.ts';
import {environmentOf} from '../outcomes/environment.ts';
import {onceAsked} from '../../model/once.ts';
import {senderGroups} from '../outcomes/senders.ts';
import {emptiedEntries, lostPlaces, mergeLost, type SharedPlace} from '../symptoms/lost-rules.ts';
import {noAddressAnswers, noNodePortAnswers, noServiceRules, uncoveredPods} from '../symptoms/node-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {analyzeThirdPartyRules} from '../third-party/analyze-third-party.ts';
import type {NodeRules} from '../proxy-mode.ts';
import {
  analyzeClusterIPsCheck,
  analyzeNodePortIPs,
  baseChainChecks,
  type BaseChainLoss,
  lossOfChain,
} from './base-rules/base-chain-losses.ts';
import {analyzeUnexpectedNftRules, baseChainProbes, changedProbes, namedProbes} from './base-rules/base-rule-effects.ts';
import {leftoverNftChains, mergeEmptyChains, staleNftServices} from './leftover-nft-chains.ts';
import {type NftBaseRulesCase, type NftPortDifference, NftServiceView, withChains} from './nft-case.ts';
import {targetsOf} from './nft-outcome.ts';
import {asNftExpectation, type ExpectNft, inferNftSettings} from './resolve-nft-version.ts';
import {analyzeNftPort} from './service-port/analyze-nft-port.ts';
import {isEntryMap, isRefusal} from './service-port/nft-semantics.ts';

interface NftFamilyCase {
  readonly expect: ExpectNft;
  readonly ruleset: NftRuleset;
  /** All rules of the node beside it. */
  readonly rules: NodeRules;
  /** Null when the node has no table of kube-proxy in this family. */
  readonly actual: NftTable | null;
  /** False if the Node was not read: then its zone is inferred from the rules. */
  readonly knowsZone: boolean;
  /** Each Service is analyzed by itself: no finding stands for many of them. */
  readonly eachService: boolean;
  /** See `NftBaseRulesCase`. */
  readonly serviceRanges: readonly string[] | null;
  /** Not all Services were read: a chain of no expected Service may belong to another one. */
  readonly isPartial: boolean;
}

/** Everything that is wrong with one family's table on one node. A healthy node costs one comparison and no walk. */
export function analyzeNftFamily({expect, ruleset, rules, actual, knowsZone, eachService, serviceRanges, isPartial}: NftFamilyCase): {
  readonly symptoms: readonly Symptom[];
  /** The expectation that the table was compared with in the end. */
  readonly expected: ExpectedTable;
  readonly byPort: ReadonlyMap<NftPort, readonly unknown[]>;
} {
  const plain = expect({});
  if (actual === null || (!eachService && holdsNoServices(plain, actual)))
    return {expected: plain, symptoms: servesAny(plain) ? [noRules(plain, actual)] : [], byPort: new Map()};
  const first = compareNftTable(asNftExpectation(plain), actual);
  const differs = first.differences.length > 0;
  const {expected, symptoms} = differs
    ? inferNftSettings({expect, plain, actual, knowsZone, eachService})
    : {expected: plain, symptoms: []};
  const compared = expected === plain ? first : compareNftTable(asNftExpectation(expected), actual);
  const owned = attribute(compared.differences, expected);
  const lost = eachService ? [] : lostMaps(expected, compared.differences, actual);
  const given = {
    expected,
    actual,
    view: new NftServiceView(expected, actual),
    senders: onceAsked(() => senderGroups({api: rules.api, context: expected.context})),
  };
  return {
    expected,
    byPort: owned.byPort,
    symptoms: [
      ...symptoms,
      ...(symptoms.some(({kind}) => kind === 'cluster-cidr-mismatch') ? [] : uncoveredPods(expected)),
      ...analyzeNftBaseRules({
        ...given,
        differences: owned.baseRules,
        serviceRanges,
        isExplained: owned.isExplained,
        unexpectedChains: compared.unexpectedChains,
      }),
      ...mergeEmptyChains(
        expected,
        mergeLost(
          [...owned.byPort].flatMap(
            ([item, differences]) =>
              emptiedEntries(item.port, differences, {family: expected.context.family, lost}) ??
              analyzeNftPort({...given, item, differences}),
          ),
          lost,
        ),
      ),
      ...analyzeThirdPartyRules<NftPort>({
        ...{ports: expected.ports, context: expected.context, rules, senders: given.senders, differs: item => owned.byPort.has(item)},
        sides: sidesOf(expected, actual, {ruleset, rules}),
        mode: {masquerading: "kube-proxy's rules", acceptsItself: false, isOwnChain: () => false},
      }),
      ...staleNftServices(given, owned.unexpected),
      ...(isPartial ? [] : leftoverNftChains(given, compared)),
    ],
  };
}

function sidesOf(
  expected: ExpectedTable,
  actual: NftTable,
  {ruleset, rules}: {readonly ruleset: NftRuleset; readonly rules: NodeRules},
): {readonly should: Side; readonly does: Side; readonly all: Side} {
  const own = {iptables: [], environment: environmentOf(expected.context.facts, {sets: rules.sets})};
  return {
    should: {...own, nft: {tableSources: [expected]}},
    does: {...own, nft: {tableSources: [actual]}},
    all: {...own, iptables: rules.iptables, nft: ruleset},
  };
}

function servesAny({ports}: ExpectedTable): boolean {
  return ports.some(({endpoints}) => endpoints.reachable.length > 0);
}

function holdsNoServices(expected: ExpectedTable, actual: NftTable): boolean {
  const maps = ['service-ips', 'service-nodeports'].map(name => actual.sets.get(name));
  if (!actual.complete || maps.some(map => map?.complete === false)) return false;
  return servesAny(expected) && maps.every(map => (map?.elements.size ?? 0) === 0);
}

function noRules({context: {family}, ports, id}: ExpectedTable, actual: NftTable | null): Symptom {
  return noServiceRules(actual === null ? `there is no table ${id}, and none` : `table ${id} holds none`, {family, ports});
}

/** The maps and sets of all Services that lost most of their elements. */
function lostMaps(
  {context: {family}, id}: ExpectedTable,
  differences: readonly NftPortDifference[],
  actual: NftTable,
): readonly SharedPlace[] {
  const isWritten = (chain: string): boolean => (actual.chain(chain)?.ruleCount ?? 0) > 0;
  const placeOf = (name: string, of: Pick<SharedPlace, 'kind' | 'effect'>): readonly SharedPlace[] => {
    const set = actual.sets.get(name);
    if (set?.complete !== true) return [];
    const missing = differences.flatMap(({kind, what, rule}) =>
      kind === 'missing' && what === 'element' && rule.chain === name ? [rule] : [],
    );
    const place = `${set.valueTypes === null ? 'set' : 'map'} ${name} of ${id}`;
    const leads = missing.flatMap(targetsOf).map(isWritten);
    return [{...of, table: id, chain: name, place, missing, left: set.elements.size, leads}];
  };
  return lostPlaces([
    ...placeOf('service-ips', {kind: 'no-service-rules', effect: noAddressAnswers(family)}),
    ...placeOf('service-nodeports', {kind: 'node-ports-unreachable', effect: noNodePortAnswers(family)}),
    ...placeOf('cluster-ips', {kind: 'masquerade-mismatch'}),
    ...placeOf('hairpin-connections', {kind: 'masquerade-mismatch'}),
  ]);
}

interface AttributedNft {
  readonly byPort: ReadonlyMap<NftPort, readonly NftPortDifference[]>;
  /** Elements that belong to no Service port that is expected. */
  readonly unexpected: readonly NftPortDifference[];
  readonly baseRules: readonly NftPortDifference[];
  /** Differences that belong to findings of Services: the address of a stale one, the hairpins of stale endpoints. */
  readonly isExplained: (difference: NftPortDifference) => boolean;
}

/**
 * Gives each difference to the Service ports that it may concern: by its owner, the chain it leads to, its address and port.
 * @internal
 */
export function attribute(differences: readonly NftPortDifference[], expected: ExpectedTable): AttributedNft {
  const byPort = new Map<NftPort, NftPortDifference[]>();
  const unexpected: NftPortDifference[] = [];
  const baseRules: NftPortDifference[] = [];
  let index: EntryIndex | null = null;
  const listed = new Set<string>();
  for (const difference of differences) {
    // All ports of a Service have its cluster IP; it is reported for one.
    const {rule, kind, key = ''} = difference;
    if (rule.chain === 'cluster-ips' && listed.has(`${kind} ${key}`)) continue;
    if (rule.chain === 'cluster-ips') listed.add(`${kind} ${key}`);
    const thirdParty = difference.owner === null && isOfServices(difference);
    if (thirdParty) index ??= entryIndex(expected);
    const owners = difference.owner !== null ? [difference.owner] : thirdParty ? concerned(difference, expected, index ?? new Map()) : [];
    for (const owner of owners) {
      pushTo(byPort, owner, difference);
    }
    if (owners.length > 0) continue;
    if (thirdParty) unexpected.push(difference);
    else baseRules.push(difference);
  }
  const stale = new Set(unexpected.map(({key = ''}) => key.split(' . ')[0]));
  const isExplained = ({what, kind, rule: {chain}, key = ''}: NftPortDifference): boolean =>
    what === 'element' &&
    kind === 'extra' &&
    ((chain === 'cluster-ips' && stale.has(key)) || (chain === 'hairpin-connections' && byPort.size + unexpected.length > 0));
  return {byPort, unexpected, baseRules, isExplained};
}

function isOfServices(difference: NftPortDifference): boolean {
  const {
    what,
    rule: {chain},
  } = difference;
  return what === 'element' && (isEntryMap(chain) || isRefusal(difference) || chain.startsWith('firewall'));
}

type EntryIndex = ReadonlyMap<string, readonly NftPort[]>;

/** Service ports by the keys of their entries. */
function entryIndex({ports}: ExpectedTable): EntryIndex {
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

function concerned({rule, key = ''}: NftPortDifference, expected: ExpectedTable, index: EntryIndex): readonly NftPort[] {
  const byTarget = targetsOf(rule).flatMap(chain => expected.portOfBase(parseNftName(chain)?.base ?? '') ?? []);
  return [...new Set([...byTarget, ...(index.get(key) ?? [])])];
}

/** What is wrong with the base rules: hooks, lookups, masquerading, node-port addresses, checks. */
function analyzeNftBaseRules(baseRulesCase: NftBaseRulesCase): readonly Symptom[] {
  const byChain = new Map<string, NftPortDifference[]>();
  for (const difference of baseRulesCase.differences) {
    if (isLegitimate(difference) || baseRulesCase.isExplained(difference)) continue;
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
      detail: `${words.what}: ${severity === 'info' ? 'no traffic is affected' : words.loss}`,
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
  const probes = [...baseChainProbes(expected), ...(own.length === 0 ? [] : namedProbes(baseRulesCase, own, maxNamed))];
  const changed = changedProbes({expected, table, other: expected}, probes).length > 0 || baseChainChecks({expected, table});
  return changed ? severity : 'info';
}

/** Service ports that a rule in place of a missing one names are tried as well. */
const maxNamed = 50;

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
