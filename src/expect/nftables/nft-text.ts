import type {Family} from '../../model/address.ts';
import {mergeAddresses} from '../../parse/nftables/address-list.ts';
import type {NodeContext} from '../node-context.ts';

/** Parts of rules in the spelling of `nft list ruleset`. */

/** `ip` or `ip6`. */
export function ipWord(family: Family): 'ip' | 'ip6' {
  return family === 'IPv4' ? 'ip' : 'ip6';
}

export function nftComment(text: string): string {
  return ` comment "${text}"`;
}

export function setMarkStatement({mark}: NodeContext): string {
  return `meta mark set meta mark | ${mark}`;
}

/** A network, without the prefix if it is a single host. */
export function prefixText(cidr: string): string {
  return cidr.replace(/^([^:]*)\/32$/, '$1').replace(/\/128$/, '');
}

/** `ip saddr 10.244.0.0/16`, or with `!=`. */
export function nftSourceText(ip: string, network: string, isNegated: boolean): string {
  return `${ip} saddr ${isNegated ? '!= ' : ''}${prefixText(network)}`;
}

/** `iifname "NAME"`, or with `!=`. */
export function linkText(key: 'iif' | 'iifname', name: string, isNegated: boolean): string {
  return `${key} ${isNegated ? '!= ' : ''}"${name}"`;
}

/** A list of networks as nft lists it: sorted, overlapping and adjacent ones merged; braces unless one was written. */
export function addressList(networks: readonly string[]): string {
  const texts = mergeAddresses(networks) ?? networks;
  return networks.length === 1 ? (texts[0] ?? '') : `{ ${texts.join(', ')} }`;
}
