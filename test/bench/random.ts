/**
 * A seeded source of numbers (mulberry32). The benchmark must measure the same
 * cluster on every machine and in every run, which Math.random cannot give.
 */
export interface Random {
  /** A whole number from 0 to limit - 1. */
  below(limit: number): number;
  chance(probability: number): boolean;
  pick<T>(items: readonly [T, ...T[]]): T;
  shuffle<T>(items: readonly T[]): T[];
  uuid(): string;
  /** The suffix an API server gives to a generated name. */
  suffix(): string;
}

// The alphabet of Kubernetes' generated names: no vowels, so no words.
const SUFFIX_LETTERS = 'bcdfghjklmnpqrstvwxz2456789';

export function seededRandom(seed: number): Random {
  let state = seed | 0;

  function next32(): number {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  function below(limit: number): number {
    return Math.floor((next32() / 0x1_0000_0000) * limit);
  }

  function hex8(): string {
    return next32().toString(16).padStart(8, '0');
  }

  return {
    below,
    chance: probability => next32() / 0x1_0000_0000 < probability,
    pick: items => items[below(items.length)] ?? items[0],
    shuffle(items) {
      return items
        .map(item => ({item, key: next32()}))
        .sort((a, b) => a.key - b.key)
        .map(({item}) => item);
    },
    uuid() {
      const [a, b, c, d] = [hex8(), hex8(), hex8(), hex8()];
      return `${a}-${b.slice(0, 4)}-4${b.slice(5)}-8${c.slice(1, 4)}-${c.slice(4)}${d}`;
    },
    suffix() {
      return Array.from({length: 5}, () => SUFFIX_LETTERS[below(SUFFIX_LETTERS.length)]).join('');
    },
  };
}
