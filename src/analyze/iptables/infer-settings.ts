import {keptWith} from '../../model/once.ts';
import {masqueradingChains} from '../../expect/iptables/chain-names.ts';
import type {ExpectedRuleset} from '../../expect/iptables/expected-ruleset.ts';
import {usualDetector} from '../../expect/iptables/infer-config.ts';
import type {PortOnNode} from '../../expect/iptables/service-rules.ts';
import type {Hypothesis} from '../../expect/node-context.ts';
import type {Chain, Rule, Ruleset} from '../../model/ruleset.ts';
import {comparableRule} from '../../parse/iptables/comparable-rule.ts';
import {parseRule} from '../../parse/iptables/rule.ts';
import type {HypothesisTests} from '../infer-hypothesis.ts';
import {otherDetectorThan} from '../symptoms/node-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';

/** Builds the expectation under a hypothesis. */
export type Expect = (hypothesis: Hypothesis) => ExpectedRuleset;

/** How the node's iptables show whether one hypothesis explains many differences. */
export function iptablesHypotheses(actual: Ruleset): HypothesisTests<ExpectedRuleset, PortOnNode> {
  return {
    textOf: rulesText,
    fits: (expected, item) => fits(expected, item, actual),
    otherDetector: expected => otherDetector(expected, actual),
  };
}

function rulesText(expected: ExpectedRuleset, item: PortOnNode): string {
  const {own, shared} = expected.rulesOf(item);
  return [...[...own].sort().flat(), ...shared.map(({table, chain, text}) => `${table}/${chain} ${text}`)].join('\n');
}

/** Whether the node's rules of a Service port are the expected ones. */
function fits(expected: ExpectedRuleset, item: PortOnNode, actual: Ruleset): boolean {
  const rules = expected.rulesOf(item);
  for (const [name, text] of rules.own) {
    const chain = actual.chain('nat', name);
    if (chain === undefined || (chain.text() !== text && !sameRules(text, name, chain.rules()))) return false;
  }
  return rules.shared.every(({table, chain, text}) => sharedLines(actual, table, chain).has(`-A ${chain} ${text}`));
}

/** The lines of a chain that many Service ports share. */
function sharedLines(actual: Ruleset, table: string, chain: string): ReadonlySet<string> {
  return keptWith(actual, `lines of ${table}/${chain}`, () => {
    const text = actual.chain(table, chain)?.text() ?? '';
    return new Set(text.split('\n').map(line => line.trimEnd()));
  });
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

/** The node identifies pods differently than configured; null if it does not, or too few Services show it. */
function otherDetector(expected: ExpectedRuleset, actual: Ruleset): {readonly hypothesis: Hypothesis; readonly symptom: Symptom} | null {
  // Rules that a truncated dump does not show may be on the node.
  if (actual.tables.get('nat')?.complete !== true) return null;
  if (!holdsThree(tellingPorts(expected)) && !holdsThree(tellingChains(actual))) return null;
  return otherDetectorThan(expected.context, usualDetector(actual) ?? {kind: 'none'});
}

/** Stops at the third: to go through all takes long on a large node. */
function holdsThree(items: Iterable<unknown>): boolean {
  let count = 0;
  for (const _ of items) if (++count === 3) return true;
  return false;
}

/** Service ports that are masqueraded at their cluster IPs by rules that identify pods. */
function* tellingPorts(expected: ExpectedRuleset): Iterable<PortOnNode> {
  for (const item of expected.ports) {
    const {own, shared} = expected.rulesOf(item);
    if ([...own.values()].some(tells) || shared.some(({text}) => tells(text))) yield item;
  }
}

/** Chains that hold such rules. */
function* tellingChains(actual: Ruleset): Iterable<Chain> {
  for (const chain of masqueradingChains(actual)) if (tells(chain.text())) yield chain;
}

function tells(text: string): boolean {
  return / cluster IP".* -j KUBE-MARK-MASQ$/m.test(text);
}
