// Compiles src/ to dist/. The compiler writes to a folder of its own that then takes dist/'s place,
// so a build that fails keeps the last good one, and a file whose source is gone does not linger.
import {spawnSync} from 'node:child_process';
import {existsSync, mkdtempSync, renameSync, rmSync} from 'node:fs';
import {join} from 'node:path';

const root = join(import.meta.dirname, '..');
const dist = join(root, 'dist');
const fresh = mkdtempSync(join(root, '.build-'));
const replaced = `${fresh}-replaced`;

try {
  const tsc = spawnSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '--project', root, '--outDir', fresh], {
    stdio: 'inherit',
  });
  if (tsc.error) throw tsc.error;
  process.exitCode = tsc.status ?? 1;
  if (tsc.status === 0) {
    if (existsSync(dist)) renameSync(dist, replaced);
    renameSync(fresh, dist);
  }
} finally {
  rmSync(fresh, {recursive: true, force: true});
  rmSync(replaced, {recursive: true, force: true});
}
