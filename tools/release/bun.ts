import {createHash} from 'node:crypto';
import {existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync} from 'node:fs';
import {join} from 'node:path';
import {extract} from 'tar';
import {bunTypesIntegrity, bunVersion, type Platform} from './platforms.ts';
import {root, run} from './run.ts';

const cache = join(root, '.bun');

/** The path of Bun for this platform. It comes as a package from npm, once, and is used only when it is the one that is named here. */
export async function bunFor({bun, os, integrity}: Platform): Promise<string> {
  const folder = join(cache, `${bun}-${bunVersion}`);
  if (!existsSync(folder)) await download(`@oven/bun-${bun}@${bunVersion}`, integrity, folder);
  return join(folder, 'bin', os === 'windows' ? 'bun.exe' : 'bun');
}

/** Bun's own page about what is linked into it, and under which licenses. */
export async function bunLicensePage(): Promise<string> {
  const folder = join(cache, `types-${bunVersion}`);
  if (!existsSync(folder)) await download(`bun-types@${bunVersion}`, bunTypesIntegrity, folder);
  return readFileSync(join(folder, 'docs/project/license.mdx'), 'utf8').replace(/^---\n[\s\S]*?\n---\n/, '');
}

async function download(source: string, integrity: string, folder: string): Promise<void> {
  mkdirSync(cache, {recursive: true});
  const unfinished = mkdtempSync(join(cache, 'unfinished-'));
  try {
    const archive = join(unfinished, run('npm', ['pack', '--silent', source], unfinished).trim());
    const found = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
    if (found !== integrity) throw new Error(`${source} is not what it was: ${found}, not ${integrity}`);
    await extract({file: archive, cwd: unfinished});
    renameSync(join(unfinished, 'package'), folder);
  } finally {
    rmSync(unfinished, {recursive: true, force: true});
  }
}
