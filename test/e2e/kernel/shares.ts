/**
 * How likely it is, at the very most, that a share this far from the probability comes about by chance (Chernoff's bound; it
 * holds for any number of flows).
 */
export function chanceOf({count, total, probability}: {readonly count: number; readonly total: number; readonly probability: number}): number {
  const share = count / total;
  return Math.min(1, 2 * Math.exp(-total * (divergence(share, probability) + divergence(1 - share, 1 - probability))));
}

function divergence(share: number, probability: number): number {
  return share === 0 ? 0 : share * Math.log(share / probability);
}

/** So many flows that an outcome of this probability stays away only once in 10^12 times. */
export function flowsFor(probability: number): number {
  return probability > 0.999 ? 2 : Math.ceil(Math.log(1e-12) / Math.log(1 - probability));
}
