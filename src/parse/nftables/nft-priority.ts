import type {NftFamily} from '../../model/nft-ruleset.ts';

const words: Readonly<Record<string, number>> = {raw: -300, mangle: -150, dstnat: -100, filter: 0, security: 50, srcnat: 100};
const bridgeWords: Readonly<Record<string, number>> = {dstnat: -300, filter: -200, out: 100, srcnat: 300};

/** `dstnat - 10`, `filter` or `-110` as a number; null when it is none of these. Follows std_prio_family of nft. */
export function nftPriority(text: string, family: NftFamily): number | null {
  const found = /^([a-z]+)?\s*(?:([+-])?\s*(\d+))?$/.exec(text.trim());
  if (found === null) return null;
  const [, word, sign, digits] = found;
  const known = family === 'bridge' ? bridgeWords : words;
  if (word === undefined ? digits === undefined : !Object.hasOwn(known, word)) return null;
  const base = word === undefined ? 0 : (known[word] ?? 0);
  return base + (sign === '-' ? -1 : 1) * Number(digits ?? 0);
}
