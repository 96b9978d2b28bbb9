import type {ServedPort} from '../model/endpoint.ts';
import type {Hypothesis, NodeContext} from '../expect/node-context.ts';
import type {ServicePort} from '../model/service-port.ts';
import {keptWith, onceAsked} from '../model/once.ts';
import {nodeNameMismatch, zoneUnknown} from './symptoms/node-symptoms.ts';
import type {Symptom} from './symptoms/symptom.ts';

/** The expectation for one node under a hypothesis. */
interface ExpectedPorts<Item extends ServedPort> {
  readonly context: Pick<NodeContext, 'family' | 'facts'>;
  readonly ports: readonly Item[];
}

/** How a proxy mode compares its expectations. `Expected` is one, `Item` a Service port of it. */
export interface HypothesisTests<Expected, Item> {
  /** Everything expected for a Service port, as text. */
  textOf(expected: Expected, item: Item): string;
  /** Whether the node has exactly the expected rules of a Service port. */
  fits(expected: Expected, item: Item): boolean;
  /** The node identifies pods differently than configured; null if it does not, or the mode has no such rules. */
  otherDetector(expected: Expected): {readonly hypothesis: Hypothesis; readonly symptom: Symptom} | null;
}

interface HypothesisCase<Expected, Item> extends HypothesisTests<Expected, Item> {
  expect(hypothesis: Hypothesis): Expected;
  /** The expectation without a hypothesis; it is the answer if none is needed. */
  readonly plain: Expected;
  /** False if the Node was not read: then its zone is inferred from the rules. */
  readonly knowsZone: boolean;
  /** Each Service is analyzed by itself: no finding stands for many of them. */
  readonly eachService: boolean;
}

/**
 * If one reason explains the differences of many Services, it is the finding: a kube-proxy that identifies pods differently than
 * configured, does not know its node's zone, or runs under another node name. Other differences are evaluated as usual. `symptoms`: one
 * finding for each assumption, in place of one for every Service.
 */
export function inferHypothesis<Expected extends ExpectedPorts<Item>, Item extends ServedPort>(
  hypothesisCase: HypothesisCase<Expected, Item>,
) {
  let hypothesis: Hypothesis = {};
  let expected = hypothesisCase.plain;
  const symptoms: Symptom[] = [];
  const under = (next: Hypothesis): Expected => hypothesisCase.expect({...hypothesis, ...next});
  const infer = (next: Hypothesis, symptom: Symptom | null): void => {
    hypothesis = {...hypothesis, ...next};
    expected = hypothesisCase.expect(hypothesis);
    if (symptom !== null) symptoms.push(symptom);
  };
  const detector = hypothesisCase.eachService ? null : hypothesisCase.otherDetector(expected);
  if (detector !== null) infer(detector.hypothesis, detector.symptom);
  const picks = fittingPicks(hypothesisCase, expected, picked => under({picks: picked}));
  if (picks.size > 0) infer({picks}, null);
  const named = hypothesisCase.eachService ? null : guessedName(hypothesisCase, expected, nodeName => under({nodeName}));
  if (named !== null) infer({nodeName: named.name}, nodeNameMismatch(expected.context, named));
  if (hypothesisCase.knowsZone) {
    const hinted = hypothesisCase.eachService
      ? []
      : fitting(hypothesisCase, expected, {alternative: () => under({zone: null}), mayChange: isHinted});
    if (hinted.length >= 1) infer({zone: null}, zoneUnknown(expected.context, hinted));
  } else {
    const zone = guessedZone(hypothesisCase, expected, name => under({zone: name}));
    if (zone !== null) infer({zone}, null);
  }
  return {expected, hypothesis, symptoms};
}

function hasLocal({endpoints}: ServedPort): boolean {
  return endpoints.local.length > 0;
}

function isHinted({all}: ServedPort): boolean {
  return all.some(({zoneHints}) => zoneHints !== null);
}

/** As many other names of nodes are tried. */
const maxNames = 20;

