import {existsSync, readdirSync, statSync} from 'node:fs';
import {type BundleTarget, directoryTarget} from './directory-target.ts';
import {errorText} from '../../model/text.ts';

/** A target to which no bundle can be written, with what to do. */
export class UnwritableTarget extends Error {}

/**
 * A directory, or an archive if the path ends in `.tgz` or `.tar.gz`. Existing files are never overwritten: throws an UnwritableTarget for
 * a file and for a directory that is not empty.
 */
export async function openTarget(path: string): Promise<BundleTarget> {
  const isArchive = /\.(?:tgz|tar\.gz)$/.test(path);
  refuseExisting(path, isArchive);
  try {
    if (!isArchive) return await directoryTarget(path);
    const {archiveTarget} = await import('./archive-target.ts');
    return await archiveTarget(path);
  } catch (error) {
    throw new UnwritableTarget(`cannot write to ${path}: ${errorText(error)}`, {cause: error});
  }
}

const otherArchive = /\.(?:zip|tar|gz|bz2|xz|zst|7z|rar|tbz2?|txz|json)$/i;

function refuseExisting(path: string, isArchive: boolean): void {
  if (path === '-')
    throw new UnwritableTarget('a bundle cannot be written to standard output: name a directory, or a file that ends in .tgz');
  if (!isArchive && otherArchive.test(path))
    throw new UnwritableTarget(`${path}: a bundle is a directory or a .tgz archive. Name a file that ends in .tgz`);
  if (!existsSync(path)) return;
  if (isArchive || !statSync(path).isDirectory()) throw new UnwritableTarget(`${path} is there already: remove it or choose another name`);
  if (readdirSync(path).length > 0) throw new UnwritableTarget(`the directory ${path} is not empty: remove it or choose another name`);
}
