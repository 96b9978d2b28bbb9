import type {Hypothesis, NodeContext} from '../expect/node-context.ts';
import type {Family} from '../model/address.ts';
import type {ServiceObject} from '../model/api-objects.ts';
import type {ServedPort} from '../model/endpoint.ts';
import {pushTo} from '../model/lists.ts';
import type {Difference, RuleText} from '../model/ruleset.ts';
import {onceAsked} from '../model/once.ts';
import {type HypothesisTests, inferHypothesis} from './infer-hypothesis.ts';
import {type SenderGroups, senderGroups} from './outcomes/senders.ts';
import {type FamilyResult, knowsZone, type NodeInput, type NodeRules, nodeRules} from './proxy-mode.ts';
import {emptiedEntries, lostPlaces, mergeLost, type PlaceOnNode} from './symptoms/lost-rules.ts';
import {uncoveredPods} from './symptoms/node-symptoms.ts';
import {staleService} from './symptoms/port-symptoms.ts';
import type {Symptom} from './symptoms/symptom.ts';
import {analyzeThirdPartyRules, type WalkedRules} from './third-party/analyze-third-party.ts';

/** What a mode expects of one family of a node. */
interface FamilyExpectation<Item extends ServedPort> {
  readonly context: NodeContext;
  readonly ports: readonly Item[];
}

/** How the rules of one family are compared in a mode: chains of iptables, or objects of nftables. */
export interface FamilyRules<Expected, Item extends ServedPort, D extends Difference<Item, RuleText>>
  extends HypothesisTests<Expected, Item> {
  /** Builds the expectation, under a hypothesis if the rules call for one. */
  expect(hypothesis: Hypothesis): Expected;
  /** All that is found on a node that has no rule of a Service: then nothing of Services has to be walked. Otherwise null. */
  lacksServices(plain: Expected, senders: () => SenderGroups): readonly Symptom[] | null;
  /** Compares the rules with an expectation. */
  layoutOf(expected: Expected, beside: Beside): FamilyLayout<Item, D>;
}

/** What is known beside the rules of one family. */
export interface Beside {
  readonly rules: NodeRules;
  readonly senders: () => SenderGroups;
  /** Not all Services were read: a chain of no expected Service may belong to another one. */
  readonly isPartial: boolean;
}

/** What a mode knows of the rules that it compared: whose each is, and how their effect is found. */
export interface FamilyLayout<Item extends ServedPort, D extends Difference<Item, RuleText>> {
  /** Rules of Service ports differ, so that a hypothesis may explain them. */
  readonly differs: boolean;
  readonly differences: readonly D[];
  /** Service ports whose symptoms are not found by their rules, or known without a walk. Their differences are not in the list. */
  readonly known: ReadonlyMap<Item, KnownSymptoms>;
  /** The Service ports that a rule without an owner may concern. */
  concerned(difference: D): readonly Item[];
  /** Whether a rule without an owner is one of a Service port that is not expected. */
  isUnexpected(difference: D): boolean;
  /** The part of the dumps that a rule is in; each is of one moment. */
  partOf(rule: D['rule']): string;
  /** The chains or maps that Service ports share. */
  readonly sharedPlaces: readonly PlaceOnNode[];
  /** The chains of Services that a rule leads to, and whether each is on the node with rules. */
  leads(rule: D['rule']): readonly boolean[];
  analyzePort(item: Item, differences: readonly D[]): readonly Symptom[];
  analyzeBaseRules(attribution: Attribution<Item, D>): readonly Symptom[];
  /** How third-party rules are walked; null if the outcome of a packet is unknown. */
  besideThirdParty(baseRules: readonly Symptom[]): Pick<WalkedRules, 'sides' | 'rules' | 'mode'> | null;
  /** The Service port that an unexpected rule names, or what else its rules are told apart by; empty if nothing does. */
  nameOf(difference: D): string;
  /** Whether packets that match an unexpected rule may reach an endpoint. */
  answers(difference: D): boolean;
  /** Unexpected rules that name nothing. */
  analyzeUnnamed(differences: readonly D[]): readonly Symptom[];
  /** What only this mode finds. */
  others(): readonly Symptom[];
  /** Makes symptoms of one cause one. */
  merge(symptoms: readonly Symptom[]): readonly Symptom[];
}

export interface KnownSymptoms {
  symptoms(): readonly Symptom[];
  /** The part of the dumps that each differing rule is in. */
  readonly parts: readonly string[];
}