/** The name of kube-proxy for which the node's rules fit: that of another node, or one that no endpoint has. */
function guessedName<Expected extends ExpectedPorts<Item>, Item extends ServedPort>(
  fits: Fits<Expected, Item>,
  expected: Expected,
  expect: (name: string) => Expected,
): {readonly name: string; readonly ports: readonly Item[]} | null {
  // An expectation is made for each name: no other is tried where nothing that depends on the name differs.
  const isByName = ({port, all}: ServedPort): boolean =>
    port.externalPolicyLocal || port.internalPolicyLocal || all.some(({nodeHints, zoneHints}) => nodeHints !== null || zoneHints !== null);
  const misfits = expected.ports.filter(item => isByName(item) && !fits.fits(expected, item));
  if (misfits.length < 2) return null;
  const others = new Set(expected.ports.filter(hasLocal).flatMap(({all}) => all.flatMap(({nodeName}) => nodeName ?? [])));
  others.delete(expected.context.facts.name);
  for (const name of ['', ...[...others].sort().slice(0, maxNames)]) {
    const mayChange = (item: ServedPort) => hasLocal(item) || (name !== '' && item.all.some(({nodeName}) => nodeName === name));
    const ports = fitting(fits, expected, {alternative: () => expect(name), mayChange});
    if (ports.length >= 2) return {name, ports};
  }
  return null;
}

type Fits<Expected, Item> = Omit<HypothesisTests<Expected, Item>, 'otherDetector'>;

/** The zone for which the node's rules fit the hints. */
function guessedZone<Expected extends ExpectedPorts<Item>, Item extends ServedPort>(
  fits: Fits<Expected, Item>,
  expected: Expected,
  expect: (zone: string) => Expected,
): string | null {
  const zones = new Set(expected.ports.flatMap(({all}) => all.flatMap(({zoneHints}) => zoneHints ?? [])));
  const agrees = (zone: string) => fitting(fits, expected, {alternative: () => expect(zone), mayChange: isHinted}).length > 0;
  return [...zones].sort().find(agrees) ?? null;
}

interface Alternative<Expected> {
  readonly alternative: () => Expected;
  readonly mayChange: (item: ServedPort) => boolean;
}

/** The Service ports that an assumption changes, if the node fits the assumption, and not the expectation, for all of them. */
function fitting<Expected extends ExpectedPorts<Item>, Item extends ServedPort>(
  {textOf, fits}: Fits<Expected, Item>,
  expected: Expected,
  {alternative, mayChange}: Alternative<Expected>,
): readonly Item[] {
  const other = onceAsked(alternative);
  const changed: Item[] = [];
  for (const item of expected.ports) {
    if (!mayChange(item)) continue;
    const found = itemIn(other().ports, item);
    if (found === undefined || textOf(expected, item) === textOf(other(), found)) continue;
    // A node with the usual rules also holds every subset of them, so the usual expectation must not fit.
    if (!fits(other(), found) || fits(expected, item)) return [];
    changed.push(found);
  }
  return changed;
}

/** The same Service port in another expectation. */
function itemIn<Item extends ServedPort>(ports: readonly Item[], {port}: Item): Item | undefined {
  return keptWith(ports, 'items by port', () => new Map(ports.map(item => [item.port, item]))).get(port);
}

/** For Service ports with duplicate endpoints: the list that the node fits, if the most likely one does not fit. */
function fittingPicks<Expected extends ExpectedPorts<Item>, Item extends ServedPort>(
  {fits}: Fits<Expected, Item>,
  expected: Expected,
  expect: (picks: ReadonlyMap<ServicePort, number>) => Expected,
): ReadonlyMap<ServicePort, number> {
  const picks = new Map<ServicePort, number>();
  for (const item of expected.ports.filter(({lists}) => lists > 1)) {
    if (fits(expected, item)) continue;
    for (let pick = 1; pick < item.lists; pick++) {
      const other = expect(new Map([[item.port, pick]]));
      const found = itemIn(other.ports, item);
      if (found === undefined || !fits(other, found)) continue;
      picks.set(item.port, pick);
      break;
    }
  }
  return picks;
}
