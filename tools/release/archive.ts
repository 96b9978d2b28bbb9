import {readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {create} from 'tar';
import {zipOf} from './zip.ts';

export interface ArchiveRequest {
  /** Holds the files, by these names. */
  readonly folder: string;
  readonly files: readonly string[];
  readonly archive: string;
  /** The time that all of them get. */
  readonly time: Date;
}

/** Packs files to a .zip or a .tar.gz: the same files, modes and time make the same bytes. */
export async function pack({folder, files, archive, time}: ArchiveRequest): Promise<void> {
  const sorted = [...files].sort();
  if (archive.endsWith('.zip')) {
    writeFileSync(
      archive,
      zipOf(
        sorted.map(name => ({name, content: readFileSync(join(folder, name))})),
        time,
      ),
    );
    return;
  }
  // "portable" leaves out who built it. Node.js writes no time into the header of gzip.
  await create({cwd: folder, file: archive, gzip: true, portable: true, mtime: time}, sorted);
}
