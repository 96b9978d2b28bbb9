import ipaddr from 'ipaddr.js';

/** Who counts as one client: an IPv4 address, or an IPv6 network of 64 bits, in which one machine can have any number of addresses. */
export function clientName(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return '';
  const parsed = ipaddr.process(address);
  return parsed.kind() === 'ipv4'
    ? parsed.toString()
    : (parsed as ipaddr.IPv6).parts
        .slice(0, 4)
        .map(part => part.toString(16))
        .join(':');
}
