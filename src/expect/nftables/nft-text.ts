import type {Family} from '../../model/address.ts';
import type {Endpoint} from '../../model/endpoint.ts';
import {mergeAddresses} from '../../parse/nftables/address-list.ts';
import type {NodeContext} from '../node-context.ts';

/**
 * Takes the chains of Services part by part, and writes them as one form of nft's output prints them: `TextWriter` or `JsonWriter`.
 * Addresses are those of the family of the table.
 */
export interface RuleWriter {
  /** The rules that follow are those of this chain. */
  chain(name: string): void;
  /** Begins a rule; its statements follow, then `end`. */
  rule(comment?: string): void;
  end(): void;
  call(kind: 'goto' | 'jump', chain: string): void;
  /** `ip saddr VALUE`: an address, or `@` and the name of a set. */
  address(field: 'saddr' | 'daddr', value: string): void;
  /** `ip saddr 10.244.0.0/16`, or with `!=`. */
  source(network: string, isNegated: boolean): void;
  /** `ip saddr != { … }`, for a source in none of these networks. */
  sourceOutside(networks: readonly string[]): void;
  /** `iifname "NAME"`; a star at the end stands for any name that begins so. */
  link(key: 'iif' | 'iifname', name: string, isNegated: boolean): void;
  /** `fib saddr type local`: from the node itself. */
  localSource(): void;
  drop(): void;
  protocol(word: string): void;
  port(protocol: string, port: number): void;
  /** `meta mark set meta mark | MARK`, with the mark in eight hexadecimal digits. */
  setMark(mark: string): void;
  /** `update @SET { ip saddr }`. */
  rememberSource(set: string): void;
  dnat(endpoint: Endpoint): void;
  balancedDNAT(endpoints: readonly Endpoint[]): void;
  balancedGoto(chains: readonly string[]): void;
  /** The rules of the chain of an endpoint, whole: nearly all rules of a large node. `mark` is null if another rule marks its own packets. */
  endpoint(endpoint: Endpoint, rules: {readonly protocol: string; readonly mark: string | null}): void;
}

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
