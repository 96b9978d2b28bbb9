import type {Cost} from './measure.ts';

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}

/** The median of each figure by itself. */
export function medianCost(costs: readonly Cost[]): Cost {
  return eachFigure(figure => median(costs.map(cost => cost[figure])));
}

export function minCost(costs: readonly Cost[]): Cost {
  return eachFigure(figure => Math.min(...costs.map(cost => cost[figure])));
}

/** How many units each is: pairs are of one round, so that a machine that slows down slows both. */
export function medianRatio(costs: readonly Cost[], units: readonly Cost[]): Cost {
  return eachFigure(figure => median(costs.map((cost, round) => cost[figure] / (units[round]?.[figure] ?? Number.NaN))));
}

function eachFigure(value: (figure: keyof Cost) => number): Cost {
  return {cpuSeconds: value('cpuSeconds'), wallSeconds: value('wallSeconds'), peakMebibytes: value('peakMebibytes')};
}

/**
 * The power of the input's size that the cost grows with: 1 is in step with it,
 * 2 is its square. What starting costs is taken off first, as it does not grow.
 */
export function growthExponent(large: {bytes: number; seconds: number}, small: {bytes: number; seconds: number}, startup: number): number {
  return Math.log((large.seconds - startup) / (small.seconds - startup)) / Math.log(large.bytes / small.bytes);
}
