import {readFileSync} from 'node:fs';

/**
 * The text of a file of this package, by its path in it (`docs/checks/ST101.md`). This module lies in src/, and when it is built directly
 * in dist/, both one folder below the package's. In an executable, which holds these files in itself, another takes its place
 * (tools/release/embed-files.ts).
 */
export function packageFile(path: string): string {
  return readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
}
