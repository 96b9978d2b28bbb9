import type {Assumption} from '../../expect/assumption.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import {type SeenDetector, usualDetector} from '../../expect/iptables/infer-config.ts';
import {parseChainName} from '../../expect/iptables/names.ts';
import type {LocalDetector} from '../../expect/node-context.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import type {Rule, Ruleset, Table} from '../../model/ruleset.ts';
import {comparableRule} from '../../parse/comparable-rule.ts';
import {parseRule} from '../../parse/rule.ts';
import {adapt, type Adapted} from '../adapt.ts';
import {describeDetector, otherDetectorSymptom} from '../assumed.ts';
import type {Symptom} from '../symptom.ts';

/** Builds the expectation anew under an assumption. */
export type Expect = (assumption: Assumption) => ExpectedRuleset;

/** Where the node's iptables shows that one thing explains many differences, that is the finding. */
export function adaptExpectation(expect: Expect, actual: Ruleset, knowsZone = true): Adapted<ExpectedRuleset> {
  return adapt<ExpectedRuleset, PortOnNode>({
    ...{expect, knowsZone, textOf},
    counterpart: (other, {port}) => other.portOfHash(port.hash),
    fits: (expected, item) => fits(expected, item, actual),
    otherDetector: expected => otherDetector(expected, actual),
  });
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

interface DetectorFinding {
  readonly assumption: Assumption;
  readonly symptom: Symptom<never>;
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
