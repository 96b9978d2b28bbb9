import {byWord} from '../../model/lists.ts';
import type {NftExpression, NftNat, NftOperator, NftStatement} from '../../model/nft-ruleset.ts';
import {parseNftElements} from './nft-elements.ts';
import {isBinary} from './nft-json-expression.ts';

/** Reads the body of a rule in canonical text. Text that is not understood becomes an unknown statement. */
export function parseNftStatements(body: string): readonly NftStatement[] {
  const reader = new TokenReader(body);
  const statements: NftStatement[] = [];
  while (!reader.atEnd) statements.push(...readStatement(reader));
  return statements;
}

function isPlainVerdict(word: string): boolean {
  return word === 'accept' || word === 'drop' || word === 'return' || word === 'continue';
}

function readStatement(reader: TokenReader): readonly NftStatement[] {
  const word = reader.peek();
  if (isPlainVerdict(word)) return [{kind: 'verdict', text: reader.next()}];
  if (word === 'tcp' && reader.peek(1) === 'option') return [readTcpOption(reader)];
  const read = Object.hasOwn(readers, word) ? readers[word] : undefined;
  return [read === undefined ? (readCondition(reader) ?? readUnknown(reader)) : read(reader)];
}

type StatementReader = (reader: TokenReader) => NftStatement;

const headers = new Set('ip ip6 tcp udp udplite sctp dccp th icmp icmpv6 ether arp vlan ah esp rt frag hbh dst mh'.split(' '));
const fibResults = /^(?:type|oif|oifname|check)$/;

const fields = new Set(
  [
    'saddr daddr protocol version hdrlength dscp ecn length id frag-off ttl checksum nexthdr flowlabel hoplimit',
    'sport dport sequence ackseq doff flags window urgptr vtag csumcov type code mtu gateway spi operation seg-left more-fragments',
  ].flatMap(line => line.split(' ')),
);

const readers = byWord<StatementReader>(
  ['jump goto', reader => ({kind: 'verdict', text: `${reader.next()} ${reader.next()}`})],
  ['reject', readReject],
  ['notrack', readNotrack],
  ['dnat snat masquerade redirect', readNat],
  ['add update delete', readSetStatement],
  ['counter log flow dup last reset', readPassive],
  ['limit quota queue tproxy synproxy fwd', readUnknown],
  ['xt', readExtension],
);

function readNotrack(reader: TokenReader): NftStatement {
  reader.next();
  return {kind: 'notrack'};
}

/** `reject with icmp host-unreachable`, `reject with tcp reset`. */
function readReject(reader: TokenReader): NftStatement {
  reader.next();
  if (reader.take('with')) {
    reader.next();
    reader.take('type');
    reader.next();
  }
  return {kind: 'reject'};
}

/** `dnat [ip] to ADDRESS[:PORT] [flags]`, `redirect to :PORT`, `masquerade [to :PORT] [flags]`. */
function readNat(reader: TokenReader): NftStatement {
  const action = reader.next() as NftNat;
  const start = reader.at - 1;
  for (const word of ['ip', 'ip6', 'prefix', 'interval']) reader.take(word);
  const target = reader.take('to') ? readNatTarget(reader) : {to: null, port: null};
  let isRandom = false;
  while (natFlag.test(reader.peek())) isRandom = reader.next().includes('random') || isRandom;
  return target === null ? readUnknown(reader, start) : {kind: 'nat', action, ...target, isRandom};
}

const natFlag = /^(?:(?:random|fully-random|persistent)(?:,|$))+/;

function readNatTarget(reader: TokenReader): {readonly to: NftExpression | null; readonly port: NftExpression | null} | null {
  const literal = /^(?:\[([^\]]+)\]|([\d.]+(?:-[\d.]+)?|[0-9a-f]*(?::[0-9a-f]*){2,}(?:-[0-9a-f:]+)?))?(?::(\d+(?:-\d+)?))?$/i.exec(
    reader.peek(),
  );
  if (literal !== null && reader.peek() !== '') {
    reader.next();
    return {to: constant(literal[1] ?? literal[2]), port: constant(literal[3])};
  }
  if (reader.take(':')) return {to: null, port: readExpression(reader)};
  const to = readExpression(reader);
  if (to === null) return null;
  const port = /^:(\d+(?:-\d+)?)$/.exec(reader.peek());
  if (port !== null) reader.next();
  return {to, port: constant(port?.[1])};
}

function constant(text: string | undefined): NftExpression | null {
  return text === undefined ? null : {kind: 'value', text};
}

/** `update @set { KEY [timeout T] }`; an update of a map also has a value. */
function readSetStatement(reader: TokenReader): NftStatement {
  const start = reader.at;
  reader.next();
  if (!reader.next().startsWith('@') || reader.peek() !== '{') return readUnknown(reader, start);
  const text = reader.braces();
  const inside = new TokenReader(text);
  const key = readExpression(inside);
  const isUnderstood = key !== null && (inside.atEnd || ['timeout', 'expires', 'comment', 'counter', 'last', ':'].includes(inside.peek()));
  // A limit inside the braces is a condition.
  if (!isUnderstood || / (?:limit|quota|ct count) /.test(text)) return readUnknown(reader, start);
  return {kind: 'set'};
}

