/** The kinds of addresses at which clients reach a Service port. */
export type EntryKind = 'clusterIP' | 'nodePort' | 'loadBalancerIP' | 'externalIP';

export interface Entry {
  readonly kind: EntryKind;
  /** Null for a node port, which answers on addresses of the node. */
  readonly address: string | null;
  readonly port: number;
}

/** Port 0 stands for an entry that the rules do not show. */
export function entryText({kind, address, port}: Entry): string {
  if (port === 0) return 'an entry that is not in this text';
  if (address === null) return `node port ${port}`;
  return `${entryNames[kind]} ${address.includes(':') ? `[${address}]` : address}:${port}`;
}

const entryNames: Readonly<Record<EntryKind, string>> = {
  clusterIP: 'cluster IP',
  nodePort: 'node port',
  loadBalancerIP: 'load-balancer IP',
  externalIP: 'external IP',
};
