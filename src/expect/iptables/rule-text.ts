import type {Family, Protocol} from '../../model/address.ts';

/** Receives the rules in the order in which they are written. `rule` is everything after `-A CHAIN `, as iptables-save prints it. */
export type RuleWriter = (table: 'filter' | 'nat' | 'mangle', chain: string, rule: string) => void;

export interface ProtocolText {
  /** `/32` or `/128`. */
  readonly host: string;
  /** `tcp`, `udp` or `sctp`. */
  readonly protocol: string;
}

export function protocolText(family: Family, protocol: Protocol): ProtocolText {
  return {host: family === 'IPv4' ? '/32' : '/128', protocol: protocol.toLowerCase()};
}

export function comment(text: string): string {
  return `-m comment --comment "${text}"`;
}

/** iptables-save always prints a recent match with its mask and side. */
export function recentMask(family: Family): string {
  return family === 'IPv4' ? '255.255.255.255' : 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff';
}

/**
 * The probability `1/n` as the kernel stores it: in units of 2^-31, printed with 11 decimals. kube-proxy writes 10 decimals, up to 1.16 5.
 * Follows `computeProbability`.
 */
export function probability(n: number, decimals: 5 | 10 = 10): string {
  const known = probabilities[decimals];
  let text = known.get(n);
  if (text === undefined) {
    const written = Number((1 / n).toFixed(decimals));
    text = (Math.floor(written * 2 ** 31 + 0.5) / 2 ** 31).toFixed(11);
    known.set(n, text);
  }
  return text;
}

const probabilities = {5: new Map<number, string>(), 10: new Map<number, string>()};

export function reject(family: Family): string {
  return `-j REJECT --reject-with ${family === 'IPv4' ? 'icmp-port-unreachable' : 'icmp6-port-unreachable'}`;
}
