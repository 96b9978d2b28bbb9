import {existsSync} from 'node:fs';
import {mkdir, mkdtemp, readdir, rename, rm, writeFile} from 'node:fs/promises';
import {basename, dirname, join, resolve} from 'node:path';

/** A target to which no bundle can be written, with what to do. */
export class UnwritableTarget extends Error {}

/**
 * A directory with the bundle's files under their names. One that is there already stays, with its owner and its mount, which others may
 * read: so only the owner may read the files, as in an archive.
 */
export async function directoryTarget(path: string): Promise<BundleTarget> {
  const target = resolve(path);
  const isThere = existsSync(target);
  if (!isThere) await mkdir(dirname(target), {recursive: true});
  const folder = await mkdtemp(join(isThere ? target : dirname(target), unfinishedName(target)));
  return {
    async write(file, content) {
      await mkdir(dirname(join(folder, file)), {recursive: true, mode: 0o700});
      await writeFile(join(folder, file), content, {mode: 0o600});
    },
    async finish() {
      if (!isThere) return renameNew(folder, {target, folder});
      const others = (await readdir(target)).filter(name => !name.startsWith(unfinishedName(target)));
      if (others.length > 0) return keepBeside(folder, {target, folder});
      for (const name of (await readdir(folder)).sort()) await rename(join(folder, name), join(target, name));
      await rm(folder, {recursive: true});
    },
    abandon: () => rm(folder, {recursive: true, force: true}),
  };
}

async function renameNew(written: string, {target, folder}: Unfinished): Promise<void> {
  try {
    await rename(written, target);
  } catch (error) {
    if (!isTaken(error)) throw error;
    await keepBeside(written, {target, folder});
  }
}

/** Whether the name belongs to something else by now. */
export function isTaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ['ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'EISDIR'].includes(String(error.code));
}

/** What was written, under a name of its own: another run has taken the target's meanwhile. Throws an UnwritableTarget that says so. */
export async function keepBeside(written: string, {target, folder}: Unfinished): Promise<never> {
  const [, stem = target, extension = ''] = /^(.*?)(\.tgz|\.tar\.gz)?$/s.exec(target) ?? [];
  const kept = `${stem}-${folder.slice(-6)}${extension}`;
  await rename(written, kept);
  throw new UnwritableTarget(`${target} was written meanwhile by another run, and is left as it is. This bundle is ${kept}`);
}

interface Unfinished {
  readonly target: string;
  /** The temporary folder, whose name is unique. */
  readonly folder: string;
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
