// `npm run test:package`: builds a release, tests what it consists of, and runs the end-to-end tests against the npm package as it is
// installed, and against the executable for this machine. `--no-release` takes what is in release/ already.
import {spawnSync} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import process from 'node:process';
import {extract} from 'tar';
import packageJson from '../package.json' with {type: 'json'};
import {archiveName, executableName, ownPlatform} from './release/platforms.ts';
import {root, run} from './release/run.ts';

const release = join(root, 'release');
const folder = mkdtempSync(join(tmpdir(), 'svc-trace-installed-'));

try {
  if (!process.argv.includes('--no-release')) run(process.execPath, ['tools/release.ts']);
  vitest(['--config', 'vitest.package.config.ts'], {});
  for (const executable of [installNpm(), await unpackExecutable()]) {
    vitest(['test/e2e', 'test/cli/commands/cluster.test.ts'], {SVC_TRACE_EXECUTABLE: executable});
    vitest(['--config', 'vitest.long.config.ts', 'test/e2e'], {SVC_TRACE_EXECUTABLE: executable});
  }
} finally {
  rmSync(folder, {recursive: true});
}

/** A failure shows in the exit code, when all have run. */
function vitest(args: readonly string[], env: Readonly<Record<string, string>>): void {
  process.stderr.write(`\nvitest run ${args.join(' ')} ${Object.entries(env).map(([name, value]) => `${name}=${value}`)}\n`);
  const vitestBin = join(root, 'node_modules/vitest/vitest.mjs');
  const {status, error} = spawnSync(process.execPath, [vitestBin, 'run', ...args], {
    cwd: root,
    env: {...process.env, ...env},
    stdio: 'inherit',
  });
  if (error) throw error;
  if (status !== 0) process.exitCode = 1;
}

function installNpm(): string {
  const prefix = join(folder, 'npm');
  run(
    'npm',
    ['install', '--global', '--offline', '--prefix', prefix, join(release, `kubectl-svc-trace-${packageJson.version}.tgz`)],
    folder,
  );
  return join(prefix, 'bin/kubectl-svc_trace');
}

async function unpackExecutable(): Promise<string> {
  const platform = ownPlatform();
  await extract({file: join(release, archiveName(platform, packageJson.version)), cwd: folder});
  return join(folder, executableName(platform));
}
