import {chmodSync, cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import packageJson from '../../package.json' with {type: 'json'};
import {root, run} from './run.ts';
import {thirdPartyLicenses} from './third-party.ts';

/**
 * Packs the npm package into `folder`. It depends on nothing: what it needs is in its bundle. So package.json goes without dependencies,
 * which would be installed in vain, and without the scripts of a checkout.
 */
export function packNpm(folder: string): void {
  const stage = mkdtempSync(join(tmpdir(), 'svc-trace-npm-'));
  try {
    for (const path of packedFiles()) {
      mkdirSync(dirname(join(stage, path)), {recursive: true});
      cpSync(join(root, path), join(stage, path));
      chmodSync(join(stage, path), path.startsWith('bin/') ? 0o755 : 0o644);
    }
    const {dependencies: _, devDependencies: __, scripts: ___, allowScripts: ____, ...published} = packageJson;
    const files = [...published.files, 'THIRD-PARTY-LICENSES.txt'];
    writeFileSync(join(stage, 'package.json'), `${JSON.stringify({...published, files}, null, 2)}\n`);
    writeFileSync(join(stage, 'THIRD-PARTY-LICENSES.txt'), thirdPartyLicenses());
    const [archive = ''] = run('npm', ['pack', '--silent', '--ignore-scripts'], stage).trim().split('\n').slice(-1);
    cpSync(join(stage, archive), join(folder, `${archive}.unfinished`));
    renameSync(join(folder, `${archive}.unfinished`), join(folder, archive));
  } finally {
    rmSync(stage, {recursive: true});
  }
}

function packedFiles(): readonly string[] {
  const [packed] = asList<{files: readonly {path: string}[]}>(JSON.parse(run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'])));
  return packed?.files.map(({path}) => path) ?? [];
}

/** npm 11 prints a list, later ones an object by the names of the packages. */
function asList<T>(printed: readonly T[] | Readonly<Record<string, T>>): readonly T[] {
  return Object.values(printed);
}
