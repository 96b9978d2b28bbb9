import {readFileSync} from 'node:fs';

/**
 * The text of a file of this package, by its path in it (`docs/checks/ST101.md`). An executable contains these files and replaces this
 * module (tools/release/embed-files.ts).
 */
export function packageFile(path: string): string {
  if (!isSource && path.startsWith('docs/checks/'))
    return JSON.parse(packageFile('dist/check-pages.json'))[path.slice('docs/checks/'.length)];
  return readFileSync(new URL(`${packageRoot}${path}`, import.meta.url), 'utf8');
}

/** The build writes all pages of docs/checks into one file (tools/build.ts). */
const isSource = import.meta.filename?.endsWith('.ts') === true;

/** The bundle is flat in dist/; the source of this module is one folder deeper. */
const packageRoot = isSource ? '../../' : '../';
