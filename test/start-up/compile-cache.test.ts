import {chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {expect, onTestFinished, test} from 'vitest';

const program = join(import.meta.dirname, '../../bin/run.js');
const root = process.geteuid?.() === 0;
const planted = 'planted';

/** A folder with `.kube/cache/svc-trace`, in which a file lies. */
function homeWithCache() {
  const home = mkdtempSync(join(tmpdir(), 'svc-trace-cache-'));
  onTestFinished(() => rmSync(home, {recursive: true}));
  const cache = join(home, '.kube/cache/svc-trace');
  mkdirSync(cache, {recursive: true, mode: 0o700});
  writeFileSync(join(cache, planted), '');
  return {home, cache};
}

/** What lies in the cache after a run. Node.js adds a folder to a cache that it uses. */
async function cachedAfterRun(cache: string, env: Record<string, string>, cwd = '/') {
  const {NODE_COMPILE_CACHE: _, HOME: __, USERPROFILE: ___, ...rest} = process.env;
  await execa(process.execPath, [program, '--version'], {env: {...rest, ...env}, extendEnv: false, cwd});
  return readdirSync(cache);
}

test('a cache that only the user can write is used', async () => {
  const {home, cache} = homeWithCache();
  expect(await cachedAfterRun(cache, {HOME: home})).toHaveLength(2);
});

test('a cache is made with mode 0700', async () => {
  const {home, cache} = homeWithCache();
  rmSync(cache, {recursive: true});
  expect(await cachedAfterRun(join(home, '.kube/cache'), {HOME: home})).toEqual(['svc-trace']);
  expect(statSync(cache).mode & 0o777).toBe(0o700);
});

test.each<Record<string, string>>([{}, {HOME: ''}, {HOME: 'undefined'}, {HOME: '.'}])(
  'without an absolute home (%j) no folder of the current directory is used',
  async env => {
    const {home, cache} = homeWithCache();
    mkdirSync(join(home, 'undefined/.kube'), {recursive: true});
    expect(await cachedAfterRun(cache, env, home)).toEqual([planted]);
    expect(existsSync(join(home, 'undefined/.kube/cache'))).toBe(false);
  },
);

test('what lies in a cache that others could write is removed, not run', async () => {
  const {home, cache} = homeWithCache();
  chmodSync(cache, 0o777);
  const kept = await cachedAfterRun(cache, {HOME: home});
  expect(kept).toHaveLength(1);
  expect(kept).not.toContain(planted);
  expect(statSync(cache).mode & 0o777).toBe(0o700);
});

test.each(['', '.kube', '.kube/cache'])('in a home where others can write "%s", there is no cache', async folder => {
  const {home, cache} = homeWithCache();
  chmodSync(join(home, folder), 0o777);
  expect(await cachedAfterRun(cache, {HOME: home})).toEqual([planted]);
});

test.runIf(root).each(['', '.kube', '.kube/cache', '.kube/cache/svc-trace', '.kube/cache/svc-trace/planted'])(
  'in a home where "%s" is of another user, there is no cache',
  async path => {
    const {home, cache} = homeWithCache();
    chownSync(join(home, path), 65534, 65534);
    expect(await cachedAfterRun(cache, {HOME: home})).toEqual([planted]);
  },
);

test('a cache of many old versions is emptied, as each of its files is looked at in every run', async () => {
  const {home, cache} = homeWithCache();
  for (let file = 0; file < 700; file++) writeFileSync(join(cache, `old-${file}`), '');
  const kept = await cachedAfterRun(cache, {HOME: home});
  expect(kept).toHaveLength(1);
  expect(kept).not.toContain(planted);
});

test('a cache that is a link elsewhere is not used', async () => {
  const {home, cache} = homeWithCache();
  const other = homeWithCache();
  rmSync(cache, {recursive: true});
  symlinkSync(other.cache, cache);
  expect(await cachedAfterRun(other.cache, {HOME: home})).toEqual([planted]);
});
