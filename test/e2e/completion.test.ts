import {mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync} from 'node:fs';
import {createServer, type Server} from 'node:net';
import {tmpdir} from 'node:os';
import {delimiter, dirname, join} from 'node:path';
import process from 'node:process';
import {execa} from 'execa';
import {afterAll, beforeAll, describe, expect, test} from 'vitest';
import {checks} from '../../src/checks/all-checks.ts';
import {completer, executable} from '../executable.ts';
import {capturePath} from '../fixtures.ts';
import {type ApiServer, startApiServer} from '../stand-in/api-server.ts';
import {bundleObjects} from '../stand-in/bundle-objects.ts';
import {kubectl, testWith} from '../require.ts';

const bundle = capturePath('healthy/1.36-iptables');

let folder: string;
let server: ApiServer;
/** Takes connections and never answers. */
let silent: Server;
let environment: Record<string, string>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-trace-plugin-'));
  mkdirSync(join(folder, 'bin'));
  for (const [name, file] of [
    ['kubectl-svc_trace', executable],
    ['kubectl_complete-svc_trace', completer],
    ['svc-trace', executable],
  ] as const)
    symlinkSync(file, join(folder, 'bin', name));
  const namespaces = ['default', 'infra', 'shop'].map(name => ({metadata: {name}}));
  server = await startApiServer({objects: {...bundleObjects(bundle), namespaces}});
  silent = createServer(socket => socket.on('error', () => {}));
  await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve));
  environment = {
    // The executables begin with "env node": it is this one.
    PATH: [join(folder, 'bin'), dirname(process.execPath), process.env['PATH'] ?? ''].join(delimiter),
    KUBECONFIG: server.kubeconfig,
    HOME: folder,
    SVC_TRACE_COMPLETION_TIMEOUT: '30s',
  };
});

afterAll(async () => {
  await server.close();
  silent.close();
  rmSync(folder, {recursive: true});
});

const completing = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  execa('kubectl_complete-svc_trace', [...args], {env: {...environment, ...env}, extendEnv: false, reject: false, stdin: 'ignore'});

describe('kubectl_complete-svc_trace', () => {
  test('offers commands with their descriptions, and excludes files', async () => {
    const {stdout, stderr, exitCode} = await completing(['']);
    const lines = stdout.split('\n');
    expect(lines).toContain('explain\tExplain a finding and what to do about it');
    expect(lines.map(line => line.split('\t')[0])).toEqual(expect.arrayContaining(['access', 'check', 'completion', 'packet', 'trace']));
    expect(lines.at(-1)).toBe(':4');
    expect({stderr, exitCode}).toEqual({stderr: '', exitCode: 0});
  });

  test.each([
    [['-n', 's'], ['shop']],
    [['-n', 'shop', 'we'], ['web']],
    [['check', 'shop/we'], ['shop/web']],
    [['check', '-n', 'shop', 'svc/we'], ['svc/web']],
    [['check', '-A', 'shop/lb-l'], ['shop/lb-local']],
    [
      ['check', '--node', ''],
      ['node-a', 'node-b', 'node-c'],
    ],
    [['packet', '--destination', 'shop/zon'], ['shop/zonal']],
    [['--context', ''], ['stand-in']],
    [['access', '--transport', 's'], ['ssh']],
    [['check', 'sho'], ['shop/']],
  ])('looks names up in the cluster: %j', async (args, expected) => {
    const {stdout, stderr} = await completing(args);
    const values = stdout.split('\n').map(line => line.split('\t')[0]);
    // No blank after what goes on.
    expect(values).toEqual([...expected, expected.every(value => value.endsWith('/')) ? ':6' : ':4']);
    expect(stderr).toBe('');
  });

  test('looks names up in the given bundle, and sends no request to a cluster', async () => {
    server.requests.length = 0;
    expect((await completing(['--from', bundle, 'shop/we'])).stdout.split('\n')).toContain('shop/web');
    expect((await completing(['check', '--from', bundle, '--node', ''])).stdout).toBe('node-a\nnode-b\nnode-c\n:4');
    expect(server.requests).toEqual([]);
  });

  test('offers every code', async () => {
    const {stdout} = await completing(['explain', '']);
    expect(stdout.split('\n').map(line => line.split('\t')[0])).toEqual([...checks.map(({code}) => code), ':4']);
  });

  test('leaves files to the shell', async () => {
    expect((await completing(['check', '--from', ''])).stdout).toBe(':0');
  });

  const unreachable = (url: string) =>
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'x',
      clusters: [{name: 'x', cluster: {server: url, 'insecure-skip-tls-verify': true}}],
      contexts: [{name: 'x', context: {cluster: 'x', user: 'x'}}],
      users: [{name: 'x', user: {exec: {apiVersion: 'client.authentication.k8s.io/v1', command: 'false', interactiveMode: 'Never'}}}],
    });

  test.each([
    ['is unreachable', () => 'https://127.0.0.1:1'],
    ['never responds', () => `https://127.0.0.1:${(silent.address() as {port: number}).port}`],
  ])('offers nothing and prints no error if the cluster %s', async (_, url) => {
    const config = unreachable(url()).replace('"command":"false"', '"command":"sh","args":["-c","echo noise >&2; exit 1"]');
    writeFileSync(join(folder, 'broken'), config);
    const withToken = JSON.parse(config);
    withToken.users = [{name: 'x', user: {token: 'x'}}];
    writeFileSync(join(folder, 'unreachable'), JSON.stringify(withToken));
    for (const file of ['broken', 'unreachable', 'no-such-file']) {
      const {stdout, stderr, exitCode} = await completing(['check', ''], {
        KUBECONFIG: join(folder, file),
        SVC_TRACE_COMPLETION_TIMEOUT: '',
      });
      expect({stdout, stderr, exitCode}).toEqual({stdout: ':4', stderr: '', exitCode: 0});
    }
  });

  test('is the same as __complete', async () => {
    const {stdout} = await execa('svc-trace', ['__complete', 'check', '--output=ju'], {env: environment, extendEnv: false});
    expect(stdout).toBe('junit\n:4');
  });
});

