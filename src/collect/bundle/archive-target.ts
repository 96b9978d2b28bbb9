import {once} from 'node:events';
import {createWriteStream, existsSync} from 'node:fs';
import {link, mkdir, mkdtemp, rename, rm} from 'node:fs/promises';
import {basename, dirname, join, resolve} from 'node:path';
import {pipeline} from 'node:stream/promises';
import {createGzip} from 'node:zlib';
import {Header, Pax} from 'tar';
import {type BundleTarget, isTaken, keepBeside, unfinishedName} from './directory-target.ts';

/**
 * A gzipped tar archive, written file by file. Everything is in one folder, named after the archive. Only its owner may read it, as a
 * directory: environment variables of pods are in it.
 */
export async function archiveTarget(path: string): Promise<BundleTarget> {
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
      for (const block of entry(`${top}/${file}`, content)) await put(block);
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
function* entry(path: string, content: Buffer): Iterable<Buffer> {
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
