import {cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {expect, onTestFinished, test} from 'vitest';

const root = join(import.meta.dirname, '../..');

/** A project beside an installed package of the declarations, where no other package is. */
function consumer(source: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-trace-types-'));
  onTestFinished(() => rmSync(folder, {recursive: true}));
  const installed = join(folder, 'node_modules/kubectl-svc-trace');
  mkdirSync(installed, {recursive: true});
  cpSync(join(root, 'package.json'), join(installed, 'package.json'));
  cpSync(join(root, 'dist'), join(installed, 'dist'), {recursive: true, filter: path => !/\.(?:js|map)$/.test(path)});
  writeFileSync(join(folder, 'use.mts'), source);
  return folder;
}

function compile(folder: string) {
  const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules/@types')];
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  return execa(process.execPath, [tsc, '--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', ...types, 'use.mts'], {
    cwd: folder,
    reject: false,
  });
}

test('the declarations of the library need no other package, and know the fields of API objects', async () => {
  const folder = consumer(`import type {Snapshot} from 'kubectl-svc-trace';
    type Service = NonNullable<Snapshot['api']['services']>[number];
    const port: number | undefined = ({} as Service).spec?.ports?.[0]?.nodePort;
    const created: string | undefined = ({} as Service).metadata.creationTimestamp;
    // @ts-expect-error a Service has no such field
    ({} as Service).spec?.nonsense;
    console.log(port, created);`);
  expect(await compile(folder)).toMatchObject({stdout: '', exitCode: 0});
});

test('the only declarations imported from client-node are those of the connection, which the library does not export', () => {
  const importing = readdirSync(join(root, 'dist'), {recursive: true, encoding: 'utf8'})
    .filter(file => file.endsWith('.d.ts') && readFileSync(join(root, 'dist', file), 'utf8').includes("'@kubernetes/client-node"))
    .sort();
  expect(importing).toEqual(['collect/kube/kubectl-config.d.ts']);
});
