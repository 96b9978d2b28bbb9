import {existsSync, readdirSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';

const root = join(import.meta.dirname, '../..');

/** A way to run the product. */
export interface Program {
  readonly name: 'Node.js' | 'executable';
  readonly command: readonly string[];
}

/** The npm package, and the executable where `npm run release -- compile` has made one for this machine. */
export function programs(): readonly Program[] {
  const file = executable();
  return [
    {name: 'Node.js', command: [process.execPath, join(root, 'bin/run.js')]},
    ...(file === undefined ? [] : [{name: 'executable' as const, command: [file]}]),
  ];
}

function executable(): string | undefined {
  const os = process.platform === 'win32' ? 'windows' : process.platform;
  const folder = join(root, 'release/executables', `${os}_${process.arch === 'x64' ? 'amd64' : process.arch}`);
  const file = existsSync(folder) ? readdirSync(folder)[0] : undefined;
  return file === undefined ? undefined : join(folder, file);
}
