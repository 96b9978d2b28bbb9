import type {NftRuleset, NftTable} from '../../model/nft-ruleset.ts';
import type {NodeDump} from '../../model/snapshot.ts';
import {parseNftDump} from '../../parse/nftables/nft-dump.ts';
import {countsOf} from '../../parse/nftables/nft-dump-table.ts';

/**
 * A node's nftables; null if they were not read. The dump of the whole ruleset has precedence over that of kube-proxy's tables; if it is
 * truncated, these are taken from one that is not.
 */
export function readNft(node: NodeDump): NftRuleset | null {
  let found: NftRuleset | null = null;
  for (const file of ['nft-ruleset.json', 'nft.json', 'nft.txt']) {
    const content = node.read(file);
    if (content === null || isBlank(content)) continue;
    const ruleset = parseNftDump(content);
    if (found === null) found = ruleset;
    else if (ruleset.cut === null) return withTables(found, kubeProxyTables(ruleset));
    if (found.cut === null) return found;
  }
  return found;
}

function withTables(ruleset: NftRuleset, whole: readonly NftTable[]): NftRuleset {
  const tables = new Map([...ruleset.tables, ...whole.map(table => [table.id, table] as const)]);
  const all = [...tables.values()];
  return {...ruleset, tables, tableSources: all, ...countsOf(all)};
}

function isBlank(content: Buffer): boolean {
  return content.length < 1024 && content.toString('utf8').trim() === '';
}

/** kube-proxy's tables: `ip kube-proxy` and `ip6 kube-proxy`. */
export function kubeProxyTables(ruleset: NftRuleset | null): readonly NftTable[] {
  return ['ip kube-proxy', 'ip6 kube-proxy'].flatMap(id => ruleset?.tables.get(id) ?? []);
}
