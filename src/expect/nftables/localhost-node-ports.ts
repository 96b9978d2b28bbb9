import type {NodeContext} from '../node-context.ts';

/** The map of node ports that are refused on loopback addresses. */
export const localhostRejectMap = 'localhost-nodeport-reject-ports';

export function localhostRejectChain(protocol: string): string {
  return `localhost-nodeport-reject-${protocol}`;
}

/** The named counter of the chain that refuses node ports of a protocol on loopback addresses. */
export function localhostCounter(protocol: string): string {
  return `localhost-nodeport-rejected-${protocol}`;
}

/**
 * The protocols whose node ports are refused on loopback addresses. kube-proxy listens for TCP itself where `nodePortAddresses`
 * names a loopback address, and never for the others. Empty without the feature gate.
 */
export function rejectedOnLocalhost({listensOnLocalhost}: NodeContext): readonly string[] {
  if (listensOnLocalhost === undefined) return [];
  return listensOnLocalhost ? ['udp', 'sctp'] : ['tcp', 'udp', 'sctp'];
}
