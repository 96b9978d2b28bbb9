import {readdirSync, readFileSync} from 'node:fs';
import {join} from 'node:path';

const root = join(import.meta.dirname, '..');

/** Every page that users or contributors read, by its path. */
export const docPages: readonly string[] = [
  ...['.', '.github', 'docs', 'docs/dev', 'docs/ci', 'docs/checks', 'deploy/chart'].flatMap(markdownIn),
];

function markdownIn(folder: string): readonly string[] {
  return readdirSync(join(root, folder))
    .filter(name => name.endsWith('.md'))
    .map(name => join(folder, name))
    .sort();
}

export function readPage(page: string): string {
  return readFileSync(join(root, page), 'utf8');
}

export interface CodeBlock {
  readonly language: string;
  readonly text: string;
}

export function codeBlocksOf(page: string): readonly CodeBlock[] {
  return [...readPage(page).matchAll(/^( *)```(\w+)\n([\s\S]*?)^ *```$/gm)].map(([, , language = '', text = '']) => ({language, text}));
}

/** A command and its output, as a `console` block shows them. After a last line `…` the rest of the output is left out. */
export interface ShownRun {
  readonly page: string;
  readonly command: string;
  readonly output: string;
}

export function shownRunsOf(page: string): readonly ShownRun[] {
  return codeBlocksOf(page)
    .filter(({language}) => language === 'console')
    .map(({text}) => /^\$ kubectl svc-trace (.+)\n([\s\S]*)$/.exec(text))
    .flatMap(found => (found?.[1] === undefined ? [] : {page, command: found[1], output: found[2] ?? ''}));
}

/** Each `kubectl svc-trace …` or `svc-trace …` of a page, in a block or with arguments in the text, without what a shell does with it. */
export function commandLinesOf(page: string): readonly string[] {
  const shell = codeBlocksOf(page)
    .filter(({language}) => language === 'sh')
    .flatMap(({text}) => text.replaceAll(/\\\n\s*/g, '').split('\n'));
  const inText = [...readPage(page).matchAll(/`((?:kubectl )?svc-trace [^` ]+ [^`]*)`/g)].map(([, line = '']) => line);
  return [...shell, ...inText].flatMap(line => /^\s*(?:kubectl )?svc-trace (.*)$/.exec(line)?.[1] ?? []).map(withoutShell);
}

function withoutShell(line: string): string {
  return line.replace(/\s+[#|>&;].*$/, '').replaceAll(/["']/g, '');
}
