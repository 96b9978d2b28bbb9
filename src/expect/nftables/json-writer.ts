import {heldIn} from '../../model/once.ts';
import {detached} from '../../parse/lines.ts';
import type {Family} from '../../model/address.ts';
import type {Endpoint} from '../../model/endpoint.ts';
import type {NftJsonSink} from '../../model/nft-ruleset.ts';
import {mergeAddresses} from '../../parse/nftables/address-list.ts';
import {ipWord, prefixText} from './base-chains.ts';

/**
 * Takes the chains of a Service port part by part, and writes them as `nft -j list ruleset` 1.0.6 prints them: of each rule, what follows its
 * handle. A rule of a dump with these bytes is the rule. Another version of nft may print it in another way: then it is read and compared as
 * text, which takes longer.
 *
 * Addresses are those of the family of the table. Names are only escaped where they have to be: see `isPlainJson`. Texts are passed on in
 * pieces, because building them would take longer than comparing them.
 */
export class JsonWriter {
  readonly #sink: NftJsonSink;
  readonly #ip: 'ip' | 'ip6';
  readonly #escapesNames: boolean;
  /** Of the rule that is being written. */
  readonly #pieces: string[] = [];
  #count = 0;
  /** What stands before the next statement. */
  #before = '';

  constructor(family: Family, sink: NftJsonSink, escapesNames = false) {
    this.#sink = sink;
    this.#escapesNames = escapesNames;
    this.#ip = ipWord(family);
  }

  /** The rules that follow are those of this chain. */
  chain(name: string): void {
    this.#sink.chain(name);
  }

  /** Begins a rule; its statements follow, then `end`. */
  rule(comment?: string): void {
    this.#count = 0;
    this.#before = comment === undefined ? ', "expr": [' : `, "comment": "${comment}", "expr": [`;
  }

  end(): void {
    this.#pieces[this.#count] = ']}}';
    this.#sink.rule(this.#pieces, this.#count + 1);
  }

  call(kind: 'goto' | 'jump', chain: string): void {
    this.#statement(kind === 'goto' ? goto : jump, this.#named(chain), '"}}');
  }

  /** `ip saddr VALUE`: an address, or `@` and the name of a set. */
  address(field: 'saddr' | 'daddr', value: string): void {
    this.#statement(addressMatches[this.#ip][field], this.#named(value), '"}}');
  }

  /** `ip saddr 10.244.0.0/16`, or with `!=`. */
  source(network: string, isNegated: boolean): void {
    this.#match(source[this.#ip], sourceNetwork(network), isNegated);
  }

  /** `ip saddr != { … }`, for a source in none of these networks. */
  sourceOutside(networks: readonly string[]): void {
    this.#match(source[this.#ip], networkList(networks), true);
  }

  /** `iifname "NAME"`; a star at the end stands for any name that begins so. */
  link(key: 'iif' | 'iifname', name: string, isNegated: boolean): void {
    this.#match(`{"meta": {"key": "${key}"}}`, JSON.stringify(name), isNegated);
  }

  /** `fib saddr type local`: from the node itself. */
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

  /** `meta mark set meta mark | MARK`. */
  setMark(mark: string): void {
    this.#statement(`{"mangle": {"key": ${markKey}, "value": {"|": [${markKey}, `, String(Number(mark)), ']}}}');
  }

  /** `update @SET { ip saddr }`. */
  rememberSource(set: string): void {
    this.#statement(`{"set": {"op": "update", "elem": ${payload(this.#ip, 'saddr')}, "set": "@`, this.#named(set), '"}}');
  }

  dnat({address, port}: Endpoint): void {
    this.#statement('{"dnat": {"addr": "', address, `", "port": ${port}}}`);
  }

  balancedDNAT(endpoints: readonly Endpoint[]): void {
    this.#put(this.#before);
    this.#put(balancedTranslation[this.#ip]);
    this.#choose(endpoints.length);
    endpoints.forEach(({address, port}, index) => {
      this.#put(item(index));
      this.#put('{"concat": ["');
      this.#put(address);
      this.#put('", ');
      this.#put(String(port));
      this.#put(']}]');
    });
    this.#put(']}}}}}');
    this.#before = ', ';
  }

