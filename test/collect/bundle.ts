import {mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join, relative} from 'node:path';
import {afterAll, beforeAll} from 'vitest';

/** The files of a bundle by path; null leaves one out. */
export type Files = Readonly<Record<string, string | Buffer | null>>;

/** A folder that is there for the tests of one file. */
export class TestFolder {
  #path = '';

  constructor() {
    beforeAll(() => {
      this.#path = mkdtempSync(join(tmpdir(), 'svc-trace-collect-'));
    });
    afterAll(() => rmSync(this.#path, {recursive: true}));
  }

  get path(): string {
    return this.#path;
  }

  /** Writes a bundle of these files, and returns its path. */
  bundle(files: Files, name = 'bundle'): string {
    const root = mkdtempSync(join(this.#path, `${name}-`));
    for (const [path, content] of Object.entries(files)) {
      if (content === null) continue;
      mkdirSync(dirname(join(root, path)), {recursive: true});
      writeFileSync(join(root, path), content);
    }
    return root;
  }
}

/** The files of a folder, read whole. */
export function filesOf(root: string): Record<string, Buffer> {
  const entries = readdirSync(root, {recursive: true, withFileTypes: true}).filter(entry => entry.isFile());
  const paths = entries.map(entry => relative(root, join(entry.parentPath, entry.name)));
  return Object.fromEntries(paths.sort().map(path => [path, readFileSync(join(root, path))]));
}
