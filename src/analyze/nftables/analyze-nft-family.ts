import {compareNftTable} from '../../compare/compare-nft-table.ts';
import type {NftPort} from '../../expect/nftables/nft-port.ts';
import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import type {NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import {noServiceWorks} from '../symptoms/no-service-works.ts';
import type {Symptom} from '../symptoms/symptom.ts';
import {uncoveredPods} from '../uncovered-pods.ts';
import {inferNftSettings, type ExpectNft} from './infer-nft-settings.ts';
import {attribute} from './attribute-differences.ts';
import {type SenderGroups, senderGroups} from '../outcomes/senders.ts';
import {analyzeThirdPartyRules, type NodeRules} from '../third-party/analyze-third-party.ts';
import {environmentOf} from '../outcomes/environment.ts';
import type {Side} from '../../trace/side.ts';
import {analyzeNftBaseRules} from './base-rules/analyze-nft-base-rules.ts';
import {analyzeNftPort} from './service-port/analyze-nft-port.ts';
import {mergeEmptyChains} from './merge-empty-chains.ts';
import {leftoverNftChains} from './leftover-nft-chains.ts';
import {asNftExpectation} from './nft-expectation.ts';
import {NftServiceView} from './nft-service-view.ts';
import {staleNftServices} from './stale-nft-services.ts';
import {plural} from '../../model/text/plural.ts';

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

interface NftFamilyAnalysis {
  readonly symptoms: readonly Symptom[];
  /** The expectation that the table was compared with in the end. */
  readonly expected: ExpectedTable;
  readonly byPort: ReadonlyMap<NftPort, readonly unknown[]>;
}

/** Everything that is wrong with one family's table on one node. A healthy node costs one comparison and no walk. */
export function analyzeNftFamily({
  expect,
  ruleset,
  rules,
  actual,
  knowsZone,
  eachService,
  serviceRanges,
  isPartial,
}: NftFamilyCase): NftFamilyAnalysis {
  const plain = expect({});
  if (actual === null || (!eachService && holdsNoServices(plain, actual)))
    return {expected: plain, symptoms: servesAny(plain) ? [noServiceRules(plain, actual)] : [], byPort: new Map()};
  const first = compareNftTable(asNftExpectation(plain), actual);
  const differs = first.differences.length > 0;
  const {expected, symptoms} = differs
    ? inferNftSettings({expect, plain, actual, knowsZone, eachService})
    : {expected: plain, symptoms: []};
  const compared = expected === plain ? first : compareNftTable(asNftExpectation(expected), actual);
  const owned = attribute(compared.differences, expected);
  let groups: SenderGroups | undefined;
  const given = {
    expected,
    actual,
    view: new NftServiceView(expected, actual),
    senders: (): SenderGroups => (groups ??= senderGroups({api: rules.api, context: expected.context})),
  };
  return {
    expected,
    byPort: owned.byPort,
    symptoms: [
      ...symptoms,
      ...(symptoms.some(({kind}) => kind === 'cluster-cidr-mismatch') ? [] : uncoveredPods(expected.context)),
      ...analyzeNftBaseRules({
        ...given,
        differences: owned.baseRules,
        serviceRanges,
        isExplained: owned.isExplained,
        unexpectedChains: compared.unexpectedChains,
      }),
      ...mergeEmptyChains(
        expected,
        [...owned.byPort].flatMap(([item, differences]) => analyzeNftPort({...given, item, differences})),
      ),
      ...analyzeThirdPartyRules<NftPort>({
        ...{ports: expected.ports, context: expected.context, rules, differs: item => owned.byPort.has(item)},
        sides: sidesOf(expected, actual, {ruleset, rules}),
        mode: {masquerading: "kube-proxy's rules", acceptsItself: false, isOwnChain: () => false},
      }),
      ...staleNftServices(given, owned.unexpected),
      ...(isPartial ? [] : leftoverNftChains(given, compared)),
    ],
  };
}

interface BesideTable {
  readonly ruleset: NftRuleset;
  readonly rules: NodeRules;
}

function sidesOf(
  expected: ExpectedTable,
  actual: NftTable,
  {ruleset, rules}: BesideTable,
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

function noServiceRules({context: {family}, ports, id}: ExpectedTable, actual: NftTable | null): Symptom {
  const count = `${plural(ports.length, 'Service port')}`;
  const what =
    actual === null ? `there is no table ${id}, and none of the rules of ${count}` : `table ${id} holds none of the rules of ${count}`;
  return {
    kind: 'no-service-rules',
    family,
    port: null,
    detail: `${what}: ${noServiceWorks(family)}`,
    expected: [],
    actual: [],
  };
}
