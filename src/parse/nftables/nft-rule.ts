import type {RuleText} from '../../model/ruleset.ts';
import type {NftRule, NftStatement} from '../../model/nft-ruleset.ts';
import {mergeAddresses} from './address-list.ts';
import {parseNftStatements, closingBrace, joinNftTokens, nftTokens} from './nft-statements.ts';

/** A rule from its place and canonical text with the comment at the end, whether read or expected. Its statements are parsed on demand. */
export function nftRule(ruleText: RuleText): NftRule {
  return new TextRule(ruleText);
}

class TextRule implements NftRule {
  readonly table: string;
  readonly chain: string;
  readonly line: number;
  readonly isOrdinal?: true;
  readonly text: string;
  readonly body: string;
  #statements: readonly NftStatement[] | null = null;

  constructor({table, chain, line, isOrdinal, text}: RuleText) {
    this.table = table;
    this.chain = chain;
    this.line = line;
    if (isOrdinal !== undefined) this.isOrdinal = isOrdinal;
    this.text = text;
    this.body = beforeComment(text);
  }

  statements(): readonly NftStatement[] {
    this.#statements ??= parseNftStatements(this.body);
    return this.#statements;
  }
}

function beforeComment(text: string): string {
  return text.endsWith('"') ? text.replace(/(?:^| )comment "[^"]*"$/, '') : text;
}

/**
 * The canonical text of a rule as listed by any version of nft: without handle and counters, with single spaces, `&` for `and`, marks in
 * eight digits, sets of addresses sorted and merged.
 */
export function canonicalNftRule(listed: string): string {
  const text = listed.trim().replace(/\s*# handle \d+$/, '');
  if (!isSpecial.test(text)) return text;
  const body = beforeComment(text);
  const tokens = canonicalTokens(nftTokens(body.replace(maskedFlags, oldFlags)));
  return joinNftTokens(tokens) + text.slice(body.length);
}

/** Words that nft 1.0.6 leaves out for a rule without counters. A word too many only costs time. */
const isSpecial = /\s\s|\t|\n|counter packets| used |\b(?:and|or|xor)\b|addr \. port|mark.*0x|(?:addr|=) \{|^mark |flags & \(/;

/** `tcp flags & (fin | syn) == syn`, which older versions spell `tcp flags syn / fin,syn`. */
const maskedFlags = /\btcp flags & \(([\w |]+)\) (==|!=) (\w+(?: ?\| ?\w+)*)/g;

function oldFlags(_: string, mask: string, operator: string, flags: string): string {
  const list = (text: string): string =>
    text
      .split('|')
      .map(flag => flag.trim())
      .join(',');
  return `tcp flags ${operator === '!=' ? '!= ' : ''}${list(flags)} / ${list(mask)}`;
}

const symbols: Readonly<Record<string, string>> = {and: '&', or: '|', xor: '^'};
/** These words precede a name, which may be any word. */
const beforeName = new Set(['jump', 'goto', 'name']);

function canonicalTokens(tokens: readonly string[]): readonly string[] {
  const result: string[] = [];
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at] ?? '';
    const before = result.at(-1) ?? '';
    if (beforeName.has(before)) result.push(token);
    else if (token === '{') at = pushList(result, tokens, at);
    else if (token === 'packets' && before === 'counter') at += 3;
    else if (token === 'used' && before === 'last') at += 1;
    else if (token === 'addr' && tokens[at + 1] === '.' && tokens[at + 2] === 'port') at += 2;
    else if (token === 'mark' && startsSelector(before)) result.push('meta', 'mark');
    else result.push(Object.hasOwn(symbols, token) ? (symbols[token] ?? token) : isMark(token, tokens) ? paddedMark(token) : token);
  }
  return result;
}

/** Whether a bare `mark` here is that of the packet, as in old spellings of nft. */
function startsSelector(before: string): boolean {
  return before !== 'meta' && before !== 'ct' && before !== 'socket' && before !== 'mark';
}

function isMark(token: string, tokens: readonly string[]): boolean {
  return /^0x[0-9a-f]{1,7}$/i.test(token) && tokens.includes('mark');
}

function paddedMark(token: string): string {
  return `0x${token.slice(2).toLowerCase().padStart(8, '0')}`;
}

/** Copies a list in braces and returns its end. */
function pushList(result: string[], tokens: readonly string[], open: number): number {
  const close = closingBrace(tokens, open);
  const inside = tokens.slice(open + 1, close);
  const addresses = inside.includes('{') || inside.includes(':') ? null : mergeAddresses(inside.filter(token => token !== ','));
  const kept = addresses === null ? inside : addresses.flatMap((text, index) => (index === 0 ? [text] : [',', text]));
  result.push('{', ...kept, '}');
  return close;
}