const run = (...args: readonly string[]) => execa(kubectl, [...args], {env: environment, extendEnv: false, reject: false, stdin: 'ignore'});

describe('a plugin of kubectl', () => {
  test('is two executables, as the package installs them', async () => {
    const {bin} = (await import('../../package.json', {with: {type: 'json'}})).default;
    expect(bin).toMatchObject({'kubectl-svc_trace': 'bin/run.js', 'kubectl_complete-svc_trace': 'bin/complete.js'});
  });

  testWith(['kubectl'], 'is listed', async () => {
    expect((await run('plugin', 'list')).stdout).toContain(join(folder, 'bin', 'kubectl-svc_trace'));
  });

  testWith(['kubectl'], 'runs with the flags after its name, and kubectl passes its exit code on', async () => {
    const help = await run('svc-trace', '--help');
    expect(help.stdout).toContain('Usage: kubectl svc-trace COMMAND');
    const check = await run(
      'svc-trace',
      'check',
      '--from',
      capturePath('faults/missing-endpoint'),
      '-n',
      'shop',
      '-o',
      'json',
      '--skip=ST101',
    );
    expect(JSON.parse(check.stdout).summary).toMatchObject({verdict: 'findings', errors: 1});
    expect(check.exitCode).toBe(1);
    expect((await run('svc-trace', 'access', '--transport=ssh')).stdout).toMatch(/^Allowed: 4 required permissions/);
  });

  testWith(['kubectl'], 'accepts no flags before its name, as kubectl refuses them', async () => {
    const {stderr, exitCode} = await run('--context', 'stand-in', 'svc-trace', 'check');
    expect(stderr).toContain('flags cannot be placed before plugin name');
    expect(exitCode).toBe(1);
  });

  testWith(['kubectl'], 'is completed by kubectl', async () => {
    const candidates = async (...args: readonly string[]) => (await run('__complete', ...args)).stdout.split('\n');
    expect(await candidates('svc-tr')).toEqual(expect.arrayContaining([expect.stringMatching(/^svc-trace\b/)]));
    expect(await candidates('svc-trace', '')).toEqual(expect.arrayContaining(['check\tCheck every Service on every node', ':4']));
    expect(await candidates('svc-trace', 'check', '-n', 'shop', 'lb-l')).toEqual(expect.arrayContaining(['lb-local', ':4']));
    expect(await candidates('svc-trace', 'check', '--output=ju')).toEqual(['junit', ':4']);
    expect(await candidates('svc-trace', 'check', '--from', '')).toContain(':0');
  });
});

describe('the script for bash', () => {
  /** What bash offers for these words, of which the last is being typed, as readline would ask. */
  async function offered(...words: readonly string[]): Promise<readonly string[]> {
    const script = `source <(svc-trace completion bash)
      COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
      _svc_trace 2>&1
      ((\${#COMPREPLY[@]})) && printf '%s\\n' "\${COMPREPLY[@]}"; true`;
    const {stdout, stderr} = await execa('bash', ['--norc', '-c', script, 'bash', 'svc-trace', ...words], {
      env: environment,
      extendEnv: false,
      stdin: 'ignore',
      reject: false,
    });
    expect(stderr).toBe('');
    return stdout.split('\n').filter(line => line !== '' && !line.includes('compopt'));
  }

  test('is registered for svc-trace', async () => {
    const {stdout} = await execa('bash', ['--norc', '-c', 'source <(svc-trace completion bash); complete -p svc-trace'], {
      env: environment,
      extendEnv: false,
    });
    expect(stdout).toBe('complete -o default -F _svc_trace svc-trace');
  });

  test.each([
    [['ch'], ['check']],
    [
      ['check', '--outp'],
      ['--output-file', '--output'],
    ],
    [['check', '-o', 'ju'], ['junit']],
    // bash breaks words at "=", and wants what follows it.
    [['check', '--output', '=', 'ju'], ['junit']],
    [['explain', '='], []],
    [['-n', 'shop', 'zon'], ['zonal']],
    [['check', '--from', ''], []],
  ])('completes %j to %j', async (words, expected) => {
    const found = await offered(...words);
    expect(found).toEqual(expect.arrayContaining(expected));
    if (expected.length === 0) expect(found).toEqual([]);
  });

  test.each(['bash', 'zsh', 'fish'])('requests completions by __complete, like the script for %s', async shell => {
    const {stdout} = await execa('svc-trace', ['completion', shell], {env: environment, extendEnv: false});
    expect(stdout).toContain('__complete');
  });
});
