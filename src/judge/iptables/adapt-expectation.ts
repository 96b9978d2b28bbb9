import type {Assumption} from '../../expect/iptables/expect-ruleset.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import {type SeenDetector, usualDetector} from '../../expect/iptables/infer-config.ts';
import {parseChainName} from '../../expect/iptables/names.ts';
import type {LocalDetector} from '../../expect/node-context.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import type {Rule, Ruleset, Table} from '../../model/ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {comparableRule} from '../../parse/comparable-rule.ts';
import {parseRule} from '../../parse/rule.ts';
import {describeDetector, nodeNameMismatch, otherDetectorSymptom, zoneUnknown} from '../assumed.ts';
import type {Symptom} from '../symptom.ts';

/** Builds the expectation anew under an assumption. */
export type Expect = (assumption: Assumption) => ExpectedRuleset;

export interface Adapted {
  readonly expected: ExpectedRuleset;
  /** What had to be assumed, each of it one finding in place of one for every Service. */
  readonly symptoms: readonly Symptom[];
}

/**
 * Where many Services differ for one reason, that reason is the finding: a kube-proxy that tells pods apart in another way than
 * configured, does not know its node's zone, or runs under another node name. What the reason does not explain is judged as ever.
 */
export function adaptExpectation(expect: Expect, actual: Ruleset, knowsZone = true): Adapted {
  let assumption: Assumption = {};
  let expected = expect(assumption);
  const symptoms: Symptom[] = [];
  const assume = (next: Assumption, symptom: Symptom | null): void => {
    assumption = {...assumption, ...next};
    expected = expect(assumption);
    if (symptom !== null) symptoms.push(symptom);
  };
  const detector = otherDetector(expected, actual);
  if (detector !== null) assume(detector.assumption, detector.symptom);
  const picks = ambiguousPicks(expected, picked => expect({...assumption, picks: picked}), actual);
  if (picks.size > 0) assume({picks}, null);
  const nowhere = fitting(
    expected,
    () => expect({...assumption, nodeName: ''}),
    actual,
    ({endpoints}) => endpoints.local.length > 0,
  );
  if (nowhere.length >= 2) assume({nodeName: ''}, nodeNameMismatch(expected.context, nowhere));
  if (!knowsZone) {
    const zone = guessedZone(expected, other => expect({...assumption, zone: other}), actual);
    return {expected: zone === null ? expected : expect({...assumption, zone}), symptoms};
  }
  const hinted = fitting(
    expected,
    () => expect({...assumption, zone: null}),
    actual,
    ({all}) => all.some(({zoneHints}) => zoneHints !== null),
  );
  if (hinted.length >= 1) assume({zone: null}, zoneUnknown(expected.context, hinted));
  return {expected, symptoms};
}

/** Where the Nodes were not read: the zone named by hints that the node's rules agree with. */
function guessedZone(expected: ExpectedRuleset, expect: (zone: string) => ExpectedRuleset, actual: Ruleset): string | null {
  const zones = new Set(expected.ports.flatMap(({all}) => all.flatMap(({zoneHints}) => zoneHints ?? [])));
  const isHinted = ({all}: PortOnNode): boolean => all.some(({zoneHints}) => zoneHints !== null);
  return [...zones].sort().find(zone => fitting(expected, () => expect(zone), actual, isHinted).length > 0) ?? null;
}

/** The Service ports that an assumption changes, if the node's rules agree with it, and not with what is expected, for all of them. */
function fitting(
  expected: ExpectedRuleset,
  alternative: () => ExpectedRuleset,
  actual: Ruleset,
  mayChange: (item: PortOnNode) => boolean,
): readonly PortOnNode[] {
  const candidates = expected.ports.filter(mayChange);
  if (candidates.length === 0) return [];
  const other = alternative();
  const changed = candidates.flatMap(item => {
    const counterpart = other.portOfHash(item.port.hash);
    return counterpart === undefined || textOf(expected, item) === textOf(other, counterpart) ? [] : [{item, counterpart}];
  });
  // Of a Service port that would have fewer rules the node's rules hold all those as well: the usual ones must be out of the question.
  return changed.every(({item, counterpart}) => fits(other, counterpart, actual) && !fits(expected, item, actual))
    ? changed.map(({counterpart}) => counterpart)
    : [];
}

