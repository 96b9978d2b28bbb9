// Makes dist/ of src/: a bundle with what it depends on, the declarations of its types, and the list of its commands. All of it goes to
// a folder of its own that then takes dist/'s place, so a build that fails keeps the last good one, and a file whose source is gone
// does not linger.
import {spawnSync} from 'node:child_process';
import {existsSync, mkdtempSync, renameSync, rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {bundle} from './bundle.ts';
import {includeClientTypes} from './client-types.ts';
import {commandManifest} from './manifest.ts';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');
const fresh = mkdtempSync(join(root, '.build-'));
const replaced = `${fresh}-replaced`;

try {
  process.exitCode = declare();
  if (process.exitCode === 0) {
    includeClientTypes(fresh);
    writeFileSync(join(fresh, 'metafile.json'), JSON.stringify(await bundle(fresh)));
    writeFileSync(join(fresh, 'oclif.manifest.json'), `${JSON.stringify(await commandManifest())}\n`);
    if (existsSync(dist)) renameSync(dist, replaced);
    renameSync(fresh, dist);
  }
} finally {
  rmSync(fresh, {recursive: true, force: true});
  rmSync(replaced, {recursive: true, force: true});
}

/** Checks the types too. The exit code of the compiler. */
function declare(): number {
  const args = [join(root, 'node_modules/typescript/bin/tsc'), '--project', root, '--emitDeclarationOnly', '--outDir', fresh];
  const tsc = spawnSync(process.execPath, args, {stdio: 'inherit'});
  if (tsc.error) throw tsc.error;
  return tsc.status ?? 1;
}
