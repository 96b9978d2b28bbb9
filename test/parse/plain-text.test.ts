import {Buffer} from 'node:buffer';
import {expect, test} from 'vitest';
import {plainText} from '../../src/parse/lines.ts';

test.each([
  ['CR LF', '*nat\r\nCOMMIT\r\n'],
  ['blanks', '*nat  \nCOMMIT \n'],
  ['tabs', '*nat\t\nCOMMIT\n'],
  ['zero bytes', '*nat\0\nCOMMIT\0\n'],
  ['all of them', '*nat \t\r\0\r\nCOMMIT\n\r\n'],
])('lines that end with %s end with a newline alone', (_, text) => {
  expect(plainText(Buffer.from(text)).toString()).toMatch(/^\*nat\nCOMMIT\n\n?$/);
});

test('blanks and CRs inside a line stay, and a line without a newline has none', () => {
  expect(plainText(Buffer.from('a \r b\t\r\n\n  c')).toString()).toBe('a \r b\n\n  c');
});

test('colors of a terminal are no part of a text, and other bytes stay', () => {
  expect(plainText(Buffer.from('\u001b[1;32m-A\u001b[0m INPUT \u001b[K-j ä\n')).toString()).toBe('-A INPUT -j ä\n');
});

test('a long text is read as its beginning is', () => {
  const lines = (end: string): Buffer => Buffer.from(`-A INPUT -j ACCEPT${end}\n`.repeat(50_000));
  expect(plainText(lines(' ')).equals(lines(''))).toBe(true);
  expect(plainText(lines('')).equals(lines(''))).toBe(true);
});