function readPassive(reader: TokenReader): NftStatement {
  reader.next();
  skipArguments(reader);
  return {kind: 'passive'};
}

/** Reads up to the next word that starts a known statement. */
function readUnknown(reader: TokenReader, start: number = reader.at): NftStatement {
  if (reader.at === start) reader.next();
  skipArguments(reader);
  return {kind: 'unknown', text: reader.text(start)};
}

/** `xt match "comment"` is written by iptables-nft: a comment is no condition. For all other matches JSON shows only the name. */
function readExtension(reader: TokenReader): NftStatement {
  return reader.peek(1) === 'match' && reader.peek(2) === '"comment"' ? readPassive(reader) : readUnknown(reader);
}

/** `tcp option maxseg size set rt mtu` does not change a packet's path; the result of a comparison with an option is unknown. */
function readTcpOption(reader: TokenReader): NftStatement {
  const start = reader.at;
  reader.next();
  skipArguments(reader);
  const text = reader.text(start);
  return {kind: / set /.test(text) ? 'passive' : 'unknown', text};
}

function skipArguments(reader: TokenReader): void {
  while (!reader.atEnd && !startsStatement(reader)) {
    if (reader.peek() === '{') reader.braces();
    else reader.next();
  }
}

/** Only selectors of two words are distinguished from an argument, as in `log level info` or `socket mark 1`. */
function startsStatement(reader: TokenReader): boolean {
  const word = reader.peek();
  return (
    isPlainVerdict(word) ||
    (Object.hasOwn(readers, word) && word !== 'last') ||
    /^(?:ip6?|tcp|udp|meta|ct|th|[io]ifname|[io]if|fib)$/.test(word)
  );
}

const operators: Readonly<Record<string, NftOperator>> = {'==': '==', '!=': '!=', '<': '<', '>': '>', '<=': '<=', '>=': '>='};

/** A statement that starts with a selector: a comparison, `vmap`, or `set`. */
function readCondition(reader: TokenReader): NftStatement | null {
  const start = reader.at;
  const left = readExpression(reader);
  if (left === null || left.kind === 'value') return back(reader, start);
  if (reader.take('vmap')) {
    const map = readOperand(reader);
    return map === null ? back(reader, start) : {kind: 'vmap', key: left, map};
  }
  if (left.kind === 'selector' && reader.take('set')) {
    const value = readExpression(reader);
    return value === null ? back(reader, start) : {kind: 'assign', target: left.text, value};
  }
  if (reader.take('!')) return noneOf(left, readOperand(reader));
  const operator = operators[reader.peek()];
  if (operator !== undefined) reader.next();
  if (!isValueAhead(reader)) return back(reader, start);
  const right = readExpression(reader);
  if (right === null) return back(reader, start);
  // `tcp flags syn / fin,syn,rst,ack`: only the flags after the slash are compared.
  const mask = reader.take('/') ? readOperand(reader) : null;
  const masked: NftExpression = mask === null ? left : {kind: 'binary', operator: '&', left, right: mask};
  return {kind: 'match', left: masked, operator: operator ?? '==', right};
}

/** `ct status ! dnat,snat`, as newer versions print a mask of flags of which none is set. */
function noneOf(left: NftExpression, flags: NftExpression | null): NftStatement {
  if (flags === null) return {kind: 'unknown', text: '!'};
  const masked: NftExpression = {kind: 'binary', operator: '&', left, right: flags};
  return {kind: 'match', left: masked, operator: '==', right: {kind: 'value', text: '0'}};
}

function back(reader: TokenReader, start: number): null {
  reader.at = start;
  return null;
}

/** Operand, concatenation, arithmetic (from left to right, as nft prints it) and `map`. Null if there is no such expression. */
function readExpression(reader: TokenReader): NftExpression | null {
  let left = readConcat(reader);
  if (left === null) return null;
  for (let operator = reader.peek(); isBinary(operator); operator = reader.peek()) {
    reader.next();
    const right = readConcat(reader);
    if (right === null) return {kind: 'unknown', text: operator};
    left = {kind: 'binary', operator, left, right};
  }
  if (!reader.take('map')) return left;
  const map = readOperand(reader);
  return map === null ? {kind: 'unknown', text: 'map'} : {kind: 'map', key: left, map};
}

function readConcat(reader: TokenReader): NftExpression | null {
  const first = readOperand(reader);
  if (first === null || reader.peek() !== '.') return first;
  const parts = [first];
  while (reader.take('.')) parts.push(readOperand(reader) ?? {kind: 'unknown', text: reader.peek()});
  return {kind: 'concat', parts};
}

