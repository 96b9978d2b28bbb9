import type {ExpectedTable} from '../../../expect/nftables/expected-table.ts';
import type {NftPort} from '../../../expect/nftables/nft-port.ts';
import type {Packet} from '../../../trace/packet.ts';
import {onePerShape, shapeOf} from '../../outcomes/port-shape.ts';
import type {PortProbe} from '../../outcomes/outcome-changes.ts';
import {packetOf, probesFor} from '../../outcomes/probes.ts';
import {sourcesFor} from '../../outcomes/sources.ts';

/** The probes of one Service port of each shape: together they match every base rule. */
export function baseChainProbes({context, ports}: ExpectedTable): readonly PortProbe<NftPort>[] {
  return onePerShape(ports.toReversed(), item => shapeOf(item, context.facts.hostIPs)).flatMap(item =>
    probesFor({item, context, hairpins: item.endpoints.reachable.slice(0, 2)})
      .filter(({knownTo}) => knownTo.size === 0)
      .map(probe => ({item, probe})),
  );
}

/** Packets to a port that a cluster IP does not have. */
export function unservedPackets({context, ports}: ExpectedTable): readonly Packet[] {
  const [first] = ports;
  if (first === undefined) return [];
  const taken = new Set(ports.flatMap(({port}) => (port.clusterIP === first.port.clusterIP ? [port.port] : [])));
  const free = [9, 19, 29, 39].find(number => !taken.has(number)) ?? 49;
  return sourcesFor({sourceRanges: [], loadBalancerVIPs: []}, context, new Set()).flatMap(
    from => packetOf(first.port, {source: from.address, destination: first.port.clusterIP, port: free, from}) ?? [],
  );
}
