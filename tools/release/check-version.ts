// `node tools/release/check-version.ts v1.2.3`: fails unless everything that names the version names this one.
import {globSync, readFileSync} from 'node:fs';
import {join} from 'node:path';
import process from 'node:process';
import packageJson from '../../package.json' with {type: 'json'};
import {root} from './run.ts';

const tag = process.argv[2] ?? '';
const read = (path: string) => readFileSync(join(root, path), 'utf8');
const imagesOf = (path: string) =>
  [...read(path).matchAll(/ghcr\.io\/svc-trace\/svc-trace(?:-agent)?:(\S+)/g)].map(([, version]) => version);
const withImages = globSync('{deploy,docs/ci}/**/*.yaml', {cwd: root}).filter(path => imagesOf(path).length > 0);
const named: Readonly<Record<string, boolean>> = {
  'package.json': `v${packageJson.version}` === tag,
  ...Object.fromEntries(withImages.map(path => [path, imagesOf(path).every(version => `v${version}` === tag)])),
  'deploy/chart/Chart.yaml':
    read('deploy/chart/Chart.yaml')
      .match(/^(?:version|appVersion): .*$/gm)
      ?.every(line => `v${line.split(': ')[1]}` === tag) ?? false,
  'deploy/chart/values.yaml':
    read('deploy/chart/values.yaml')
      .match(/(?<=repository: ghcr\.io\/svc-trace\/.*\n +tag: ).*$/gm)
      ?.every(version => `v${version}` === tag) ?? false,
  'CHANGELOG.md': read('CHANGELOG.md').includes(`\n## [${tag.slice(1)}] - `),
};

for (const [file, isNamed] of Object.entries(named)) {
  if (isNamed) continue;
  process.stderr.write(`${file} does not name version ${tag}\n`);
  process.exitCode = 1;
}
