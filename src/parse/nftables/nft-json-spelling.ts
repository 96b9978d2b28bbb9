/**
 * The part of a rule after its handle as `nft -j` prints it, from the rule's canonical text. Null for all but the commonest rules of
 * Services: most rules of a large node are found right by comparing these bytes, and are never rendered. What it returns renders back to
 * the text (`jsonRuleText`), so equal bytes are equal rules; another version of nft that spells them otherwise only costs time.
 */
export function jsonSpelling(text: string): string | null {
  // Comments and names of interfaces are in quotes.
  if (!isPlain.test(text)) return null;
  const words = new Words(text.split(' '));
  const statements: string[] = [];
  do {
    const statement = statementOf(words);
    if (statement === null) return null;
    statements.push(statement);
  } while (!words.isAtEnd);
  return `, "expr": [${statements.join(', ')}]}}`;
}

/** ASCII without what JSON escapes. */
const isPlain = /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/;
const isNumber = /^(?:0|[1-9]\d*)$/;
const isAddress = /^[\da-f.:]+$/;

class Words {
  readonly #words: readonly string[];
  #at = 0;

  constructor(words: readonly string[]) {
    this.#words = words;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#words.length;
  }

  /** Empty after the last word. */
  next(): string {
    return this.#words[this.#at++] ?? '';
  }

  /** Goes on only if the next word is this one. */
  skip(word: string): boolean {
    const isNext = this.#words[this.#at] === word;
    if (isNext) this.#at++;
    return isNext;
  }
}

function statementOf(words: Words): string | null {
  const word = words.next();
  switch (word) {
    case 'goto':
    case 'jump':
      return callOf(word, words.next());
    case 'ip':
    case 'ip6':
      return addressMatch(word, words);
    case 'tcp':
    case 'udp':
    case 'sctp': {
      const port = words.skip('dport') ? words.next() : '';
      return isNumber.test(port) ? matchOf('==', payload(word, 'dport'), port) : null;
    }
    case 'meta': {
      const protocol = words.skip('l4proto') ? words.next() : '';
      return protocols.has(protocol) ? matchOf('==', '{"meta": {"key": "l4proto"}}', `"${protocol}"`) : null;
    }
    case 'update':
      return updateOf(words.next(), words);
    case 'dnat':
      return words.skip('to') ? plainDNAT(words.next()) : balancedDNAT(words.next(), words);
    case 'numgen':
      return verdictMap(words);
    default:
      return null;
  }
}

const protocols = new Set(['tcp', 'udp', 'sctp']);

function callOf(kind: 'goto' | 'jump', target: string): string | null {
  return target === '' ? null : `{"${kind}": {"target": "${target}"}}`;
}

function matchOf(operator: '==' | '!=', left: string, right: string): string {
  return `{"match": {"op": "${operator}", "left": ${left}, "right": ${right}}}`;
}

function payload(protocol: string, field: string): string {
  return `{"payload": {"protocol": "${protocol}", "field": "${field}"}}`;
}

/** `ip daddr 10.96.0.1`, `ip saddr != 10.244.0.0/16`, `ip saddr @affinity-…`. */
function addressMatch(word: 'ip' | 'ip6', words: Words): string | null {
  const field = words.next();
  if (field !== 'saddr' && field !== 'daddr') return null;
  const operator = words.skip('!=') ? '!=' : '==';
  const value = words.next();
  const [address = '', length] = value.split('/', 2);
  if (value.length > 1 && value.startsWith('@')) return matchOf(operator, payload(word, field), `"${value}"`);
  if (!isAddress.test(address)) return null;
  if (value === address) return matchOf(operator, payload(word, field), `"${address}"`);
  if (value !== `${address}/${length}` || !isNumber.test(length ?? '')) return null;
  return matchOf(operator, payload(word, field), `{"prefix": {"addr": "${address}", "len": ${length}}}`);
}

/** `update @affinity-… { ip saddr }`. */
function updateOf(set: string, words: Words): string | null {
  if (!set.startsWith('@') || !words.skip('{')) return null;
  const protocol = words.next();
  if ((protocol !== 'ip' && protocol !== 'ip6') || !words.skip('saddr') || !words.skip('}')) return null;
  return `{"set": {"op": "update", "elem": ${payload(protocol, 'saddr')}, "set": "${set}"}}`;
}

/** `dnat to 10.244.1.2:8080`. */
function plainDNAT(target: string): string | null {
  const colon = target.lastIndexOf(':');
  const [host, port] = [target.slice(0, colon), target.slice(colon + 1)];
  const isBracketed = host.startsWith('[') && host.endsWith(']');
  const address = isBracketed ? host.slice(1, -1) : host;
  if (!isAddress.test(address) || !isNumber.test(port) || isBracketed !== address.includes(':')) return null;
  return `{"dnat": {"addr": "${address}", "port": ${port}}}`;
}

/** `dnat ip to numgen random mod 2 map { 0 : 10.244.1.2 . 8080, 1 : 10.244.1.3 . 8080 }`, after the family. */
function balancedDNAT(family: string, words: Words): string | null {
  if ((family !== 'ip' && family !== 'ip6') || !words.skip('to') || !words.skip('numgen')) return null;
  const random = randomOf(words);
  if (random === null || !words.skip('map')) return null;
  const list = listOf(words, () => {
    const address = words.next();
    const isJoined = words.skip('.');
    const {text: port, isLast} = withoutComma(words.next());
    if (!isAddress.test(address) || !isJoined || !isNumber.test(port)) return null;
    return {text: `{"concat": ["${address}", ${port}]}`, isLast};
  });
  return list && `{"dnat": {"family": "${family}", "addr": {"map": {"key": ${random}, "data": ${list}}}}}`;
}

/** `numgen random mod 2 vmap { 0 : goto endpoint-…, 1 : goto endpoint-… }`, after the first word. */
function verdictMap(words: Words): string | null {
  const random = randomOf(words);
  if (random === null || !words.skip('vmap')) return null;
  const list = listOf(words, () => {
    const isGoto = words.skip('goto');
    const {text: target, isLast} = withoutComma(words.next());
    const text = isGoto ? callOf('goto', target) : null;
    return text === null ? null : {text, isLast};
  });
  return list && `{"vmap": {"key": ${random}, "data": ${list}}}`;
}

function randomOf(words: Words): string | null {
  const count = words.skip('random') && words.skip('mod') ? words.next() : '';
  return isNumber.test(count) ? `{"numgen": {"mode": "random", "mod": ${count}, "offset": 0}}` : null;
}

/** `{ 0 : …, 1 : … }`, with numbers in order. */
function listOf(words: Words, item: () => {readonly text: string; readonly isLast: boolean} | null): string | null {
  if (!words.skip('{')) return null;
  const items: string[] = [];
  for (let isLast = false; !isLast; ) {
    const index = items.length;
    const value = words.skip(String(index)) && words.skip(':') ? item() : null;
    if (value === null) return null;
    items.push(`[${index}, ${value.text}]`);
    ({isLast} = value);
  }
  return words.skip('}') ? `{"set": [${items.join(', ')}]}` : null;
}

function withoutComma(word: string): {readonly text: string; readonly isLast: boolean} {
  return word.endsWith(',') ? {text: word.slice(0, -1), isLast: false} : {text: word, isLast: true};
}
