import {mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {basename, join} from 'node:path';
import type {Metafile} from 'esbuild';
import process from 'node:process';
import {execa} from 'execa';
import {create} from 'tar';
import {afterAll, beforeAll, describe, expect, onTestFinished, test} from 'vitest';
import {commandModules} from '../../src/cli/command-modules.ts';
import {commandManifest} from '../../tools/manifest.ts';
import {bundledPackages} from '../../tools/release/bundled-packages.ts';
import {capturePath} from '../fixtures.ts';
import {startSocksProxy} from '../collect/kube/proxies.ts';
import type {ApiServer} from '../stand-in/api-server.ts';
import {startBundleCluster} from '../stand-in/bundle-cluster.ts';
import {loadedBy as loadedByRun} from './loaded-packages.ts';

const root = join(import.meta.dirname, '../..');
const bundle = capturePath('faults/missing-endpoint');

const loaded = new Map<string, ReturnType<typeof loadedByRun>>();

/** Several tests ask about the same command line, which runs once. */
function loadedBy(...run: Parameters<typeof loadedByRun>): ReturnType<typeof loadedByRun> {
  const key = JSON.stringify(run);
  const known = loaded.get(key) ?? loadedByRun(...run);
  loaded.set(key, known);
  return known;
}

/** What oclif is made of; every command is one of its. Help and the version are shown without it. */
const oclif = `@oclif/core ansi-escapes ansi-regex ansi-styles ansis clean-stack cli-spinners color-convert color-name debug ejs emoji-regex
  escape-string-regexp get-package-type has-flag indent-string is-fullwidth-code-point ms string-width strip-ansi supports-color
  widest-line wordwrap wrap-ansi`;

/** js-yaml reads kube-proxy's configuration. */
const evaluation = `${oclif} ipaddr.js js-yaml`;
const table = 'cli-table3 @colors/colors';
/** client-node's KubeConfig, and how its OIDC login encodes. The login itself, undici and the models are not part of the bundle. */
const client = '@kubernetes/client-node rfc4648';
const cluster = `${client} p-limit yocto-queue yocto-spinner yoctocolors`;

describe('a command loads only the packages that it uses', () => {
  let server: ApiServer;
  beforeAll(async () => {
    server = await startBundleCluster(bundle);
  });
  afterAll(() => server.close());

  test.each([
    ['run.js', '--version', ''],
    ['run.js', '--help', ''],
    ['run.js', 'check --help', ''],
    ['run.js', 'agent --help', ''],
    ['run.js', 'completion bash', oclif],
    ['run.js', 'explain ST202', `${oclif} ipaddr.js js-yaml`],
    ['run.js', `check -A --from ${bundle}`, `${evaluation} ${table}`],
    ['run.js', `trace shop/web --from ${bundle}`, evaluation],
    ['run.js', `packet --from ${bundle} --node node-a --source 10.244.11.9 --destination shop/web --port 80`, evaluation],
    ['run.js', `diff ${bundle} ${bundle}`, `${evaluation} ${table}`],
    ['run.js', 'access -A', `${oclif} ipaddr.js js-yaml ${cluster}`],
    ['run.js', 'check -A --agents --no-progress', `${evaluation} ${table} ${cluster}`],
    ['run.js', 'check -A --no-progress', `${evaluation} ${table} ${cluster} isomorphic-ws ws`],
    ['complete.js', 'ch', ''],
    ['complete.js', 'check --output ta', ''],
    ['complete.js', 'explain ST', 'ipaddr.js js-yaml'],
    ['complete.js', 'check --context ', 'js-yaml ipaddr.js'],
  ] as const)('%s %s', async (bin, line, allowed) => {
    const {packages, files} = await loadedBy(bin, line.split(' '), {KUBECONFIG: server.kubeconfig});
    expect(files).toContain(bin === 'run.js' ? 'main.js' : 'complete.js');
    const permitted = allowed.split(/\s+/);
    expect([...packages].filter(name => !permitted.includes(name))).toEqual([]);
  });

  test('of the bundle a check loads few files, because finding each takes time', async () => {
    const {files} = await loadedBy('run.js', ['check', '-A', '--from', bundle]);
    expect(files.size).toBeLessThan(90);
  });

  test('undici, which Node.js loads for every import of node:http, is not loaded', async () => {
    const {builtins} = await loadedBy('run.js', ['check', '-A', '--no-progress'], {KUBECONFIG: server.kubeconfig});
    expect(builtins).toContain('http');
    expect([...builtins].filter(name => name.includes('undici'))).toEqual([]);
  });

  test('of client-node the bundle contains the connection and the exec stream, and no model, typed API or proxy agent', () => {
    const {outputs} = JSON.parse(readFileSync(join(root, 'dist/metafile.json'), 'utf8')) as Metafile;
    const bytes = new Map<string, number>();
    for (const {inputs} of Object.values(outputs))
      for (const [path, {bytesInOutput}] of Object.entries(inputs))
        if (path.includes('/client-node/') && bytesInOutput > 0)
          bytes.set(basename(path), bytesInOutput + (bytes.get(basename(path)) ?? 0));
    const logins = ['azure_auth.js', 'exec_auth.js', 'file_auth.js', 'gcp_auth.js', 'oidc_auth.js'];
    expect([...bytes.keys()].sort()).toEqual([...logins, 'config.js', 'config_types.js', 'package.json', 'web-socket-handler.js'].sort());
    expect([...bytes.values()].reduce((sum, size) => sum + size, 0)).toBeLessThan(60_000);
    const names = bundledPackages().map(folder => folder.replace(/.*node_modules\//, ''));
    for (const left of ['undici', 'openid-client', 'jsonpath-plus', 'hpagent', 'socks-proxy-agent']) expect(names).not.toContain(left);
  });

  test('the SOCKS client is loaded only for a SOCKS proxy, and connects from the bundle', async () => {
    const proxy = await startSocksProxy();
    const {packages} = await loadedBy('run.js', ['access', '-A', '--proxy-url', `socks5://127.0.0.1:${proxy.port}`], {
      KUBECONFIG: server.kubeconfig,
    });
    expect(packages).toContain('socks');
    expect(proxy.seen).toContain('127.0.0.1');
  });

  test('the code that unpacks archives is loaded only for an archive', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-trace-archive-'));
    onTestFinished(() => rmSync(folder, {recursive: true}));
    const file = join(folder, 'bundle.tgz');
    await create({file, gzip: true, cwd: bundle}, ['api', 'nodes']);
    const {packages} = await loadedBy('run.js', ['check', '--from', file]);
    expect(packages).toContain('tar');
  });
});

describe('compiled code', () => {
  const versionWith = (home: string) =>
    execa(process.execPath, [join(root, 'bin/run.js'), '--version'], {env: {HOME: home, NODE_COMPILE_CACHE: ''}});
  const newHome = (): string => {
    const home = mkdtempSync(join(tmpdir(), 'svc-trace-home-'));
    onTestFinished(() => rmSync(home, {recursive: true}));
    return home;
  };

  test('is cached beside the cache of kubectl', async () => {
    const home = newHome();
    mkdirSync(join(home, '.kube'));
    await versionWith(home);
    expect(readdirSync(join(home, '.kube/cache/svc-trace'))).not.toEqual([]);
  });

  test('is not cached if kubectl has no cache', async () => {
    const home = newHome();
    await versionWith(home);
    expect(readdirSync(home)).toEqual([]);
  });
});

describe('the recorded data of the commands', () => {
  test('matches the sources', async () => {
    const built = JSON.parse(readFileSync(join(root, 'dist/oclif.manifest.json'), 'utf8'));
    expect(built).toEqual(JSON.parse(JSON.stringify(await commandManifest())));
  });

  test('has a module for each command of the sources, and no other', () => {
    const files = readdirSync(join(root, 'src/cli/commands')).map(file => file.replace(/\.ts$/, ''));
    expect(Object.keys(commandModules)).toEqual(files.filter(name => name !== 'base-command').sort());
  });
});
