import {canonicalAddress} from '../../model/address.ts';
import {parseNodeAddresses} from '../node-addresses.ts';

export const ipvsDevice = 'kube-ipvs0';

/**
 * The addresses of kube-ipvs0 in the output of `ip -j addr`, without link-local ones; null if it is not a list of interfaces or has no such
 * device.
 */
export function parseIpvsDevice(text: string): readonly string[] | null {
  const device = parseNodeAddresses(text)?.find(({name}) => name === ipvsDevice);
  if (device === undefined) return null;
  return device.addresses.map(address => canonicalAddress(address) ?? address).filter(address => !address.startsWith('fe80:'));
}
