import type {NodeContext} from '../node-context.ts';

/** The map of node ports that are rejected on loopback addresses. */
export const localhostRejectMap = 'localhost-nodeport-reject-ports';

export function localhostRejectChain(protocol: string): string {
  return `localhost-nodeport-reject-${protocol}`;
}

/** The named counter of the chain that rejects node ports of a protocol on loopback addresses. */
export function localhostCounter(protocol: string): string {
  return `localhost-nodeport-rejected-${protocol}`;
}

/**
 * The protocols whose node ports are rejected on loopback addresses. For TCP, kube-proxy itself listens if `nodePortAddresses` names a
 * loopback address; it never does for the others. Empty without the feature gate.
 */
export function rejectedOnLocalhost({listensOnLocalhost}: NodeContext): readonly string[] {
  if (listensOnLocalhost === undefined) return [];
  return listensOnLocalhost ? ['udp', 'sctp'] : ['tcp', 'udp', 'sctp'];
}