  balancedGoto(chains: readonly string[]): void {
    this.#put(this.#before);
    this.#put('{"vmap": ');
    this.#choose(chains.length);
    chains.forEach((chain, index) => {
      this.#put(item(index));
      this.#put(goto);
      this.#put(this.#named(chain));
      this.#put('"}}]');
    });
    this.#put(']}}}');
    this.#before = ', ';
  }

  /**
   * The rules of the chain of an endpoint, whole: nearly all rules of a large node. `mark` is null if another rule marks its own packets. In
   * few pieces, which takes half of the time.
   */
  endpoint({address, port}: Endpoint, {protocol, mark}: {readonly protocol: string; readonly mark: string | null}): void {
    const pieces = this.#pieces;
    if (mark !== null) {
      pieces[0] = ownSource[this.#ip];
      pieces[1] = address;
      pieces[2] = jumpAfterAddress(mark);
      this.#sink.rule(pieces, 3);
    }
    pieces[0] = translation(protocol);
    pieces[1] = address;
    pieces[2] = '", "port": ';
    pieces[3] = String(port);
    pieces[4] = '}}]}}';
    this.#sink.rule(pieces, 5);
  }

  /** A random one of so many items, which follow. */
  #choose(count: number): void {
    this.#put('{"key": {"numgen": {"mode": "random", "mod": ');
    this.#put(String(count));
    this.#put(', "offset": 0}}, "data": {"set": [');
  }

  #match(left: string, right: string, isNegated = false): void {
    this.#put(this.#before);
    this.#put(isNegated ? '{"match": {"op": "!=", "left": ' : '{"match": {"op": "==", "left": ');
    this.#put(left);
    this.#put(', "right": ');
    this.#put(right);
    this.#put('}}');
    this.#before = ', ';
  }

  #statement(start: string, value: string, end: string): void {
    this.#put(this.#before);
    this.#put(start);
    this.#put(value);
    this.#put(end);
    this.#before = ', ';
  }

  #named(name: string): string {
    return this.#escapesNames ? JSON.stringify(name).slice(1, -1) : name;
  }

  #put(piece: string): void {
    this.#pieces[this.#count++] = piece;
  }
}

const goto = '{"goto": {"target": "';
const jump = '{"jump": {"target": "';
const markKey = '{"meta": {"key": "mark"}}';

const balancedTranslation = {ip: '{"dnat": {"family": "ip", "addr": {"map": ', ip6: '{"dnat": {"family": "ip6", "addr": {"map": '};

/** Of the sender. */
const source = {ip: payload('ip', 'saddr'), ip6: payload('ip6', 'saddr')};

/** The matches of nearly all rules, up to the value. */
const addressMatches = {
  ip: {saddr: textMatch(payload('ip', 'saddr')), daddr: textMatch(payload('ip', 'daddr'))},
  ip6: {saddr: textMatch(payload('ip6', 'saddr')), daddr: textMatch(payload('ip6', 'daddr'))},
};
const protocolMatch = textMatch('{"meta": {"key": "l4proto"}}');

/** The parts of the rules of an endpoint. */
const ownSource = {ip: detached(`, "expr": [${addressMatches.ip.saddr}`), ip6: detached(`, "expr": [${addressMatches.ip6.saddr}`)};
const jumpAfterAddress = remembered(mark => `"}}, ${jump}${mark}"}}]}}`);
const translation = remembered(protocol => `, "expr": [${protocolMatch}${protocol}"}}, {"dnat": {"addr": "`);

function textMatch(left: string): string {
  return `{"match": {"op": "==", "left": ${left}, "right": "`;
}

function payload(protocol: string, field: string): string {
  return `{"payload": {"protocol": "${protocol}", "field": "${field}"}}`;
}

/** The rules of one table name nearly always the same network. */
let lastNetwork = {network: '', json: ''};

function sourceNetwork(network: string): string {
  if (lastNetwork.network !== network) lastNetwork = {network, json: networkJson(prefixText(network))};
  return lastNetwork.json;
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

/** How an item in a list of choices begins: `, [1, `. */
function item(index: number): string {
  for (let next = items.length; next <= index; next++) items.push(`${next === 0 ? '' : ', '}[${next}, `);
  return items[index] ?? '';
}

const items: string[] = [];

/** A function that makes each text once. */
function remembered(make: (word: string) => string): (word: string) => string {
  const made = new Map<string, string>();
  return word => heldIn(made, word, () => detached(make(word)));
}
