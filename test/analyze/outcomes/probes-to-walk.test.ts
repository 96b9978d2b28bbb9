import {expect, test} from 'vitest';
import type {PathOutcome} from '../../../src/analyze/outcomes/environment.ts';
import type {Probe} from '../../../src/analyze/outcomes/probes.ts';
import {probesToWalk} from '../../../src/analyze/outcomes/probes-to-walk.ts';

const probeOf = (...knownTo: readonly string[]) => ({knownTo: new Set(knownTo)}) as unknown as Probe;

/** Where the packets of a probe end: at endpoints, with a share of the packets each, or elsewhere. */
function ends(shares: Readonly<Record<string, number>>, elsewhere: Partial<PathOutcome> = {}): PathOutcome {
  const destinations = new Map(
    Object.entries(shares).map(([name, probability]) => [name, {probability, masquerade: false, remembered: null, path: []}]),
  );
  return {outcomes: [], destinations, passed: 0, rejected: 0, dropped: 0, undecided: 0, ...elsewhere};
}

const probes = [probeOf(), probeOf(), probeOf('a list')];

function walked(expected: PathOutcome, actual: PathOutcome, {all = probes, isPlain = true} = {}): number {
  const walk = (probe: Probe) => ({probe, expected, actual});
  return probesToWalk({probes: all, walk}, () => isPlain).probes.length;
}

test('the first probe is enough if its packets reach other endpoints and nothing else', () => {
  expect(walked(ends({a: 0.5, b: 0.5}), ends({a: 0.5, c: 0.5}))).toBe(1);
  expect(walked(ends({a: 0.5, b: 0.5}), ends({a: 1}))).toBe(1);
  expect(walked(ends({a: 1}), ends({a: 0.5, c: 0.5}))).toBe(1);
});

test.each<[string, PathOutcome, PathOutcome]>([
  ['they reach the same endpoints', ends({a: 0.5, b: 0.5}), ends({a: 0.5, b: 0.5})],
  ['only the shares are others, as affinity may be too', ends({a: 0.5, b: 0.5}), ends({a: 0.7, b: 0.3})],
  ['they reach none', ends({a: 1}), ends({}, {passed: 1})],
  ['they should reach none', ends({}, {rejected: 1}), ends({a: 1})],
  ['some of them fall through', ends({a: 0.5, b: 0.5}), ends({a: 0.5}, {passed: 0.5})],
  ['some of them are dropped', ends({a: 0.5, b: 0.5}), ends({a: 0.5}, {dropped: 0.5})],
  ['some of them cannot be evaluated', ends({a: 0.5, b: 0.5}), ends({a: 0.5}, {undecided: 0.5})],
  ['some of them should be refused', ends({a: 0.5}, {rejected: 0.5}), ends({c: 1})],
])('all probes are walked if %s', (_, expected, actual) => {
  expect(walked(expected, actual)).toBe(probes.length);
});

test('all probes are walked if anything but endpoints differs, or the first client is known to an endpoint', () => {
  const [expected, actual] = [ends({a: 0.5, b: 0.5}), ends({a: 0.5, c: 0.5})];
  expect(walked(expected, actual, {isPlain: false})).toBe(probes.length);
  expect(walked(expected, actual, {all: probes.toReversed()})).toBe(probes.length);
});

test('a probe is walked once', () => {
  const asked: Probe[] = [];
  const walk = (probe: Probe) => {
    asked.push(probe);
    return {probe, expected: ends({a: 1}), actual: ends({a: 1})};
  };
  const {probes: all, walk: again} = probesToWalk({probes, walk}, () => true);
  for (const probe of all) again(probe);
  expect(asked).toEqual(probes);
});
