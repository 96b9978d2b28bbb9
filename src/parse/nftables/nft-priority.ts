import type {NftFamily} from '../../model/nft-ruleset.ts';

const words: Readonly<Record<string, number>> = {raw: -300, mangle: -150, dstnat: -100, filter: 0, security: 50, srcnat: 100};
const bridgeWords: Readonly<Record<string, number>> = {dstnat: -300, filter: -200, out: 100, srcnat: 300};

/** `dstnat - 10`, `filter` or `-110` as a number; null if it is none of these. Follows std_prio_family of nft. */
export function nftPriority(text: string, family: NftFamily): number | null {
  const found = /^([a-z]+)?\s*(?:([+-])?\s*(\d+))?$/.exec(text.trim());
  if (found === null) return null;
  const [, word, sign, digits] = found;
  const known = family === 'bridge' ? bridgeWords : words;
  if (word === undefined ? digits === undefined : !Object.hasOwn(known, word)) return null;
  const base = word === undefined ? 0 : (known[word] ?? 0);
  return base + (sign === '-' ? -1 : 1) * Number(digits ?? 0);
}

/** A priority of the families `ip` and `ip6` as nft lists it: relative to the nearest name of the hook within 10, otherwise as a number. */
export function priorityText(priority: number, hook: string): string {
  const near = Object.entries(words).find(([word, base]) => isWordOf(hook, word) && Math.abs(priority - base) <= 10);
  if (near === undefined) return String(priority);
  const [word, base] = near;
  const offset = priority - base;
  return offset === 0 ? word : `${word} ${offset < 0 ? '-' : '+'} ${Math.abs(offset)}`;
}

function isWordOf(hook: string, word: string): boolean {
  if (word === 'dstnat') return hook === 'prerouting';
  return word !== 'srcnat' || hook === 'postrouting';
}
