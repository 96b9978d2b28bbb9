import {existsSync} from 'node:fs';
import {mkdir, mkdtemp, rename, rm, rmdir, writeFile} from 'node:fs/promises';
import {dirname, join, resolve} from 'node:path';
import {type BundleTarget, unfinishedName} from './bundle-target.ts';

/** A directory with the bundle's files under their names. */
export async function directoryTarget(path: string): Promise<BundleTarget> {
  const target = resolve(path);
  await mkdir(dirname(target), {recursive: true});
  const folder = await mkdtemp(join(dirname(target), unfinishedName(target)));
  return {
    async write(file, content) {
      await mkdir(dirname(join(folder, file)), {recursive: true});
      await writeFile(join(folder, file), content);
    },
    async finish() {
      if (existsSync(target)) await rmdir(target);
      await rename(folder, target);
    },
    abandon: () => rm(folder, {recursive: true, force: true}),
  };
}