/** One value, selector, `@set`, or list in braces. */
function readOperand(reader: TokenReader): NftExpression | null {
  const word = reader.peek();
  if (word === '') return null;
  if (word === '{') return {kind: 'list', elements: parseNftElements(reader.braces())};
  const words = selectorLength(reader);
  if (words > 0) {
    const start = reader.at;
    reader.at += words;
    return {kind: 'selector', text: reader.text(start)};
  }
  if (/^@[a-z]+,\d+,\d+$/.test(word)) return {kind: 'selector', text: reader.next()};
  if (word.startsWith('@')) return {kind: 'reference', set: reader.next().slice(1)};
  return isValueAhead(reader) ? {kind: 'value', text: unquoted(reader.next())} : null;
}

/** Any possible constant; the first word of a statement is not one. */
function isValueAhead(reader: TokenReader): boolean {
  return !/^(?:|[},:]|accept|drop|return|continue|jump|goto|counter|log|vmap|map|set)$/.test(reader.peek());
}

/** How many words from here are a selector of the packet; 0 if none is. */
function selectorLength(reader: TokenReader): number {
  const [first, second] = [reader.peek(), reader.peek(1)];
  if (/^[io]if(?:name|group)?$/.test(first)) return 1;
  // `tcp` may also be a value, as in `meta l4proto tcp drop`.
  if (first === 'meta' || first === 'exthdr' || (headers.has(first) && fields.has(second))) return 2;
  if (first === 'ct') return conntrackLength(reader);
  if (first === 'fib') return untilWord(reader, fibResults);
  if (first === 'rt') return untilWord(reader, /^(?:nexthop|classid|mtu|ipsec)$/);
  if (first === 'numgen') return reader.peek(4) === 'offset' ? 6 : 4;
  if (first === 'symhash') return reader.peek(3) === 'offset' ? 5 : 3;
  if (first === 'jhash') return hashLength(reader);
  return 0;
}

/** `ct state`, `ct original ip saddr`, `ct reply zone`. */
function conntrackLength(reader: TokenReader): number {
  const directed = /^(?:original|reply)$/.test(reader.peek(1));
  if (!directed) return 2;
  return /^ip6?$/.test(reader.peek(2)) ? 4 : 3;
}

/** `jhash ip saddr . tcp sport mod 3 seed 0x1 offset 2`. */
function hashLength(reader: TokenReader): number {
  let length = untilWord(reader, /^mod$/) + 1;
  while (/^(?:seed|offset)$/.test(reader.peek(length))) length += 2;
  return length;
}

function untilWord(reader: TokenReader, last: RegExp): number {
  for (let ahead = 1; reader.peek(ahead) !== ''; ahead++) if (last.test(reader.peek(ahead))) return ahead + 1;
  return 0;
}

const token = /"[^"]*"?|[{},]|[^\s"{},]+(?:,[^\s"{},]+)*/g;

/**
 * The words of a rule or an element. Quoted text is one word with its quotes (nft has no escapes), and braces and commas are words, but a
 * list of flags such as `new,established` is one word.
 */
export function nftTokens(text: string): readonly string[] {
  return text.match(token) ?? [];
}

/** The words with nft's spacing. */
export function joinNftTokens(tokens: readonly string[]): string {
  return tokens.join(' ').replaceAll(' ,', ',');
}

/** The position of the brace that closes the one at `open`, or the end if it is not closed. */
export function closingBrace(tokens: readonly string[], open: number): number {
  let depth = 0;
  for (let at = open; at < tokens.length; at++) {
    if (tokens[at] === '{') depth++;
    else if (tokens[at] === '}' && --depth === 0) return at;
  }
  return tokens.length;
}

function unquoted(text: string): string {
  return text.startsWith('"') ? text.slice(1, text.endsWith('"') && text.length > 1 ? -1 : undefined) : text;
}

/** Iterates over the words of a rule. After the end there are only empty words. */
class TokenReader {
  at = 0;
  readonly #tokens: readonly string[];

  constructor(text: string) {
    this.#tokens = nftTokens(text);
  }

  get atEnd(): boolean {
    return this.at >= this.#tokens.length;
  }

  peek(ahead = 0): string {
    return this.#tokens[this.at + ahead] ?? '';
  }

  next(): string {
    return this.#tokens[this.at++] ?? '';
  }

  /** Skips the word if it is the next one. */
  take(word: string): boolean {
    if (this.peek() !== word) return false;
    this.at++;
    return true;
  }

  /** Returns the words between the braces that open here, and skips them. */
  braces(): string {
    const close = closingBrace(this.#tokens, this.at);
    const inside = joinNftTokens(this.#tokens.slice(this.at + 1, close));
    this.at = close + 1;
    return inside;
  }

  /** All words from `start` to here. */
  text(start: number): string {
    return joinNftTokens(this.#tokens.slice(start, this.at));
  }
}
