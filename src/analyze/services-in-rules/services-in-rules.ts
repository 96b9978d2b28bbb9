import {compareText} from '../../model/text/compare-text.ts';
import type {PortTrace} from '../../model/service-trace.ts';
import type {NodeDump} from '../../model/snapshot.ts';
import {readDumps} from '../iptables/read-dumps.ts';
import {readNft} from '../nftables/read-nft.ts';
import {iptablesServices} from './iptables-services.ts';
import {ipvsServices} from './ipvs-services.ts';
import {nftServices} from './nft-services.ts';

/** The Service ports in the rules of a node, in any proxy mode, sorted by name. The traces say what the rules do not show. */
export function servicesInRules(node: NodeDump): readonly PortTrace[] {
  const nft = readNft(node);
  const traces = [
    ...[...readDumps(node).current.values()].flatMap(ruleset => iptablesServices(node.name, ruleset)),
    ...(nft === null ? [] : nftServices(node.name, nft)),
    ...ipvsServices(node),
  ];
  return traces.toSorted((a, b) => compareText(keyOf(a), keyOf(b)));
}

function keyOf({service, port, family}: PortTrace): string {
  return `${service.namespace === 'unnamed' ? '~' : ''}${service.namespace}/${service.name}:${port.name}/${port.protocol}/${family}`;
}
