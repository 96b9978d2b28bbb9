import type {Family} from '../../model/family.ts';

/** The family of rules, by their addresses; null if they have none. */
export function familyOfRules(text: string): Family | null {
  const [, address] = addresses.exec(text) ?? [];
  if (address !== undefined) return address.includes(':') ? 'IPv6' : 'IPv4';
  if (/--reject-with icmp6-|-p ipv6-icmp|-m icmp6/.test(text)) return 'IPv6';
  return /--reject-with icmp-/.test(text) ? 'IPv4' : null;
}

const addresses =
  /\s(?:-[sd]|--(?:to-destination|to-source|src-range|dst-range))\s+\[?(\d+\.\d+\.\d+\.\d+|[\da-fA-F]{0,4}:[\da-fA-F]{0,4}:[\da-fA-F:]*)/;
