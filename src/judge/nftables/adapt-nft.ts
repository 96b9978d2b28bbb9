import type {ExpectedTable} from '../../expect/nftables/expected-table.ts';
import type {NftAssumption} from '../../expect/nftables/expect-table.ts';
import type {NftPort} from '../../expect/nftables/nft-port.ts';
import {describeSeen, seenDetector, shortCutDetector} from '../../expect/nftables/seen-detector.ts';
import type {NftTable} from '../../model/nft-ruleset.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {nftRule} from '../../parse/nft-rule.ts';
import {describeDetector, nodeNameMismatch, otherDetectorSymptom, zoneUnknown} from '../assumed.ts';
import type {Symptom} from '../symptom.ts';

/** Builds the expectation anew under an assumption. */
export type ExpectNft = (assumption: NftAssumption) => ExpectedTable;

export interface AdaptedNft {
  readonly expected: ExpectedTable;
  /** What had to be assumed, each of it one finding in place of one for every Service. */
  readonly symptoms: readonly Symptom[];
}

/** Where many Services differ for one reason, that reason is the finding, as in iptables mode. */
export function adaptNft(expect: ExpectNft, actual: NftTable, knowsZone: boolean): AdaptedNft {
  let assumption: NftAssumption = {};
  let expected = expect(assumption);
  const symptoms: Symptom[] = [];
  const assume = (next: NftAssumption, symptom: Symptom | null): void => {
    assumption = {...assumption, ...next};
    expected = expect(assumption);
    if (symptom !== null) symptoms.push(symptom);
  };
  const detector = otherDetector(expected, actual);
  if (detector !== null) assume(detector.assumption, detector.symptom);
  const picks = ambiguousPicks(expected, picked => expect({...assumption, picks: picked}), actual);
  if (picks.size > 0) assume({picks}, null);
  const nowhere = fitting(expected, () => expect({...assumption, nodeName: ''}), {actual, mayChange: hasLocal});
  if (nowhere.length >= 2) assume({nodeName: ''}, nodeNameMismatch(expected.context, nowhere));
  if (!knowsZone) {
    const zone = guessedZone(expected, other => expect({...assumption, zone: other}), actual);
    return {expected: zone === null ? expected : expect({...assumption, zone}), symptoms};
  }
  const hinted = fitting(expected, () => expect({...assumption, zone: null}), {actual, mayChange: isHinted});
  if (hinted.length >= 1) assume({zone: null}, zoneUnknown(expected.context, hinted));
  return {expected, symptoms};
}

function hasLocal({endpoints}: NftPort): boolean {
  return endpoints.local.length > 0;
}

function isHinted({all}: NftPort): boolean {
  return all.some(({zoneHints}) => zoneHints !== null);
}

/** Where the Nodes were not read: the zone named by hints that the node's rules agree with. */
function guessedZone(expected: ExpectedTable, expect: (zone: string) => ExpectedTable, actual: NftTable): string | null {
  const zones = new Set(expected.ports.flatMap(({all}) => all.flatMap(({zoneHints}) => zoneHints ?? [])));
  return [...zones].sort().find(zone => fitting(expected, () => expect(zone), {actual, mayChange: isHinted}).length > 0) ?? null;
}

interface Fitting {
  readonly actual: NftTable;
  readonly mayChange: (item: NftPort) => boolean;
}

/** The Service ports that an assumption changes, if the node agrees with it, and not with what is expected, for all of them. */
function fitting(expected: ExpectedTable, alternative: () => ExpectedTable, {actual, mayChange}: Fitting): readonly NftPort[] {
  const candidates = expected.ports.filter(mayChange);
  if (candidates.length === 0) return [];
  const other = alternative();
  const changed = candidates.flatMap(item => {
    const counterpart = other.portOfBase(item.names.base);
    return counterpart === undefined || textOf(expected, item) === textOf(other, counterpart) ? [] : [{item, counterpart}];
  });
  return changed.every(({item, counterpart}) => fits(other, counterpart, actual) && !fits(expected, item, actual))
    ? changed.map(({counterpart}) => counterpart)
    : [];
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
    if (found === undefined || (found.text() !== rules.join('\n') && bodies(found.rules()) !== bodiesOf(rules))) return false;
  }
  return elements.every(({set, key, value}) => actual.set(set)?.elements.get(key)?.value === value);
}

function bodies(rules: readonly {readonly body: string}[]): string {
  return rules.map(({body}) => body).join('\n');
}

function bodiesOf(texts: readonly string[]): string {
  return bodies(texts.map(text => nftRule({table: '', chain: '', line: 0, text})));
}

/** For Service ports with endpoints given twice: the list that the node fits, where the likeliest does not. */
function ambiguousPicks(
  expected: ExpectedTable,
  expect: (picks: ReadonlyMap<ServicePort, number>) => ExpectedTable,
  actual: NftTable,
): ReadonlyMap<ServicePort, number> {
  const picks = new Map<ServicePort, number>();
  for (const item of expected.ports.filter(({lists}) => lists > 1)) {
    if (fits(expected, item, actual)) continue;
    for (let pick = 1; pick < item.lists; pick++) {
      const other = expect(new Map([[item.port, pick]]));
      const counterpart = other.portOfBase(item.names.base);
      if (counterpart === undefined || !fits(other, counterpart, actual)) continue;
      picks.set(item.port, pick);
      break;
    }
  }
  return picks;
}

/** The node tells pods from others in another way than configured; null when it does not, or too few Services show it. */
function otherDetector(
  {context, family, ports}: ExpectedTable,
  actual: NftTable,
): {readonly assumption: NftAssumption; readonly symptom: Symptom} | null {
  // What a cut dump does not show may still be on the node.
  if (!actual.complete || ports.length < 3) return null;
  const seen = seenDetector(actual);
  if (seen === null) return null;
  const configured = describeDetector(context.masqueradeAll ? 'all' : context.detector);
  const found = describeSeen(seen);
  if (configured === describeDetector(found)) return null;
  // Where other rules tell pods as configured, it is that one rule which is wrong.
  const cut = shortCutDetector(actual);
  if (cut !== null && found !== 'all' && describeDetector(cut) === configured) return null;
  const assumption: NftAssumption = found === 'all' ? {masqueradeAll: true} : {masqueradeAll: false, detector: found};
  const symptom = otherDetectorSymptom(family === 'ip' ? 'IPv4' : 'IPv6', {found: describeDetector(found), configured});
  return {assumption, symptom};
}
