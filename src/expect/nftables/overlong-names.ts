import type {PortsInput} from '../cluster/served-port.ts';
import {families, type Family} from '../../model/address.ts';
import type {ServicePort} from '../../model/service-port.ts';
import {expectTable} from './expect-table.ts';
import {maxCommentBytes, oldestNftMinor, truncatesComments} from './nft-versions.ts';

/** A Service port whose name is too long for the comment of an element. */
export interface OverlongName {
  readonly family: Family;
  readonly port: ServicePort;
  /** kube-proxy has to write such an element now, because the Service has no endpoint that this node may use. */
  readonly blocksSync: boolean;
}

/** The Service ports that prevent, or may prevent, kube-proxy 1.29 to 1.36 from syncing a family in nftables mode. */
export function overlongNames({view, config, facts}: Omit<PortsInput, 'family'>): readonly OverlongName[] {
  const version = config.version.value;
  if (version.minor < oldestNftMinor || truncatesComments(version)) return [];
  const proxy = {version, gates: config.featureGates.value};
  return families.flatMap(family => {
    // Names are ASCII: one character is one byte.
    const ports = view.entries(family, proxy).flatMap(({port}) => (port.servicePortName.length > maxCommentBytes ? [port] : []));
    if (ports.length === 0) return [];
    const table = expectTable({view, config, facts, family, table: null});
    return table.ports
      .filter(({port}) => ports.includes(port))
      .map(item => ({family, port: item.port, blocksSync: table.objectsOf(item).elements.some(({comment}) => comment !== null)}));
  });
}
