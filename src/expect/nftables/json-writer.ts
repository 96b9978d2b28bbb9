import type {Endpoint} from '../../model/endpoint.ts';
import type {Family} from '../../model/family.ts';
import type {NftJsonSink} from '../../model/nft-ruleset.ts';
import {mergeAddresses} from '../../parse/nftables/address-list.ts';
import {ipWord, prefixText} from './nft-text.ts';
import type {RuleWriter} from './rule-writer.ts';

/**
 * Writes chains as `nft -j list ruleset` 1.0.6 prints them: of each rule, what follows its handle. A rule of a dump with these bytes is the
 * rule. Another version of nft may print it in another way: then it is read and compared as text, which takes longer.
 *
 * Names and addresses are not escaped: see `isPlainJson`. Texts are passed on in pieces, because building them would take longer than
 * comparing them.
 */
export class JsonWriter implements RuleWriter {
  readonly #sink: NftJsonSink;
  readonly #ip: 'ip' | 'ip6';
  /** Of the rule that is being written. */
  readonly #pieces: string[] = [];
  #count = 0;
  /** What stands before the next statement. */
  #before = '';

  constructor(family: Family, sink: NftJsonSink) {
    this.#sink = sink;
    this.#ip = ipWord(family);
  }

  chain(name: string): void {
    this.#sink.chain(name);
  }

  rule(comment?: string): void {
    this.#count = 0;
    this.#before = comment === undefined ? ', "expr": [' : `, "comment": "${comment}", "expr": [`;
  }

  end(): void {
    this.#pieces[this.#count] = ']}}';
    this.#sink.rule(this.#pieces, this.#count + 1);
  }

  call(kind: 'goto' | 'jump', chain: string): void {
    this.#statement(kind === 'goto' ? goto : jump, chain, '"}}');
  }

  address(field: 'saddr' | 'daddr', value: string): void {
    this.#statement(addressMatches[this.#ip][field], value, '"}}');
  }

  source(network: string, isNegated: boolean): void {
    this.#match(payload(this.#ip, 'saddr'), networkJson(prefixText(network)), isNegated);
  }

  sourceOutside(networks: readonly string[]): void {
    this.#match(payload(this.#ip, 'saddr'), networkList(networks), true);
  }

  link(key: 'iif' | 'iifname', name: string, isNegated: boolean): void {
    this.#match(`{"meta": {"key": "${key}"}}`, JSON.stringify(name), isNegated);
  }

  localSource(): void {
    this.#match('{"fib": {"result": "type", "flags": ["saddr"]}}', '"local"');
  }

  drop(): void {
    this.#statement('{"drop": ', 'null', '}');
  }

  protocol(word: string): void {
    this.#statement(protocolMatch, word, '"}}');
  }

  port(protocol: string, port: number): void {
    this.#match(payload(protocol, 'dport'), String(port));
  }

  setMark(mark: string): void {
    this.#statement(`{"mangle": {"key": ${markKey}, "value": {"|": [${markKey}, `, String(Number(mark)), ']}}}');
  }

  rememberSource(set: string): void {
    this.#statement(`{"set": {"op": "update", "elem": ${payload(this.#ip, 'saddr')}, "set": "@`, set, '"}}');
  }

  dnat({address, port}: Endpoint): void {
    this.#statement('{"dnat": {"addr": "', address, `", "port": ${port}}}`);
  }

  balancedDNAT(endpoints: readonly Endpoint[]): void {
    const map = choice(endpoints.map(({address, port}, index) => `[${index}, {"concat": ["${address}", ${port}]}]`));
    this.#statement(`{"dnat": {"family": "${this.#ip}", "addr": {"map": `, map, '}}}');
  }

  balancedGoto(chains: readonly string[]): void {
    this.#statement('{"vmap": ', choice(chains.map((chain, index) => `[${index}, ${goto}${chain}"}}]`)), '}');
  }

  #match(left: string, right: string, isNegated = false): void {
    this.#statement(`{"match": {"op": "${isNegated ? '!=' : '=='}", "left": ${left}, "right": `, right, '}}');
  }

  #statement(start: string, value: string, end: string): void {
    const pieces = this.#pieces;
    const at = this.#count;
    pieces[at] = this.#before;
    pieces[at + 1] = start;
    pieces[at + 2] = value;
    pieces[at + 3] = end;
    this.#count = at + 4;
    this.#before = ', ';
  }
}

const goto = '{"goto": {"target": "';
const jump = '{"jump": {"target": "';
const markKey = '{"meta": {"key": "mark"}}';

/** The matches of nearly all rules, up to the value. */
const addressMatches = {
  ip: {saddr: textMatch(payload('ip', 'saddr')), daddr: textMatch(payload('ip', 'daddr'))},
  ip6: {saddr: textMatch(payload('ip6', 'saddr')), daddr: textMatch(payload('ip6', 'daddr'))},
};
const protocolMatch = textMatch('{"meta": {"key": "l4proto"}}');

function textMatch(left: string): string {
  return `{"match": {"op": "==", "left": ${left}, "right": "`;
}

function payload(protocol: string, field: string): string {
  return `{"payload": {"protocol": "${protocol}", "field": "${field}"}}`;
}

/** An address, a network or a range. */
function networkJson(text: string): string {
  const slash = text.indexOf('/');
  if (slash >= 0) return `{"prefix": {"addr": "${text.slice(0, slash)}", "len": ${text.slice(slash + 1)}}}`;
  const dash = text.indexOf('-');
  return dash < 0 ? `"${text}"` : `{"range": ["${text.slice(0, dash)}", "${text.slice(dash + 1)}"]}`;
}

function networkList(networks: readonly string[]): string {
  const [only] = networks;
  if (networks.length === 1 && only !== undefined) return networkJson(prefixText(only));
  return `{"set": [${(mergeAddresses(networks) ?? networks).map(networkJson).join(', ')}]}`;
}

function choice(items: readonly string[]): string {
  return `{"key": {"numgen": {"mode": "random", "mod": ${items.length}, "offset": 0}}, "data": {"set": [${items.join(', ')}]}}`;
}
