import {existsSync} from 'node:fs';
import {mkdir, mkdtemp, rename, rm, rmdir, writeFile} from 'node:fs/promises';
import {basename, dirname, join, resolve} from 'node:path';

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

/** Where a bundle is written to. The target does not exist before `finish`. */
export interface BundleTarget {
  /** `path` is relative to the bundle, with forward slashes. */
  write(path: string, content: Buffer): Promise<void>;
  finish(): Promise<void>;
  /** Removes what was written. */
  abandon(): Promise<void>;
}

/** The temporary name of an incomplete bundle: next to the target, so that it only has to be renamed. */
export function unfinishedName(path: string): string {
  return `.${basename(path)}.unfinished-`;
}
