import {createHash, randomUUID} from 'node:crypto';
import {existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';

const root = join(import.meta.dirname, 'fixtures');
const captures = join(root, 'captures');
/** Outside of what is checked out, and gone with `npm ci`. */
const assembled = join(import.meta.dirname, '../node_modules/.cache/captures');

/** Contents by path below a folder. */
type Files = Map<string, Buffer>;

/**
 * The folder of one capture with all its files: its own folder when it keeps them all itself, or one to which what it shares with
 * others is copied. That one is named by its contents, so it is made once and never stale.
 */
export function wholeCapture(name: string): string {
  const own = join(captures, name);
  const paths = readdirSync(own, {recursive: true, encoding: 'utf8'});
  if (!paths.some(path => path === 'shared.json' || path.endsWith('.diff'))) return own;
  const files = filesOf(name);
  const target = join(assembled, `${name}-${hashOf(files)}`);
  if (!existsSync(target)) write(files, target);
  return target;
}

/** What `shared.json` names, with the capture's own files over it. */
function filesOf(name: string): Files {
  const own = filesBelow(join(captures, name));
  const shared: Readonly<Record<string, string>> = JSON.parse(own.get('shared.json')?.toString() ?? '{}');
  own.delete('shared.json');
  const named = Object.entries(shared).flatMap(([path, source]): (readonly [string, Buffer])[] => {
    const place = join(captures, source);
    if (!statSync(place).isDirectory()) return [[path, readFileSync(place)]];
    return [...filesBelow(place)].map(([file, content]) => [`${path}/${file}`, content]);
  });
  return new Map([...named, ...own]);
}

function filesBelow(folder: string): Files {
  const entries = readdirSync(folder, {recursive: true, withFileTypes: true}).filter(entry => entry.isFile());
  return new Map(
    entries.map(entry => {
      const path = join(entry.parentPath, entry.name).replace(/\.diff$/, '');
      return [path.slice(folder.length + 1).replaceAll('\\', '/'), readWhole(path)];
    }),
  );
}

function hashOf(files: Files): string {
  const hash = createHash('sha256');
  for (const [path, content] of [...files].sort(([a], [b]) => (a < b ? -1 : 1))) hash.update(`${path} ${content.length} `).update(content);
  return hash.digest('hex').slice(0, 12);
}

/** Under another name first: other processes may make, or read, the same folder. */
function write(files: Files, target: string): void {
  const unfinished = `${target}.${randomUUID()}`;
  for (const [path, content] of files) {
    mkdirSync(dirname(join(unfinished, path)), {recursive: true});
    writeFileSync(join(unfinished, path), content);
  }
  try {
    renameSync(unfinished, target);
  } catch (error) {
    rmSync(unfinished, {recursive: true});
    if (!existsSync(target)) throw error;
  }
}

/** A file, which may be kept as `FILE.diff`: the output of `diff -U1` from the fixture that its first line names. */
export function readWhole(path: string): Buffer {
  if (existsSync(path)) return readFileSync(path);
  // One character for each byte, whatever the encoding of the file is.
  const [first = '', , ...lines] = readFileSync(`${path}.diff`, 'latin1').split('\n');
  const base = /^--- (\S+)$/.exec(first)?.[1];
  if (base === undefined) throw new Error(`${path}.diff does not begin with "--- FIXTURE"`);
  return Buffer.from(patch(readFileSync(join(root, base), 'latin1'), lines), 'latin1');
}

/** A text after the hunks of a unified diff. */
export function patch(text: string, hunks: readonly string[]): string {
  const before = text.split('\n');
  const after: string[] = [];
  let at = 0;
  for (const line of hunks.filter(hunk => hunk !== '')) {
    const start = /^@@ -(\d+)/.exec(line)?.[1];
    if (start !== undefined) {
      after.push(...before.slice(at, Number(start) - 1));
      at = Number(start) - 1;
    } else if (line.startsWith('+')) {
      after.push(line.slice(1));
    } else {
      if (!/^[ -]/.test(line) || before[at] !== line.slice(1))
        throw new Error(`The diff says "${line}" where line ${at + 1} is "${before[at]}"`);
      if (line.startsWith(' ')) after.push(line.slice(1));
      at++;
    }
  }
  return [...after, ...before.slice(at)].join('\n');
}
