import {expect, test} from 'vitest';
import {load} from 'js-yaml';
import {escapeText, escapeUnsafe} from '../../src/render/renderer.ts';
import {toJson, toYaml} from '../../src/render/json.ts';
import {hostile} from './report.ts';

test.each([
  ['an escape sequence', '\u001b[31m', '\\x1b[31m'],
  ['a C1 control', '\u009b31m', '\\x9b31m'],
  ['a newline', 'a\nb', 'a\\x0ab'],
  ['a tab and a carriage return', '\t\r', '\\x09\\x0d'],
  ['delete', '\u007f', '\\x7f'],
  ['a mark that changes the direction of text', 'a\u202eb', 'a\\u202eb'],
  ['an invisible character', 'a\u200bb', 'a\\u200bb'],
  ['the Arabic letter mark', 'a\u061cb', 'a\\u061cb'],
  ['a word joiner', 'a\u2060b', 'a\\u2060b'],
  ['a deprecated mark of formatting', 'a\u206ab\u206f', 'a\\u206ab\\u206f'],
  ['a soft hyphen', 'a\u00adb', 'a\\xadb'],
  ['a tag character', 'a\u{e0041}b', 'a\\udb40\\udc41b'],
])('%s is escaped', (_, text, escaped) => {
  expect(escapeText(text)).toBe(escaped);
});

test('every control character, and every one that Unicode shows as nothing, is escaped', () => {
  const all = Array.from({length: 0x11_0000}, (_, code) => String.fromCodePoint(code));
  const hidden = all.filter(character => /[\p{Cc}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Bidi_Control}]/u.test(character));
  expect(hidden.length).toBeGreaterThan(4000);
  expect(hidden.filter(character => escapeText(character) === character)).toEqual([]);
  expect(hidden.filter(character => character !== '\n' && escapeUnsafe(character) === character)).toEqual([]);
});

test('ordinary text of any language stays unchanged', () => {
  const text = 'shop/web-1 "quoted" → größer 東京 🙂';
  expect(escapeText(text)).toBe(text);
  expect(escapeUnsafe(text)).toBe(text);
});

const data = {
  list: [...Object.values(hostile), 'a\u061c\u2060\u206a\u00ad\u{e0041}'],
  text: 'two\nlines',
  number: 1,
  nothing: null,
  word: 'yes',
};

test.each([
  ['JSON', toJson(data), JSON.parse],
  ['YAML', toYaml(data), load],
])('%s contains hostile text without a character that a terminal interprets', (_, text: string, read: (text: string) => unknown) => {
  expect(read(text)).toEqual(data);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
  expect(text.replaceAll('\n', '')).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u00ad\u061c\udb40]/);
});

test('YAML without hostile text has no quotes', () => {
  expect(toYaml({name: 'web', rules: ['-A KUBE-SERVICES -j ACCEPT'], left: undefined})).toBe(
    'name: web\nrules:\n  - -A KUBE-SERVICES -j ACCEPT',
  );
});
