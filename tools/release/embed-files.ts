import {globSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import type {Plugin} from 'esbuild';
import {root} from './run.ts';

/** All that the program reads of its package (src/cli/package-file.ts). */
const embedded = ['package.json', 'dist/oclif.manifest.json', 'docs/checks/*.md', 'completion/*'];

/** An executable has no package around it: it holds the files in itself. */
export const embedFiles: Plugin = {
  name: 'embed-files',
  setup(build) {
    build.onLoad({filter: /[\\/]src[\\/]cli[\\/]package-file\.ts$/}, () => ({contents: moduleOf(filesByPath()), loader: 'js'}));
  },
};

function filesByPath(): Readonly<Record<string, string>> {
  const paths = globSync(embedded, {cwd: root})
    .map(path => path.replaceAll('\\', '/'))
    .sort();
  return Object.fromEntries(paths.map(path => [path, readFileSync(join(root, path), 'utf8')]));
}

function moduleOf(files: Readonly<Record<string, string>>): string {
  return `const files = ${JSON.stringify(files)};
    export function packageFile(path) {
      const text = files[path];
      if (text === undefined) throw new Error('this executable does not hold ' + path);
      return text;
    }`;
}
