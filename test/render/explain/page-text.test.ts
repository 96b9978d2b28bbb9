import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import {expect, test} from 'vitest';
import {pageText} from '../../../src/render/explain/page-text.ts';
import {visibleLength} from '../../../src/render/renderer.ts';

const folder = join(import.meta.dirname, '../../../docs/checks');
const pages = readdirSync(folder).filter(name => /^ST\d+\.md$/.test(name));
const plain = {color: false, width: 60};

test('headings, lists, tables and code are formatted', () => {
  const page = [
    '# ST999 example',
    '',
    '**Severity:** warning',
    '',
    '## See it yourself',
    '',
    '```sh',
    '# on the node',
    'iptables-save | grep KUBE',
    '```',
    '',
    '- **First:** a sentence that is long enough to be broken at its words,',
    '  over two lines of the page',
    '- second',
    '',
    '| in the log | means |',
    '|---|---|',
    '| `a` \\| b | a meaning that is long enough to be broken in its column |',
    '',
    'See [the page](../cluster.md) and [upstream](https://example.com/x).',
  ].join('\n');
  expect(pageText(page, plain).split('\n')).toEqual([
    'ST999 example',
    '',
    'Severity: warning',
    '',
    'See it yourself',
    '',
    '    # on the node',
    '    iptables-save | grep KUBE',
    '',
    '  - First: a sentence that is long enough to be broken at',
    '    its words, over two lines of the page',
    '  - second',
    '',
    '  in the log  means',
    '  `a` | b     a meaning that is long enough to be broken in',
    '              its column',
    '',
    'See the page and upstream (https://example.com/x).',
    '',
  ]);
});

test.each([80, 120])('no text of any page is wider than %i columns, except code and long words', width => {
  for (const name of pages) {
    const lines = pageText(readFileSync(join(folder, name), 'utf8'), {color: true, width}).split('\n');
    const wide = lines.filter(line => visibleLength(line) > width && !/^ {4}/.test(line) && / \S* /.test(line.trim()));
    expect(wide.map(line => `${name}: ${line}`)).toEqual([]);
  }
});

test('every word of a page is in its formatted text', () => {
  const words = (text: string) =>
    text
      .split(/[^\p{L}\p{N}]+/u)
      .filter(word => word !== '')
      .sort();
  for (const name of pages) {
    const page = readFileSync(join(folder, name), 'utf8');
    const source = page.replace(/^```\w*$/gm, '').replace(/\[([^\]]+)\]\((?!https?:)[^)]+\)/g, '$1');
    expect(words(pageText(page, {color: false, width: 100})), name).toEqual(words(source));
  }
});

test('colors mark headings and code, and end on their line', () => {
  const text = pageText('## Head\n\nrun `kubectl get nodes` now', {color: true, width: 12});
  expect(text).toContain('\u001b[1mHead\u001b[22m');
  for (const line of text.split('\n')) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: color codes begin with one
    const codes = [...line.matchAll(/\u001b\[(\d+)m/g)].map(([, code]) => Number(code));
    expect(codes.filter(code => code < 10 || (code >= 30 && code < 39)).length * 2).toBe(codes.length);
  }
});
