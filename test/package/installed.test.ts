import {existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {extract} from 'tar';
import {capturePath} from '../fixtures.ts';
import {kubectl, testWith} from '../require.ts';
import {krewManifestAt, type KrewPlatform, releaseFolder, temporaryFolder, version} from './release-folder.ts';

const root = join(import.meta.dirname, '../..');
const faulty = capturePath('faults/missing-endpoint');
const packet = ['--node', 'node-a', '--source', '10.244.11.9', '--destination', 'shop/web', '--port', '80'];

/** Command lines whose output does not depend on where the program lies, or what runs it. */
const commandLines: readonly (readonly string[])[] = [
  ['check', '-A', '--from', faulty],
  ['check', '-A', '--from', faulty, '-o', 'json'],
  ['check', '-A', '--from', faulty, '-o', 'yaml'],
  ['check', '-A', '--from', faulty, '-o', 'junit'],
  ['check', '-n', 'shop', '--from', capturePath('healthy/1.36-iptables'), '-v'],
  ['trace', 'shop/web', '--from', faulty],
  ['shop/web', '--from', faulty, '-o', 'json'],
  ['packet', ...packet, '--from', faulty],
  ['packet', ...packet, '--from', faulty, '-o', 'json'],
  ['diff', capturePath('healthy/1.36-iptables'), faulty],
  ['explain'],
  ['explain', 'ST202'],
  ['explain', 'ST999'],
  ['completion', 'bash'],
  ['completion', 'zsh'],
  ['completion', 'fish'],
  ['__complete', 'check', '--from', faulty, '-n', 'sh'],
  ['__complete', 'check', '--o'],
  ['check', '--help'],
  ['check', '--nope'],
  ['check', '--from', '/nonexistent'],
];

// A completion that takes longer than a user waits is empty, as it is on a busy machine.
const usual = {COLUMNS: '100', SVC_TRACE_COMPLETION_TIMEOUT: '600s'};

const run = (program: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  execa(program, [...args], {reject: false, stdin: 'ignore', env: {...usual, ...env}});

/** What the sources print, which is run from the checkout without a build. */
async function sources(args: readonly string[]) {
  const {stdout, stderr, exitCode} = await run(process.execPath, [join(root, 'bin/dev.js'), ...args]);
  return {stdout, stderr, exitCode};
}

let folder: string;
/** For PATH. */
let krewBin: string;
let npmBin: string;

beforeAll(async () => {
  folder = temporaryFolder();
  const {spec} = krewManifestAt(join(releaseFolder, 'krew-manifest.yaml'));
  const own = spec.platforms.find(
    ({selector}) => selector.matchLabels.os === 'linux' && selector.matchLabels.arch === (process.arch === 'x64' ? 'amd64' : process.arch),
  );
  if (own === undefined) throw new Error('there is no archive for this machine');
  krewBin = await krewInstall(join(folder, 'krew'), join(releaseFolder, own.uri.split('/').at(-1) ?? ''), own);
  // Nothing is fetched: the package needs no other.
  const archive = join(releaseFolder, `kubectl-svc-trace-${version}.tgz`);
  await execa('npm', ['install', '--global', '--offline', '--prefix', join(folder, 'npm'), archive], {cwd: folder});
  npmBin = join(folder, 'npm/bin');
});

afterAll(() => rmSync(folder, {recursive: true}));

describe.each([
  ['the executable', () => krewBin],
  ['the npm package', () => npmBin],
])('%s', (_, bin) => {
  test.each(commandLines.map(args => [args.join(' ').replaceAll(root, '.'), args] as const))(
    'prints the same as the sources: %s',
    async (__, args) => {
      const {stdout, stderr, exitCode} = await run(join(bin(), 'kubectl-svc_trace'), args);
      expect({stdout, stderr, exitCode}).toEqual(await sources(args));
    },
  );

  test('has the version of the package', async () => {
    expect((await run(join(bin(), 'kubectl-svc_trace'), ['--version'])).stdout).toMatch(`kubectl-svc-trace/${version} `);
  });

  testWith(['kubectl'], 'runs as a plugin of a real kubectl, which completes it', async () => {
    const env = {PATH: `${bin()}:${process.env['PATH']}`, HOME: folder, KUBECONFIG: ''};
    expect((await run(kubectl, ['plugin', 'list'], env)).stdout).toContain(join(bin(), 'kubectl-svc_trace'));
    const check = await run(kubectl, ['svc-trace', 'check', '-A', '--from', faulty], env);
    expect(check.stdout).toMatch(/^ST202 error {2}missing-endpoint {2}node-a$/m);
    expect(check.exitCode).toBe(1);
    // krew links one file alone; its manifest describes how to link the other.
    const completer = join(bin(), 'kubectl_complete-svc_trace');
    if (!existsSync(completer))
      symlinkSync(join(dirname(realpathSync(join(bin(), 'kubectl-svc_trace'))), 'kubectl_complete-svc_trace'), completer);
    const completed = await run(kubectl, ['__complete', 'svc-trace', 'check', '--from', faulty, '--node', ''], env);
    expect(completed.stdout).toBe('node-a\nnode-b\nnode-c\n:4');
  });
});

describe('the executable', () => {
  test('does not run files from the current folder', async () => {
    writeFileSync(join(folder, 'bunfig.toml'), 'preload = ["./preload.js"]\n');
    writeFileSync(join(folder, 'preload.js'), 'console.log("preloaded");\n');
    writeFileSync(join(folder, '.env'), 'FORCE_COLOR=1\nSVC_TRACE_THEME=x\n');
    const {stdout, stderr} = await execa(join(krewBin, 'kubectl-svc_trace'), ['completion', 'bash'], {cwd: folder, stdin: 'ignore'});
    expect(stdout).toBe(readFileSync(join(root, 'completion/svc-trace.bash'), 'utf8').trimEnd());
    expect(stderr).toBe('');
  });

  test('contains no path of the machine that built it', async () => {
    const program = readFileSync(realpathSync(join(krewBin, 'kubectl-svc_trace')));
    expect(program.includes(root)).toBe(false);
  });
});

describe('the npm package', () => {
  test('installs nothing else', () => {
    const installed = JSON.parse(readFileSync(join(npmBin, '../lib/node_modules/kubectl-svc-trace/package.json'), 'utf8'));
    expect(installed).not.toHaveProperty('dependencies');
    expect(installed).not.toHaveProperty('scripts');
    expect(existsSync(join(npmBin, '../lib/node_modules/kubectl-svc-trace/node_modules'))).toBe(false);
  });
});

/**
 * Installs an archive as krew does on Linux and macOS (internal/installation): unpacks it to store/NAME/VERSION, and links the `bin` of the
 * manifest as kubectl-NAME, with "_" for "-". Returns the folder that krew has its users put on PATH.
 */
async function krewInstall(root: string, archive: string, {bin}: KrewPlatform): Promise<string> {
  const store = join(root, 'store/svc-trace');
  mkdirSync(store, {recursive: true});
  const folder = mkdtempSync(join(store, 'v'));
  await extract({file: archive, cwd: folder});
  mkdirSync(join(root, 'bin'));
  symlinkSync(join(folder, bin), join(root, 'bin/kubectl-svc_trace'));
  return join(root, 'bin');
}
