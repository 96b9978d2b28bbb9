import {existsSync, readdirSync, readFileSync, statSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {readInBackground} from './read-in-background.ts';
import {withoutByteOrderMark} from './byte-order-mark.ts';

/** The files of a bundle in any storage. Paths are relative to the bundle, with forward slashes. */
export interface BundleFiles {
  readonly paths: readonly string[];
  read(path: string): Buffer | null;
  /** The same as text. A large file takes less memory this way, because its bytes are decoded while they are read. */
  readText(path: string): string | null;
  /** In bytes; 0 if it cannot be known. */
  sizeOf(path: string): number;
  /**
   * Reads a file while other work is done, and resolves when it was read. `read` then returns the content at once, and does not
   * keep it. What cannot be read ahead is left to `read`.
   */
  readAhead(path: string): Promise<void>;
}

export function directoryFiles(folder: string): BundleFiles {
  const top = join(resolve(folder), '/');
  const paths = filesIn(top, '').sort();
  const found = new Set(paths);
  const exists = (path: string): boolean => found.has(path) || existsSync(top + path);
  const ahead = new Map<string, Buffer>();
  const contentOf = (path: string): Buffer => {
    const content = ahead.get(path) ?? readFileSync(top + path);
    ahead.delete(path);
    return content;
  };
  const read = (path: string): Buffer | null => (exists(path) ? withoutByteOrderMark(contentOf(path)) : null);
  const readText = (path: string): string | null => {
    if (!exists(path)) return null;
    const text = readFileSync(top + path, 'utf8');
    // A byte-order mark of UTF-8 is one character in the text; that of UTF-16 cannot be decoded.
    return text.startsWith('\ufeff') || text.startsWith('\ufffd') ? textOf(read(path)) : text;
  };
  const readAhead = async (path: string): Promise<void> => {
    // `read` tries again, and throws the error where it always did.
    const content = await readInBackground(top + path).catch(() => null);
    if (content !== null) ahead.set(path, content);
  };
  return {paths, read, readText, sizeOf: path => sizeOf(top + path), readAhead};
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    // `read` throws the error where the content is needed.
    return 0;
  }
}

/** The files in a folder and in all folders below it, also linked ones. `readdirSync` finds them too, but asks for the status of each file. */
function filesIn(top: string, below: string): string[] {
  return readdirSync(top + below, {withFileTypes: true}).flatMap(entry => {
    const path = below + entry.name;
    if (entry.isFile()) return [path];
    const isFolder = entry.isDirectory() || (entry.isSymbolicLink() && existsSync(top + path) && isDirectory(top + path));
    return isFolder ? filesIn(top, `${path}/`) : [];
  });
}

function textOf(content: Buffer | null): string | null {
  return content === null ? null : content.toString('utf8');
}

/** Reads a complete tar archive, gzipped or not. A single top folder, as `tar czf x.tgz bundle/` creates it, is removed from the paths. */
export async function archiveFiles(content: Buffer): Promise<BundleFiles> {
  const {Parser} = await import('tar');
  const files = new Map<string, Buffer>();
  const parser = new Parser({
    strict: true,
    onReadEntry: entry => {
      const parts: Buffer[] = [];
      entry.on('data', part => parts.push(part));
      entry.on('end', () => {
        if (entry.type === 'File' || entry.type === 'OldFile') files.set(entry.path.replace(/^\.\//, ''), Buffer.concat(parts));
      });
    },
  });
  await new Promise<void>((resolve, reject) => {
    parser.on('end', resolve);
    parser.on('error', reject);
    parser.end(content);
  });
  const top = commonFolder([...files.keys()]);
  const named = new Map([...files].map(([path, bytes]) => [path.slice(top.length), withoutByteOrderMark(bytes)]));
  const read = (path: string): Buffer | null => named.get(path) ?? null;
  return {
    ...{paths: [...named.keys()].sort(), read, readText: path => textOf(read(path))},
    sizeOf: path => named.get(path)?.length ?? 0,
    readAhead: async () => {},
  };
}

function commonFolder(paths: readonly string[]): string {
  const folder = /^[^/]+\//.exec(paths[0] ?? '')?.[0] ?? '';
  return folder !== '' && folder !== 'api/' && folder !== 'nodes/' && paths.every(path => path.startsWith(folder)) ? folder : '';
}

export function isDirectory(path: string): boolean {
  return statSync(path).isDirectory();
}
