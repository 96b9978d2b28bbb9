import {readFileSync} from 'node:fs';

/**
 * The text of a file of this package, by its path in it (`docs/checks/ST101.md`). An executable contains these files and replaces this
 * module (tools/release/embed-files.ts).
 */
export function packageFile(path: string): string {
  return readFileSync(new URL(`${packageRoot}${path}`, import.meta.url), 'utf8');
}

/** The bundle is flat in dist/; the source of this module is one folder deeper. */
const packageRoot = import.meta.filename?.endsWith('.ts') ? '../../' : '../';
