import type {NftExpression} from '../../model/nft-statement.ts';
import {parseNftElements} from './nft-elements.ts';
import type {TokenReader} from './nft-token-reader.ts';
import {unquoted} from './nft-tokens.ts';

type BinaryOperator = '&' | '|' | '^' | '<<' | '>>';

/** Operand, concatenation, arithmetic (from left to right, as nft prints it) and `map`. Null if there is no such expression. */
export function readExpression(reader: TokenReader): NftExpression | null {
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

function isBinary(word: string): word is BinaryOperator {
  return word === '&' || word === '|' || word === '^' || word === '<<' || word === '>>';
}

function readConcat(reader: TokenReader): NftExpression | null {
  const first = readOperand(reader);
  if (first === null || reader.peek() !== '.') return first;
  const parts = [first];
  while (reader.take('.')) parts.push(readOperand(reader) ?? {kind: 'unknown', text: reader.peek()});
  return {kind: 'concat', parts};
}

/** One value, selector, `@set`, or list in braces. */
export function readOperand(reader: TokenReader): NftExpression | null {
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
export function isValueAhead(reader: TokenReader): boolean {
  return !/^(?:|[},:]|accept|drop|return|continue|jump|goto|counter|log|vmap|map|set)$/.test(reader.peek());
}

/** How many words from here are a selector of the packet; 0 if none is. */
function selectorLength(reader: TokenReader): number {
  const [first, second] = [reader.peek(), reader.peek(1)];
  if (/^[io]if(?:name|group)?$/.test(first)) return 1;
  if (first === 'meta' || (headers.has(first) && isField(second))) return 2;
  if (first === 'ct') return conntrackLength(reader);
  if (first === 'fib') return untilWord(reader, fibResults);
  if (first === 'numgen') return reader.peek(4) === 'offset' ? 6 : 4;
  if (first === 'symhash') return reader.peek(3) === 'offset' ? 5 : 3;
  if (first === 'jhash') return hashLength(reader);
  return 0;
}

const headers = new Set([
  'ip',
  'ip6',
  'tcp',
  'udp',
  'udplite',
  'sctp',
  'dccp',
  'th',
  'icmp',
  'icmpv6',
  'ether',
  'arp',
  'vlan',
  'ah',
  'esp',
]);
const fibResults = /^(?:type|oif|oifname|check)$/;

/** `tcp` may also be a value, as in `meta l4proto tcp drop`. */
function isField(word: string): boolean {
  return fields.has(word);
}

const fields = new Set(
  [
    'saddr daddr protocol version hdrlength dscp ecn length id frag-off ttl checksum nexthdr flowlabel hoplimit',
    'sport dport sequence ackseq doff flags window urgptr vtag csumcov type code mtu gateway spi operation',
  ].flatMap(line => line.split(' ')),
);

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
