import type {NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import type {NodeDump} from '../../model/snapshot.ts';
import {parseNftJson} from '../../parse/nft-json.ts';
import {parseNftText} from '../../parse/nft-text.ts';

/** What a node holds of nftables; null when it was not read. JSON goes before text. */
export function readNft(node: NodeDump): NftRuleset | null {
  const json = node.read('nft.json');
  if (json !== null && !isBlank(json)) return parseNftJson(json);
  const text = node.read('nft.txt');
  return text === null || isBlank(text) ? null : parseNftText(text);
}

function isBlank(content: Buffer): boolean {
  return content.length < 1024 && content.toString('utf8').trim() === '';
}

/** kube-proxy's tables: `ip kube-proxy` and `ip6 kube-proxy`. */
export function kubeProxyTables(ruleset: NftRuleset | null): readonly NftTable[] {
  return ['ip kube-proxy', 'ip6 kube-proxy'].flatMap(id => ruleset?.tables.get(id) ?? []);
}
