import type {Family} from '../../src/model/address.ts';

/**
 * Text about IPv4 as text about IPv6. `10.244.11.4` becomes `fd00:10:244:11::4`, so that networks contain the same addresses, and reads
 * alike.
 */
export function inFamily(family: Family, text: string): string {
  if (family === 'IPv4') return text;
  return inWords
    .reduce((changed, [from, to]) => changed.replaceAll(from, to), text)
    .replaceAll(
      /(\d+)\.(\d+)\.(\d+)\.(\d+)(\/\d+)?(:\d+)?/g,
      (_, a: string, b: string, c: string, d: string, prefix?: string, port?: string) => {
        const address = `fd00:${a}:${b}:${c}::${d}`;
        if (port !== undefined) return `[${address}]${port}`;
        const bits = Number(prefix?.slice(1));
        return prefix === undefined ? address : `${address}/${bits <= 24 ? 16 + bits * 2 : 96 + bits}`;
      },
    );
}

/** Longer words come before those that they contain. */
const inWords: readonly (readonly [RegExp, string])[] = [
  [/127\.0\.0\.(?:0\/8|1)/g, '::1'],
  [/224\.0\.0\.0\/4/g, 'ff00::/8'],
  [/169\.254\.1\.1\b/g, 'fe80::1'],
  [/icmp-(?:host|net)-prohibited/g, 'icmp6-adm-prohibited'],
  [/icmp-port-unreachable/g, 'icmp6-port-unreachable'],
  [/-p icmp -m icmp --icmp-type 8/g, '-p ipv6-icmp -m icmp6 --icmpv6-type 128'],
  [/-j TTL --ttl-set/g, '-j HL --hl-set'],
  [/\bip ttl\b/g, 'ip6 hoplimit'],
  [/\bip (saddr|daddr|to)\b/g, 'ip6 $1'],
  [/\b(table|rule) ip /g, '$1 ip6 '],
  [/ipv4_addr/g, 'ipv6_addr'],
  [/\b(hash:\S+)/g, '$1 family inet6'],
  [/\bip (route|rule) /g, 'ip -6 $1 '],
  [/net\.ipv4\.ip_forward/g, 'net.ipv6.conf.all.forwarding'],
  [/net\.ipv4\.conf/g, 'net.ipv6.conf'],
];
