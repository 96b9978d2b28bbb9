import ipaddr from 'ipaddr.js';

/** The client that limits apply to: an IPv4 address or an IPv6 /64, in which one machine can use any address. */
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
