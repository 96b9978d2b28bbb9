/** How many of all packets had an outcome that each has with this probability. */
export interface Share {
  readonly count: number;
  readonly total: number;
  readonly probability: number;
}

/** How likely, at the very most, chance brings about a share this far off (Chernoff's bound, which holds for any number of packets). */
export function chanceOf({count, total, probability}: Share): number {
  const share = count / total;
  return Math.min(1, 2 * Math.exp(-total * (divergence(share, probability) + divergence(1 - share, 1 - probability))));
}

function divergence(share: number, probability: number): number {
  return share === 0 ? 0 : share * Math.log(share / probability);
}

/** So many packets that an outcome of this probability stays away only once in 10^12 times. */
export function flowsFor(probability: number): number {
  return probability > 0.999 ? 2 : Math.ceil(Math.log(1e-12) / Math.log(1 - probability));
}
