// Makes dist/ of src/: a bundle with what it depends on, the declarations of the library, and the list of its commands. All of it goes to
// a folder of its own that then takes dist/'s place, so a build that fails keeps the last good one, and a file whose source is gone
// does not linger.
import {chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {bundle} from './bundle.ts';
import {declarations} from './declarations.ts';
import {commandManifest} from './manifest.ts';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');
const fresh = mkdtempSync(join(root, '.build-'));
const replaced = `${fresh}-replaced`;

try {
  process.exitCode = await declarations(fresh);
  if (process.exitCode === 0) {
    writeFileSync(join(fresh, 'metafile.json'), JSON.stringify(await bundle(fresh)));
    writeFileSync(join(fresh, 'oclif.manifest.json'), `${JSON.stringify(await commandManifest())}\n`);
    writeFileSync(join(fresh, 'check-pages.json'), JSON.stringify(checkPages()));
    // Folders of mkdtemp are the user's alone, and other users run the program too.
    chmodSync(fresh, 0o755);
    if (existsSync(dist)) renameSync(dist, replaced);
    renameSync(fresh, dist);
  }
} finally {
  rmSync(fresh, {recursive: true, force: true});
  rmSync(replaced, {recursive: true, force: true});
}

/** The pages of finding codes by their names, in one file: the published package has a limit of files. */
function checkPages(): Readonly<Record<string, string>> {
  const folder = join(root, 'docs/checks');
  return Object.fromEntries(readdirSync(folder).map(name => [name, readFileSync(join(folder, name), 'utf8')]));
}
