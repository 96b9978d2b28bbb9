import type {Endpoint} from '../../model/endpoint.ts';
import type {Family} from '../../model/family.ts';
import {addressList, ipWord, prefixText} from './nft-text.ts';

/**
 * The parts of the rules of Services, as one form of nft's output prints them: `textSpelling` or `jsonSpelling`. Addresses are those of
 * the family of the table.
 */
export interface RuleSpelling {
  /** A whole rule, from its statements (`and`). */
  rule(statements: string, comment?: string): string;
  and(first: string, second: string): string;
  call(kind: 'goto' | 'jump', chain: string): string;
  /** `ip saddr VALUE`: an address, or `@` and the name of a set. */
  address(field: 'saddr' | 'daddr', value: string): string;
  /** `ip saddr 10.244.0.0/16`, or with `!=`. */
  source(network: string, isNegated: boolean): string;
  /** `ip saddr != { … }`, for a source in none of these networks. */
  sourceOutside(networks: readonly string[]): string;
  /** `iifname "NAME"`; a star at the end stands for any name that begins so. */
  link(key: 'iif' | 'iifname', name: string, isNegated: boolean): string;
  /** `fib saddr type local`: from the node itself. */
  readonly localSource: string;
  readonly drop: string;
  protocol(word: string): string;
  port(protocol: string, port: number): string;
  /** `meta mark set meta mark | MARK`, with the mark in eight hexadecimal digits. */
  setMark(mark: string): string;
  /** `update @SET { ip saddr }`. */
  rememberSource(set: string): string;
  dnat(endpoint: Endpoint): string;
  balancedDNAT(endpoints: readonly Endpoint[]): string;
  balancedGoto(chains: readonly string[]): string;
}

/** Rules as `nft list ruleset` 1.0.6 prints them. */
export function textSpelling(family: Family): RuleSpelling {
  const ip = ipWord(family);
  const random = ({length}: readonly unknown[]): string => `numgen random mod ${length}`;
  return {
    rule: (statements, comment) => (comment === undefined ? statements : `${statements} comment "${comment}"`),
    and: (first, second) => `${first} ${second}`,
    call: (kind, chain) => `${kind} ${chain}`,
    address: (field, value) => `${ip} ${field} ${value}`,
    source: (network, isNegated) => `${ip} saddr ${isNegated ? '!= ' : ''}${prefixText(network)}`,
    sourceOutside: networks => `${ip} saddr != ${networks.length === 1 ? prefixText(networks[0] ?? '') : addressList(networks)}`,
    link: (key, name, isNegated) => `${key} ${isNegated ? '!= ' : ''}"${name}"`,
    localSource: 'fib saddr type local',
    drop: 'drop',
    protocol: word => `meta l4proto ${word}`,
    port: (protocol, port) => `${protocol} dport ${port}`,
    setMark: mark => `meta mark set meta mark | ${mark}`,
    rememberSource: set => `update @${set} { ${ip} saddr }`,
    dnat: ({hostPort}) => `dnat to ${hostPort}`,
    balancedDNAT: endpoints =>
      `dnat ${ip} to ${random(endpoints)} map { ${endpoints.map(({address, port}, index) => `${index} : ${address} . ${port}`).join(', ')} }`,
    balancedGoto: chains => `${random(chains)} vmap { ${chains.map((chain, index) => `${index} : goto ${chain}`).join(', ')} }`,
  };
}
