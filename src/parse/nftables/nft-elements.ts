import type {NftElement} from '../../model/nft-ruleset.ts';

/**
 * Reads the elements between the braces of `elements = { … }`, or of an anonymous set or map: `KEY [timeout T] [expires T]
 * [counter …] [comment "…"] [: VALUE]`, with commas between them.
 */
export function parseNftElements(text: string): readonly NftElement[] {
  return splitAtCommas(text)
    .map(part => part.trim())
    .filter(part => part !== '')
    .map(parseElement);
}

function splitAtCommas(text: string): readonly string[] {
  if (!text.includes('"')) return text.split(',');
  const parts: string[] = [];
  let start = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) quoted = !quoted;
    else if (code === comma && !quoted) {
      parts.push(text.slice(start, at));
      start = at + 1;
    }
  }
  parts.push(text.slice(start));
  return parts;
}

const quote = 0x22;
const comma = 0x2c;

const extras = /^(.*?)((?: (?:timeout|expires|counter|comment|limit|last|quota) .*?)*)(?: : ([^"]*))?$/s;

function parseElement(part: string): NftElement {
  const plain = part.replace(/\s+/g, ' ');
  const separator = plain.includes('"') ? -1 : plain.indexOf(' : ');
  if (!isExtended.test(plain)) {
    if (separator < 0) return {key: bare(plain), value: null, comment: null, expires: null};
    return {key: bare(plain.slice(0, separator)), value: plain.slice(separator + 3), comment: null, expires: null};
  }
  const [, key = plain, middle = '', value] = extras.exec(plain) ?? [];
  const expires = / expires (\S+)/.exec(middle)?.[1];
  return {
    key: bare(key),
    value: value ?? null,
    comment: / comment "([^"]*)"/.exec(middle)?.[1] ?? null,
    expires: expires === undefined ? null : nftSeconds(expires),
  };
}

const isExtended = / (?:timeout|expires|counter|comment|limit|last|quota) /;

/** Interface names are quoted. */
function bare(key: string): string {
  return key.replaceAll('"', '');
}

const unitSeconds: Readonly<Record<string, number>> = {w: 604_800, d: 86_400, h: 3600, m: 60, s: 1};

/** `3h`, `10m` or `9m59s996ms` in whole seconds; null if it is not a duration. */
export function nftSeconds(text: string): number | null {
  if (/^\d+$/.test(text)) return Number(text);
  if (!/^(?:\d+(?:ms|[wdhms]))+$/.test(text)) return null;
  const parts = [...text.matchAll(/(\d+)(ms|[wdhms])/g)];
  return parts.reduce((sum, [, digits, unit = '']) => sum + (unit === 'ms' ? 0 : Number(digits) * (unitSeconds[unit] ?? 0)), 0);
}

/** Seconds as nft prints them: `3h`, `1d10m`. */
export function formatNftSeconds(seconds: number): string {
  const parts: string[] = [];
  let left = seconds;
  for (const unit of ['d', 'h', 'm', 's']) {
    const size = unitSeconds[unit] ?? 1;
    if (left >= size) parts.push(`${Math.floor(left / size)}${unit}`);
    left %= size;
  }
  return parts.join('') || '0s';
}
