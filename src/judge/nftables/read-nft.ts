import type {NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import type {NodeDump} from '../../model/snapshot.ts';
import {parseNftDump} from '../../parse/nft-dump.ts';

/** What a node holds of nftables; null when it was not read. The whole ruleset goes before kube-proxy's tables alone. */
export function readNft(node: NodeDump): NftRuleset | null {
  for (const file of ['nft-ruleset.json', 'nft.json', 'nft.txt']) {
    const content = node.read(file);
    if (content !== null && !isBlank(content)) return parseNftDump(content);
  }
  return null;
}

function isBlank(content: Buffer): boolean {
  return content.length < 1024 && content.toString('utf8').trim() === '';
}

/** kube-proxy's tables: `ip kube-proxy` and `ip6 kube-proxy`. */
export function kubeProxyTables(ruleset: NftRuleset | null): readonly NftTable[] {
  return ['ip kube-proxy', 'ip6 kube-proxy'].flatMap(id => ruleset?.tables.get(id) ?? []);
}