/** Everything that is wrong with one family's rules on one node. A healthy node costs one comparison and no walk. */
export function analyzeFamily<Expected extends FamilyExpectation<Item>, Item extends ServedPort, D extends Difference<Item, RuleText>>(
  input: NodeInput,
  family: Family,
  mode: FamilyRules<Expected, Item, D>,
): {
  readonly symptoms: readonly Symptom[];
  /** The expectation that the rules were compared with in the end. */
  readonly expected: Expected;
  /** The Service ports that differ, with the part of the dumps that each differing rule is in. */
  readonly differing: FamilyResult['differing'];
} {
  const {api, eachService = false} = input;
  const sendersOf = ({context}: Expected) => onceAsked(() => senderGroups({api, context}));
  const beside = {rules: nodeRules(input, family), isPartial: api.namespaces !== undefined};
  const plain = mode.expect({});
  const lacking = eachService ? null : mode.lacksServices(plain, sendersOf(plain));
  if (lacking !== null) return {expected: plain, symptoms: lacking, differing: []};
  const first = mode.layoutOf(plain, {...beside, senders: sendersOf(plain)});
  const {expected, symptoms} = first.differs
    ? inferHypothesis<Expected, Item>({...mode, plain, eachService, knowsZone: knowsZone(input)})
    : {expected: plain, symptoms: []};
  const senders = sendersOf(expected);
  const layout = expected === plain ? first : mode.layoutOf(expected, {...beside, senders});
  const attribution = attribute(layout);
  const {byPort, unexpected} = attribution;
  const lost = eachService ? [] : lostPlaces(layout);
  const ofPorts = new Map(
    [...byPort].map(([item, own]) => [item, [emptiedEntries(item.port, own, lost) ?? layout.analyzePort(item, own)].flat()]),
  );
  const baseRules = layout.analyzeBaseRules(attribution);
  const thirdParty = layout.besideThirdParty(baseRules);
  const ofKnown = new Map([...layout.known].map(([item, known]) => [item, known.symptoms()]));
  const symptomsOf = (item: Item): readonly Symptom[] | null => ofPorts.get(item) ?? ofKnown.get(item) ?? null;
  return {
    expected,
    differing: [
      ...[...byPort].map(([item, own]) => [item, own.map(({rule}) => layout.partOf(rule))] as const),
      ...[...layout.known].map(([item, {parts}]) => [item, parts] as const),
    ],
    symptoms: layout.merge([
      ...symptoms,
      ...(symptoms.some(({kind}) => kind === 'cluster-cidr-mismatch') ? [] : uncoveredPods(expected)),
      ...mergeLost(
        [{symptoms: baseRules}, ...[...ofPorts].map(([item, found]) => ({differences: byPort.get(item), symptoms: found}))],
        lost,
      ),
      ...[...ofKnown.values()].flat(),
      ...(thirdParty === null
        ? []
        : analyzeThirdPartyRules({...thirdParty, ports: expected.ports, context: expected.context, senders, symptomsOf})),
      ...staleServices(unexpected, layout, {...expected, services: api.services ?? []}),
      ...layout.others(),
    ]),
  };
}

/** Whose the differences are. */
export interface Attribution<Item, D> {
  readonly byPort: ReadonlyMap<Item, readonly D[]>;
  /** Those of Service ports that are not expected. */
  readonly unexpected: readonly D[];
  /** Those of the base rules. */
  readonly rest: readonly D[];
}

/**
 * Gives each difference to the Service ports that it may concern: to its owner, or else to those that it names or whose packets it matches.
 * @internal
 */
export function attribute<Item extends ServedPort, D extends Difference<Item, RuleText>>({
  differences,
  concerned,
  isUnexpected,
}: Pick<FamilyLayout<Item, D>, 'differences' | 'concerned' | 'isUnexpected'>): Attribution<Item, D> {
  const byPort = new Map<Item, D[]>();
  const unexpected: D[] = [];
  const rest: D[] = [];
  for (const difference of differences) {
    const owners = difference.owner === null ? concerned(difference) : [difference.owner];
    for (const owner of owners) pushTo(byPort, owner, difference);
    if (difference.owner !== null) continue;
    if (isUnexpected(difference)) unexpected.push(difference);
    else if (owners.length === 0) rest.push(difference);
  }
  return {byPort, unexpected, rest};
}

/** Service ports that the API does not have and the node still answers for: one symptom each, with all their rules. */
function staleServices<Item extends ServedPort, D extends Difference<Item, RuleText>>(
  unexpected: readonly D[],
  layout: FamilyLayout<Item, D>,
  expected: FamilyExpectation<Item> & {readonly services: readonly ServiceObject[]},
): readonly Symptom[] {
  return [...Map.groupBy(unexpected, difference => layout.nameOf(difference))].flatMap(([name, group]) => {
    if (name === '') return layout.analyzeUnnamed(group);
    const rules = group.map(({rule}) => rule);
    const answering = group.filter(difference => layout.answers(difference));
    const isShared = answering.every(difference => layout.concerned(difference).length > 0);
    const packets = answering.length === 0 ? 'refused' : isShared ? 'of-another-port' : 'served';
    return [staleService({name, rules, packets}, expected)];
  });
}
