import {existsSync, createWriteStream} from 'node:fs';
import {mkdir, mkdtemp, readdir, rename, rm, writeFile, link} from 'node:fs/promises';
import {basename, dirname, join, resolve} from 'node:path';
import {once} from 'node:events';
import {pipeline} from 'node:stream/promises';
import {createGzip} from 'node:zlib';

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
function isTaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ['ENOTEMPTY', 'EEXIST', 'ENOTDIR', 'EISDIR'].includes(String(error.code));
}

/** What was written, under a name of its own: another run has taken the target's meanwhile. Throws an UnwritableTarget that says so. */
async function keepBeside(written: string, {target, folder}: Unfinished): Promise<never> {
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
function unfinishedName(path: string): string {
  return `.${basename(path)}.unfinished-`;
}

/**
 * A gzipped tar archive, written file by file. Everything is in one folder, named after the archive. Only its owner may read it, as a
 * directory: environment variables of pods are in it.
 */
export async function archiveTarget(path: string): Promise<BundleTarget> {
  const tar = await import('tar');
  const target = resolve(path);
  await mkdir(dirname(target), {recursive: true});
  const folder = await mkdtemp(join(dirname(target), unfinishedName(target)));
  const unfinished = join(folder, basename(target));
  const gzip = createGzip();
  const done = pipeline(gzip, createWriteStream(unfinished, {mode: 0o600}));
  // The next write reports a failure.
  done.catch(() => {});
  const top = topFolder(target);
  const put = async (block: Buffer): Promise<void> => {
    if (gzip.destroyed) await done;
    if (!gzip.write(block)) await Promise.race([once(gzip, 'drain'), done]);
  };
  return {
    async write(file, content) {
      for (const block of entry(tar, {path: `${top}/${file}`, content})) await put(block);
    },
    async finish() {
      gzip.end(Buffer.alloc(2 * blockSize));
      await done;
      await linkNew(unfinished, {target, folder});
      await rm(folder, {recursive: true});
    },
    async abandon() {
      gzip.destroy();
      await done.catch(() => {});
      await rm(folder, {recursive: true, force: true});
    },
  };
}

/** A rename would replace what another run has written meanwhile. Some file systems have no links. */
async function linkNew(unfinished: string, names: {readonly target: string; readonly folder: string}): Promise<void> {
  try {
    await link(unfinished, names.target);
  } catch (error) {
    if (isTaken(error) || existsSync(names.target)) await keepBeside(unfinished, names);
    await rename(unfinished, names.target);
  }
}

const blockSize = 512;

/** A header, preceded by a second one if the path is too long, and the content in whole blocks. */
function* entry({Header, Pax}: typeof import('tar'), {path, content}: {readonly path: string; readonly content: Buffer}): Iterable<Buffer> {
  const about = {path, mode: 0o600, size: content.length, type: 'File', mtime: new Date()} as const;
  const header = new Header(about);
  if (header.encode()) yield new Pax({path}).encode();
  if (header.block !== undefined) yield header.block;
  yield content;
  yield Buffer.alloc((blockSize - (content.length % blockSize)) % blockSize);
}

/** `shop` for `shop.tgz`; `bundle` for a name that would be taken for a folder of the bundle. */
function topFolder(target: string): string {
  const name = basename(target).replace(/\.(?:tgz|tar\.gz)$/, '');
  return ['', '.', '..', 'api', 'nodes'].includes(name) ? 'bundle' : name;
}
