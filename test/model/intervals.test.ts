import {describe, expect, test} from 'vitest';
import {seededRandom} from '../bench/random.ts';
import {holds, intersect, type Intervals, intervalsOf, sizeOf, subtract} from '../../src/model/intervals.ts';

const values = Array.from({length: 64}, (_, index) => BigInt(index));
const listed = (intervals: Intervals) => values.filter(value => holds(intervals, value));

test('overlapping and adjacent ranges are one', () => {
  expect(
    intervalsOf([
      [5n, 7n],
      [1n, 2n],
      [3n, 3n],
      [6n, 9n],
    ]),
  ).toEqual([
    [1n, 3n],
    [5n, 9n],
  ]);
});

describe('sets of ranges are sets of their numbers', () => {
  const random = seededRandom(7);
  const some = (): Intervals =>
    intervalsOf(
      Array.from({length: random.below(6)}, () => {
        const low = random.below(60);
        return [BigInt(low), BigInt(low + random.below(4))] as const;
      }),
    );
  test.each(Array.from({length: 200}, () => [some(), some()] as const))('%#', (a, b) => {
    const [inA, inB] = [new Set(listed(a)), new Set(listed(b))];
    expect(listed(intersect(a, b))).toEqual([...inA].filter(value => inB.has(value)));
    expect(listed(subtract(a, b))).toEqual([...inA].filter(value => !inB.has(value)));
    expect(sizeOf(a)).toBe(BigInt(inA.size));
    expect(intersect(a, b)).toEqual(intersect(b, a));
  });
});

test('of thousands of ranges the first answer and each later one are those of their numbers', () => {
  const random = seededRandom(11);
  const many = (): Intervals => intervalsOf(Array.from({length: 1000}, () => BigInt(random.below(4000))).map(value => [value, value]));
  const [a, b] = [many(), many()];
  const numbers = Array.from({length: 4000}, (_, index) => BigInt(index));
  const listedIn = (intervals: Intervals) => numbers.filter(value => holds(intervals, value));
  for (const [one, other] of [[a, b] as const, [b, a] as const, [a, b] as const, [b, a] as const]) {
    expect(listedIn(intersect(one, other))).toEqual(listedIn(one).filter(value => holds(other, value)));
    expect(listedIn(subtract(one, other))).toEqual(listedIn(one).filter(value => !holds(other, value)));
  }
});
