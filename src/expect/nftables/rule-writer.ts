import type {Endpoint} from '../../model/endpoint.ts';

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
