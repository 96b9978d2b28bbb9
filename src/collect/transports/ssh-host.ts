import {isIP} from 'node:net';
import {type NodeInfo, Unreachable} from '../node/transport.ts';

export const sshAddressTypes = ['InternalIP', 'ExternalIP', 'Hostname'] as const;
export type SshAddressType = (typeof sshAddressTypes)[number];

/**
 * The host for ssh: the node's address of that type, or its Hostname if it has no InternalIP. Anything but an IP address or a host name is
 * refused.
 */
export function sshHost(node: NodeInfo, type: SshAddressType = 'InternalIP'): string {
  const host = addressOf(node, type) ?? (type === 'ExternalIP' ? undefined : (addressOf(node, 'Hostname') ?? node.name));
  if (host === undefined) {
    const known = node.addresses.map(entry => `${entry.type} ${entry.address}`).join(', ');
    throw new Unreachable(`${node.name} has no ${type} (it has ${known || 'no addresses'}): choose another with --ssh-address`, {
      isPermanent: true,
    });
  }
  // The node's kubelet reports its addresses: they can be trusted no more than the node.
  const isHost = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(host) || (isIP(host) !== 0 && !host.includes('%'));
  if (!isHost)
    throw new Unreachable(
      `the ${type} of ${node.name}, ${JSON.stringify(host)}, is neither an IP address nor a host name: it is not given to ssh`,
      {isPermanent: true},
    );
  return host;
}

function addressOf({addresses}: NodeInfo, type: SshAddressType): string | undefined {
  return addresses.find(entry => entry.type === type)?.address;
}
