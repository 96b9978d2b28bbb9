#!/usr/bin/env node
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 19)) {
  const {runWithNewerNode} = await import('./newer-node.js');
  await runWithNewerNode(import.meta.url);
  console.error(`svc-trace needs Node.js 22.19 or newer, and this is ${process.version}. In a checkout, "npm ci" installs a newer one.`);
  process.exit(2);
}
/** A version has under 200, and each of them is looked at when the program starts. */
const mostFiles = 600;
const cache = compileCache();
if (cache !== undefined) process.getBuiltinModule('node:module').enableCompileCache(cache);
const {main} = await import('../dist/main.js');
await main(process.argv.slice(2), import.meta.url);

/**
 * Compiled code is kept beside what kubectl keeps, where kubectl is used: the next start takes less time. What is kept there is run, so
 * nobody but the effective user (and root, for the folders above) may ever have been able to write it; otherwise nothing is kept.
 */
function compileCache() {
  const {lstatSync, mkdirSync, readdirSync, realpathSync, rmSync} = process.getBuiltinModule('node:fs');
  const {dirname, isAbsolute, join} = process.getBuiltinModule('node:path');
  const home = process.env.HOME ?? process.env.USERPROFILE;
  if (home === undefined || !isAbsolute(home)) return undefined;
  try {
    const kube = realpathSync(join(home, '.kube'));
    const folder = join(kube, 'cache', 'svc-trace');
    const user = process.geteuid?.();
    // Windows keeps others out of a profile by access lists, which modes do not show.
    if (user === undefined) return folder;
    const own = path => lstatSync(path).uid === user;
    const safe = path => {
      const {uid, mode} = lstatSync(path);
      const closed = (mode & 0o022) === 0 || (mode & 0o1000) !== 0;
      return (uid === user || uid === 0) && closed && (path === '/' || safe(dirname(path)));
    };
    if (!own(kube) || !safe(kube)) return undefined;
    mkdirSync(folder, {recursive: true, mode: 0o700});
    if (realpathSync(folder) !== folder || !own(dirname(folder)) || !safe(dirname(folder)) || !own(folder)) return undefined;
    const empty = () => {
      rmSync(folder, {recursive: true});
      mkdirSync(folder, {mode: 0o700});
    };
    // Others could write here once: nothing of it is used.
    if ((lstatSync(folder).mode & 0o077) !== 0) empty();
    // Node.js keeps the files of a version in one folder, and never removes any.
    const paths = readdirSync(folder, {withFileTypes: true}).flatMap(entry => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? [path, ...readdirSync(path).map(name => `${path}/${name}`)] : [path];
    });
    if (paths.length > mostFiles) {
      empty();
      return folder;
    }
    return paths.every(own) ? folder : undefined;
  } catch {
    // A folder that is absent or cannot be read or written: the program starts without.
    return undefined;
  }
}
