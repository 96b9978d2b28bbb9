import type {NftRuleset} from '../../model/nft-ruleset.ts';
import {parseNftJson} from './nft-json.ts';
import {parseNftText} from './nft-text.ts';

/** Reads the output of nft, with `-j` or without. */
export function parseNftDump(content: Buffer): NftRuleset {
  return content.includes('"nftables"') ? parseNftJson(content) : parseNftText(content);
}
