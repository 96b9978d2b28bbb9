import {accessSync, constants, existsSync, readdirSync, statSync} from 'node:fs';
import {dirname, resolve} from 'node:path';
import {type BundleTarget, directoryTarget, UnwritableTarget} from './directory-target.ts';
import {errorText} from '../../model/text.ts';

/**
 * A directory, or an archive if the path ends in `.tgz` or `.tar.gz`. Existing files are never overwritten: throws an UnwritableTarget for
 * a file and for a directory that is not empty.
 */
export async function openTarget(path: string): Promise<BundleTarget> {
  refuseTarget(path);
  try {
    if (!isArchive(path)) return await directoryTarget(path);
    const {archiveTarget} = await import('./archive-target.ts');
    return await archiveTarget(path);
  } catch (error) {
    throw new UnwritableTarget(`cannot write to ${path}: ${errorText(error)}`, {cause: error});
  }
}

/** Throws an UnwritableTarget where nothing could be written in the end. Changes nothing. */
export function refuseTarget(path: string): void {
  if (path === '') throw new UnwritableTarget('a bundle needs a name: a directory, or a file that ends in .tgz');
  refuseExisting(path);
  try {
    let folder = resolve(path);
    while (!existsSync(folder)) folder = dirname(folder);
    if (!statSync(folder).isDirectory()) throw new Error('a part of the path is not a directory');
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw new UnwritableTarget(`cannot write to ${path}: ${errorText(error)}`, {cause: error});
  }
}

function isArchive(path: string): boolean {
  return /\.(?:tgz|tar\.gz)$/.test(path);
}

const otherArchive = /\.(?:zip|tar|gz|bz2|xz|zst|7z|rar|tbz2?|txz|json)$/i;

function refuseExisting(path: string): void {
  if (path === '-')
    throw new UnwritableTarget('a bundle cannot be written to standard output: name a directory, or a file that ends in .tgz');
  if (!isArchive(path) && otherArchive.test(path))
    throw new UnwritableTarget(`${path}: a bundle is a directory or a .tgz archive. Name a file that ends in .tgz`);
  if (!existsSync(path)) return;
  if (isArchive(path) || !statSync(path).isDirectory())
    throw new UnwritableTarget(`${path} is there already: remove it or choose another name`);
  if (readdirSync(path).length > 0) throw new UnwritableTarget(`the directory ${path} is not empty: remove it or choose another name`);
}
