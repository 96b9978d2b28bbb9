import type {Endpoint} from '../../model/endpoint.ts';
import type {Family} from '../../model/family.ts';
import {addressList, ipWord, linkText, prefixText, sourceText} from './nft-text.ts';
import type {RuleWriter} from './rule-writer.ts';

/** Writes chains as `nft list ruleset` 1.0.6 prints them. */
export class TextWriter implements RuleWriter {
  /** The rules in order, by the name of their chain. */
  readonly chains = new Map<string, string[]>();
  readonly #ip: string;
  #rules: string[] = [];
  #statements: string[] = [];
  #comment: string | undefined;

  constructor(family: Family) {
    this.#ip = ipWord(family);
  }

  chain(name: string): void {
    this.#rules = [];
    this.chains.set(name, this.#rules);
  }

  rule(comment?: string): void {
    this.#statements = [];
    this.#comment = comment;
  }

  end(): void {
    const text = this.#statements.join(' ');
    this.#rules.push(this.#comment === undefined ? text : `${text} comment "${this.#comment}"`);
  }

  call(kind: 'goto' | 'jump', chain: string): void {
    this.#put(`${kind} ${chain}`);
  }

  address(field: 'saddr' | 'daddr', value: string): void {
    this.#put(`${this.#ip} ${field} ${value}`);
  }

  source(network: string, isNegated: boolean): void {
    this.#put(sourceText(this.#ip, network, isNegated));
  }

  sourceOutside(networks: readonly string[]): void {
    this.#put(`${this.#ip} saddr != ${networks.length === 1 ? prefixText(networks[0] ?? '') : addressList(networks)}`);
  }

  link(key: 'iif' | 'iifname', name: string, isNegated: boolean): void {
    this.#put(linkText(key, name, isNegated));
  }

  localSource(): void {
    this.#put('fib saddr type local');
  }

  drop(): void {
    this.#put('drop');
  }

  protocol(word: string): void {
    this.#put(`meta l4proto ${word}`);
  }

  port(protocol: string, port: number): void {
    this.#put(`${protocol} dport ${port}`);
  }

  setMark(mark: string): void {
    this.#put(`meta mark set meta mark | ${mark}`);
  }

  rememberSource(set: string): void {
    this.#put(`update @${set} { ${this.#ip} saddr }`);
  }

  dnat({hostPort}: Endpoint): void {
    this.#put(`dnat to ${hostPort}`);
  }

  balancedDNAT(endpoints: readonly Endpoint[]): void {
    const targets = endpoints.map(({address, port}, index) => `${index} : ${address} . ${port}`);
    this.#put(`dnat ${this.#ip} to ${random(endpoints)} map { ${targets.join(', ')} }`);
  }

  balancedGoto(chains: readonly string[]): void {
    this.#put(`${random(chains)} vmap { ${chains.map((chain, index) => `${index} : goto ${chain}`).join(', ')} }`);
  }

  endpoint(endpoint: Endpoint, {protocol, mark}: {readonly protocol: string; readonly mark: string | null}): void {
    if (mark !== null) {
      this.rule();
      this.address('saddr', endpoint.address);
      this.call('jump', mark);
      this.end();
    }
    this.rule();
    this.protocol(protocol);
    this.dnat(endpoint);
    this.end();
  }

  #put(statement: string): void {
    this.#statements.push(statement);
  }
}

function random({length}: readonly unknown[]): string {
  return `numgen random mod ${length}`;
}
