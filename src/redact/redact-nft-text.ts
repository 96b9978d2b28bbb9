import {redactNftName} from './nft-names.ts';
import type {Replacements} from './replacements.ts';

const parts = /(comment "[^"]*"|prefix "[^"]*"|(?:service|local|external|firewall|endpoint|affinity)-[A-Z2-7]{8}-[^\s{},;:]+)/;

/** The text output of `nft list`. Keywords of nft, numbers and interfaces stay. */
export function redactNftText(text: string, replacements: Replacements): string {
  return text
    .split('\n')
    .map(line =>
      line
        .split(parts)
        .map((part, index) => (index % 2 === 0 ? replacements.text.replace(part) : redactPart(part, replacements)))
        .join(''),
    )
    .join('\n');
}

function redactPart(part: string, replacements: Replacements): string {
  if (!part.endsWith('"')) return redactNftName(part, replacements);
  const quote = part.indexOf('"');
  return part.slice(0, quote) + replacements.words.comment(part.slice(quote));
}
