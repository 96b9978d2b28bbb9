import {chmodSync, mkdtempSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import {load} from 'js-yaml';
import {codeBlocksOf} from '../doc-pages.ts';

export const root = join(import.meta.dirname, '../..');
export const page = 'docs/integrations.md';

/** The script of a program that is this build. */
export const thisBuild = `exec '${process.execPath}' '${join(root, 'bin/run.js')}' "$@"\n`;

/** The YAML of the page that has this key at its top. */
export function blockWith<Block>(key: string): Block {
  const blocks = codeBlocksOf(page).filter(({language}) => language === 'yaml');
  const found = blocks.map(({text}) => load(text) as Readonly<Record<string, unknown>>).find(block => key in block);
  if (found === undefined) throw new Error(`${page} shows no YAML with ${key}`);
  return found as Block;
}

/** A folder for PATH with a program of this name, and a pager that does not wait. */
export function script(folder: string, name: string, text: string): string {
  const bin = mkdtempSync(join(folder, 'bin-'));
  for (const [file, content] of [
    [name, `#!/bin/sh\n${text}`],
    ['less', '#!/bin/sh\nexec cat\n'],
  ] as const) {
    writeFileSync(join(bin, file), content);
    chmodSync(join(bin, file), 0o755);
  }
  return bin;
}