function textOf(expected: ExpectedRuleset, item: PortOnNode): string {
  const {own, shared} = expected.rulesOf(item);
  return [...[...own].sort().flat(), ...shared.map(({table, chain, text}) => `${table}/${chain} ${text}`)].join('\n');
}

/** Whether the node's rules of a Service port are the expected ones. */
function fits(expected: ExpectedRuleset, item: PortOnNode, actual: Ruleset): boolean {
  const {own, shared} = expected.rulesOf(item);
  for (const [name, text] of own) {
    const chain = actual.chain('nat', name);
    if (chain === undefined || (chain.text() !== text && !sameRules(text, name, chain.rules()))) return false;
  }
  return shared.every(({table, chain, text}) => (actual.chain(table, chain)?.text() ?? '').includes(`-A ${chain} ${text}`));
}

function sameRules(text: string, chain: string, actual: readonly Rule[]): boolean {
  const lines = text.split('\n');
  return (
    lines.length === actual.length &&
    lines.every((line, index) => {
      const rule = actual[index];
      return rule !== undefined && comparableRule(parseRule(line, {table: 'nat', chain, line: 0})) === comparableRule(rule);
    })
  );
}

/** For Service ports with endpoints given twice: the list that the node's rules fit, where the likeliest does not. */
function ambiguousPicks(
  expected: ExpectedRuleset,
  expect: (picks: ReadonlyMap<ServicePort, number>) => ExpectedRuleset,
  actual: Ruleset,
): ReadonlyMap<ServicePort, number> {
  const picks = new Map<ServicePort, number>();
  for (const item of expected.ports.filter(({lists}) => lists > 1)) {
    if (fits(expected, item, actual)) continue;
    for (let pick = 1; pick < item.lists; pick++) {
      const other = expect(new Map([[item.port, pick]]));
      const counterpart = other.portOfHash(item.port.hash);
      if (counterpart === undefined || !fits(other, counterpart, actual)) continue;
      picks.set(item.port, pick);
      break;
    }
  }
  return picks;
}

interface DetectorFinding {
  readonly assumption: Assumption;
  readonly symptom: Symptom;
}

/** The node tells pods from others in another way than configured; null when it does not, or too few Services show it. */
function otherDetector(expected: ExpectedRuleset, actual: Ruleset): DetectorFinding | null {
  const {context, family} = expected;
  const nat = actual.tables.get('nat');
  // What a cut dump does not show may still be on the node.
  if (nat?.complete !== true) return null;
  if (Math.max(countOfExpected(expected), countOfActual(nat)) < 3) return null;
  const seen = usualDetector(actual);
  const configured = describeDetector(context.masqueradeAll ? 'all' : context.detector);
  const found = describeSeen(seen);
  if (configured === found) return null;
  const assumption = seen?.kind === 'all' ? {masqueradeAll: true} : {masqueradeAll: false, detector: detectorOf(seen)};
  return {assumption, symptom: otherDetectorSymptom(family, {found, configured})};
}

/** Rules that tell pods from others, by which Services are masqueraded at their cluster IPs. */
function countOfExpected(expected: ExpectedRuleset): number {
  return expected.ports.filter(item => {
    const {own, shared} = expected.rulesOf(item);
    return [...own.values()].some(tells) || shared.some(({text}) => tells(text));
  }).length;
}

function countOfActual(nat: Table): number {
  return [...nat.chains.values()].filter(chain => isOfServices(chain.name) && tells(chain.text())).length;
}

function isOfServices(chain: string): boolean {
  const role = parseChainName(chain)?.role;
  return role === 'SVC' || role === 'SVL' || chain === 'KUBE-SERVICES';
}

function tells(text: string): boolean {
  return / cluster IP".* -j KUBE-MARK-MASQ$/m.test(text);
}

function detectorOf(seen: SeenDetector | null): LocalDetector {
  if (seen === null || seen.kind === 'all') return {kind: 'none'};
  if (seen.kind === 'cidr') return {kind: 'cidr', cidr: seen.value};
  return seen.value.endsWith('+') ? {kind: 'prefix', name: seen.value.slice(0, -1)} : {kind: 'bridge', name: seen.value};
}

function describeSeen(seen: SeenDetector | null): string {
  return describeDetector(seen?.kind === 'all' ? 'all' : detectorOf(seen));
}
