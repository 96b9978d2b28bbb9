import {closeSync, existsSync, fstatSync, openSync, read, readdirSync, readFileSync, realpathSync, statSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {promisify} from 'node:util';
import {ciliumTables} from '../node/node-commands.ts';
import {kubeProxyLog} from '../../model/node/kube-proxy-failures.ts';
import {plainText} from '../../parse/lines.ts';

/** The files of a bundle in any storage. Paths are relative to the bundle, with forward slashes. */
export interface BundleFiles {
  readonly paths: readonly string[];
  /** Links that lead out of the bundle: what is there is none of it, and is not read. */
  readonly outside: readonly string[];
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
  const outside: string[] = [];
  const paths = filesIn(top, '', {above: [realpathSync(top)], outside}).sort();
  const found = new Set(paths);
  const exists = (path: string): boolean => found.has(path);
  const ahead = new Map<string, Buffer>();
  const contentOf = (path: string): Buffer => {
    const content = ahead.get(path) ?? readFileSync(top + path);
    ahead.delete(path);
    return content;
  };
  const read = (path: string): Buffer | null => (exists(path) ? plainText(contentOf(path)) : null);
  const readText = (path: string): string | null => {
    if (!exists(path)) return null;
    const text = readFileSync(top + path, 'utf8');
    // A byte-order mark of UTF-8 is one character in the text; that of UTF-16 cannot be decoded.
    return text.startsWith('\ufeff') || text.startsWith('\ufffd') ? utf8Text(read(path)) : text;
  };
  const readAhead = async (path: string): Promise<void> => {
    // `read` tries again, and throws the error where it always did.
    const content = await readInBackground(top + path).catch(() => null);
    if (content !== null) ahead.set(path, content);
  };
  return {paths, outside: outside.sort(), read, readText, sizeOf: path => sizeOf(top + path), readAhead};
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    // `read` throws the error where the content is needed.
    return 0;
  }
}

/**
 * The files in a folder and in all folders below it, also linked ones, but no folder inside itself and none outside of the top. What is no
 * file, such as a pipe, is left out. `readdirSync` finds them too, but asks for the status of each file. `above`: the real paths of the top
 * and of the linked folders above.
 */
function filesIn(top: string, below: string, links: {readonly above: readonly string[]; readonly outside: string[]}): string[] {
  // Deeper than nodes/NODE nothing is read, and folders that link to one another have no end.
  if (below.split('/').length > 3) return [];
  return readdirSync(top + below, {withFileTypes: true}).flatMap(entry => {
    const path = below + entry.name;
    if (entry.isFile()) return [path];
    if (entry.isDirectory()) return filesIn(top, `${path}/`, links);
    const real = entry.isSymbolicLink() && existsSync(top + path) ? realpathSync(top + path) : null;
    if (real === null || links.above.includes(real)) return [];
    if (!real.startsWith(join(links.above[0] ?? '', '/'))) {
      links.outside.push(path);
      return [];
    }
    const status = statSync(real);
    if (status.isFile()) return [path];
    return status.isDirectory() ? filesIn(top, `${path}/`, {...links, above: [...links.above, real]}) : [];
  });
}

function utf8Text(content: Buffer | null): string | null {
  return content === null ? null : content.toString('utf8');
}

/** In bytes: the files that are read of an archive, together. One of them may have half of it. */
export const defaultArchiveLimit = 2 * 1024 ** 3;

/**
 * Reads a complete tar archive, gzipped or not. Folders above that of the bundle, as `tar czf x.tgz a/bundle/` creates them, are removed from the
 * paths. Files that nothing reads are skipped as they stream. Throws where the others are larger than the limit, before they are unpacked.
 */
export async function archiveFiles(content: Buffer, limit: number): Promise<BundleFiles> {
  const {Parser} = await import('tar');
  const files = new Map<string, Buffer>();
  let total = 0;
  const parser = new Parser({
    strict: true,
    maxDecompressionRatio: Infinity,
    filter: isFileOfBundle,
    onReadEntry: entry => {
      total += entry.size;
      if (entry.size > limit / 2 || total > limit) {
        const what =
          entry.size > limit / 2 ? `${entry.path} in it has ${mebibytes(entry.size)}` : `its files have over ${mebibytes(limit)}`;
        const most = `at most ${mebibytes(limit)} are read, and ${mebibytes(limit / 2)} of one file`;
        parser.abort(new Error(`${what}: ${most} (--max-archive-size raises both)`));
        return;
      }
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
    // A piece is unpacked as a whole before its parts are seen.
    for (let at = 0; at < content.length; at += pieceLength) parser.write(content.subarray(at, at + pieceLength));
    parser.end();
  });
  const top = commonFolder([...files.keys()]);
  const named = new Map([...files].map(([path, bytes]) => [path.slice(top.length), plainText(bytes)]));
  const read = (path: string): Buffer | null => named.get(path) ?? null;
  return {
    paths: [...named.keys()].sort(),
    outside: [],
    read,
    readText: path => utf8Text(read(path)),
    sizeOf: path => named.get(path)?.length ?? 0,
    readAhead: async () => {},
  };
}

const pieceLength = 16 << 10;

export function mebibytes(bytes: number): string {
  return `${Math.ceil(bytes / (1 << 20))} MiB`;
}

/** Whether a path, below any folders, is one that commands read. */
function isFileOfBundle(path: string): boolean {
  const parts = path.replace(/^\.\//, '').split('/');
  const [folder, file = ''] = parts.slice(-2);
  if (folder === 'api') return file.endsWith('.json');
  if (parts.at(-1) === 'snapshot.json') return true;
  return parts.at(-3) === 'nodes' && (nodeFiles.has(file) || /^ip6?tables(?:-legacy|-nft)?-save$/.test(file));
}

/** The files of a node that something reads, beside the dumps of iptables. */
const nodeFiles = new Set([
  ...`
    nft.json nft-ruleset.json nft.txt ipset-save ipvsadm-save ipvsadm-stats ipvsadm-list ipvsadm-part conntrack conntrack-tcp
    conntrack-stats conntrack-stats-after sysctls interface-sysctls asked-by-rules iptables-version addresses.json local-addresses
    kube-ipvs0.json links.json netconf.json routes.json ip-rules.json ip6-rules.json kube-proxy-version kube-proxy-config.yaml configz.json healthz.json
    proxy-mode metrics
  `
    .trim()
    .split(/\s+/),
  kubeProxyLog,
  ...ciliumTables.map(({file}) => file),
]);

function commonFolder(paths: readonly string[]): string {
  const folder = /^[^/]+\//.exec(paths[0] ?? '')?.[0] ?? '';
  const isAbove = folder !== '' && folder !== 'api/' && folder !== 'nodes/' && paths.every(path => path.startsWith(folder));
  return isAbove ? folder + commonFolder(paths.map(path => path.slice(folder.length))) : '';
}

export function isDirectory(path: string): boolean {
  return statSync(path).isDirectory();
}

/**
 * Reads a file in a thread of Node.js. It is one request, which goes on while JavaScript runs; `readFile` would wait for JavaScript after
 * each part. Rejects if the file cannot be read as a whole.
 * @internal
 */
export async function readInBackground(path: string): Promise<Buffer> {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.allocUnsafeSlow(fstatSync(file).size);
    const {bytesRead} = await promisify(read)(file, bytes, 0, bytes.length, 0);
    if (bytesRead < bytes.length) throw new Error(`${path}: only ${bytesRead} of ${bytes.length} bytes were read`);
    return bytes;
  } finally {
    closeSync(file);
  }
}
