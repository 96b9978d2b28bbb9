import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import type {Hypothesis} from '../../expect/hypothesis.ts';
import type {NftPort} from '../../expect/nftables/nft-port.ts';
import {describeSeen, seenDetector, bypassDetector} from '../../expect/nftables/seen-detector.ts';
import type {NftTable} from '../../model/nft-ruleset.ts';
import {nftRule} from '../../parse/nftables/nft-rule.ts';
import {inferHypothesis, type Inferred} from '../infer-hypothesis.ts';
import {describeDetector, otherDetectorSymptom} from '../symptoms/hypothesis-symptoms.ts';
import type {Symptom} from '../symptoms/symptom.ts';

/** Builds the expectation under a hypothesis. */
export type ExpectNft = (hypothesis: Hypothesis) => ExpectedTable;

interface InferNftCase {
  readonly expect: ExpectNft;
  /** The expectation without a hypothesis. */
  readonly plain: ExpectedTable;
  readonly actual: NftTable;
  readonly knowsZone: boolean;
  readonly eachService: boolean;
}

/** If one hypothesis explains many differences in the node's table, it is the finding. */
export function inferNftSettings({expect, plain, actual, knowsZone, eachService}: InferNftCase): Inferred<ExpectedTable> {
  return inferHypothesis<ExpectedTable, NftPort>({
    ...{expect, plain, knowsZone, eachService, textOf},
    counterpart: (other, {names}) => other.portOfBase(names.base),
    fits: (expected, item) => fits(expected, item, actual),
    otherDetector: expected => otherDetector(expected, actual),
  });
}

function textOf(expected: ExpectedTable, item: NftPort): string {
  const {chains, elements} = expected.objectsOf(item);
  return JSON.stringify([[...chains], elements]);
}

/** Whether the node's objects of a Service port are the expected ones. */
function fits(expected: ExpectedTable, item: NftPort, actual: NftTable): boolean {
  const {chains, elements} = expected.objectsOf(item);
  for (const [name, rules] of chains) {
    const found = actual.chain(name);
    if (found === undefined || (!found.holds(rules) && bodies(found.rules()) !== bodiesOf(rules))) return false;
  }
  return elements.every(({set, key, value}) => actual.set(set)?.elements.get(key)?.value === value);
}

function bodies(rules: readonly {readonly body: string}[]): string {
  return rules.map(({body}) => body).join('\n');
}

function bodiesOf(texts: readonly string[]): string {
  return bodies(texts.map(text => nftRule({table: '', chain: '', line: 0, text})));
}

/** The node identifies pods differently than configured; null if it does not, or too few Services show it. */
function otherDetector(
  {context, family, ports}: ExpectedTable,
  actual: NftTable,
): {readonly hypothesis: Hypothesis; readonly symptom: Symptom<never>} | null {
  // Rules that a truncated dump does not show may be on the node.
  if (!actual.complete || ports.length < 3) return null;
  const seen = seenDetector(actual);
  if (seen === null) return null;
  const configured = describeDetector(context.masqueradeAll ? 'all' : context.detector);
  const found = describeSeen(seen);
  if (configured === describeDetector(found)) return null;
  // If other rules detect pods as configured, only this rule is wrong.
  const cut = bypassDetector(actual);
  if (cut !== null && found !== 'all' && describeDetector(cut) === configured) return null;
  const hypothesis: Hypothesis = found === 'all' ? {masqueradeAll: true} : {masqueradeAll: false, detector: found};
  const symptom = otherDetectorSymptom(family === 'ip' ? 'IPv4' : 'IPv6', {found: describeDetector(found), configured});
  return {hypothesis, symptom};
}
