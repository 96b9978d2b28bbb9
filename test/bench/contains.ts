import {BlockList} from 'node:net';

/** Whether an address lies in a range such as "203.0.113.0/24". */
export function contains(range: string, address: string): boolean {
  const [network = '', bits = ''] = range.split('/');
  const type = network.includes(':') ? 'ipv6' : 'ipv4';
  const list = new BlockList();
  list.addSubnet(network, Number(bits), type);
  return list.check(address, type);
}
