import {localhostRejectChain, localhostRejectMap} from '../expect/nftables/nft-names.ts';
import {nftContext} from '../expect/nftables/expect-table.ts';
import {proxyTableId} from '../expect/nftables/expected-table.ts';
import {type OverlongName, overlongNames} from '../expect/nftables/overlong-names.ts';
import {families} from '../model/address.ts';
import {type Observation, nameOf, ofPort} from '../model/finding.ts';
import type {NftTable} from '../model/nft-ruleset.ts';
import {commandLine, someOf} from '../model/text.ts';
import {check} from './catalog.ts';
import {editService, onNode} from './commands/commands.ts';

export const serviceNameTooLong = check('ST510', {
  *node(context) {
    const {config} = context;
    if (config.mode.value !== 'nftables') return;
    const names = overlongNames(context);
    for (const family of families) {
      const own = names.filter(name => name.family === family);
      const blocking = own.filter(({blocksSync}) => blocksSync);
      const [first] = blocking.length > 0 ? blocking : own;
      if (first !== undefined) yield {...ofPort(first.port), ...described(blocking, own), ...editService(nameOf(first.port.object))};
    }
  },
});

function described(blocking: readonly OverlongName[], all: readonly OverlongName[]): Pick<Observation, 'message' | 'severity'> {
  const textOf = ({port: {servicePortName}}: OverlongName): string => `${servicePortName} (${servicePortName.length} bytes)`;
  const listed = (names: readonly OverlongName[]): string => someOf(names.map(textOf), {max: 3});
  const [{family}] = all as readonly [OverlongName];
  if (blocking.length === 0)
    return {
      severity: 'warning',
      message: `as soon as ${listed(all)} has no endpoint that this node may use, kube-proxy cannot write any change of ${family} any more: nft accepts comments of 128 bytes`,
    };
  return {
    message: `kube-proxy cannot write any change of ${family}: ${listed(blocking)} has no endpoint that this node may use, and nft refuses its name as a comment (at most 128 bytes)`,
  };
}

export const localhostNodePortsStuck = check('ST511', {
  // kubernetes#142183: the map still refers to the chain that the same transaction deletes.
  *node({api, node, config, facts, nft}) {
    if (config.mode.value !== 'nftables') return;
    for (const family of families) {
      if (nftContext(family, config, facts, null).listensOnLocalhost !== true) continue;
      const table = nft()?.tables.get(proxyTableId(family));
      const count = table === undefined ? 0 : refusedTCP(table);
      if (count === 0) continue;
      const running = config.nodePortAddresses.source === 'configz.json';
      const [nftFamily = '', name = ''] = proxyTableId(family).split(' ');
      const cause = `${localhostRejectMap} of table ${proxyTableId(family)} still refuses ${count} TCP node ports, and nodePortAddresses now names a loopback address (${config.nodePortAddresses.source})`;
      yield {
        family,
        severity: running ? ('error' as const) : ('warning' as const),
        message: `kube-proxy ${running ? 'cannot write' : 'will not be able to write, once it is restarted with these settings,'} any change of ${family}: ${cause}`,
        ...onNode({api, node}, commandLine`nft delete table ${nftFamily} ${name}`),
      };
    }
  },
});

function refusedTCP(table: NftTable): number {
  const verdict = `goto ${localhostRejectChain('tcp')}`;
  return [...(table.set(localhostRejectMap)?.elements.values() ?? [])].filter(({value}) => value === verdict).length;
}
