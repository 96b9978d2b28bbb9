import {localhostRejectChain, localhostRejectMap} from '../expect/nftables/localhost-node-ports.ts';
import {nftContext} from '../expect/nftables/nft-context.ts';
import {tableId} from '../expect/nftables/expected-table.ts';
import {families} from '../model/family.ts';
import type {NftTable} from '../model/nft-ruleset.ts';
import type {Check} from './check.ts';
import {onNode} from './commands/node-commands.ts';

export const localhostNodePortsStuck: Check<'ST511'> = {
  code: 'ST511',
  name: 'localhost-node-ports-stuck',
  severity: 'error',
  summary: 'kube-proxy cannot sync a family: it cannot delete the chain that refused node ports on loopback addresses',
  remedy:
    'Delete the table on this node (nft delete table ip kube-proxy, or ip6); kube-proxy writes it again at its next sync, and until then no Service of the family is served.',
  // kubernetes#142183: the map still refers to the chain that the same transaction deletes.
  *node({api, node, config, facts, nft}) {
    if (config.mode.value !== 'nftables') return;
    for (const family of families) {
      if (nftContext(family, config, facts, null).listensOnLocalhost !== true) continue;
      const table = nft()?.tables.get(tableId(family));
      const count = table === undefined ? 0 : refusedTCP(table);
      if (count === 0) continue;
      const running = config.nodePortAddresses.source === 'configz.json';
      const cause = `${localhostRejectMap} of table ${tableId(family)} still refuses ${count} TCP node ports, and nodePortAddresses now names a loopback address (${config.nodePortAddresses.source})`;
      yield {
        ...{node: node.name, family, severity: running ? ('error' as const) : ('warning' as const)},
        message: `kube-proxy ${running ? 'cannot write' : 'will not be able to write, once it is restarted with these settings,'} any change of ${family}: ${cause}`,
        ...onNode({api, node}, `nft delete table ${tableId(family)}`),
      };
    }
  },
};

function refusedTCP(table: NftTable): number {
  const verdict = `goto ${localhostRejectChain('tcp')}`;
  return [...(table.set(localhostRejectMap)?.elements.values() ?? [])].filter(({value}) => value === verdict).length;
}
