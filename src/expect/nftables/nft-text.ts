import type {Family} from '../../model/family.ts';
import {mergeAddresses} from '../../parse/nftables/address-list.ts';
import type {LocalDetector, NodeContext} from '../node-context.ts';
import {matchesInterfaceName} from './nft-versions.ts';

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

/** The match for traffic of this node's pods, or for all other traffic; null if kube-proxy cannot detect pods. */
export function detects({family, detector, version}: NodeContext, local: boolean): string | null {
  const not = local ? '' : '!= ';
  const link = matchesInterfaceName(version) ? 'iifname' : 'iif';
  return matchOf(detector, {not, link, word: ipWord(family)});
}

function matchOf(
  detector: LocalDetector,
  {not, link, word}: {readonly not: string; readonly link: string; readonly word: string},
): string | null {
  switch (detector.kind) {
    case 'cidr':
      return `${word} saddr ${not}${prefixText(detector.cidr)}`;
    case 'bridge':
      return `${link} ${not}"${detector.name}"`;
    case 'prefix':
      return `${link} ${not}"${detector.name}*"`;
    case 'none':
      return null;
  }
}

/** A network, without the prefix if it is a single host. */
export function prefixText(cidr: string): string {
  return cidr.replace(/^([^:]*)\/32$/, '$1').replace(/\/128$/, '');
}

/** A list of networks as nft lists it: sorted, overlapping and adjacent ones merged; braces unless one was written. */
export function addressList(networks: readonly string[]): string {
  const texts = mergeAddresses(networks) ?? networks;
  return networks.length === 1 ? (texts[0] ?? '') : `{ ${texts.join(', ')} }`;
}
